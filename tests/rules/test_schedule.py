from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable

import pytest

from scheduler_daemon.errors import NotFuture, TimeOutOfRange
from scheduler_daemon.model import After, At, Cron, Daily, Every, Rule, Weekly
from scheduler_daemon.rules import (
    decide,
    first,
    parse_instant_text,
    parse_selector,
    target_of,
    zone_of,
)

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
DAY = dt.timedelta(days=1)
LATE = parse_instant_text("9999-12-31T23:00:00.000Z")

ENDING: list[Rule] = [
    After(3600),
    Every(3600, NOW),
    Daily(dt.time(22, 30), "UTC"),
    Weekly(dt.time(9), (6,), "Europe/Berlin"),  # 9999-12-31 is a Friday
    Cron("0 0 * * *", "Asia/Tokyo"),
    Cron("0 0 29 2 *", "UTC"),
]


def calls(work: Callable[[], object]) -> int:
    """How many functions run, Python's and built-in ones: a cost that no other load changes."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_an_after_is_due_a_delay_after_the_instant_given() -> None:
    assert first(After(60), NOW) == NOW + dt.timedelta(minutes=1)


def test_an_at_is_due_once() -> None:
    assert first(At(NOW), NOW - HOUR) == NOW
    assert first(At(NOW), NOW) is None


def test_the_grid_of_an_every_is_its_anchors_also_before_it() -> None:
    rule = Every(7200, NOW)
    assert first(rule, NOW - 5 * HOUR) == NOW - 4 * HOUR
    assert first(rule, NOW + 5 * HOUR) == NOW + 6 * HOUR


@pytest.mark.parametrize("rule", [After(60), At(NOW)])
def test_a_one_shot_is_decided_as_its_target_and_nothing_comes_next(rule: Rule) -> None:
    assert decide(rule, NOW, NOW + 5 * DAY) == (NOW, None)


def test_an_every_is_decided_on_the_grid_of_its_target() -> None:
    rule = Every(7200, NOW)
    target = NOW + HOUR
    assert decide(rule, target, target + 5 * HOUR) == (target + 4 * HOUR, target + 6 * HOUR)


def test_a_committed_target_counts_even_where_zone_data_no_longer_has_it() -> None:
    rule = Daily(dt.time(9), "UTC")
    target = NOW  # 12:00, which the rule does not have
    assert decide(rule, target, NOW + HOUR) == (target, NOW + 21 * HOUR)
    assert decide(rule, target, NOW + 22 * HOUR)[0] == NOW + 21 * HOUR


def test_a_committed_target_counts_even_before_any_occurrence() -> None:
    rule = Cron("0 0 29 2 *", "UTC")
    target = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
    assert decide(rule, target, target + HOUR) == (target, dt.datetime(4, 2, 29, tzinfo=dt.UTC))


@pytest.mark.parametrize("rule", ENDING, ids=str)
def test_a_rule_without_an_occurrence_left_is_out_of_range(rule: Rule) -> None:
    assert first(rule, LATE) is None
    with pytest.raises(TimeOutOfRange) as caught:
        target_of(rule, LATE)
    field = {"after": "after_seconds", "every": "every_seconds"}.get(rule.kind, rule.kind)
    assert caught.value.field == field
    assert caught.value.message.startswith(f"{field} has no occurrence")


def test_the_last_occurrence_of_a_rule_has_none_next() -> None:
    rule = Daily(dt.time(22, 30), "UTC")
    last = LATE - HOUR / 2
    assert decide(rule, last - 40 * DAY, LATE) == (last, None)
    assert decide(Every(3600, LATE), LATE, LATE + HOUR / 2) == (LATE, None)


@pytest.mark.parametrize("ago", [dt.timedelta(0), dt.timedelta(milliseconds=1), 400 * DAY])
def test_an_at_that_is_not_in_the_future_says_what_time_it_is(ago: dt.timedelta) -> None:
    with pytest.raises(NotFuture) as caught:
        target_of(At(NOW - ago), NOW)
    assert caught.value.data == {"now": "2026-03-01T12:00:00.000Z"}
    assert "2026-03-01T12:00:00.000Z now" in caught.value.message
    assert caught.value.field == "at"


def test_only_rules_on_a_local_clock_have_a_zone() -> None:
    assert zone_of(Daily(dt.time(9), "UTC")) == "UTC"
    assert zone_of(Weekly(dt.time(9), (1,), "Asia/Tokyo")) == "Asia/Tokyo"
    assert zone_of(Cron("0 0 * * *", "Europe/Berlin")) == "Europe/Berlin"
    assert [zone_of(rule) for rule in (After(1), At(NOW), Every(300, NOW))] == [None] * 3


@pytest.mark.parametrize(
    "rule",
    [
        Every(300, NOW),
        Daily(dt.time(9), "Europe/Berlin"),
        Weekly(dt.time(9), (1, 3), "America/New_York"),
        Cron("*/5 * * * *", "America/New_York"),
        Cron("0 0 1 * *", "America/New_York"),
        Cron("0 0 29 2 *", "UTC"),
    ],
    ids=str,
)
def test_ten_years_cold_cost_what_a_day_costs(rule: Rule) -> None:
    a_day, ten_years = NOW - DAY, NOW.replace(year=2016)
    decide(rule, a_day, NOW)  # fills the caches
    cost = calls(lambda: decide(rule, a_day, NOW))
    assert calls(lambda: decide(rule, ten_years, NOW)) == cost
    assert cost < 120


def test_a_search_steps_over_dates_that_cannot_match() -> None:
    """Two hundred years lie between, or 105 million minutes; a step is a February."""
    rule = Cron("0 0 29 2 */7", "UTC")
    start = dt.datetime(2088, 3, 1, tzinfo=dt.UTC)
    first(rule, start)
    assert calls(lambda: first(rule, start)) < 40 * 10
    dense = Cron("*/5 * * * *", "UTC")
    first(dense, start)
    assert calls(lambda: first(dense, start)) < 60


def test_a_gap_in_a_dense_rule_costs_its_own_length_only() -> None:
    """Apia jumps over a whole date: 288 readings move onto those of the next."""
    rule = Cron("*/5 * * * *", "Pacific/Apia")
    jump = parse_instant_text("2011-12-30T10:00:00.000Z")
    instant = jump - HOUR
    for _ in range(300):
        following = first(rule, instant)
        assert following is not None
        assert following - instant == dt.timedelta(minutes=5)
        instant = following


def test_a_rule_and_its_target_come_from_one_selector() -> None:
    rule, target = parse_selector({"every_seconds": 300, "prompt": "ignored"}, NOW)
    assert rule == Every(300, NOW)
    assert target == target_of(rule, NOW) == NOW + dt.timedelta(minutes=5)
