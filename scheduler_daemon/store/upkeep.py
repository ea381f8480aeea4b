"""Targets computed anew, in slices: after other zone data, and after a clock that was wrong."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from scheduler_daemon.model import After, At, Instant, Key, Reminder
from scheduler_daemon.rules import first, instant_text, parse_instant_text, zone_of
from scheduler_daemon.store.lookups import meta_value
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import BadRow, Row, kept_columns, read_reminder
from scheduler_daemon.store.store import retarget

SLICE = 200
"""Records in one transaction, so that the write lock is never held for long."""

AHEAD = dt.timedelta(hours=24)
"""A target computed by a clock further ahead than this is computed again."""

SOON = dt.timedelta(days=30)
"""A correction by no more is kept once the clock can be trusted: see keep_corrected."""

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
    target = first(reminder.rule, counted_from(reminder))
    return None if target == reminder.scheduled_at else target


def is_corrected(reminder: Reminder) -> bool:
    """Whether its target was counted from the clock of `computed_at`, which lay behind `after_at`.

    A skip leaves `after_at` ahead of the clock as well, but its target after that. A recurring
    record whose correction moved nothing is as it was, and counts as not corrected.
    """
    rule, after_at = reminder.rule, reminder.after_at
    if isinstance(rule, At) or reminder.computed_at >= after_at:
        return False
    return isinstance(rule, After) or reminder.scheduled_at <= after_at


def counted_from(reminder: Reminder) -> Instant:
    """The instant after which its target is the first occurrence of its rule."""
    return reminder.computed_at if is_corrected(reminder) else reminder.after_at


def was_corrected_by_mistake(reminder: Reminder, now: Instant) -> bool:
    """Whether it was a clock behind that corrected a record.

    So it is when the clock is, within AHEAD, where the record was counted from before.
    """
    return is_corrected(reminder) and reminder.after_at <= now + AHEAD


def _recompute(conn: sqlite3.Connection, reminder: Reminder, result: Slice) -> None:
    target = moved_target(reminder)
    if target is not None:
        retarget(conn, reminder, target, reminder.after_at, reminder.computed_at)
        result.moved.append((reminder.owner_uid, reminder.session_id))


def correct_ahead(now: Instant) -> Callable[[sqlite3.Connection], Slice]:
    """A slice of the targets that a clock far ahead of `now` computed; runs are due at once.

    They keep what they were counted from: it may be this clock that is wrong, or one before.
    """

    def act(conn: sqlite3.Connection) -> Slice:
        runs = conn.execute(QUERIES["runs_ahead"], {"now": instant_text(now)}).fetchall()
        limit = instant_text(now + AHEAD)
        rows = conn.execute(
            QUERIES["computed_ahead"], {"limit_at": limit, "count": SLICE}
        ).fetchall()
        result = Slice(done=len(rows) < SLICE, moved=runs)
        for reminder in _decoded(rows, result):
            target = first(reminder.rule, now) or reminder.scheduled_at
            retarget(conn, reminder, target, _to_go_back_to(conn, reminder, target), now)
            result.moved.append((reminder.owner_uid, reminder.session_id))
        return result

    return act


def _to_go_back_to(conn: sqlite3.Connection, reminder: Reminder, target: Instant) -> Instant:
    """What a record that gets `target` was counted from; what came before that is written down."""
    if not is_corrected(reminder):
        return reminder.computed_at
    if target == reminder.scheduled_at:  # nothing lies between the two clocks
        return reminder.after_at
    values = {"number": reminder.number, "from_at": instant_text(reminder.after_at)}
    conn.execute(QUERIES["remember_correction"], values)
    return reminder.computed_at


def put_back(now: Instant) -> Callable[[sqlite3.Connection], Slice]:
    """A slice of the targets that were corrected for a clock that was behind: as they were."""

    def act(conn: sqlite3.Connection) -> Slice:
        limits = {"limit_at": instant_text(now + AHEAD), "count": SLICE}
        rows = conn.execute(QUERIES["corrected_until"], limits).fetchall()
        result = Slice(done=len(rows) < SLICE)
        for reminder in _decoded(rows, result):
            _put_one_back(conn, reminder, now)
            result.moved.append((reminder.owner_uid, reminder.session_id))
        return result

    return act


def put_one_back(reminder: Reminder, now: Instant) -> Callable[[sqlite3.Connection], None]:
    """As `put_back`, of a record that `was_corrected_by_mistake`."""
    return lambda conn: _put_one_back(conn, reminder, now)


def _put_one_back(conn: sqlite3.Connection, reminder: Reminder, now: Instant) -> None:
    """Count it from the latest instant that the clock has come near; what is beyond is kept."""
    number = {"number": reminder.number}
    before = [parse_instant_text(text) for (text,) in conn.execute(QUERIES["corrections"], number)]
    passed = [reminder.after_at, *(at for at in before if at <= now + AHEAD)]
    since = max(passed)
    beyond = min((at for at in before if at > since), default=since)
    conn.execute(QUERIES["drop_corrections"], number | {"limit_at": instant_text(beyond)})
    target = first(reminder.rule, since) or reminder.scheduled_at
    retarget(conn, reminder, target, beyond, since)


def keep_corrected(now: Instant) -> Callable[[sqlite3.Connection], Slice]:
    """A slice of the corrections that a clock which can be trusted leaves as they are.

    Those are the ones that the clock would come to undo just by going on: it was the former
    clock that was wrong. One that lies years behind is more likely wrong itself, however long it
    has been so.
    """

    def act(conn: sqlite3.Connection) -> Slice:
        limits = {"limit_at": instant_text(now + SOON), "count": SLICE}
        kept = conn.execute(QUERIES["keep_corrected"], limits).fetchall()
        return Slice(done=len(kept) < SLICE)

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


def any_corrected(now: Instant) -> Callable[[sqlite3.Connection], bool]:
    """Whether there is a correction that is kept once the clock can be trusted."""

    def act(conn: sqlite3.Connection) -> bool:
        limits = {"limit_at": instant_text(now + SOON), "count": 1}
        return conn.execute(QUERIES["corrected_until"], limits).fetchone() is not None

    return act


def _decoded(rows: list[Row], result: Slice) -> list[Reminder]:
    read = [read_reminder(row) for row in rows]
    result.bad += [each for each in read if isinstance(each, BadRow)]
    return [each for each in read if isinstance(each, Reminder)]
