"""What the face of the rules takes as an instant: any moment that says its offset."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from zoneinfo import ZoneInfo

import pytest

from scheduler_daemon.model import After, At, Cron, Daily, Every, Instant, Rule
from scheduler_daemon.rules import (
    decide,
    first,
    instant_text,
    local_text,
    parse_rule,
    parse_selector,
    target_of,
)
from scheduler_daemon.rules.instants import as_instant

NOW = dt.datetime(2026, 3, 1, 12, 0, 0, 5_000, tzinfo=dt.UTC)
SELECTOR = {"every_seconds": 300}
RULES: list[Rule] = [
    After(60),
    At(NOW + dt.timedelta(hours=1)),
    Every(300, NOW),
    Daily(dt.time(9), "Europe/Berlin"),
    Cron("0 0 1 * *", "America/New_York"),
]
MEANING_NOW = [
    NOW.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=45))),
    NOW.astimezone(ZoneInfo("America/New_York")),
    NOW.astimezone(dt.timezone(dt.timedelta(0), "GMT")),
    NOW.replace(microsecond=5_999),
    NOW.replace(microsecond=5_001).astimezone(ZoneInfo("Asia/Tokyo")),
]
FACE: dict[str, Callable[[dt.datetime], object]] = {
    "parse_selector": lambda moment: parse_selector(SELECTOR, moment),
    "parse_selector of none": lambda moment: parse_selector(None, moment),
    "parse_rule": lambda moment: parse_rule(SELECTOR, moment),
    "target_of": lambda moment: target_of(After(60), moment),
    "first": lambda moment: first(After(60), moment),
    "first of a local rule": lambda moment: first(Daily(dt.time(9), "UTC"), moment),
    "decide at": lambda moment: decide(Every(300, NOW), NOW, moment),
    "decide for": lambda moment: decide(After(60), moment, NOW),
    "local_text": lambda moment: local_text(moment, "UTC"),
    "instant_text": instant_text,
}


def assert_instant(found: Instant | None) -> None:
    assert found is not None
    assert found.tzinfo is dt.UTC
    assert found.microsecond % 1000 == 0


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("moment", MEANING_NOW, ids=str)
def test_a_moment_is_the_instant_that_it_means_cut_down_to_milliseconds(
    moment: dt.datetime, rule: Rule
) -> None:
    assert first(rule, moment) == target_of(rule, moment) == first(rule, NOW)
    assert_instant(first(rule, moment))
    target = NOW - dt.timedelta(days=40)
    assert decide(rule, target, moment) == decide(rule, target, NOW)
    occurrence, _ = decide(rule, moment, moment)
    assert occurrence == NOW
    assert_instant(occurrence)


@pytest.mark.parametrize("moment", MEANING_NOW, ids=str)
def test_what_is_made_at_a_moment_is_made_at_its_instant(moment: dt.datetime) -> None:
    rule, target = parse_selector(SELECTOR, moment)
    assert isinstance(rule, Every)
    assert rule.anchor == NOW
    assert_instant(rule.anchor)
    assert_instant(target)
    assert instant_text(moment) == "2026-03-01T12:00:00.005Z"
    assert local_text(moment, "Asia/Tokyo") == "2026-03-01T21:00:00.005+09:00[Asia/Tokyo]"


@pytest.mark.parametrize("moment", MEANING_NOW, ids=str)
def test_the_instants_inside_a_rule_are_taken_likewise(moment: dt.datetime) -> None:
    before = NOW - dt.timedelta(days=1)
    assert first(At(moment), before) == NOW
    assert_instant(first(At(moment), before))
    assert_instant(first(Every(300, moment), before))
    assert first(Every(86_400, moment), before) == NOW


@pytest.mark.parametrize("call", FACE.values(), ids=FACE)
def test_a_moment_without_an_offset_is_refused_alike_everywhere(
    call: Callable[[dt.datetime], object],
) -> None:
    with pytest.raises(ValueError, match="has to say its zone or offset"):
        call(NOW.replace(tzinfo=None))


@pytest.mark.parametrize("call", FACE.values(), ids=FACE)
def test_a_moment_outside_the_years_is_refused_alike_everywhere(
    call: Callable[[dt.datetime], object],
) -> None:
    east = dt.timezone(dt.timedelta(hours=1))
    with pytest.raises(ValueError, match="inside the years 0001 to 9999 UTC"):
        call(dt.datetime(1, 1, 1, 0, 30, tzinfo=east))


def test_an_instant_is_taken_as_it_is() -> None:
    assert as_instant(NOW) is NOW
