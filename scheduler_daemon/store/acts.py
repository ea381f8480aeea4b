"""What callers do to reminders beyond making and changing them, each in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scheduler_daemon.errors import LimitReached, ReminderEnded, ReminderNotFound
from scheduler_daemon.model import Instant, Occurrence, Reminder
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.creation import Created, Draft, Limits, create, same_request
from scheduler_daemon.store.lookups import Beside, beside, free_run_id, reminder_row, value
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.receipts import skip as write_skip
from scheduler_daemon.store.rows import decode_reminder, kept_columns

NOT_FOUND = "no reminder of yours has this id here; reminder.list shows those that exist"


@dataclass(frozen=True, slots=True)
class Which:
    """A reminder by its number; None for owner or Session means any."""

    number: int
    owner: int | None
    session: str | None


@dataclass(frozen=True, slots=True)
class RequestKey:
    """An idempotency key and the hash of the canonical request that it came with."""

    text: str
    request_hash: str


@dataclass(frozen=True, slots=True)
class Run:
    """What running by hand gave: `reminder` is None when the key's reminder is gone."""

    reminder: Reminder | None
    beside: Beside
    occurrence_id: str
    created: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The ids of the reminders of a Session that are gone, and how many receipts are."""

    reminders: list[str]
    dispatches: int


def found(conn: sqlite3.Connection, which: Which) -> Reminder:
    """The reminder. Raises reminder_not_found, and BadRow where it does not decode."""
    row = reminder_row(conn, which.number, which.owner, which.session)
    if row is None:
        raise ReminderNotFound(NOT_FOUND, field="id")
    return decode_reminder(row)


def change(
    conn: sqlite3.Connection, which: Which, changed: Callable[[Reminder], Reminder]
) -> tuple[Reminder, Reminder, Beside]:
    """Replace a reminder by `changed` of it. See Store.change."""
    old = found(conn, which)
    new = changed(old)
    if new is not old:
        conn.execute(QUERIES["update_reminder"], kept_columns(new))
    return old, new, beside(conn, new.number)


def skip(
    conn: sqlite3.Connection,
    which: Which,
    skipped: Callable[[Reminder], tuple[Reminder, Occurrence]],
    now: Instant,
) -> tuple[Reminder, Occurrence, Beside]:
    """Let an occurrence pass. See Store.skip."""
    new, occurrence = skipped(found(conn, which))
    write_skip(conn, occurrence, now)
    conn.execute(QUERIES["update_reminder"], kept_columns(new))
    return new, occurrence, beside(conn, new.number)


def snooze(
    conn: sqlite3.Connection,
    which: Which,
    draft_of: Callable[[Reminder], Draft],
    key: RequestKey | None,
    now: Instant,
    limits: Limits,
) -> Created:
    """Make a one-shot out of a reminder. See Store.snooze."""
    earlier = _earlier(conn, which, key)
    if earlier is not None:
        row = reminder_row(conn, earlier[0], which.owner, None)
        if row is None:
            return Created(earlier[0], None, Beside(), created=False)
        dispatch = beside(conn, earlier[0])
        return Created(earlier[0], decode_reminder(row), dispatch, created=False)
    return create(conn, draft_of(found(conn, which)), now, limits)


def run_now(
    conn: sqlite3.Connection, which: Which, key: RequestKey | None, now: Instant, limits: Limits
) -> Run:
    """Ask for one occurrence beside the rule. See Store.run_now."""
    earlier = _earlier(conn, which, key)
    if earlier is not None:
        row = reminder_row(conn, earlier[0], which.owner, None)
        reminder = decode_reminder(row) if row else None
        return Run(reminder, beside(conn, earlier[0]), earlier[1], created=False)
    reminder = found(conn, which)
    who = {"owner": reminder.owner_uid, "session": reminder.session_id}
    if key is not None:
        same_request(conn, who | {"key": key.text}, key.request_hash)
    if reminder.status == "ended":
        raise ReminderEnded("this reminder has ended and cannot be run; snooze it instead")
    _check_runs(conn, who, limits)
    occurrence_id = free_run_id(conn, reminder.number, now)
    values = {
        "occurrence_id": occurrence_id,
        "number": reminder.number,
        "due_at": instant_text(now),
    }
    conn.execute(QUERIES["insert_run"], who | values)
    if key is not None:
        asked = {"key": key.text, "request_hash": key.request_hash, "now": instant_text(now)}
        conn.execute(QUERIES["insert_key"], who | values | asked | {"asked_of": reminder.number})
    return Run(reminder, beside(conn, reminder.number), occurrence_id, created=True)


def forget(conn: sqlite3.Connection, owner: int, session: str, now: Instant) -> Forgotten:
    """Remove everything of a Session but its idempotency keys, which outlive it for a while."""
    values = {"owner": owner, "session": session}
    conn.execute(QUERIES["keys_gone"], values | {"now": instant_text(now)})
    ids = [row[0] for row in conn.execute(QUERIES["forget_reminders"], values)]
    conn.execute(QUERIES["forget_words"], values)
    return Forgotten(ids, conn.execute(QUERIES["forget_dispatches"], values).rowcount)


def transfer(
    conn: sqlite3.Connection, owner: int, session: str, to_session: str, limits: Limits
) -> list[str]:
    """Move the active reminders of a Session. See Store.transfer."""
    moving = _active(conn, owner, session)
    there = _active(conn, owner, to_session)
    if moving and moving + there > limits.per_session:
        raise LimitReached(
            f"{moving} active reminders would join {there}, and a Session may keep "
            f"{limits.per_session}; delete some that are no longer wanted",
            field="to",
        )
    _check_moving_runs(conn, owner, session, to_session, limits)
    values = {"owner": owner, "session": session, "to_session": to_session}
    return [row[0] for row in conn.execute(QUERIES["transfer"], values)]


def _check_moving_runs(
    conn: sqlite3.Connection, owner: int, session: str, to_session: str, limits: Limits
) -> None:
    moving, there = (
        value(conn, "runs_of_session", {"owner": owner, "session": each})
        for each in (session, to_session)
    )
    if moving and moving + there > limits.per_session:
        raise LimitReached(
            f"{moving} runs by hand would join {there}, and at most {limits.per_session} may wait "
            "in a Session; let a host take some first",
            field="to",
        )


def _active(conn: sqlite3.Connection, owner: int, session: str) -> int:
    values = {"owner": owner, "session": session}
    row = conn.execute(QUERIES["active_of_session"], values).fetchone()
    return row[0] if row else 0


def _earlier(
    conn: sqlite3.Connection, which: Which, key: RequestKey | None
) -> tuple[int, str] | None:
    """Number and occurrence that the same request made before, wherever the reminder is now."""
    if key is None:
        return None
    values: dict[str, Any] = {
        "asked_of": which.number,
        "key": key.text,
        "request_hash": key.request_hash,
        "owner": which.owner,
    }
    row = conn.execute(QUERIES["key_of_request"], values).fetchone()
    return (row[1], row[2]) if row else None


def _check_runs(conn: sqlite3.Connection, who: dict[str, Any], limits: Limits) -> None:
    (waiting,) = conn.execute(QUERIES["runs_of_session"], who).fetchone()
    if waiting >= limits.per_session:
        raise LimitReached(
            f"{waiting} occurrences asked for by hand wait in this Session already; "
            "ask again when a host has taken them"
        )
