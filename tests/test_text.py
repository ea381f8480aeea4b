"""Foreign text in one line of a log or a message."""

from __future__ import annotations

import pytest

from scheduler_daemon.text import printable


@pytest.mark.parametrize("text", ["", "plain words", "Grüße, 世界 🌍", "back\\slash"])
def test_what_can_be_printed_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("a\nb\rc", r"a\nb\rc"),
        ("\x1b[31mred\x9b1m", r"\x1b[31mred\x9b1m"),
        ("line\u2028para\u2029nel\x85", r"line\u2028para\u2029nel\x85"),
        ("left\u202eright", r"left\u202eright"),
        ("zero\x00", r"zero\x00"),
        ("lone \udcff", r"lone \udcff"),
        ("tag \U000e0041", r"tag \U000e0041"),
    ],
)
def test_what_ends_a_line_or_steers_a_terminal_is_escaped(text: str, safe: str) -> None:
    assert printable(text) == safe
