"""What pausing, resuming, skipping and snoozing make of a reminder: pure, as changes.py."""

from __future__ import annotations

from dataclasses import replace

from scheduler_daemon.delivery.plan import occurrence_id
from scheduler_daemon.errors import InvalidRequest, ReminderEnded, TimeOutOfRange
from scheduler_daemon.model import Instant, Occurrence, OneShot, Reminder
from scheduler_daemon.rules import Decision, first, instant_text, is_beyond, onward


def paused(old: Reminder) -> Reminder:
    """The reminder paused; `old` itself where it is. Raises reminder_ended."""
    _check_active(old)
    return old if old.paused else replace(old, paused=True, revision=old.revision + 1)


def resumed(old: Reminder, now: Instant, *, trusted: bool) -> Reminder:
    """The reminder going on; `old` itself where it is not paused. Raises reminder_ended.

    A recurring one whose target passed goes to its first occurrence after `now`. A target that
    lies ahead stays: something may have been skipped. So does that of a one-shot.
    """
    _check_active(old)
    if not old.paused:
        return old
    new = replace(old, paused=False, revision=old.revision + 1)
    if isinstance(old.rule, OneShot) or old.scheduled_at > now:
        return new
    return _gone_on(new, onward(new, now, trusted=trusted), now)


def skipped(
    old: Reminder, in_flight: Occurrence | None, now: Instant, *, trusted: bool
) -> tuple[Reminder, Occurrence]:
    """The reminder past exactly its target, and the occurrence that does not come.

    Where one is `in_flight` it is the one after that. Raises reminder_ended, invalid_request for
    a one-shot, time_out_of_range where there is none to skip.
    """
    _check_active(old)
    if isinstance(old.rule, OneShot):
        raise InvalidRequest(
            "a one-shot has one occurrence: delete it, or update its time", field="id"
        )
    new = replace(old, revision=old.revision + 1)
    if in_flight is not None and _is_planned(in_flight.reminder, old):
        return _skipping_next(new, in_flight.occurrence_at, now)
    if is_beyond(old, old.scheduled_at):
        raise _nothing_left()
    new = replace(new, last_occurrence_at=_newest(old, old.scheduled_at))
    decision = onward(new, old.scheduled_at, trusted=trusted)
    return _gone_on(new, decision, now), _occurrence(old, old.scheduled_at, now)


def _skipping_next(
    old: Reminder, in_flight_at: Instant, now: Instant
) -> tuple[Reminder, Occurrence]:
    low, high = old.skips or (in_flight_at, in_flight_at)
    at = first(old.rule, max(high, in_flight_at))
    if at is None or is_beyond(old, at):
        raise _nothing_left()
    return replace(old, skips=(max(low, in_flight_at), at)), _occurrence(old, at, now)


def _gone_on(old: Reminder, decision: Decision, now: Instant) -> Reminder:
    """The record at the target that was decided, or ended."""
    target = decision.next_at
    if target is None:
        return replace(
            old,
            status="ended",
            ended_at=now,
            ended_reason=decision.end_reason,
            paused=False,
            timing_revision=old.timing_revision + 1,
            skips=None,
        )
    last = old.last_occurrence_at
    return replace(
        old,
        scheduled_at=target,
        after_at=decision.next_after,
        computed_at=now,
        generation=old.generation + (last is not None and target <= last),
        timing_revision=old.timing_revision + 1,
        skips=old.skips if old.skips and old.skips[1] > target else None,
    )


def _check_active(reminder: Reminder) -> None:
    if reminder.status == "ended":
        at = instant_text(reminder.ended_at) if reminder.ended_at else "some time ago"
        raise ReminderEnded(
            f"this reminder ended at {at} ({reminder.ended_reason}); snooze it or make a new one"
        )


def _is_planned(planned: Reminder, current: Reminder) -> bool:
    """Whether what was planned for a record is still what its receipt will consume."""
    return (planned.timing_revision, planned.scheduled_at) == (
        current.timing_revision,
        current.scheduled_at,
    )


def _newest(reminder: Reminder, at: Instant) -> Instant:
    last = reminder.last_occurrence_at
    return at if last is None else max(last, at)


def _occurrence(reminder: Reminder, at: Instant, now: Instant) -> Occurrence:
    return Occurrence(
        occurrence_id=occurrence_id(reminder, at),
        reminder=reminder,
        occurrence_at=at,
        next_at=None,
        next_after=now,
        end_reason=None,
        missed_from=None,
    )


def _nothing_left() -> TimeOutOfRange:
    return TimeOutOfRange(
        "no occurrence is left to skip: the last one is on its way, or its end was reached",
        field="id",
    )
