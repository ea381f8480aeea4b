"""Due records of one Session and the decision time into follow-ups: pure, the file is elsewhere."""

from __future__ import annotations

import datetime as dt

from scheduler_daemon.delivery.framing import followup_params
from scheduler_daemon.model import FollowUp, Instant, Occurrence, Reminder
from scheduler_daemon.rules import due_decision, first, instant_text
from scheduler_daemon.wire.encoding import encode

_SOME_INSTANT = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)

ENVELOPE_BYTES = 4096
"""Room in a frame for what is not an occurrence: the message around it and the framing."""

LATE_BYTES = 64
"""Room for the line that says how late an occurrence is, which is not known when it is measured."""

_FIXED_BYTES = 2048
_BYTES_PER_CHAR = 20
"""The most that one occurrence takes beside its words, and each character of those."""


def occurrence(reminder: Reminder, now: Instant, *, trusted: bool) -> Occurrence:
    """The occurrence of a due reminder at the decision time `now`, never before its target.

    `trusted` is whether the clock can be. One of a record that lies beyond its end stands for
    nothing: it only says where the record goes (see `is_beyond`).
    """
    target = reminder.scheduled_at
    decision = due_decision(reminder, now, trusted=trusted)
    occurrence_at = decision.occurrence_at or target
    return Occurrence(
        occurrence_id=occurrence_id(reminder, occurrence_at),
        reminder=reminder,
        occurrence_at=occurrence_at,
        next_at=decision.next_at,
        next_after=decision.next_after,
        end_reason=decision.end_reason,
        missed_from=_missed_from(reminder, occurrence_at),
    )


def _missed_from(reminder: Reminder, occurrence_at: Instant) -> Instant | None:
    """The earliest occurrence that was missed before this one.

    The target, but for one that a clock far behind has left: what was dispatched was not missed,
    and nothing from before the creation where that clock dispatched something from before it.
    """
    target, last = reminder.scheduled_at, reminder.last_occurrence_at
    if occurrence_at <= target:
        return None
    if last is None or last >= occurrence_at:
        return target
    since = max(last, reminder.created_at)
    missed = target if target > since else first(reminder.rule, since)
    return missed if missed is not None and missed < occurrence_at else None


def occurrence_id(reminder: Reminder, occurrence_at: Instant) -> str:
    """The identity of an occurrence of a reminder as it is now."""
    generation = f".{reminder.generation}" if reminder.generation else ""
    return f"{reminder.id}{generation}@{instant_text(occurrence_at)}"


def run_by_hand(reminder: Reminder, occurrence_id: str, due_at: Instant) -> Occurrence:
    """The occurrence that somebody asked for beside the rule."""
    return Occurrence(
        occurrence_id=occurrence_id,
        reminder=reminder,
        occurrence_at=due_at,
        next_at=None,
        next_after=due_at,
        end_reason=None,
        missed_from=None,
        by_hand=True,
    )


class Packer:
    """Takes occurrences in order while they fit one frame of `max_bytes`.

    The first always fits: the limits of words and frames see to that. Sizes are quick upper
    bounds until those would not fit, and exact from then on, so that as few messages as
    possible come of it.
    """

    def __init__(self, max_bytes: int) -> None:
        self.taken: list[Occurrence] = []
        self._room = max_bytes - ENVELOPE_BYTES
        self._used = 0
        self._exact = False

    def add(self, each: Occurrence) -> bool:
        """Whether the occurrence fitted and was taken."""
        size = exact_bytes(each) if self._exact else most_bytes(each)
        if self._used + size > self._room and not self._exact:
            self._exact = True
            self._used = sum(map(exact_bytes, self.taken))
            size = exact_bytes(each)
        if self._used + size > self._room and self.taken:
            return False
        self._used += size
        self.taken.append(each)
        return True


def most_bytes(each: Occurrence) -> int:
    """An upper bound of what an occurrence takes in a frame."""
    reminder = each.reminder
    chars = len(reminder.prompt) + len(reminder.title or "")
    chars += sum(len(key) + len(text) for key, text in (reminder.context or {}).items())
    return _FIXED_BYTES + _BYTES_PER_CHAR * chars


def exact_bytes(each: Occurrence) -> int:
    """What an occurrence takes in a frame, the comma before it and how late it is included."""
    return _frame_bytes((each,)) - _frame_bytes(()) + LATE_BYTES


def _frame_bytes(occurrences: tuple[Occurrence, ...]) -> int:
    decided_at = occurrences[0].occurrence_at if occurrences else _SOME_INSTANT
    followup = FollowUp("", 0, "", True, decided_at, occurrences)
    return len(encode(followup_params(followup, 1)))
