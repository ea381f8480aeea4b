"""Receipts in a transaction, and where they leave a record: what was admitted, missed, passed."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

from scheduler_daemon.model import FollowUp, Instant, Occurrence, OneShot, Reminder
from scheduler_daemon.rules import due_decision, instant_text, is_beyond
from scheduler_daemon.store.lookups import reminder_row
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import maybe_text, read_reminder


@dataclass(frozen=True, slots=True)
class Left:
    """What became of records: their Sessions as they are now, by id, of those that were there.

    `ended` are the ids of those that ended, `moved` of those that went on; `beyond_end` is whether
    one of them lies beyond its end and is active.
    """

    sessions: Mapping[str, str]
    moved: Set[str]
    ended: Set[str]
    beyond_end: bool


@dataclass(slots=True)
class _Writing:
    """One transaction of receipts: what all rows share, and what came of it so far."""

    conn: sqlite3.Connection
    decided_at: Instant
    shared: dict[str, Any]
    sessions: dict[str, str] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    beyond_end: bool = False

    @property
    def left(self) -> Left:
        return Left(self.sessions, self.moved, self.ended, self.beyond_end)


def record(
    conn: sqlite3.Connection,
    followup: FollowUp,
    admitted_at: Instant,
    host: str,
    message_id: str | None,
) -> Left:
    """Write every receipt of an admitted follow-up and advance or end every record."""
    shared = {
        "followup_id": followup.followup_id,
        "owner": followup.owner_uid,
        "session": followup.session_id,
        "decided_at": instant_text(followup.decided_at),
        "admitted_at": instant_text(admitted_at),
        "host": host,
        "message_id": message_id,
        "outcome": "admitted",
    }
    writing = _Writing(conn, followup.decided_at, shared)
    for occurrence in followup.occurrences:
        new = _receive(writing, occurrence)
        if occurrence.by_hand:
            conn.execute(QUERIES["drop_run"], {"occurrence_id": occurrence.occurrence_id})
            continue
        _advance(writing, occurrence)
        _note(writing, occurrence, counts=new)
    return writing.left


def settle(
    conn: sqlite3.Connection,
    occurrences: Sequence[Occurrence],
    now: Instant,
    outcome: Literal["missed"] | None,
) -> Left:
    """Let records go on without a message, with a receipt of `outcome` or with none.

    One that changed since `occurrences` were read is left alone.
    """
    writing = _unsent(conn, now, outcome)
    for occurrence in occurrences:
        reminder = occurrence.reminder
        if conn.execute(QUERIES["still_due"], _as_planned(reminder)).fetchone() is None:
            continue
        writing.sessions[reminder.id] = reminder.session_id
        if outcome is not None:
            _receive(writing, occurrence)
        _advance(writing, occurrence)
        if outcome is not None:
            _note(writing, occurrence, counts=False)
    return writing.left


def skip(conn: sqlite3.Connection, occurrence: Occurrence, now: Instant) -> None:
    """Write that a caller skipped an occurrence."""
    _receive(_unsent(conn, now, "skipped"), occurrence)


def _unsent(conn: sqlite3.Connection, now: Instant, outcome: str | None) -> _Writing:
    """Receipts of what went to nobody."""
    at = instant_text(now)
    nobody = {"followup_id": "", "host": None, "message_id": None}
    return _Writing(conn, now, nobody | {"decided_at": at, "admitted_at": at, "outcome": outcome})


def _receive(writing: _Writing, occurrence: Occurrence) -> bool:
    """Whether the occurrence had no receipt before; the first one written stays."""
    reminder = occurrence.reminder
    words = {"number": reminder.number, "words_revision": reminder.words_revision}
    values = {
        "owner": reminder.owner_uid,
        "session": reminder.session_id,
        "occurrence_id": occurrence.occurrence_id,
        "occurrence_at": instant_text(occurrence.occurrence_at),
    }
    done = writing.conn.execute(QUERIES["insert_dispatch"], values | words | writing.shared)
    kept = words | {"title": reminder.title, "prompt": reminder.prompt}
    writing.conn.execute(QUERIES["keep_sent_words"], kept)
    return done.rowcount > 0


def _note(writing: _Writing, occurrence: Occurrence, *, counts: bool) -> None:
    values = {
        "number": occurrence.reminder.number,
        "occurrence_at": instant_text(occurrence.occurrence_at),
        "more": counts,
    }
    row = writing.conn.execute(QUERIES["note_occurrence"], values).fetchone()
    if row is None:
        return
    last_one, session = row
    writing.sessions[occurrence.reminder.id] = session
    if last_one:
        _end(writing, occurrence.reminder, "end_by_count", _as_planned(occurrence.reminder))


def _advance(writing: _Writing, occurrence: Occurrence) -> None:
    """Move the record on, unless its timing changed since the plan or the target moved already."""
    reminder = occurrence.reminder
    if _move(writing, reminder, occurrence.next_at, occurrence.next_after, occurrence.end_reason):
        return
    row = reminder_row(writing.conn, reminder.number, None, None)
    current = read_reminder(row) if row else None
    if not isinstance(current, Reminder) or not _same_timing(current, reminder):
        return
    # Its end or what it skips changed while the message was on its way; what cannot be undone
    # is left to whoever knows whether the clock can be trusted.
    new = due_decision(current, writing.decided_at, trusted=False)
    _move(writing, current, new.next_at, new.next_after, new.end_reason)


def _same_timing(current: Reminder, planned: Reminder) -> bool:
    """Whether what was sent is what the record still waits to send."""
    if (current.status, current.timing_revision) != ("active", planned.timing_revision):
        return False
    # A one-shot has one occurrence, also where a fast clock's target was corrected meanwhile.
    return current.scheduled_at == planned.scheduled_at or isinstance(planned.rule, OneShot)


def _move(
    writing: _Writing,
    reminder: Reminder,
    next_at: Instant | None,
    next_after: Instant,
    end_reason: str | None,
) -> bool:
    """Whether the record was as it was planned and has gone on."""
    where = _as_planned(reminder)
    if next_at is None:
        return _end(writing, reminder, "end_reminder", where | {"reason": end_reason})
    values = where | {
        "next_at": instant_text(next_at),
        "next_after": instant_text(next_after),
        "decided_at": writing.shared["decided_at"],
    }
    done = writing.conn.execute(QUERIES["advance_reminder"], values)
    if done.rowcount:
        writing.moved.add(reminder.id)
        writing.beyond_end |= is_beyond(reminder, next_at)
    return done.rowcount > 0


def _end(writing: _Writing, reminder: Reminder, name: str, values: dict[str, Any]) -> bool:
    at = {"ended_at": writing.shared["admitted_at"]}
    done = writing.conn.execute(QUERIES[name], values | at)
    if done.rowcount:
        writing.ended.add(reminder.id)
    return done.rowcount > 0


def _as_planned(reminder: Reminder) -> dict[str, Any]:
    return {
        "number": reminder.number,
        "timing_revision": reminder.timing_revision,
        "target": instant_text(reminder.scheduled_at),
        "until_at": maybe_text(reminder.until),
        "skips_to_at": maybe_text(reminder.skips[1]) if reminder.skips else None,
    }
