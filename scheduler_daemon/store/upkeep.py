"""Targets computed anew, in slices: after other zone data, and after a clock that ran ahead."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from scheduler_daemon.model import Instant, Reminder
from scheduler_daemon.rules import first, instant_text, zone_of
from scheduler_daemon.store.lookups import Key, meta_value
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import BadRow, Row, kept_columns, read_reminder
from scheduler_daemon.store.store import retarget

SLICE = 200
"""Records in one transaction, so that the write lock is never held for long."""

AHEAD = dt.timedelta(hours=24)
"""A target computed by a clock further ahead than this is computed again."""

ZONE_DATA = "zone_data"
ZONE_MARK = "zone_recompute_from"
"""The number up to which targets were computed again for new zone data; absent when all were."""


@dataclass(slots=True)
class Slice:
    """What one slice did: `done` when nothing is left, `moved` the Sessions it changed."""

    done: bool
    moved: list[Key] = field(default_factory=list)
    ended: list[Reminder] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    mark: int = 0


def note_zone_data(version: str) -> Callable[[sqlite3.Connection], int | None]:
    """Compare the zone data with the last start's; gives the mark when targets must be computed."""

    def act(conn: sqlite3.Connection) -> int | None:
        before = meta_value(conn, ZONE_DATA)
        mark = meta_value(conn, ZONE_MARK)
        if before != version:
            conn.execute(QUERIES["put_meta"], {"name": ZONE_DATA, "value": version})
            if before is not None:
                mark = "0"
                conn.execute(QUERIES["put_meta"], {"name": ZONE_MARK, "value": mark})
        if mark is not None and not (mark.isascii() and mark.isdigit()):
            mark = "0"  # somebody wrote it by hand: begin anew
        return None if mark is None else int(mark)

    return act


def recompute_zones(mark: int, now: Instant) -> Callable[[sqlite3.Connection], Slice]:
    """The slice after `mark`: future wall-clock targets become the first after their `after_at`."""

    def act(conn: sqlite3.Connection) -> Slice:
        rows = conn.execute(QUERIES["slice_by_number"], {"number": mark, "count": SLICE}).fetchall()
        result = Slice(done=len(rows) < SLICE, mark=rows[-1][0] if rows else mark)
        for reminder in _decoded(rows, result):
            if reminder.status == "active" and reminder.scheduled_at > now:
                _recompute(conn, reminder, result)
        name = {"name": ZONE_MARK}
        if result.done:
            conn.execute(QUERIES["drop_meta"], name)
        else:
            conn.execute(QUERIES["put_meta"], name | {"value": str(result.mark)})
        return result

    return act


def moved_target(reminder: Reminder) -> Instant | None:
    """The target under the zone data of now, when it is another one than the committed."""
    if zone_of(reminder.rule) is None:
        return None
    target = first(reminder.rule, reminder.after_at)
    return None if target == reminder.scheduled_at else target


def _recompute(conn: sqlite3.Connection, reminder: Reminder, result: Slice) -> None:
    target = moved_target(reminder)
    if target is not None:
        retarget(conn, reminder, target, reminder.after_at, reminder.computed_at)
        result.moved.append((reminder.owner_uid, reminder.session_id))


def correct_ahead(now: Instant) -> Callable[[sqlite3.Connection], Slice]:
    """A slice of the targets that a clock far ahead of `now` computed; runs are due at once."""

    def act(conn: sqlite3.Connection) -> Slice:
        runs = conn.execute(QUERIES["runs_ahead"], {"now": instant_text(now)}).fetchall()
        limit = instant_text(now + AHEAD)
        rows = conn.execute(
            QUERIES["computed_ahead"], {"limit_at": limit, "count": SLICE}
        ).fetchall()
        result = Slice(done=len(rows) < SLICE, moved=runs)
        for reminder in _decoded(rows, result):
            target = first(reminder.rule, now) or reminder.scheduled_at
            retarget(conn, reminder, target, now, now)
            result.moved.append((reminder.owner_uid, reminder.session_id))
        return result

    return act


def end_beyond(now: Instant) -> Callable[[sqlite3.Connection], Slice]:
    """A slice of the records that were kept active beyond their end: they end now."""

    def act(conn: sqlite3.Connection) -> Slice:
        rows = conn.execute(QUERIES["beyond_end"], {"count": SLICE}).fetchall()
        result = Slice(done=len(rows) < SLICE)
        for reminder in _decoded(rows, result):
            ended = replace(reminder, status="ended", ended_at=now, ended_reason="until")
            conn.execute(QUERIES["update_reminder"], kept_columns(replace(ended, paused=False)))
            result.moved.append((reminder.owner_uid, reminder.session_id))
            result.ended.append(reminder)
        return result

    return act


def any_beyond(conn: sqlite3.Connection) -> bool:
    """Whether a record lies beyond its end and is active."""
    return conn.execute(QUERIES["beyond_end"], {"count": 1}).fetchone() is not None


def _decoded(rows: list[Row], result: Slice) -> list[Reminder]:
    read = [read_reminder(row) for row in rows]
    result.bad += [each for each in read if isinstance(each, BadRow)]
    return [each for each in read if isinstance(each, Reminder)]
