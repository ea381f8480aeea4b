"""Whether a database is whole: its pages, its indexes, its schema; not what its rows say."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from scheduler_daemon.store.database import DatabaseRefused, open_file
from scheduler_daemon.store.migrate import check_whole, known, pending

UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What a damaged file raises; the latter where SQLite's own words quote bytes of it."""

_OF_ROWS = (
    *("CHECK constraint failed", "NULL value in", "NUMERIC value in", "TEXT value in"),
    *("non-TEXT value", "non-INTEGER value", "non-REAL value", "non-BLOB value"),
)


def check(copy: Path, original: Path) -> None:
    """Refuse a file that is damaged, or that this version cannot bring to its schema.

    A row that breaks a rule is no damage: the daemon sets it aside.
    """
    migrations = known()
    try:
        with closing(open_file(copy)) as conn:
            if bad := damage(conn):
                raise DatabaseRefused(f"{original} is damaged: {bad[0]}")
            todo = pending(conn, migrations)
            if len(todo) == len(migrations):
                raise DatabaseRefused(f"{original} holds nothing")
            if not todo:
                check_whole(conn, migrations)
    except UNREADABLE as error:
        raise DatabaseRefused(f"{original} is damaged: {error}") from None


def damage(conn: sqlite3.Connection) -> list[str]:
    """What SQLite finds damaged; that rows break rules is not (a hand wrote them)."""
    lines = [line for (line,) in conn.execute("PRAGMA integrity_check(1000)")]
    return [line for line in lines if line != "ok" and not line.startswith(_OF_ROWS)]
