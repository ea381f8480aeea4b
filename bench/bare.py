"""The floor: what SQLite itself takes for such rows on the same disk, as durable."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from time import perf_counter

from bench.fill import PROMPT
from scheduler_daemon.store.database import settle

_TABLE = """
CREATE TABLE IF NOT EXISTS reminders (
  number INTEGER PRIMARY KEY, session_id TEXT, prompt TEXT, kind TEXT, delay_seconds INTEGER,
  scheduled_at TEXT, after_at TEXT, computed_at TEXT, created_at TEXT)"""
_INSERT = """
INSERT INTO reminders (session_id, prompt, kind, delay_seconds, scheduled_at, after_at, computed_at,
  created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_AT = "2030-01-01T00:00:00.000Z"


def inserts(folder: Path, count: int, *, at_once: int) -> float:
    """Rows per second into a table without index, trigger or check, `at_once` in each commit."""
    with closing(sqlite3.connect(folder / "bare.db", isolation_level=None)) as conn:
        settle(conn)
        conn.execute(_TABLE)
        start = perf_counter()
        for first in range(0, count, at_once):
            conn.execute("BEGIN IMMEDIATE")
            for number in range(first, min(first + at_once, count)):
                row = (f"session-{number % 1000}", PROMPT, "after", 86_400, _AT, _AT, _AT, _AT)
                conn.execute(_INSERT, row)
            conn.execute("COMMIT")
        return count / (perf_counter() - start)
