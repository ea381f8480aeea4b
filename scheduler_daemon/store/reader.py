"""Everything that only looks, on the reading connection: readers of a WAL wait for nobody."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.model import Dispatch, Instant, Key, Reminder
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store import pages
from scheduler_daemon.store.companions import is_run_id
from scheduler_daemon.store.database import Database, is_of_the_file
from scheduler_daemon.store.lookups import START as START
from scheduler_daemon.store.lookups import (
    Beside,
    Place,
    after_values,
    beside,
    column,
    maybe_instant,
    of,
    reminder_row,
    value,
)
from scheduler_daemon.store.mending import (
    Unreadable,
    check_name,
    sessions_at,
    target,
    wrong_elsewhere,
    wrong_sessions,
)
from scheduler_daemon.store.pages import ListedRow, Page, SessionRow
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import (
    BadRow,
    Row,
    read_reminder,
)

T = TypeVar("T")

UNREAD = "the database could not be read; try again later"

MENDS = 100
"""Attempts at one question while what it asks for is put right."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Reminders read, and the rows among them that do not decode."""

    reminders: list[Reminder]
    bad: list[BadRow]


@dataclass(frozen=True, slots=True)
class Due:
    """What is due in a Session: one-shots and recurring reminders, by target and creation.

    `runs` are occurrences asked for by hand, each with its id and instant, in their order.
    """

    one_shots: Rows
    recurring: Rows
    runs: list[tuple[str, Instant, Reminder]]


@dataclass(frozen=True, slots=True)
class Counts:
    """Reminders of one owner by state; paused ones are active too. `runs` wait by hand."""

    active: int
    paused: int
    ended: int
    set_aside: int
    overdue: int
    runs: int


class Reader:
    """Questions to the file. Each method is one snapshot.

    All raise persistence_failed where the file cannot be read; `failed` then hears of it in words
    for the log, on this loop's thread. What was edited by hand into the table of Sessions so that
    it cannot be read is put right by `mend`, which writes, and the question asked again.
    """

    def __init__(
        self,
        database: Database,
        failed: Callable[[str], None],
        mend: Callable[[list[Key]], Awaitable[object]],
    ) -> None:
        self._database = database
        self._failed = failed
        self._mend = mend

    async def _look(self, question: Callable[[sqlite3.Connection], T]) -> T:
        def in_snapshot(conn: sqlite3.Connection) -> T:
            conn.execute("BEGIN")
            try:
                return question(conn)
            finally:
                conn.rollback()  # after an error of the file there is nothing to end

        try:
            for _ in range(MENDS):
                try:
                    return await self._database.run(in_snapshot)
                except Unreadable as found:
                    await self._mend(found.keys)
        except sqlite3.Error as error:
            if not is_of_the_file(error):
                raise
            self._failed(str(error))
            raise PersistenceFailed(UNREAD) from error
        raise PersistenceFailed(UNREAD)

    async def upkeep(self, look: Callable[[sqlite3.Connection], T]) -> T:
        """A look of the store's own upkeep (store/retention.py), which changes nothing."""
        return await self._look(look)

    async def get(
        self, number: int, owner: int | None, session: str | None
    ) -> tuple[Reminder, Beside] | BadRow | None:
        """The reminder and its newest dispatch; None where there is none, BadRow undecoded."""

        def question(conn: sqlite3.Connection) -> tuple[Reminder, Beside] | BadRow | None:
            row = reminder_row(conn, number, owner, session)
            if row is None:
                return None
            reminder = read_reminder(row)
            if isinstance(reminder, BadRow):
                return reminder
            return reminder, beside(conn, number)

        return await self._look(question)

    async def page(
        self,
        owner: int | None,
        session: str | None,
        status: str,
        *,
        by_target: bool,
        after: Place,
        limit: int,
        wanted: Callable[[ListedRow], bool] | None = None,
    ) -> Page:
        """A page after a place; `status` is active, ended or all, owner None is everybody.

        Of the rows only those that are `wanted`; how many are looked at for one page is bounded.
        """
        return await self._look(
            lambda conn: pages.reminders(
                conn,
                owner,
                session,
                status,
                by_target=by_target,
                after=after,
                limit=limit,
                wanted=wanted,
            )
        )

    async def history(
        self, owner: int | None, number: int | None, session: str | None, before: int, limit: int
    ) -> tuple[list[Dispatch], bool]:
        """Dispatches older than `before`, newest first, and whether there are more.

        Of a reminder, or else of a Session; owner None is everybody.
        """
        return await self._look(
            lambda conn: pages.dispatches(conn, owner, number, session, before, limit)
        )

    async def sessions(
        self, owner: int | None, after: Place, now: Instant, limit: int
    ) -> list[SessionRow]:
        """Sessions with reminders after a place (name and owner), in this order.

        Owner None is everybody.
        """
        return await self._look(lambda conn: pages.sessions(conn, owner, after, now, limit))

    async def targets(self, keys: Iterable[Key]) -> dict[Key, Instant | None]:
        """The earliest target of each Session; None where nothing is active."""

        def question(conn: sqlite3.Connection) -> dict[Key, Instant | None]:
            return {key: _target_of(conn, key) for key in keys}

        return await self._look(question)

    async def sessions_due(
        self, owner: int, now: Instant, after: tuple[str, str], limit: int
    ) -> list[tuple[str, str]]:
        """Targets and names of Sessions with something due, in the order of targets."""
        values = {
            "owner": owner,
            "now": instant_text(now),
            "after_target": after[0],
            "after_session": after[1],
            "count": limit,
        }

        def question(conn: sqlite3.Connection) -> list[tuple[str, str]]:
            rows = conn.execute(QUERIES["sessions_due"], values).fetchall()
            return [(at, check_name((owner, session))[1]) for at, session in rows]

        return await self._look(question)

    async def next_target(self, owner: int, after: Instant) -> Instant | None:
        """The earliest target of an owner after an instant."""
        values = {"owner": owner, "after": instant_text(after)}

        def question(conn: sqlite3.Connection) -> Instant | None:
            text = value(conn, "next_target", values)
            return target(text, lambda: sessions_at(conn, owner, text))

        return await self._look(question)

    async def owners(self) -> list[int]:
        """Owners with active reminders."""
        return await self._look(lambda conn: column(conn, "owners_active"))

    async def due(self, key: Key, now: Instant, one_shots: int, recurring: int) -> Due:
        """What is due in a Session: at most so many one-shots and runs, and recurring reminders."""
        values = of(key) | {"now": instant_text(now)}

        def question(conn: sqlite3.Connection) -> Due:
            ones = _decode(conn.execute(QUERIES["due_one_shots"], values | {"count": one_shots}))
            often = conn.execute(QUERIES["due_recurring"], values | after_values(START, recurring))
            runs = conn.execute(QUERIES["due_runs"], values | {"count": one_shots})
            return Due(ones, _decode(often), _decode_runs(runs, ones.bad, key))

        return await self._look(question)

    async def due_recurring(self, key: Key, now: Instant, after: Place, limit: int) -> Rows:
        """Overdue recurring reminders of a Session after a place, by target and creation."""
        values = of(key) | {"now": instant_text(now)} | after_values(after, limit)
        return await self._look(
            lambda conn: _decode(conn.execute(QUERIES["due_recurring"], values))
        )

    async def next_target_of_session(self, key: Key, now: Instant) -> Instant | None:
        """The earliest target of a Session after an instant."""
        values = of(key) | {"now": instant_text(now)}
        return await self._look(
            lambda conn: target(value(conn, "next_target_of_session", values), lambda: [key])
        )

    async def decided_at(self, number: int, occurrence_at: Instant) -> Instant | None:
        """When the dispatch of an occurrence was decided; None where none says it."""
        values = {"number": number, "occurrence_at": instant_text(occurrence_at)}

        def question(conn: sqlite3.Connection) -> Instant | None:
            text = value(conn, "decided_at", values)
            with suppress(ValueError):  # of a receipt that cannot be read
                return maybe_instant(text)
            return None

        return await self._look(question)

    async def dispatched_by(self, number: int, occurrence_at: Instant, now: Instant) -> bool:
        """Whether an occurrence or a later one was dispatched under a clock not ahead of `now`."""
        values = {
            "number": number,
            "occurrence_at": instant_text(occurrence_at),
            "now": instant_text(now),
        }
        return await self._look(lambda conn: value(conn, "dispatched_by", values) is not None)

    async def wrong_sessions(self, after: Key) -> tuple[list[Key], Key | None]:
        """Sessions after a place that are to be mended, and the place to go on from."""
        return await self._look(lambda conn: wrong_sessions(conn, after))

    async def wrong_elsewhere(self) -> tuple[list[Key], list[int]]:
        """Sessions without a reminder, and owners whose counts are wrong."""
        return await self._look(wrong_elsewhere)

    async def counts(self, owner: int, now: Instant) -> Counts:
        """An owner's reminders by state."""
        values = {"owner": owner, "now": instant_text(now)}

        def question(conn: sqlite3.Connection) -> Counts:
            row = conn.execute(QUERIES["counts_of_owner"], values).fetchone()
            (overdue,) = conn.execute(QUERIES["overdue_of_owner"], values).fetchone()
            active, paused, ended, set_aside = row or (0, 0, 0, 0)
            runs = value(conn, "runs_of_owner", {"owner": owner})
            return Counts(active, paused, ended, set_aside, overdue, runs)

        return await self._look(question)

    async def overdue_in(self, keys: Iterable[Key], now: Instant) -> dict[Key, int]:
        """How many reminders are overdue in each Session."""
        at = {"now": instant_text(now)}

        def question(conn: sqlite3.Connection) -> dict[Key, int]:
            return {key: value(conn, "overdue_of_session", of(key) | at) for key in keys}

        return await self._look(question)


def _decode(rows: Iterable[Row]) -> Rows:
    read = [read_reminder(row) for row in rows]
    return Rows(
        [each for each in read if isinstance(each, Reminder)],
        [each for each in read if isinstance(each, BadRow)],
    )


def _decode_runs(
    rows: Iterable[Row], bad: list[BadRow], key: Key
) -> list[tuple[str, Instant, Reminder]]:
    """Runs of reminders that decode; the others join `bad`."""
    runs = []
    for occurrence_id, due_at, *row in rows:
        reminder = read_reminder(tuple(row))
        if isinstance(reminder, BadRow):
            bad.append(reminder)
        else:
            due = target(due_at, lambda: [key])
            assert due is not None  # the column takes no NULL
            if not is_run_id(occurrence_id, reminder.number):
                raise Unreadable([key])
            runs.append((occurrence_id, due, reminder))
    return runs


def _target_of(conn: sqlite3.Connection, key: Key) -> Instant | None:
    return target(value(conn, "session_target", of(key)), lambda: [key])
