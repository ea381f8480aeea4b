"""What an update makes of a reminder: only what was asked, each counted where it belongs."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest

from scheduler_daemon.changes import changed
from scheduler_daemon.errors import (
    InvalidPrompt,
    InvalidRequest,
    InvalidSelector,
    NotFuture,
    ReminderConflict,
    ReminderEnded,
)
from scheduler_daemon.model import After, At, Daily, Every, Reminder
from scheduler_daemon.wire import params
from tests.delivery.test_plan import reminder
from tests.support.clock import START

HOUR = dt.timedelta(hours=1)
DAILY = Daily(dt.time(9), "Europe/Berlin")
NINE = {"time": "09:00", "time_zone": "europe/berlin"}


def update(old: Reminder, **asked: Any) -> Reminder:
    values = {"id": old.id, "revision": old.revision, **asked}
    return changed(old, params.parse(params.Update, values), START, 100)


def differing(old: Reminder, new: Reminder) -> dict[str, Any]:
    """The members that an update changed, with what they are now."""
    members = [each.name for each in dataclasses.fields(Reminder)]
    return {n: getattr(new, n) for n in members if getattr(new, n) != getattr(old, n)}


OLD = reminder(
    DAILY,
    START + HOUR,
    prompt="old",
    title="title",
    context={"folder": "/a"},
    after_at=START - HOUR,
)


@pytest.mark.parametrize(
    ("asked", "differences"),
    [
        ({"prompt": " new "}, {"prompt": "new", "words_revision": 2}),
        ({"title": "new"}, {"title": "new", "words_revision": 2}),
        ({"title": None}, {"title": None, "words_revision": 2}),
        ({"title": " "}, {"title": None, "words_revision": 2}),
        ({"context": {"a": "b"}}, {"context": {"a": "b"}}),
        ({"context": {}}, {"context": None}),
    ],
)
def test_words_and_context_change_without_touching_the_timing(
    asked: dict[str, Any], differences: dict[str, Any]
) -> None:
    assert differing(OLD, update(OLD, **asked)) == {**differences, "revision": 2}


@pytest.mark.parametrize(
    "asked",
    [
        {"prompt": " old "},
        {"title": "title"},
        {"context": {"folder": "/a"}},
        {"daily": NINE},
        {"daily": {"time": "09:00:00.000", "time_zone": "Europe/Berlin"}, "prompt": "old"},
    ],
)
def test_what_is_equal_changes_nothing(asked: dict[str, Any]) -> None:
    assert update(OLD, **asked) is OLD


def test_an_empty_context_equals_none() -> None:
    old = dataclasses.replace(OLD, context=None)
    assert update(old, context={}) is old


def test_an_equal_rule_moves_nothing_even_when_it_is_overdue() -> None:
    """Nor does it move the anchor of a fixed rate."""
    for rule, asked in (
        (Every(600, START - 5 * HOUR), {"every_seconds": 600}),
        (At(START - HOUR), {"at": "2026-01-01T11:00:00Z"}),
    ):
        old = dataclasses.replace(OLD, rule=rule, scheduled_at=START - HOUR)
        assert update(old, **asked) is old


def test_an_equal_rule_beside_other_words_moves_nothing() -> None:
    new = update(OLD, prompt="new", daily=NINE)
    assert differing(OLD, new) == {"prompt": "new", "words_revision": 2, "revision": 2}


def test_a_delay_always_counts_from_now() -> None:
    old = dataclasses.replace(OLD, rule=After(60), scheduled_at=START + HOUR)
    assert differing(old, update(old, after_seconds=60)) == {
        "scheduled_at": START + dt.timedelta(seconds=60),
        "after_at": START,
        "computed_at": START,
        "timing_revision": 2,
        "revision": 2,
    }


@pytest.mark.parametrize(
    "asked",
    [
        {"after_seconds": 60},
        {"at": "2026-01-01T13:30:00Z"},
        {"every_seconds": 300},
        {"daily": {**NINE, "time": "10:00"}},
        {"weekly": {**NINE, "weekdays": [4]}},
        {"cron": {"expression": "0 9 * * *", "time_zone": "UTC"}},
    ],
)
def test_any_kind_may_replace_any(asked: dict[str, Any]) -> None:
    new = update(OLD, **asked)
    assert new.rule.kind in next(iter(asked))
    assert new.scheduled_at > START
    assert (new.after_at, new.computed_at, new.timing_revision) == (START, START, 2)
    assert (new.words_revision, new.generation) == (1, 0)


def test_a_target_moved_back_to_what_was_dispatched_gets_a_new_generation() -> None:
    for last, generation in ((START + HOUR, 1), (START + HOUR - dt.timedelta(seconds=1), 0)):
        old = dataclasses.replace(OLD, last_occurrence_at=last)
        assert update(old, after_seconds=3600).generation == generation


def test_a_stale_revision_is_refused_before_anything_else() -> None:
    ended = dataclasses.replace(OLD, status="ended", revision=3)
    for asked in ({}, {"prompt": ""}, {"at": "yesterday"}, {"prompt": "fine"}):
        with pytest.raises(ReminderConflict, match="has revision 3, not 2") as refusal:
            update(ended, revision=2, **asked)
        assert refusal.value.field == "revision"


def test_an_ended_reminder_cannot_be_changed() -> None:
    with pytest.raises(ReminderEnded, match="make a new one"):
        update(dataclasses.replace(OLD, status="ended"), prompt="new")


def test_an_update_says_what_to_change() -> None:
    accepted = (
        "prompt, title, context, until, max_occurrences, expires_after_seconds or one of after"
    )
    with pytest.raises(InvalidRequest, match=accepted):
        update(OLD, session_id="s", owner_uid=7)


def test_a_paused_reminder_that_is_changed_stays_paused() -> None:
    paused = dataclasses.replace(OLD, paused=True)
    for asked in ({"prompt": "new"}, {"every_seconds": 600}, {"until": "2027-01-01T00:00:00Z"}):
        assert update(paused, **asked).paused


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({"prompt": None}, InvalidPrompt),
        ({"prompt": "x" * 101}, InvalidPrompt),
        ({"title": 0}, InvalidPrompt),
        ({"title": []}, InvalidPrompt),
        ({"at": "2026-01-01T12:00:00Z"}, NotFuture),
        ({"after_seconds": 1, "every_seconds": 300}, InvalidSelector),
        ({"daily": None, "prompt": "new"}, Exception),
    ],
)
def test_what_is_wrong_with_words_or_timing_is_refused(
    asked: dict[str, Any], refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        update(OLD, **asked)
