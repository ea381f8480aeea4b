"""Small questions inside a transaction, and the values that statements take and give."""

from __future__ import annotations

import datetime as dt
import sqlite3
from typing import Any, NamedTuple

from scheduler_daemon.model import Dispatch, Instant, Key, Reminder
from scheduler_daemon.rules import instant_text, parse_instant_text
from scheduler_daemon.store.companions import read_dispatch
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import Row

Place = tuple[str, int]
"""Where a page ended: the target (empty where the order is by creation) and the number."""

START: Place = ("", 0)


def meta_value(conn: sqlite3.Connection, name: str) -> str | None:
    """A fact about the file itself."""
    fact: str | None = value(conn, "meta_value", {"name": name})
    return fact


def reminder_row(
    conn: sqlite3.Connection, number: int, owner: int | None, session: str | None
) -> Row | None:
    """The row of a reminder, one that is set aside too; None for owner or Session means any."""
    values = {"number": number, "owner": owner, "session": session}
    row: Row | None = conn.execute(QUERIES["reminder_by_number"], values).fetchone()
    return row


class Beside(NamedTuple):
    """What is shown with a reminder: its newest receipt, and how many runs by hand wait."""

    last_dispatch: Dispatch | None = None
    runs: int = 0


def beside(conn: sqlite3.Connection, number: int) -> Beside:
    """What is shown with a reminder."""
    return Beside(_last_dispatch(conn, number), value(conn, "runs_of_reminder", {"number": number}))


def _last_dispatch(conn: sqlite3.Connection, number: int) -> Dispatch | None:
    """The newest receipt of a reminder, when it can be read."""
    row = conn.execute(QUERIES["last_dispatch"], {"number": number}).fetchone()
    return read_dispatch(row) if row else None


def free_run_id(conn: sqlite3.Connection, number: int, at: Instant) -> str:
    """`r<number>@now-<instant>`, later by as many milliseconds as have one in the same."""
    while True:
        occurrence_id = f"r{number}@now-{instant_text(at)}"
        if value(conn, "run_id_taken", {"occurrence_id": occurrence_id}) is None:
            return occurrence_id
        at += dt.timedelta(milliseconds=1)


def place(reminder: Reminder) -> Place:
    """Where a reminder stands in the order of targets."""
    return instant_text(reminder.scheduled_at), reminder.number


def of(key: Key) -> dict[str, Any]:
    """A Session as statements take it."""
    return {"owner": key[0], "session": key[1]}


def after_values(place: Place, count: int) -> dict[str, Any]:
    """A place in the order of targets as statements take it."""
    return {"after_target": place[0], "after_number": place[1], "count": count}


def value(conn: sqlite3.Connection, name: str, values: dict[str, Any]) -> Any:
    """The only value of a statement that gives one row or none; None for none."""
    row = conn.execute(QUERIES[name], values).fetchone()
    return row[0] if row else None


def column(conn: sqlite3.Connection, name: str, values: dict[str, Any] | None = None) -> list[Any]:
    """The values of a statement that gives one in each row."""
    return [each for (each,) in conn.execute(QUERIES[name], values or {})]


def maybe_instant(text: str | None) -> Instant | None:
    """The instant of a canonical text, None for none."""
    return None if text is None else parse_instant_text(text)
