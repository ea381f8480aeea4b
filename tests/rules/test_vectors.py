"""Every line of every file in tests/vectors: what an independent resolver found."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.errors import SchedulerError
from scheduler_daemon.model import Instant, Rule
from scheduler_daemon.rules import (
    canonical_cron,
    canonical_zone,
    decide,
    first,
    instant_text,
    parse_instant_text,
    parse_rule,
    parse_selector,
    selector_of,
    target_of,
)

VECTORS = Path(__file__).parents[1] / "vectors"
ANY_NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def lines(name: str) -> list[Any]:
    """The cases of a file as parameters, named by file and line; the header counts them."""
    header, *cases = map(json.loads, (VECTORS / f"{name}.jsonl").read_text().splitlines())
    assert header["cases"] == len(cases)
    return [pytest.param(case, id=f"{name}:{n}") for n, case in enumerate(cases, start=2)]


FILES = ("at", "after", "every", "calendar", "cron", "cron_text", "decide", "zones")


def refusal(call: Any, *args: object) -> SchedulerError:
    with pytest.raises(SchedulerError) as caught:
        call(*args)
    return caught.value


def occurrences(rule: Rule, after: Instant, count: int) -> list[str]:
    found = []
    for _ in range(count):
        following = first(rule, after)
        assert following is not None
        after = following
        found.append(instant_text(after))
    return found


def test_every_line_of_every_file_is_a_case_here() -> None:
    assert {path.stem for path in VECTORS.glob("*.jsonl")} == set(FILES)
    count = sum(len(lines(name)) for name in FILES)
    print(f"{count} vectors")
    assert count == 2065


@pytest.mark.parametrize("case", [*lines("at"), *lines("after"), *lines("every")])
def test_a_one_shot_or_interval_has_this_target_or_refusal(case: dict[str, Any]) -> None:
    now, expect = parse_instant_text(case["now"]), case["expect"]
    if "error" in expect:
        assert refusal(parse_selector, case["input"], now).code == expect["error"]
    else:
        rule, target = parse_selector(case["input"], now)
        assert instant_text(target) == expect["target"]
        assert target_of(rule, now) == target


@pytest.mark.parametrize("case", [*lines("calendar"), *lines("cron")])
def test_a_rule_on_a_local_clock_has_these_occurrences(case: dict[str, Any]) -> None:
    now, expect = parse_instant_text(case["now"]), case["expect"]
    rule, target = parse_selector(case["input"], now)
    assert occurrences(rule, now, len(expect["next"])) == expect["next"]
    assert instant_text(target) == expect["next"][0]
    stored = selector_of(rule)[rule.kind]
    for member in ("time", "weekdays"):
        if member in expect:
            assert stored[member] == expect[member]


@pytest.mark.parametrize("case", lines("cron_text"))
def test_a_cron_text_is_refused_or_has_one_canonical_form(case: dict[str, Any]) -> None:
    if "same" in case:
        assert len({canonical_cron(text) for text in case["same"]}) == 1
    elif "different" in case:
        assert len({canonical_cron(text) for text in case["different"]}) == len(case["different"])
    elif "error" in case["expect"]:
        error = refusal(canonical_cron, case["input"])
        assert error.code == case["expect"]["error"]
        assert error.field == "cron.expression"
        assert case["expect"].get("names", "") in error.message
        selector = {"cron": {"expression": case["input"], "time_zone": "UTC"}}
        assert refusal(parse_selector, selector, ANY_NOW).code == error.code
    else:
        assert canonical_cron(case["input"])


@pytest.mark.parametrize("case", lines("decide"))
def test_a_due_decision_finds_the_latest_and_the_next(case: dict[str, Any]) -> None:
    target, now = parse_instant_text(case["target"]), parse_instant_text(case["now"])
    occurrence, following = decide(parse_rule(case["rule"], target), target, now)
    found = {"occurrence": instant_text(occurrence), "next": None}
    if following is not None:
        found["next"] = instant_text(following)
    assert found == case["expect"]


@pytest.mark.parametrize("case", lines("zones"))
def test_a_zone_name_is_stored_in_the_spelling_of_the_database_or_refused(
    case: dict[str, Any],
) -> None:
    if "error" in case["expect"]:
        assert refusal(canonical_zone, case["input"]).code == case["expect"]["error"]
    else:
        assert canonical_zone(case["input"]) == case["expect"]["stored"]
