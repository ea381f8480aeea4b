from __future__ import annotations

import itertools

import pytest

from scheduler_daemon.rules.quoting import quoted


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a", '"a"'),
        ('"\n\x00‮\ud800', '"\\"\\n\\u0000\\u202e\\ud800"'),
        ("x" * 60, f'"{"x" * 60}"'),
        ("x" * 61, f'"{"x" * 60}…" (61 characters)'),
        (None, "null"),
        (True, "true"),
        (-5, "-5"),
        (60.5, "60.5"),
        (10**5000, "a very large number"),
        (float("nan"), "not a number"),
        (float("-inf"), "a very large number"),
        ([], "an empty list"),
        ([1], "a list"),
        ({"a": 1}, "an object"),
    ],
    ids=itertools.count(),
)
def test_a_message_shows_a_value_short_and_escaped(value: object, shown: str) -> None:
    assert quoted(value) == shown
