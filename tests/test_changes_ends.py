"""What an update makes of the end and the age of a reminder."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_daemon.errors import InvalidRequest, InvalidRule, SchedulerError, TimeOutOfRange
from scheduler_daemon.model import Every
from scheduler_daemon.rules import due_decision
from tests.delivery.test_plan import reminder
from tests.support.clock import START
from tests.test_changes import HOUR, differing, update

# START is 12:00 UTC on 2026-01-01.
OLD = reminder(Every(3600, START), START + HOUR, prompt="old", after_at=START - HOUR)
LIMITED = reminder(
    Every(3600, START),
    START + HOUR,
    prompt="old",
    until=START + 3 * HOUR,
    max_occurrences=5,
    dispatch_count=3,
    expires_after_seconds=60,
)


@pytest.mark.parametrize(
    ("asked", "differences"),
    [
        ({"until": "2026-01-01T14:00:00+01:00"}, {"until": START + HOUR}),
        ({"until": "2026-01-01T13:00:00Z", "max_occurrences": 1}, {"until": START + HOUR}),
        ({"max_occurrences": 1}, {"max_occurrences": 1}),
        ({"expires_after_seconds": 1}, {"expires_after_seconds": 1}),
    ],
)
def test_an_end_and_an_age_change_without_touching_the_timing(
    asked: dict[str, Any], differences: dict[str, Any]
) -> None:
    if len(asked) > 1:
        differences = differences | {"max_occurrences": 1}
    assert differing(OLD, update(OLD, **asked)) == differences | {"revision": 2}


@pytest.mark.parametrize("name", ["until", "max_occurrences", "expires_after_seconds"])
def test_null_takes_an_end_or_an_age_away(name: str) -> None:
    assert differing(LIMITED, update(LIMITED, **{name: None})) == {name: None, "revision": 2}
    assert update(OLD, **{name: None}) is OLD


@pytest.mark.parametrize(
    "asked",
    [
        {"until": "2026-01-01T16:00:00.000+01:00"},
        {"max_occurrences": 5},
        {"expires_after_seconds": 60, "prompt": "old"},
    ],
)
def test_an_equal_end_or_age_changes_nothing(asked: dict[str, Any]) -> None:
    assert update(LIMITED, **asked) is LIMITED


def test_an_end_in_the_past_is_taken_while_an_occurrence_at_or_before_it_is_owed() -> None:
    """It is delivered, however late; nothing comes after it."""
    old = reminder(Every(3600, START), START - 2 * HOUR)
    new = update(old, until="2026-01-01T11:00:00Z")
    assert new.until == START - HOUR
    decision = due_decision(new, START, trusted=True)
    assert (decision.occurrence_at, decision.next_at) == (START - HOUR, None)
    assert update(old, until="2026-01-01T10:00:00Z").until == START - 2 * HOUR
    with pytest.raises(TimeOutOfRange, match="nothing is left before until"):
        update(old, until="2026-01-01T09:59:59.999Z")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"until": "2026-01-01T12:59:59.999Z"}, "until"),
        ({"max_occurrences": 3}, "max_occurrences"),
        ({"every_seconds": 7 * 86400}, "until"),
        ({"every_seconds": 7 * 86400, "until": "2026-01-02T00:00:00Z"}, "until"),
        ({"every_seconds": 600, "max_occurrences": 2}, "max_occurrences"),
    ],
)
def test_an_update_has_to_leave_an_occurrence(asked: dict[str, Any], field: str) -> None:
    with pytest.raises(TimeOutOfRange) as refusal:
        update(LIMITED, **asked)
    assert refusal.value.field == field


def test_words_can_be_changed_where_nothing_is_left() -> None:
    """It waits for a clock that can be trusted, and ends then; another end brings it back."""
    old = reminder(Every(3600, START), START + HOUR, until=START)
    assert differing(old, update(old, prompt="new"))["prompt"] == "new"
    assert update(old, until=None).until is None
    assert update(old, until="2026-01-01T13:00:00Z").until == START + HOUR
    with pytest.raises(TimeOutOfRange):
        update(old, max_occurrences=7)


def test_another_rule_that_recurs_keeps_the_end_and_what_was_counted() -> None:
    new = update(LIMITED, every_seconds=1800)
    assert (new.until, new.max_occurrences) == (LIMITED.until, 5)
    assert (new.dispatch_count, new.expires_after_seconds) == (3, 60)


@pytest.mark.parametrize("asked", [{"after_seconds": 60}, {"at": "2026-01-02T00:00:00Z"}])
def test_a_rule_that_comes_once_instead_drops_the_end_and_keeps_the_age(
    asked: dict[str, Any],
) -> None:
    new = update(LIMITED, **asked)
    assert (new.until, new.max_occurrences) == (None, None)
    assert new.expires_after_seconds == 60
    assert update(LIMITED, until=None, **asked).until is None
    for end in ({"until": "2026-01-03T00:00:00Z"}, {"max_occurrences": 9}):
        with pytest.raises(InvalidRule, match="is for rules that recur"):
            update(LIMITED, **asked, **end)


def test_an_end_may_come_with_the_first_rule_that_recurs() -> None:
    once = update(LIMITED, after_seconds=60)
    again = update(once, every_seconds=300, until="2026-01-01T12:05:00Z", max_occurrences=4)
    assert (again.until, again.max_occurrences) == (again.scheduled_at, 4)


def test_another_timing_forgets_what_was_skipped() -> None:
    old = reminder(Every(3600, START), START, skips=(START, START + HOUR))
    assert update(old, every_seconds=600).skips is None
    assert update(old, prompt="new", until="2026-01-02T00:00:00Z").skips == old.skips


def test_another_timing_forgets_a_newest_dispatch_that_lies_ahead_and_takes_another_name() -> None:
    """It was skipped, or sent by a clock that ran ahead: what is due before it is no repeat."""
    ahead = reminder(Every(3600, START), START + 2 * HOUR, last_occurrence_at=START + HOUR)
    new = update(ahead, every_seconds=600)
    assert (new.last_occurrence_at, new.generation) == (None, 1)
    behind = reminder(Every(3600, START), START + HOUR, last_occurrence_at=START)
    new = update(behind, every_seconds=600)
    assert (new.last_occurrence_at, new.generation) == (START, 0)


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({"until": "tomorrow"}, InvalidRule),
        ({"until": 7}, SchedulerError),
        ({"until": "2026-01-01T13:00:00"}, InvalidRule),
        ({"max_occurrences": 0}, InvalidRequest),
        ({"max_occurrences": True}, InvalidRequest),
        ({"expires_after_seconds": 0.5}, InvalidRequest),
    ],
)
def test_what_is_no_end_and_no_age_is_refused(
    asked: dict[str, Any], refusal: type[SchedulerError]
) -> None:
    with pytest.raises(refusal) as caught:
        update(OLD, **asked)
    assert caught.value.field == next(iter(asked))
