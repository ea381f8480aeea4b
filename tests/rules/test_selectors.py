from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pytest

from scheduler_daemon.errors import (
    FrequencyTooHigh,
    InvalidRule,
    InvalidSelector,
    InvalidTimeZone,
    SchedulerError,
    TimeOutOfRange,
)
from scheduler_daemon.model import After, At, Cron, Daily, Every, Rule, Weekly
from scheduler_daemon.rules import SELECTORS, parse_rule, parse_selector, selector_of

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)

RULES: list[tuple[dict[str, Any], Rule]] = [
    ({"after_seconds": 1200}, After(1200)),
    ({"at": "2026-12-24T17:00:00.000Z"}, At(dt.datetime(2026, 12, 24, 17, tzinfo=dt.UTC))),
    ({"every_seconds": 300}, Every(300, NOW)),
    (
        {"daily": {"time": "09:00:00.000", "time_zone": "Europe/Berlin"}},
        Daily(dt.time(9), "Europe/Berlin"),
    ),
    (
        {"weekly": {"time": "09:00:30.050", "time_zone": "UTC", "weekdays": [1, 3, 7]}},
        Weekly(dt.time(9, 0, 30, 50_000), (1, 3, 7), "UTC"),
    ),
    (
        {"cron": {"expression": "*/15 9-17 * * 1-5", "time_zone": "America/New_York"}},
        Cron("*/15 9-17 * * 1-5", "America/New_York"),
    ),
]

MEMBERS: dict[str, dict[str, Any]] = {
    "at": {"date": "2026-04-12", "time": "06:00:00"},
    "daily": {"time": "09:00"},
    "weekly": {"time": "09:00", "weekdays": [1]},
    "cron": {"expression": "0 0 * * *"},
}
"""What a rule on a local clock has beside its zone."""


def refusal(params: dict[str, Any], now: dt.datetime = NOW) -> SchedulerError:
    with pytest.raises(SchedulerError) as caught:
        parse_selector(params, now)
    return caught.value


@pytest.mark.parametrize(("selector", "rule"), RULES, ids=SELECTORS)
def test_a_rule_is_told_as_the_selector_it_came_from(selector: dict[str, Any], rule: Rule) -> None:
    assert parse_rule(selector, NOW) == rule
    assert selector_of(rule) == selector


def test_what_is_stored_is_the_one_spelling() -> None:
    weekly = {"time": "09:00", "time_zone": "europe/BERLIN", "weekdays": [5, 1, 1, 3]}
    stored = {"time": "09:00:00.000", "time_zone": "Europe/Berlin", "weekdays": [1, 3, 5]}
    assert selector_of(parse_rule({"weekly": weekly}, NOW)) == {"weekly": stored}
    cron = {"expression": "@weekly", "time_zone": "utc"}
    stored_cron = {"expression": "0 0 * * 0", "time_zone": "UTC"}
    assert selector_of(parse_rule({"cron": cron}, NOW)) == {"cron": stored_cron}


def test_the_anchor_of_an_every_is_now() -> None:
    rule = parse_rule({"every_seconds": 300}, NOW)
    assert isinstance(rule, Every)
    assert rule.anchor == NOW


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({}, "got none"),
        ({"prompt": "x", "selector": {}}, "got none"),
        ({"at": None, "cron": None}, "got at and cron"),
    ],
)
def test_there_is_exactly_one_selector(params: dict[str, Any], found: str) -> None:
    error = refusal(params)
    assert isinstance(error, InvalidSelector)
    assert found in error.message
    assert all(name in error.message for name in SELECTORS)


@pytest.mark.parametrize(
    ("params", "shown"), [(None, "null"), ([], "an empty list"), ("at", '"at"'), (5, "5")]
)
@pytest.mark.parametrize("parse", [parse_selector, parse_rule])
def test_a_selector_is_a_member_of_an_object(
    parse: Callable[[object, dt.datetime], object], params: object, shown: str
) -> None:
    with pytest.raises(InvalidSelector, match="Give an object with exactly one of") as caught:
        parse(params, NOW)
    assert caught.value.message.endswith(f"got {shown}.")


@pytest.mark.parametrize("now", [NOW, NOW.replace(year=2030)])
def test_a_rule_may_be_read_without_a_look_at_its_target(now: dt.datetime) -> None:
    assert parse_rule({"at": "2026-03-02T00:00:00Z"}, now) == At(
        dt.datetime(2026, 3, 2, tzinfo=dt.UTC)
    )


@pytest.mark.parametrize(
    "value", [True, 60.0, float("nan"), "60", None, [60], 2**53, 2**64, -(2**53)]
)
@pytest.mark.parametrize("name", ["after_seconds", "every_seconds"])
def test_seconds_are_an_integer_that_every_reader_can_tell(name: str, value: object) -> None:
    error = refusal({name: value})
    assert isinstance(error, InvalidRule)
    assert error.field == name
    assert "an integer of at least" in error.message


@pytest.mark.parametrize("value", [0, -1, -(2**53) + 1])
def test_an_after_is_at_least_a_second_and_an_every_five_minutes(value: int) -> None:
    assert isinstance(refusal({"after_seconds": value}), InvalidRule)
    assert isinstance(refusal({"every_seconds": value}), FrequencyTooHigh)
    assert isinstance(refusal({"every_seconds": 299}), FrequencyTooHigh)


@pytest.mark.parametrize("name", ["daily", "weekly", "cron"])
@pytest.mark.parametrize("value", [None, 5, "09:00", [], True])
def test_a_rule_on_a_local_clock_is_an_object(name: str, value: object) -> None:
    error = refusal({name: value})
    assert isinstance(error, InvalidRule)
    assert error.field == name
    assert f"{name} is an object with exactly" in error.message


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"at": {"date": "2026-04-12", "time": "06:00:00"}}, "at.time_zone"),
        ({"at": {}}, "at.date"),
        ({"daily": {"time_zone": "UTC"}}, "daily.time"),
        ({"weekly": {"time": "09:00", "time_zone": "UTC"}}, "weekly.weekdays"),
        ({"cron": {"time_zone": "UTC"}}, "cron.expression"),
    ],
)
def test_a_missing_member_is_named(params: dict[str, Any], field: str) -> None:
    error = refusal(params)
    assert isinstance(error, InvalidRule)
    assert error.field == field
    assert "is missing" in error.message


@pytest.mark.parametrize("name", ["at", "daily", "weekly", "cron"])
def test_an_unknown_member_is_refused(name: str) -> None:
    error = refusal({name: {**MEMBERS[name], "time_zone": "UTC", "until": "2027-01-01"}})
    assert isinstance(error, InvalidRule)
    assert error.field == name
    assert '"until" is not known' in error.message


@pytest.mark.parametrize("name", ["daily", "weekly"])
@pytest.mark.parametrize(
    "text",
    [
        "9:00",
        "24:00",
        "09:60",
        "09:00:60",
        "09",
        "0900",
        "09:00:00.",
        "09:00:00.1234",
        "09:00.5",
        "09:00Z",
        "09:00:00+01:00",
        " 09:00",
        "09:00\n",
        "٠٩:00",
        "",
        None,
        9,
    ],
)
def test_a_time_of_day_has_one_form(name: str, text: object) -> None:
    error = refusal({name: {**MEMBERS[name], "time": text, "time_zone": "UTC"}})
    assert isinstance(error, InvalidRule)
    assert error.field == f"{name}.time"


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("00:00", dt.time(0)),
        ("23:59", dt.time(23, 59)),
        ("09:00:01", dt.time(9, 0, 1)),
        ("09:00:01.5", dt.time(9, 0, 1, 500_000)),
        ("09:00:01.05", dt.time(9, 0, 1, 50_000)),
        ("09:00:01.005", dt.time(9, 0, 1, 5_000)),
    ],
)
def test_a_time_of_day_may_have_milliseconds(text: str, time: dt.time) -> None:
    rule = parse_rule({"daily": {"time": text, "time_zone": "UTC"}}, NOW)
    assert rule == Daily(time, "UTC")


@pytest.mark.parametrize(
    ("days", "shown"),
    [
        ([], "got an empty list"),
        ([0], "got 0"),
        ([1, 8], "got 8"),
        ([1, True], "got true"),
        ([1.0], "got 1.0"),
        (["mon"], 'got "mon"'),
        ([[1]], "got a list"),
        (1, "got 1"),
        ("1", 'got "1"'),
        (None, "got null"),
        ({"1": 1}, "got an object"),
    ],
)
def test_weekdays_are_integers_from_monday_to_sunday(days: object, shown: str) -> None:
    error = refusal({"weekly": {"time": "09:00", "time_zone": "UTC", "weekdays": days}})
    assert isinstance(error, InvalidRule)
    assert error.field == "weekly.weekdays"
    assert shown in error.message


@pytest.mark.parametrize("name", ["at", "daily", "weekly", "cron"])
@pytest.mark.parametrize("zone", ["Berlin", "EST", "+01:00", "", None, 5, [], {}])
def test_a_bad_zone_has_its_own_code_everywhere(name: str, zone: object) -> None:
    error = refusal({name: {**MEMBERS[name], "time_zone": zone}})
    assert isinstance(error, InvalidTimeZone)
    assert error.field == f"{name}.time_zone"


@pytest.mark.parametrize(
    "date",
    ["2026-02-29", "2026-13-01", "0000-01-01", "2026-4-12", "20260412", "2026-W10-1", "", 5, None],
)
def test_the_date_of_a_local_at_is_a_day_of_the_calendar(date: object) -> None:
    error = refusal({"at": {"date": date, "time": "06:00:00", "time_zone": "UTC"}})
    assert isinstance(error, InvalidRule)
    assert error.field == "at.date"


def test_the_time_of_a_local_at_has_seconds() -> None:
    error = refusal({"at": {"date": "2026-04-12", "time": "06:00", "time_zone": "UTC"}})
    assert isinstance(error, InvalidRule)
    assert error.field == "at.time"
    assert "HH:MM:SS," in error.message


def test_a_local_at_in_a_gap_is_told_the_times_around_it() -> None:
    gap = {"date": "2026-03-08", "time": "02:30:00.5", "time_zone": "America/New_York"}
    error = refusal({"at": gap})
    assert isinstance(error, InvalidRule)
    assert error.field == "at.time"
    assert "2026-03-08 02:30:00.500 does not exist in America/New_York" in error.message
    assert "from 2026-03-08 02:00:00 to 2026-03-08 03:00:00" in error.message


@pytest.mark.parametrize(
    ("date", "time", "zone"),
    [
        ("0001-01-01", "00:00:00", "Asia/Tokyo"),
        ("9999-12-31", "23:59:59.999", "America/New_York"),
    ],
)
def test_a_local_at_may_not_lead_out_of_the_years(date: str, time: str, zone: str) -> None:
    error = refusal({"at": {"date": date, "time": time, "time_zone": zone}})
    assert isinstance(error, TimeOutOfRange)
    assert error.field == "at"


@pytest.mark.parametrize(
    "params",
    [
        {"at": "2" * 2**20},
        {"at": {"date": "2" * 2**20, "time": "06:00:00", "time_zone": "UTC"}},
        {"daily": {"time": "\u202e" * 2**20, "time_zone": "UTC"}},
        {"daily": {"time": "09:00", "time_zone": "/" * 2**20}},
        {"daily": {"time": "09:00", "time_zone": "UTC", "x" * 2**20: 1}},
        {"after_seconds": 10**4000},
    ],
    ids=["at", "date", "time", "zone", "member", "integer"],
)
def test_huge_input_is_refused_at_once_in_a_short_ascii_message(params: dict[str, Any]) -> None:
    begin = time.perf_counter()
    error = refusal(params)
    assert time.perf_counter() - begin < 0.5
    assert len(error.message) < 800
    assert error.message.replace("…", "").isascii()
