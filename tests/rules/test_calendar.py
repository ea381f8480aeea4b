"""Daily and weekly rules over changes of the clock, each change written above its test."""

from __future__ import annotations

import datetime as dt

import pytest

from scheduler_daemon.model import Cron, Daily, Instant, Weekly
from scheduler_daemon.rules import (
    decide,
    first,
    instant_text,
    local_text,
    parse_instant_text,
    parse_selector,
    target_of,
)
from scheduler_daemon.rules.calendar import FIRST_DATE, LAST_DATE, Weekdays


def after(rule: Daily | Weekly, start: str, count: int) -> list[str]:
    instant = parse_instant_text(start)
    found = []
    for _ in range(count):
        following = first(rule, instant)
        assert following is not None
        instant = following
        found.append(instant_text(instant))
    return found


def daily(time: str, zone: str) -> Daily:
    return Daily(dt.time.fromisoformat(time), zone)


# New York, 2026-03-08: 02:00 EST (07:00 UTC) becomes 03:00 EDT.


def test_a_time_in_a_gap_is_due_later_by_the_length_of_the_gap() -> None:
    assert after(daily("02:30", "America/New_York"), "2026-03-07T00:00:00.000Z", 3) == [
        "2026-03-07T07:30:00.000Z",
        "2026-03-08T07:30:00.000Z",  # 03:30 EDT
        "2026-03-09T06:30:00.000Z",
    ]


# New York, 2026-11-01: 02:00 EDT (06:00 UTC) becomes 01:00 EST.


def test_a_time_in_an_overlap_is_due_once_at_the_first() -> None:
    assert after(daily("01:30", "America/New_York"), "2026-10-31T00:00:00.000Z", 3) == [
        "2026-10-31T05:30:00.000Z",
        "2026-11-01T05:30:00.000Z",  # 01:30 EDT
        "2026-11-02T06:30:00.000Z",
    ]


def test_the_second_showing_of_an_overlap_is_nothing() -> None:
    rule = daily("01:30", "America/New_York")
    between = parse_instant_text("2026-11-01T06:10:00.000Z")  # 01:10 EST
    assert first(rule, between) == parse_instant_text("2026-11-02T06:30:00.000Z")
    occurrence, _ = decide(rule, parse_instant_text("2026-10-31T05:30:00.000Z"), between)
    assert occurrence == parse_instant_text("2026-11-01T05:30:00.000Z")


# Apia: after 2011-12-29 23:59:59 (09:59:59 UTC) comes 2011-12-31 00:00.


def test_an_occurrence_of_a_date_that_does_not_exist_moves_onto_the_next_and_counts_once() -> None:
    assert after(daily("09:00", "Pacific/Apia"), "2011-12-29T00:00:00.000Z", 3) == [
        "2011-12-29T19:00:00.000Z",
        "2011-12-30T19:00:00.000Z",  # of the 30th, which is missing, and of the 31st
        "2011-12-31T19:00:00.000Z",
    ]


def test_a_weekday_that_does_not_exist_is_due_a_day_later() -> None:
    """2011-12-30 would have been a Friday."""
    rule = Weekly(dt.time(9), (5,), "Pacific/Apia")
    assert after(rule, "2011-12-24T00:00:00.000Z", 2) == [
        "2011-12-30T19:00:00.000Z",
        "2012-01-05T19:00:00.000Z",
    ]


# Nuuk, 2024-03-30: 23:00 (01:00 UTC of the 31st) becomes 00:00 of the 31st.


def test_a_gap_before_midnight_moves_an_occurrence_into_the_next_date() -> None:
    rule = daily("23:30", "America/Nuuk")
    assert after(rule, "2024-03-30T00:00:00.000Z", 3) == [
        "2024-03-30T01:30:00.000Z",  # of the 29th
        "2024-03-31T01:30:00.000Z",  # of the 30th, at 00:30 of the 31st
        "2024-04-01T00:30:00.000Z",
    ]


def test_a_moved_occurrence_keeps_the_order_and_one_that_is_there_already_counts_once() -> None:
    """23:30 of the 30th becomes 00:30 of the 31st, which the rule has, after 00:15, too."""
    rule = Cron("15,30 0,23 * * *", "America/Nuuk")
    instant = parse_instant_text("2024-03-31T00:30:00.000Z")
    found = []
    for _ in range(4):
        following = first(rule, instant)
        assert following is not None
        instant = following
        found.append(instant_text(instant))
    assert found == [
        "2024-03-31T01:15:00.000Z",
        "2024-03-31T01:30:00.000Z",
        "2024-04-01T00:15:00.000Z",
        "2024-04-01T00:30:00.000Z",
    ]


# Havana, 2026-03-08: 00:00 (05:00 UTC) becomes 01:00.


def test_a_clock_that_changes_at_midnight_loses_no_midnight() -> None:
    assert after(daily("00:00", "America/Havana"), "2026-03-07T12:00:00.000Z", 2) == [
        "2026-03-08T05:00:00.000Z",
        "2026-03-09T04:00:00.000Z",
    ]


# Lord Howe, 2026-10-04: 02:00 becomes 02:30. Troll, 2026-03-29: 01:00 becomes 03:00.


@pytest.mark.parametrize(
    ("zone", "time", "start", "due"),
    [
        ("Australia/Lord_Howe", "02:15", "2026-10-03T00:00:00.000Z", "2026-10-03T15:45:00.000Z"),
        ("Antarctica/Troll", "01:30", "2026-03-28T12:00:00.000Z", "2026-03-29T01:30:00.000Z"),
        ("Antarctica/Troll", "02:59", "2026-03-28T12:00:00.000Z", "2026-03-29T02:59:00.000Z"),
    ],
)
def test_a_gap_need_not_be_an_hour(zone: str, time: str, start: str, due: str) -> None:
    assert after(daily(time, zone), start, 1) == [due]


# Monrovia until 1972-01-07: UTC less 44 minutes and 30 seconds.


def test_an_offset_with_seconds_gives_whole_milliseconds() -> None:
    rule = daily("12:00:00.001", "Africa/Monrovia")
    assert after(rule, "1960-01-01T00:00:00.000Z", 1) == ["1960-01-01T12:44:30.001Z"]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo", "Pacific/Kiritimati"])
@pytest.mark.parametrize("time", ["00:00", "12:00", "23:59:59.999"])
def test_the_ends_of_the_range_are_ordinary_instants(zone: str, time: str) -> None:
    """Occurrences whose UTC year has no number are left out, nothing is raised."""
    begin = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
    end = dt.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC)
    rule = daily(time, zone)
    hour = dt.timedelta(hours=1)
    for n in range(72):
        early, late = begin + n * hour, end - n * hour
        assert_within_a_day_after(first(rule, early), early)
        occurrence, following = decide(rule, begin, early)
        assert begin <= occurrence <= early
        assert following == first(rule, early)
        occurrence, following = decide(rule, end - 100 * hour, late)
        assert late - 24 * hour < occurrence <= late
        assert following is None or following > late
    assert first(rule, end) is None


def assert_within_a_day_after(found: Instant | None, instant: Instant) -> None:
    assert found is not None
    assert instant < found <= instant + dt.timedelta(days=1, hours=1)


@pytest.mark.parametrize(
    ("rule", "start", "due"),
    [
        (daily("00:30", "Europe/Berlin"), "9999-12-31T00:00:00.000Z", "9999-12-31T23:30:00.000Z"),
        (
            daily("23:30", "America/New_York"),
            "0001-01-01T00:00:00.000Z",
            "0001-01-01T04:26:02.000Z",
        ),
        (
            Weekly(dt.time(1), (6,), "Asia/Tokyo"),
            "9999-12-25T16:00:00.000Z",
            "9999-12-31T16:00:00.000Z",
        ),
        (
            Weekly(dt.time(22), (7,), "America/New_York"),
            "0001-01-01T00:00:00.000Z",
            "0001-01-01T02:56:02.000Z",
        ),
        (
            Cron("0 0 1 * *", "Australia/Lord_Howe"),
            "9999-12-01T00:00:00.000Z",
            "9999-12-31T13:00:00.000Z",
        ),
        (
            Cron("0 21 31 12 *", "America/New_York"),
            "0001-01-01T00:00:00.000Z",
            "0001-01-01T01:56:02.000Z",
        ),
    ],
    ids=str,
)
def test_a_local_date_of_year_0_or_10000_counts_where_its_instant_is_in_range(
    rule: Daily | Weekly | Cron, start: str, due: str
) -> None:
    instant, occurrence = parse_instant_text(start), parse_instant_text(due)
    assert first(rule, instant) == target_of(rule, instant) == occurrence
    now = occurrence + dt.timedelta(minutes=10)
    assert decide(rule, instant, now) == (occurrence, first(rule, now))
    assert (first(rule, now) is None) == (now.year == 9999)


def test_weekdays_are_found_both_ways_beyond_the_ends_of_the_calendar() -> None:
    fridays = Weekdays([5])  # 9999-12-31 is one, 0001-01-01 is a Monday
    assert fridays.on_or_after(LAST_DATE) == LAST_DATE - 1 + 7
    assert fridays.on_or_before(LAST_DATE) == LAST_DATE - 1
    assert fridays.on_or_after(FIRST_DATE) == 5
    assert fridays.on_or_before(4) == -2


# Nuuk, 2023-10-29T01:00Z: the last change that its file lists is one of no offset; UTC-2 stays.


@pytest.mark.parametrize(
    "selector",
    [
        {"daily": {"time": "23:30", "time_zone": "America/Nuuk"}},
        {"daily": {"time": "23:30", "time_zone": "America/Godthab"}},
        {"at": {"date": "2023-10-28", "time": "23:30:00", "time_zone": "America/Nuuk"}},
    ],
    ids=str,
)
def test_an_occurrence_is_when_the_clock_shows_its_time(selector: dict[str, object]) -> None:
    """ZoneInfo.utcoffset() says UTC-1 for this reading, which leads to 22:30."""
    rule, target = parse_selector(selector, parse_instant_text("2023-10-28T02:00:00.000Z"))
    assert instant_text(target) == "2023-10-29T01:30:00.000Z"
    assert local_text(target, "America/Nuuk") == "2023-10-28T23:30:00-02:00[America/Nuuk]"
    if isinstance(rule, Daily):
        assert first(rule, target) == parse_instant_text("2023-10-30T01:30:00.000Z")
        assert decide(rule, target, target + dt.timedelta(hours=1))[0] == target
