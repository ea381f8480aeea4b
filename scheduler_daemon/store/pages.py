"""Lists out of the file, a page at a time: reminders, receipts, Sessions."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from scheduler_daemon.model import Dispatch, Instant, Key, Reminder
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.columns import is_readable
from scheduler_daemon.store.companions import read_dispatch
from scheduler_daemon.store.lookups import Beside, Place, after_values, beside, column, of, value
from scheduler_daemon.store.mending import target
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import (
    REMINDER_COLUMNS,
    BadRow,
    Row,
    read_reminder,
)

PAGE_CHARS = 512 * 1024
"""Words on one page, about: what is read beyond it would not fit the answer's frame."""

PAGE_ROWS = 5000
"""Rows that one page looks at, however few of them pass its filter."""

_LONGEST_PLACE = "9999-12-31T23:59:59.999Z"

_SCHEDULED_AT = REMINDER_COLUMNS.index("scheduled_at")
_PROMPT = REMINDER_COLUMNS.index("prompt")

# What a Session's order by target is read in: its index has these two before the target.
_LANES = tuple({"paused": p, "recurring": r} for p in (0, 1) for r in (0, 1))


class ListedRow(NamedTuple):
    """What a filter may look at: columns as they are stored, before they are decoded."""

    kind: str
    status: str
    paused: int
    scheduled_at: str
    title: str | None
    prompt: str


_LISTED = [REMINDER_COLUMNS.index(name) for name in ListedRow._fields]


@dataclass(slots=True)
class Page:
    """A page of reminders, each with its newest dispatch; `more` when it ended before the last.

    `looked_to` is where it ended: at a row that the filter may have left out.
    """

    items: list[tuple[Reminder, Beside]]
    bad: list[BadRow]
    more: bool
    looked_to: Place


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A Session with its counts: `overdue` are due and not paused, `runs` asked for by hand."""

    key: Key
    active: int
    paused: int
    ended: int
    set_aside: int
    overdue: int
    runs: int
    next_target_at: Instant | None


def reminders(
    conn: sqlite3.Connection,
    owner: int | None,
    session: str | None,
    status: str,
    *,
    by_target: bool,
    after: Place,
    limit: int,
    wanted: Callable[[ListedRow], bool] | None,
) -> Page:
    """A page of reminders. See Reader.page."""
    values = {"session": session} | after_values(after, PAGE_ROWS if wanted else limit + 1)
    whose = "owner" if session is None else "session"
    name = f"list_{whose}_{'target' if by_target else 'created'}"
    parts: list[dict[str, Any]] = [
        {"owner": each_owner, "status": each_status} | lane
        for each_owner in _owners(conn, owner)
        for each_status in (("active", "ended") if status == "all" else (status,))
        for lane in (_LANES if name == "list_session_target" else ({},))
    ]
    rows = [conn.execute(QUERIES[name], values | part) for part in parts]
    # Each part is in order already, and no more of it is read than the page takes.
    with closing(heapq.merge(*rows, key=_place_of_row if by_target else None)) as merged:
        return _page(conn, merged, limit, wanted, after)


def _page(
    conn: sqlite3.Connection,
    rows: Iterable[Row],
    limit: int,
    wanted: Callable[[ListedRow], bool] | None,
    after: Place,
) -> Page:
    page = Page([], [], more=False, looked_to=after)
    chars = 0
    for count, row in enumerate(rows, 1):
        if len(page.items) + len(page.bad) == limit or chars > PAGE_CHARS:
            page.more = True
            break
        if _is_place(row[_SCHEDULED_AT]):  # after any other the next page looks again
            page.looked_to = _place_of_row(row)
        chars += len(str(row[_PROMPT]))
        if _is_wanted(ListedRow(*(row[place] for place in _LISTED)), wanted):
            _take(conn, row, page)
        if count == PAGE_ROWS:
            page.more = True
            break
    return page


def _is_wanted(row: ListedRow, wanted: Callable[[ListedRow], bool] | None) -> bool:
    """A row that the filter could not look at is taken: it does not decode."""
    texts = (row.kind, row.status, row.scheduled_at, row.prompt)
    readable = all(isinstance(text, str) for text in texts)
    return wanted is None or not readable or wanted(row)


def _is_place(value: object) -> bool:
    """Whether a cursor can hold this target."""
    return isinstance(value, str) and len(value) <= len(_LONGEST_PLACE) and is_readable(value)


def _take(conn: sqlite3.Connection, row: Row, page: Page) -> None:
    reminder = read_reminder(row)
    if isinstance(reminder, BadRow):
        page.bad.append(reminder)
    else:
        page.items.append((reminder, beside(conn, reminder.number)))


def dispatches(
    conn: sqlite3.Connection,
    owner: int | None,
    number: int | None,
    session: str | None,
    before: int,
    limit: int,
) -> tuple[list[Dispatch], bool]:
    """Receipts, and whether there are more. See Reader.history."""
    name = "history_of_session" if number is None else "history_of_reminder"
    # No more is read than is taken, but for receipts that cannot be read and are left out.
    values = {"number": number, "session": session, "before": before, "count": -1}
    owners = _owners(conn, owner) if number is None else [owner]
    parts = [conn.execute(QUERIES[name], values | {"owner": each}) for each in owners]
    found: list[Dispatch] = []
    chars = 0
    with closing(heapq.merge(*parts, reverse=True)) as rows:
        for dispatch in filter(None, map(read_dispatch, rows)):
            if len(found) == limit or chars > PAGE_CHARS:
                return found, True
            found.append(dispatch)
            chars += len(dispatch.prompt)
    return found, False


def sessions(
    conn: sqlite3.Connection, owner: int | None, after: Place, now: Instant, limit: int
) -> list[SessionRow]:
    """Sessions by name and owner. See Reader.sessions.

    One with a name that is not UTF-8, in which all rows are set aside, cannot be named to anybody.
    """
    values: dict[str, Any] = {
        "after_session": after[0],
        "after_owner": after[1],
        "count": -1,
        "now": instant_text(now),
    }
    parts = [
        conn.execute(QUERIES["sessions_page"], values | {"owner": each})
        for each in _owners(conn, owner)
    ]
    with closing(heapq.merge(*parts, key=lambda row: (row[1], row[0]))) as rows:
        found = list(islice((row for row in rows if is_readable(row[1])), limit))
    return [_session(conn, row, values) for row in found]


def _session(conn: sqlite3.Connection, row: Row, values: dict[str, Any]) -> SessionRow:
    owner, session, active, paused, ended, set_aside, next_target_at = row
    overdue = value(conn, "overdue_of_session", values | of((owner, session)))
    at = target(next_target_at, lambda: [(owner, session)])
    runs = value(conn, "runs_of_session", of((owner, session)))
    return SessionRow((owner, session), active, paused, ended, set_aside, overdue, runs, at)


def _owners(conn: sqlite3.Connection, owner: int | None) -> list[int]:
    return [owner] if owner is not None else column(conn, "all_owners")


def _place_of_row(row: Row) -> Place:
    return str(row[_SCHEDULED_AT]), row[0]
