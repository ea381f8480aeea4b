"""Durations as a person types them."""

from __future__ import annotations

import pytest

from scheduler_daemon.cli.durations import seconds_of
from scheduler_daemon.cli.exits import MisuseError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("20m", 1200),
        ("1h", 3600),
        ("2d", 172_800),
        ("1h30m", 5400),
        ("1d2h3m4s", 93_784),
        ("1h30s", 3630),
        ("0s", 0),
        ("007m", 420),
    ],
)
def test_units_descend_and_add_up(text: str, seconds: int) -> None:
    assert seconds_of(text, "--after") == seconds


@pytest.mark.parametrize("text", ["20", "0", "3600"])
def test_a_bare_number_is_refused_with_what_it_may_have_meant(text: str) -> None:
    with pytest.raises(MisuseError) as refused:
        seconds_of(text, "--every")
    assert f"--every {text} lacks a unit" in str(refused.value)
    assert f"{text}m" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["", "m", "30m1h", "1h1h", "1.5h", "-1h", "+1h", "1 h", "1H", "1w", "1h30", "h1", "٣m", "1_0m"],
)
def test_everything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(MisuseError, match="1h30m"):
        seconds_of(text, "--after")


def test_a_number_too_long_for_any_calendar_is_refused_before_it_is_computed() -> None:
    assert seconds_of("999999999d", "--after") < 2**53
    with pytest.raises(MisuseError, match="at most 9 digits"):
        seconds_of("9" * 5000 + "s", "--after")
