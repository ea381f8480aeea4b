"""What pausing, resuming and skipping make of a reminder, on rules whose occurrences are listed."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler_daemon.acts import paused, resumed, skipped
from scheduler_daemon.delivery.plan import occurrence
from scheduler_daemon.errors import InvalidRequest, ReminderEnded, TimeOutOfRange
from scheduler_daemon.model import After, At, Daily, Every, Instant, Occurrence, Reminder
from scheduler_daemon.rules import due_decision, first
from tests.delivery.test_plan import reminder
from tests.rules.test_ends import Case, cases

NOW = dt.datetime(2026, 3, 7, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
DAY = dt.timedelta(days=1)
MILLISECOND = dt.timedelta(milliseconds=1)
HOURLY = Every(3600, NOW)
ENDED = reminder(HOURLY, NOW, status="ended", ended_at=NOW, ended_reason="count")


def differing(old: Reminder, new: Reminder) -> dict[str, Any]:
    """The members that an act changed, with what they are now."""
    members = [each.name for each in dataclasses.fields(Reminder)]
    return {n: getattr(new, n) for n in members if getattr(new, n) != getattr(old, n)}


def sent(old: Reminder, now: Instant) -> Occurrence:
    """The occurrence that was pushed at `now`."""
    return occurrence(old, now, trusted=True)


# --- pause and resume


@pytest.mark.parametrize("rule", [HOURLY, At(NOW), After(60)])
def test_a_pause_changes_nothing_but_that_and_a_second_one_nothing(rule: Any) -> None:
    old = reminder(rule, NOW)
    resting = paused(old)
    assert differing(old, resting) == {"paused": True, "revision": 2}
    assert paused(resting) is resting


def test_what_is_not_paused_is_not_changed_by_a_resume() -> None:
    for target in (NOW - DAY, NOW + DAY):
        old = reminder(HOURLY, target)
        assert resumed(old, NOW, trusted=True) is old


@pytest.mark.parametrize(
    ("rule", "target"),
    [(HOURLY, NOW + HOUR), (HOURLY, NOW + MILLISECOND), (At(NOW - DAY), NOW - DAY)],
)
def test_a_resume_keeps_the_target_of_a_one_shot_and_one_that_lies_ahead(
    rule: Any, target: Instant
) -> None:
    """The one-shot is due at once where its target has passed."""
    old = reminder(rule, target, paused=True)
    assert differing(old, resumed(old, NOW, trusted=True)) == {"paused": False, "revision": 2}


@given(cases(), st.booleans())
@settings(deadline=None, max_examples=200)
def test_a_resumed_one_whose_target_passed_goes_to_the_first_after_now_that_is_left(
    case: Case, trusted: bool
) -> None:
    old = dataclasses.replace(case.record, paused=True)
    new = resumed(old, case.now, trusted=trusted)
    following = next(each for each in case.left() if each > case.now)
    assert not new.paused
    assert (new.revision, new.timing_revision) == (2, 2)
    if trusted and not case.exists(following):
        assert_ended(new, case.now, "until")
    else:
        assert (new.status, new.scheduled_at, new.computed_at) == ("active", following, case.now)
        assert first(new.rule, new.after_at) == following


def assert_ended(new: Reminder, now: Instant, reason: str) -> None:
    assert (new.status, new.ended_at, new.ended_reason) == ("ended", now, reason)
    assert (new.paused, new.skips) == (False, None)


def test_a_resume_never_gives_what_was_dispatched_the_same_name_again() -> None:
    """A clock that ran ahead sent it; the target goes back to before that."""
    for last, generation in ((NOW + HOUR - MILLISECOND, 0), (NOW + HOUR, 1), (NOW + DAY, 1)):
        old = reminder(HOURLY, NOW - HOUR, paused=True, last_occurrence_at=last)
        assert resumed(old, NOW, trusted=True).generation == generation


# --- skip


@given(cases())
@settings(deadline=None, max_examples=200)
def test_a_skip_goes_past_exactly_the_target_to_the_next_that_is_left(case: Case) -> None:
    old = case.record
    assume(case.exists(old.scheduled_at))
    new, passed = skipped(old, None, case.now, trusted=True)
    assert passed.occurrence_at == old.scheduled_at
    assert passed.occurrence_id == sent(old, old.scheduled_at).occurrence_id
    assert (new.revision, new.timing_revision) == (2, 2)
    following = case.left()[1]
    if case.exists(following):
        assert (new.status, new.scheduled_at) == ("active", following)
        assert first(new.rule, new.after_at) == following
        assert (new.last_occurrence_at, new.generation) == (old.scheduled_at, 0)
    else:
        assert_ended(new, case.now, "until")


@given(cases(), st.integers(1, 3))
@settings(deadline=None, max_examples=200)
def test_skips_while_one_is_in_flight_take_out_those_after_it(case: Case, times: int) -> None:
    """The one in flight is admitted or tried again; the record goes on behind what was skipped."""
    old = dataclasses.replace(case.record, skips=None, until=None)
    case = case._replace(record=old)
    in_flight = sent(old, case.now)
    new, names = old, []
    after = [each for each in case.occurrences if each > in_flight.occurrence_at]
    assume(len(after) > times)
    for number in range(times):
        new, passed = skipped(new, in_flight, case.now, trusted=True)
        assert passed.occurrence_at == after[number]
        names.append(passed.occurrence_id)
    assert len(set(names)) == times
    assert differing(old, new) == {
        "skips": (in_flight.occurrence_at, after[times - 1]),
        "revision": 1 + times,
    }
    for later in (in_flight.occurrence_at, *after[:times]):
        decision = due_decision(new, later, trusted=True)
        assert decision.occurrence_at == in_flight.occurrence_at
        assert decision.next_at == after[times]


def test_a_skip_of_what_is_tried_again_goes_behind_what_was_skipped_before() -> None:
    old = reminder(HOURLY, NOW)
    first_skip, _ = skipped(old, sent(old, NOW), NOW, trusted=True)
    new, passed = skipped(first_skip, None, NOW, trusted=True)
    assert passed.occurrence_at == NOW
    assert (new.scheduled_at, new.after_at, new.skips) == (NOW + 2 * HOUR, NOW + HOUR, None)


def test_a_skip_of_a_later_one_in_flight_forgets_skips_that_lie_behind_it() -> None:
    old = reminder(HOURLY, NOW, skips=(NOW, NOW + HOUR))
    later = NOW + 2 * HOUR
    new, passed = skipped(old, sent(old, later), later, trusted=True)
    assert passed.occurrence_at == NOW + 3 * HOUR
    assert new.skips == (later, NOW + 3 * HOUR)


@pytest.mark.parametrize(
    "changes", [{"timing_revision": 2}, {"scheduled_at": NOW + HOUR}, {"rule": Every(7200, NOW)}]
)
def test_what_is_in_flight_of_another_timing_is_not_what_is_skipped(
    changes: dict[str, Any],
) -> None:
    old = reminder(HOURLY, NOW)
    in_flight = sent(old, NOW)
    now = dataclasses.replace(old, **{"timing_revision": 2, **changes})
    new, passed = skipped(now, in_flight, NOW, trusted=True)
    assert passed.occurrence_at == now.scheduled_at
    assert new.scheduled_at > now.scheduled_at


@pytest.mark.parametrize(
    ("zone_rule", "target", "following"),
    [
        # 02:30 does not exist on the second day; on the other one 01:30 comes twice.
        (dt.time(2, 30), "2026-03-07T07:30:00+00:00", "2026-03-08T07:30:00+00:00"),
        (dt.time(2, 30), "2026-03-08T07:30:00+00:00", "2026-03-09T06:30:00+00:00"),
        (dt.time(1, 30), "2026-10-31T05:30:00+00:00", "2026-11-01T05:30:00+00:00"),
        (dt.time(1, 30), "2026-11-01T05:30:00+00:00", "2026-11-02T06:30:00+00:00"),
    ],
)
def test_a_skip_on_the_day_of_a_clock_change_takes_out_one_day(
    zone_rule: dt.time, target: str, following: str
) -> None:
    at = dt.datetime.fromisoformat(target)
    old = reminder(Daily(zone_rule, "America/New_York"), at)
    new, passed = skipped(old, None, at - HOUR, trusted=True)
    assert (passed.occurrence_at, new.scheduled_at) == (at, dt.datetime.fromisoformat(following))


def test_a_skip_of_the_last_one_ends_under_a_clock_that_can_be_trusted_and_waits_for_it() -> None:
    old = reminder(HOURLY, NOW, until=NOW + HOUR / 2, paused=True)
    new, _ = skipped(old, None, NOW, trusted=True)
    assert_ended(new, NOW, "until")
    waiting, _ = skipped(old, None, NOW, trusted=False)
    assert (waiting.status, waiting.scheduled_at, waiting.paused) == ("active", NOW + HOUR, True)
    with pytest.raises(TimeOutOfRange, match="no occurrence is left to skip"):
        skipped(waiting, None, NOW, trusted=True)


@pytest.mark.parametrize("rule", [HOURLY, Every(86400, NOW.replace(year=9999, month=12, day=31))])
def test_there_is_nothing_to_skip_behind_the_last_one_in_flight(rule: Every) -> None:
    target = rule.anchor
    until = target + HOUR / 2 if rule is HOURLY else None
    old = reminder(rule, target, until=until)
    with pytest.raises(TimeOutOfRange, match="the last one is on its way") as refusal:
        skipped(old, sent(old, target), target, trusted=True)
    assert refusal.value.field == "id"


def test_the_newest_dispatch_stays_the_newest_when_an_older_one_is_skipped() -> None:
    """A clock that ran ahead sent it; the next target is one of that time, under a new name."""
    old = reminder(HOURLY, NOW, last_occurrence_at=NOW + DAY, generation=1)
    new, passed = skipped(old, None, NOW, trusted=True)
    assert passed.occurrence_id.startswith("r42.1@")
    assert (new.last_occurrence_at, new.generation) == (NOW + DAY, 2)


# --- refusals


def test_a_one_shot_has_nothing_to_skip() -> None:
    for rule in (After(60), At(NOW)):
        with pytest.raises(InvalidRequest, match="delete it") as refusal:
            skipped(reminder(rule, NOW), None, NOW, trusted=True)
        assert refusal.value.field == "id"


def test_what_has_ended_can_be_neither_paused_nor_resumed_nor_skipped() -> None:
    for act in (
        lambda: paused(ENDED),
        lambda: resumed(ENDED, NOW, trusted=True),
        lambda: skipped(ENDED, None, NOW, trusted=True),
    ):
        with pytest.raises(ReminderEnded, match=r"2026-03-07T12:00:00.000Z \(count\).*snooze"):
            act()
