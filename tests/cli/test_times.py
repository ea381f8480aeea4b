"""How instants are shown to a person."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest

from scheduler_daemon.cli import times

NOW = dt.datetime(2026, 12, 24, 13, 0, tzinfo=dt.UTC)


@pytest.fixture
def _in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (59.6, "1 minute"),
        (90, "1 minute 30 seconds"),
        (300.4, "5 minutes"),
        (1199.98, "20 minutes"),
        (3599, "1 hour"),
        (5400, "1 hour 30 minutes"),
        (86_399, "1 day"),
        (90_000, "1 day 1 hour"),
        (86_400 * 3 + 60, "3 days"),
        (86_400 * 800, "2 years 70 days"),
        (86_400 * 2_912_085, "7973 years"),  # from 2026-12-24 to 9999-12-31
    ],
)
def test_a_span_is_said_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert times.span(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (5400, "1 h 30 min"),
        (90_000, "1 d 1 h"),
        (86_400 * 800, "2 y 70 d"),
        (86_400 * 2_912_085, "7973 y"),
    ],
)
def test_a_table_says_a_span_in_short(seconds: float, words: str) -> None:
    assert times.span(seconds, short=True) == words


def test_an_instant_is_said_relative_to_now() -> None:
    assert times.relative(NOW + dt.timedelta(minutes=20), NOW) == "in 20 minutes"
    assert times.relative(NOW - dt.timedelta(minutes=5), NOW) == "5 minutes ago"
    assert times.relative(NOW + dt.timedelta(hours=4), NOW, short=True) == "in 4 h"
    assert times.relative(NOW - dt.timedelta(minutes=3), NOW, short=True) == "3 min ago"
    assert times.relative(NOW + dt.timedelta(milliseconds=400), NOW) == "now"
    assert times.relative(NOW - dt.timedelta(milliseconds=400), NOW) == "just now"


@pytest.mark.usefixtures("_in_berlin")
def test_an_instant_without_a_zone_is_shown_on_the_machines_clock() -> None:
    named = times.moment("2026-12-24T13:20:00.500Z", None, "Europe/Berlin")
    assert times.clock(named) == "2026-12-24 14:20:00 Europe/Berlin"
    unnamed = times.moment("2026-07-01T12:00:00.000Z", None, None)
    assert times.clock(unnamed) == "2026-07-01 14:00:00 UTC+02:00"


@pytest.mark.usefixtures("_in_berlin")
def test_a_second_that_the_machines_calendar_lacks_is_shown_in_utc() -> None:
    at = times.moment("9999-12-31T23:59:59.999Z", None, "Europe/Berlin")
    assert times.clock(at) == "9999-12-31 23:59:59 UTC"
