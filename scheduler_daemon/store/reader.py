"""Everything that only looks, on the reading connection: readers of a WAL wait for nobody."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.model import Dispatch, Instant, Reminder
from scheduler_daemon.rules import instant_text, parse_instant_text
from scheduler_daemon.store.database import Database, is_of_the_file
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import (
    REMINDER_COLUMNS,
    BadRow,
    Row,
    decode_dispatch,
    read_reminder,
)

T = TypeVar("T")

PAGE_CHARS = 512 * 1024
"""Words on one page, about: what is read beyond it would not fit the answer's frame."""

UNREAD = "the database could not be read; try again later"

Key = tuple[int, str]
"""A Session: its owner's uid and its name."""

Place = tuple[str, int]
"""Where a page ended: the target (empty where the order is by creation) and the number."""

START: Place = ("", 0)

_SCHEDULED_AT = REMINDER_COLUMNS.index("scheduled_at")


@dataclass(frozen=True, slots=True)
class Rows:
    """Reminders read, and the rows among them that do not decode."""

    reminders: list[Reminder]
    bad: list[BadRow]


@dataclass(slots=True)
class Page:
    """A page of reminders, each with its newest dispatch; `more` when it ended before the last."""

    items: list[tuple[Reminder, Dispatch | None]]
    bad: list[BadRow]
    more: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """Reminders of one owner by state."""

    active: int
    ended: int
    set_aside: int
    overdue: int


class Reader:
    """Questions to the file. Each method is one snapshot.

    All raise persistence_failed where the file cannot be read; `failed` then hears of it in words
    for the log, on this loop's thread.
    """

    def __init__(self, database: Database, failed: Callable[[str], None]) -> None:
        self._database = database
        self._failed = failed

    async def _look(self, question: Callable[[sqlite3.Connection], T]) -> T:
        def in_snapshot(conn: sqlite3.Connection) -> T:
            conn.execute("BEGIN")
            try:
                return question(conn)
            finally:
                conn.rollback()  # after an error of the file there is nothing to end

        try:
            return await self._database.run(in_snapshot)
        except sqlite3.Error as error:
            if not is_of_the_file(error):
                raise
            self._failed(str(error))
            raise PersistenceFailed(UNREAD) from error

    async def get(
        self, number: int, owner: int | None, session: str | None
    ) -> tuple[Reminder, Dispatch | None] | BadRow | None:
        """The reminder and its newest dispatch; None where there is none, BadRow undecoded."""

        def question(conn: sqlite3.Connection) -> tuple[Reminder, Dispatch | None] | BadRow | None:
            row = reminder_row(conn, number, owner, session)
            if row is None:
                return None
            reminder = read_reminder(row)
            if isinstance(reminder, BadRow):
                return reminder
            return reminder, last_dispatch(conn, number)

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
    ) -> Page:
        """A page after a place; `status` is active, ended or all, owner None is everybody."""
        values = {"session": session} | _after(after, limit + 1)
        whose = "owner" if session is None else "session"
        name = f"list_{whose}_{'target' if by_target else 'created'}"
        statuses = ("active", "ended") if status == "all" else (status,)

        def question(conn: sqlite3.Connection) -> Page:
            owners = [owner] if owner is not None else _column(conn, "all_owners")
            parts = [
                conn.execute(QUERIES[name], values | {"owner": each_owner, "status": each_status})
                for each_owner in owners
                for each_status in statuses
            ]
            # Each part is in order already, and no more of it is read than the page takes.
            with closing(heapq.merge(*parts, key=_place_of_row if by_target else None)) as rows:
                return _page(conn, rows, limit)

        return await self._look(question)

    async def history(
        self, owner: int | None, number: int | None, session: str | None, before: int, limit: int
    ) -> tuple[list[Dispatch], bool]:
        """Dispatches older than `before`, newest first, and whether there are more.

        Of a reminder, or else of a Session; owner None is everybody.
        """
        name = "history_of_session" if number is None else "history_of_reminder"
        values = {
            "number": number,
            "session": session,
            "before": before,
            "count": limit + 1,
        }

        def question(conn: sqlite3.Connection) -> tuple[list[Dispatch], bool]:
            everybody = owner is None and number is None
            owners = _column(conn, "all_owners") if everybody else [owner]
            parts = [conn.execute(QUERIES[name], values | {"owner": each}) for each in owners]
            with closing(heapq.merge(*parts, reverse=True)) as rows:
                return _dispatches(rows, limit)

        return await self._look(question)

    async def targets(self, keys: Iterable[Key]) -> dict[Key, Instant | None]:
        """The earliest target of each Session; None where nothing is active."""

        def question(conn: sqlite3.Connection) -> dict[Key, Instant | None]:
            return {key: _instant(_value(conn, "session_target", _of(key))) for key in keys}

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
        return await self._look(
            lambda conn: conn.execute(QUERIES["sessions_due"], values).fetchall()
        )

    async def next_target(self, owner: int, after: Instant) -> Instant | None:
        """The earliest target of an owner after an instant."""
        values = {"owner": owner, "after": instant_text(after)}
        return await self._look(lambda conn: _instant(_value(conn, "next_target", values)))

    async def owners(self) -> list[int]:
        """Owners with active reminders."""
        return await self._look(lambda conn: _column(conn, "owners_active"))

    async def due(
        self, key: Key, now: Instant, one_shots: int, recurring: int
    ) -> tuple[Rows, Rows]:
        """The first due one-shots and overdue recurring reminders of a Session, at most so many.

        Both by target and creation.
        """
        values = _of(key) | {"now": instant_text(now)}

        def question(conn: sqlite3.Connection) -> tuple[Rows, Rows]:
            ones = conn.execute(QUERIES["due_one_shots"], values | {"count": one_shots})
            often = conn.execute(QUERIES["due_recurring"], values | _after(START, recurring))
            return _decode(ones), _decode(often)

        return await self._look(question)

    async def due_recurring(self, key: Key, now: Instant, after: Place, limit: int) -> Rows:
        """Overdue recurring reminders of a Session after a place, by target and creation."""
        values = _of(key) | {"now": instant_text(now)} | _after(after, limit)
        return await self._look(
            lambda conn: _decode(conn.execute(QUERIES["due_recurring"], values))
        )

    async def next_target_of_session(self, key: Key, now: Instant) -> Instant | None:
        """The earliest target of a Session after an instant."""
        values = _of(key) | {"now": instant_text(now)}
        return await self._look(
            lambda conn: _instant(_value(conn, "next_target_of_session", values))
        )

    async def decided_at(self, number: int, occurrence_at: Instant) -> Instant | None:
        """When the dispatch of an occurrence was decided; None where there is none."""
        values = {"number": number, "occurrence_at": instant_text(occurrence_at)}
        return await self._look(lambda conn: _instant(_value(conn, "decided_at", values)))

    async def counts(self, owner: int, now: Instant) -> Counts:
        """An owner's reminders by state."""
        values = {"owner": owner, "now": instant_text(now)}

        def question(conn: sqlite3.Connection) -> Counts:
            row = conn.execute(QUERIES["counts_of_owner"], values).fetchone()
            active, ended, set_aside = row or (0, 0, 0)
            (overdue,) = conn.execute(QUERIES["overdue_of_owner"], values).fetchone()
            return Counts(active, ended, set_aside, overdue)

        return await self._look(question)

    async def overdue_in(self, keys: Iterable[Key], now: Instant) -> dict[Key, int]:
        """How many reminders are overdue in each Session."""
        at = {"now": instant_text(now)}

        def question(conn: sqlite3.Connection) -> dict[Key, int]:
            return {key: _value(conn, "overdue_of_session", _of(key) | at) for key in keys}

        return await self._look(question)


def meta_value(conn: sqlite3.Connection, name: str) -> str | None:
    value: str | None = _value(conn, "meta_value", {"name": name})
    return value


def reminder_row(
    conn: sqlite3.Connection, number: int, owner: int | None, session: str | None
) -> Row | None:
    """The row of a reminder, one that is set aside too; None for owner or Session means any."""
    values = {"number": number, "owner": owner, "session": session}
    row: Row | None = conn.execute(QUERIES["reminder_by_number"], values).fetchone()
    return row


def last_dispatch(conn: sqlite3.Connection, number: int) -> Dispatch | None:
    row = conn.execute(QUERIES["last_dispatch"], {"number": number}).fetchone()
    return decode_dispatch(row) if row else None


def _page(conn: sqlite3.Connection, rows: Iterable[Row], limit: int) -> Page:
    page = Page([], [], more=False)
    chars = 0
    for count, row in enumerate(rows):
        if count == limit or chars > PAGE_CHARS:
            page.more = True
            break
        reminder = read_reminder(row)
        if isinstance(reminder, BadRow):
            page.bad.append(reminder)
            continue
        page.items.append((reminder, last_dispatch(conn, reminder.number)))
        chars += len(reminder.prompt)
    return page


def _dispatches(rows: Iterable[Row], limit: int) -> tuple[list[Dispatch], bool]:
    found: list[Dispatch] = []
    chars = 0
    for row in rows:
        if len(found) == limit or chars > PAGE_CHARS:
            return found, True
        found.append(decode_dispatch(row))
        chars += len(found[-1].prompt)
    return found, False


def _decode(rows: Iterable[Row]) -> Rows:
    read = [read_reminder(row) for row in rows]
    return Rows(
        [each for each in read if isinstance(each, Reminder)],
        [each for each in read if isinstance(each, BadRow)],
    )


def _place_of_row(row: Row) -> Place:
    return row[_SCHEDULED_AT], row[0]


def place(reminder: Reminder) -> Place:
    """Where a reminder stands in the order of targets."""
    return instant_text(reminder.scheduled_at), reminder.number


def _of(key: Key) -> dict[str, Any]:
    return {"owner": key[0], "session": key[1]}


def _after(place: Place, count: int) -> dict[str, Any]:
    return {"after_target": place[0], "after_number": place[1], "count": count}


def _value(conn: sqlite3.Connection, name: str, values: dict[str, Any]) -> Any:
    """The only value of a statement that gives one row or none; None for none."""
    row = conn.execute(QUERIES[name], values).fetchone()
    return row[0] if row else None


def _column(conn: sqlite3.Connection, name: str) -> list[Any]:
    return [value for (value,) in conn.execute(QUERIES[name])]


def _instant(text: str | None) -> Instant | None:
    return None if text is None else parse_instant_text(text)
