"""What `schedctl export --ics` writes, read back by others: the instants of the rules of time."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator
from typing import Any

import pytest
from dateutil.tz import tzical
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_daemon.cli import ics
from scheduler_daemon.cli.zone_changes import changes
from scheduler_daemon.rules import parse_instant_text
from scheduler_daemon.rules.zones import load_zone
from scheduler_daemon.wire.shapes import Reminder
from tests.cli.reading_back import moving, our_zone_data, ours, recurring, strict

AT = "2026-11-30T12:00:00.000Z"
NOW = parse_instant_text(AT)
ZONES = (
    *("UTC", "America/New_York", "Europe/Berlin", "Europe/Dublin", "Asia/Kolkata"),
    *("Australia/Lord_Howe", "Africa/Casablanca", "Asia/Beirut", "America/Santiago"),
)
"""Among them gaps of half an hour, at midnight, in Ramadan, and in a winter that is negative."""


@pytest.fixture(scope="module", autouse=True)
def _zone_data() -> Iterator[None]:
    with our_zone_data():
        yield


def reads_back(reminder: Reminder, days: int = 400) -> bytes:
    """Both readers find, so many days from the target on, what the daemon will send."""
    data = ics.calendar([reminder], NOW)
    start = parse_instant_text(reminder["scheduled_at"]).replace(microsecond=0)
    end = start + dt.timedelta(days=days)
    expected = ours(reminder, end)
    assert expected
    assert moving(data, start, end) == expected
    assert strict(data, end) == expected
    return data


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("time", ["00:00", "01:30", "02:30", "09:00:30.250"])
def test_a_daily_rule_reads_back_over_a_year(zone: str, time: str) -> None:
    reads_back(recurring("daily", {"time": time, "time_zone": zone}, AT))


@pytest.mark.parametrize("zone", ZONES)
def test_a_weekly_rule_reads_back_over_a_year(zone: str) -> None:
    value = {"time": "02:15", "time_zone": zone, "weekdays": [3, 7]}
    reads_back(recurring("weekly", value, AT))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "expression",
    [
        "30 2,4 * * *",
        "15 1-3 31 * 5",
        "0 9 1,15 * mon",
        "30 2 */2 3 sun",
        "30 2 29 2 */3",
        "0 0 13 * fri",
        "0 0 31 2 1",
        "0 2 1-31 3,10 sun",
    ],
)
def test_a_cron_rule_reads_back_over_a_year(zone: str, expression: str) -> None:
    reads_back(recurring("cron", {"expression": expression, "time_zone": zone}, AT))


@pytest.mark.parametrize(
    ("zone", "at"),
    [
        ("America/New_York", "2027-03-13T20:00:00.000Z"),
        ("America/New_York", "2027-03-14T06:59:00.000Z"),
        ("America/New_York", "2027-11-07T04:59:00.000Z"),
        ("Australia/Lord_Howe", "2027-10-02T10:00:00.000Z"),
        ("Asia/Beirut", "2027-03-27T10:00:00.000Z"),
        ("Africa/Casablanca", "2027-02-06T10:00:00.000Z"),
        ("Antarctica/Troll", "2027-03-27T20:00:00.000Z"),
    ],
)
@pytest.mark.parametrize("expression", ["*/15 * * * *", "*/20 0-3 * * *", "10 1,2,3 * * sun"])
def test_a_dense_rule_reads_back_from_the_day_of_a_change_on(
    zone: str, at: str, expression: str
) -> None:
    reads_back(recurring("cron", {"expression": expression, "time_zone": zone}, at), days=9)


@pytest.mark.parametrize(
    "end",
    [
        {"max_occurrences": 40, "dispatch_count": 3},
        {"max_occurrences": 1},
        {"until": "2027-03-14T07:30:00.000Z"},
        {"until": "2027-03-14T07:29:59.999Z"},
        {"until": "2027-03-20T00:00:00.000Z", "max_occurrences": 40},
        {"until": "2029-01-01T00:00:00.000Z", "max_occurrences": 40},
    ],
)
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("daily", {"time": "02:30", "time_zone": "America/New_York"}),
        ("daily", {"time": "09:30", "time_zone": "America/New_York"}),
        ("cron", {"expression": "30 2 1 * sun", "time_zone": "America/New_York"}),
        ("every_seconds", 86_400),
        ("every_seconds", 5_400),
    ],
)
def test_an_end_by_instant_or_by_count_reads_back(
    kind: str, value: object, end: dict[str, Any]
) -> None:
    reads_back(recurring(kind, value, "2027-02-20T00:00:00.000Z", **end))


@pytest.mark.parametrize("seconds", [300, 301, 3_600, 5_400, 86_400, 1_000_000, 10**10])
def test_a_fixed_distance_reads_back(seconds: int) -> None:
    reads_back(recurring("every_seconds", seconds, "2027-03-13T20:00:00.123Z"), days=20)


times = st.builds("{:02}:{:02}".format, st.integers(0, 4), st.sampled_from([0, 5, 30, 59]))
numbers = st.lists(st.integers(1, 28), min_size=1, max_size=3, unique=True)


def _listed(values: list[int]) -> str:
    return ",".join(map(str, values))


@st.composite
def reminders(draw: st.DrawFn) -> Reminder:
    """Recurring ones near the hours of clock changes, some with an end."""
    zone = draw(st.sampled_from(ZONES))
    at = NOW + dt.timedelta(hours=draw(st.integers(0, 24 * 400)))
    kind = draw(st.sampled_from(["daily", "weekly", "cron", "every_seconds"]))
    value: object = draw(st.integers(21_600, 700_000))
    if kind == "daily":
        value = {"time": draw(times), "time_zone": zone}
    elif kind == "weekly":
        days = draw(st.lists(st.integers(1, 7), min_size=1, unique=True))
        value = {"time": draw(times), "time_zone": zone, "weekdays": days}
    elif kind == "cron":
        hours = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True))
        dates = draw(st.one_of(st.sampled_from(["*", "*/3"]), numbers.map(_listed)))
        weekdays = draw(st.sampled_from(["*", "*/2", "0", "1-5", "6,7"]))
        minute = draw(st.sampled_from(["0", "30", "15,45"]))
        expression = f"{minute} {_listed(hours)} {dates} * {weekdays}"
        value = {"expression": expression, "time_zone": zone}
    end: dict[str, Any] = {}
    if draw(st.booleans()):
        end["max_occurrences"] = draw(st.integers(1, 300))
    if draw(st.booleans()):
        until = at + dt.timedelta(days=draw(st.integers(1500, 1600)))
        end["until"] = until.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    text = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return recurring(kind, value, text, **end)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(reminders())
def test_whatever_recurs_reads_back(reminder: Reminder) -> None:
    reads_back(reminder, days=370)


@pytest.mark.parametrize("zone", [zone for zone in ZONES if zone != "UTC"])
def test_the_zones_in_the_file_are_those_of_the_rules(zone: str) -> None:
    """A reader that knows no zone by its name has what the file says of it."""
    data = ics.calendar([recurring("daily", {"time": "02:30", "time_zone": zone}, AT)], NOW)
    told = tzical(io.StringIO(data.decode().replace("\r\n ", ""))).get(zone)
    grid = [NOW + dt.timedelta(hours=hours) for hours in range(0, 9 * 366 * 24, 97)]
    near = [dt.timedelta(seconds=seconds) for seconds in (-5400, -1, 0, 1799, 1800, 3600, 7200)]
    edges = [change.at + span for change in changes(zone, 2027, 2034) for span in near]
    for instant in [*grid, *edges]:
        reading = instant.astimezone(load_zone(zone))
        assert instant.astimezone(told).utcoffset() == reading.utcoffset()
        if reading.fold == 0:  # what comes a second time no event is at
            assert reading.replace(tzinfo=told).utcoffset() == reading.utcoffset()
