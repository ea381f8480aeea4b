"""What a rule's end, skips and age make of its occurrences: the due decision of a whole record."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

from scheduler_daemon.errors import InvalidRule, TimeOutOfRange
from scheduler_daemon.model import After, At, EndedReason, Instant, Reminder, Rule
from scheduler_daemon.rules.instants import instant_text, parse_at
from scheduler_daemon.rules.schedule import decide, first

_MILLISECOND = dt.timedelta(milliseconds=1)


class Decision(NamedTuple):
    """What is due, and the target after it.

    `occurrence_at` is None when nothing at or before the end is left. `next_at` is the first
    occurrence after `next_after` (which becomes the record's `after_at`); None ends the record
    for `end_reason`.
    """

    occurrence_at: Instant | None
    next_at: Instant | None
    next_after: Instant
    end_reason: EndedReason | None


def due_decision(reminder: Reminder, now: Instant, *, trusted: bool) -> Decision:
    """The due decision of a record whose target is not after `now`.

    It is made at the earlier of `now` and `until`, for occurrences after that do not exist. Under
    a clock that cannot be `trusted` the passing of `until` ends nothing: the target then lies
    beyond it.
    """
    rule, target = reminder.rule, reminder.scheduled_at
    if isinstance(rule, After | At):
        return Decision(target, None, now, "delivered")
    limit = now if reminder.until is None else min(now, reminder.until)
    if target > limit:
        return _onward(reminder, None, now, trusted)
    latest, _ = decide(rule, target, limit)
    if reminder.skips is not None and reminder.skips[0] < latest <= reminder.skips[1]:
        latest = max(target, reminder.skips[0])
    return _onward(reminder, latest, limit if trusted else now, trusted)


def onward(reminder: Reminder, after: Instant, *, trusted: bool) -> Decision:
    """Where a recurring record goes that leaves everything up to `after` behind; none is due."""
    return _onward(reminder, None, after, trusted)


def _onward(reminder: Reminder, latest: Instant | None, after: Instant, trusted: bool) -> Decision:
    following, after = _first(reminder, latest, after)
    if following is None:
        return Decision(latest, None, after, "range")
    if is_beyond(reminder, following) and trusted:
        return Decision(latest, None, after, "until")
    return Decision(latest, following, after, None)


def _first(
    reminder: Reminder, latest: Instant | None, after: Instant
) -> tuple[Instant | None, Instant]:
    """The first occurrence after `after` that is not skipped, and the instant before it."""
    following = _next(reminder, latest, after)
    if following is not None and reminder.skips is not None:
        low, high = reminder.skips
        if low < following <= high:
            return first(reminder.rule, high), high
    return following, after


def _next(reminder: Reminder, latest: Instant | None, after: Instant) -> Instant | None:
    if latest is None:
        return first(reminder.rule, after)
    # From the target, as the due decision counts a fixed rate that was edited by hand.
    return decide(reminder.rule, reminder.scheduled_at, after)[1]


def is_beyond(reminder: Reminder, target: Instant) -> bool:
    """Whether an occurrence lies after the record's end and so does not exist."""
    return reminder.until is not None and target > reminder.until


def has_expired(reminder: Reminder, occurrence_at: Instant, now: Instant) -> bool:
    """Whether an occurrence is too old to be sent at `now`."""
    seconds = reminder.expires_after_seconds
    # As whole numbers: the longest age is longer than any timedelta.
    return seconds is not None and (now - occurrence_at) // _MILLISECOND > seconds * 1000


def parse_until(value: object) -> Instant:
    """The end of a recurring rule, an instant in the form that the `at` string has.

    Raises InvalidRule and TimeOutOfRange with the field `until`.
    """
    return parse_at(value, "until")


def check_end(
    rule: Rule,
    target: Instant,
    until: Instant | None,
    max_occurrences: int | None,
    dispatch_count: int = 0,
) -> None:
    """Raises InvalidRule for the end of a one-shot, TimeOutOfRange where nothing is left."""
    if isinstance(rule, After | At):
        for field, value in (("until", until), ("max_occurrences", max_occurrences)):
            if value is not None:
                raise InvalidRule(
                    f"{field} is for rules that recur (every_seconds, daily, weekly, cron); "
                    "a one-shot comes once. Leave it out.",
                    field=field,
                )
        return
    if until is not None and target > until:
        raise TimeOutOfRange(
            f"nothing is left before until: the next occurrence is {instant_text(target)}, "
            f"until is {instant_text(until)}. Give a later until, or leave it out.",
            field="until",
        )
    if max_occurrences is not None and dispatch_count >= max_occurrences:
        raise TimeOutOfRange(
            f"{dispatch_count} occurrences were delivered already; max_occurrences must be larger",
            field="max_occurrences",
        )
