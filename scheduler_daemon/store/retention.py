"""What goes after a while: old receipts, ended reminders, keys, words; each in small slices."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from scheduler_daemon.model import Instant
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.lookups import START, Place, column, of, value
from scheduler_daemon.store.queries import QUERIES

SLICE = 40
"""Rows that one slice looks at."""

REMOVED = 4
"""Receipts, reminders or keys that one slice removes at most: with each may go 128 KiB of words."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How long receipts and ended reminders stay, in days, and how many receipts of a reminder."""

    history_days: int
    history_per_reminder: int
    ended_days: int


class Gone(NamedTuple):
    """A reminder that was removed."""

    number: int
    owner_uid: int
    session_id: str


@dataclass(slots=True)
class Part:
    """What one slice did.

    The next begins at `mark`, unless it is `done`: then `mark` is where a later pass begins.
    `found` counts what was to be removed; the reminders among it are `gone`.
    """

    done: bool
    mark: Place
    found: int = 0
    gone: list[Gone] = field(default_factory=list)


Pass: TypeAlias = Callable[[sqlite3.Connection, Keep, Instant, Place, bool], Part]
"""A slice from a place on, at an instant; it only looks where the last argument is False."""


def old_receipts(
    conn: sqlite3.Connection, keep: Keep, now: Instant, mark: Place, remove: bool
) -> Part:
    """Receipts older than `history_days`."""
    rows = _after(conn, "old_receipts", _limits(keep, now), mark)
    going, part = _part(rows)
    if remove:
        _remove_receipts(conn, going)
    return part


def receipts_beyond(
    conn: sqlite3.Connection,
    keep: Keep,
    _now: Instant,
    mark: Place,
    remove: bool,
) -> Part:
    """Receipts beyond `history_per_reminder` of those reminders that got one after `mark`.

    What is left of a reminder that has many of them is the next slice's.
    """
    values = {"after_number": mark[1], "count": SLICE}
    rows = conn.execute(QUERIES["receipts_after"], values).fetchall()
    part = Part(done=len(rows) < SLICE, mark=mark)
    for number in dict.fromkeys(row[1] for row in rows):
        beyond = _beyond(conn, number, keep.history_per_reminder, REMOVED - part.found)
        part.found += len(beyond)
        if remove and beyond:
            _remove_receipts(conn, beyond)
        if part.found == REMOVED:
            part.done = False
            return part
    # Numbers are given out again when the newest receipts went with their Session.
    newest = value(conn, "newest_receipt", {}) or 0
    last = rows[-1][0] if rows else mark[1]
    part.mark = START if newest < last else ("", last)
    return part


def ended_reminders(
    conn: sqlite3.Connection, keep: Keep, now: Instant, mark: Place, remove: bool
) -> Part:
    """Reminders that ended before `ended_days`; one that was asked for by hand is still to come."""
    rows = _after(conn, "ended_before", _limits(keep, now), mark)
    going, part = _part(rows)
    if remove:
        for number in going:
            conn.execute(QUERIES["key_gone"], {"number": number, "now": instant_text(now)})
            values = {"number": number, "owner": None, "session": None}
            owner, session = conn.execute(QUERIES["delete_reminder"], values).fetchone()
            part.gone.append(Gone(number, owner, session))
    return part


def gone_keys(
    conn: sqlite3.Connection, keep: Keep, now: Instant, mark: Place, remove: bool
) -> Part:
    """Idempotency keys whose reminder is gone for `ended_days`."""
    values = _limits(keep, now) | {"count": REMOVED}
    rows = conn.execute(QUERIES["keys_gone_before"], values).fetchall()
    if remove:
        for owner, session, key in rows:
            conn.execute(QUERIES["remove_key"], of((owner, session)) | {"key": key})
    return Part(done=len(rows) < REMOVED, mark=mark, found=len(rows))


def _limits(keep: Keep, now: Instant) -> dict[str, Any]:
    return {
        "history_limit": instant_text(now - dt.timedelta(days=keep.history_days)),
        "ended_limit": instant_text(now - dt.timedelta(days=keep.ended_days)),
    }


def _after(
    conn: sqlite3.Connection, name: str, limits: dict[str, Any], mark: Place
) -> list[tuple[str, int, int, int]]:
    """Instant, number, reminder's number, and whether it stays."""
    values = limits | {"after_at": mark[0], "after_number": mark[1], "count": SLICE}
    return conn.execute(QUERIES[name], values).fetchall()


def _part(rows: list[tuple[str, int, int, int]]) -> tuple[list[int], Part]:
    """The numbers of what goes; what stays is passed over, a later pass begins at the first."""
    going = [row for row in rows if not row[3]][:REMOVED]
    if len(going) == REMOVED:
        part = Part(done=False, mark=going[-1][:2])
    elif len(rows) == SLICE:
        part = Part(done=False, mark=rows[-1][:2])
    else:
        part = Part(done=True, mark=START)
    part.found = len(going)
    return [row[1] for row in going], part


def _beyond(conn: sqlite3.Connection, number: int, keep: int, count: int) -> list[int]:
    newest = value(conn, "receipt_beyond", {"number": number, "keep": keep})
    if newest is None:
        return []
    values = {"number": number, "newest": newest, "count": count}
    return column(conn, "receipts_up_to", values)


def _remove_receipts(conn: sqlite3.Connection, numbers: list[int]) -> None:
    """With them go their words, where no other receipt refers to those."""
    words = {
        conn.execute(QUERIES["remove_receipt"], {"number": each}).fetchone() for each in numbers
    }
    for number, revision in sorted(words):
        values = {"number": number, "words": revision}
        conn.execute(QUERIES["remove_unsent_words"], values)
