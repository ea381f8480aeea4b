"""Databases of any size, made by the real migrations and then written directly.

The indexes and triggers of the schema are there afterwards as they were; what the triggers would
have counted is counted in one go.
"""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scheduler_daemon.model import Instant, Rule
from scheduler_daemon.rules import first, instant_text, parse_rule
from scheduler_daemon.store.database import create_file, settle
from scheduler_daemon.store.migrate import migrate
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import rule_columns

PROMPT = "Look whether the build of the main branch is green, and say what broke it if it is not."

RECURRING: tuple[dict[str, object], ...] = (
    {"every_seconds": 3600},
    {"daily": {"time": "09:00", "time_zone": "Europe/Berlin"}},
    {"weekly": {"time": "17:30", "time_zone": "America/New_York", "weekdays": [1, 2, 3, 4, 5]}},
    {"cron": {"expression": "*/15 9-17 * * mon-fri", "time_zone": "Asia/Tokyo"}},
)
"""One selector of each kind that recurs; stores are filled with all of them in turn."""


@dataclass(frozen=True, slots=True)
class Row:
    """A reminder to store: its rule counts from `after`, and is due at `target`."""

    session: str
    rule: Rule
    after: Instant
    target: Instant


@dataclass(frozen=True, slots=True)
class Many:
    """`count` reminders like those of `samples`, in turns, over `sessions` Sessions `prefix-N`."""

    prefix: str
    sessions: int
    count: int
    samples: Sequence[Row]


def now() -> Instant:
    """The wall clock in whole milliseconds."""
    at = dt.datetime.now(dt.UTC)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def recurring(after: Instant) -> list[Row]:
    """A reminder of every recurring kind, as if made at `after`."""
    rows = []
    for selector in RECURRING:
        rule = parse_rule(selector, after)
        target = first(rule, after)
        assert target is not None
        rows.append(Row("sample", rule, after, target))
    return rows


def one_shot(session: str, after: Instant, target: Instant) -> Row:
    """A reminder made at `after` that is due once."""
    return Row(session, parse_rule({"at": instant_text(target)}, after), after, target)


def fill(path: Path, *wanted: Many | Row) -> None:
    """Make the database where it is missing, and put the reminders into it."""
    if not path.exists():
        create_file(path)
        migrate(path, instant_text(now()))
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        settle(conn)
        conn.execute("PRAGMA synchronous = OFF")
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute("PRAGMA cache_size = -200000")
        conn.execute("BEGIN")
        with _bare(conn):
            _insert(conn, [row for row in wanted if isinstance(row, Row)])
            for many in wanted:
                if isinstance(many, Many):
                    _insert_many(conn, many)
            conn.execute("DELETE FROM sessions")
            conn.execute("DELETE FROM owners")
            conn.execute(_COUNT_SESSIONS)
            conn.execute(_COUNT_OWNERS)
        conn.execute("COMMIT")
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("rb") as file:
        os.fsync(file.fileno())  # what the kernel still has to write must not fall on a run


def _insert(conn: sqlite3.Connection, rows: Sequence[Row]) -> None:
    conn.executemany(QUERIES["insert_reminder"], map(_values, rows))


def _insert_many(conn: sqlite3.Connection, many: Many) -> None:
    (last,) = conn.execute("SELECT coalesce(max(number), 0) FROM reminders").fetchone()
    _insert(conn, many.samples)
    columns = list(_values(many.samples[0]))
    renamed = {"session_id": ":prefix || '-' || (i % :sessions)"}
    copied = ", ".join(renamed.get(column, column) for column in columns)
    conn.execute(
        f"""
        INSERT INTO reminders ({", ".join(columns)})
        WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < :count - 1)
        SELECT {copied} FROM n CROSS JOIN reminders ON number = :first + i % :samples""",
        {
            "prefix": many.prefix,
            "sessions": many.sessions,
            "count": many.count,
            "first": last + 1,
            "samples": len(many.samples),
        },
    )
    conn.execute(
        "DELETE FROM reminders WHERE number BETWEEN ? AND ?", (last + 1, last + len(many.samples))
    )


_COUNT_SESSIONS = """
INSERT INTO sessions (owner_uid, session_id, next_target_at, active)
SELECT owner_uid, session_id, min(scheduled_at), count(*) FROM reminders GROUP BY 1, 2"""
_COUNT_OWNERS = """
INSERT INTO owners (owner_uid, active) SELECT owner_uid, count(*) FROM reminders GROUP BY 1"""


@contextmanager
def _bare(conn: sqlite3.Connection) -> Iterator[None]:
    """The tables without their triggers and indexes, which are put back at the end."""
    of_ours = "SELECT type, name, sql FROM sqlite_master WHERE type IN ('index', 'trigger')"
    found = conn.execute(f"{of_ours} AND tbl_name = 'reminders' AND sql IS NOT NULL").fetchall()
    for kind, name, _ in found:
        conn.execute(f"DROP {kind} {name}")
    yield
    for _, _, sql in found:
        conn.execute(sql)


def _values(row: Row) -> dict[str, object]:
    after = instant_text(row.after)
    return rule_columns(row.rule, row.target) | {
        "owner_uid": os.getuid(),
        "session_id": row.session,
        "title": None,
        "prompt": PROMPT,
        "context": None,
        "after_at": after,
        "computed_at": after,
        "created_at": after,
        "snoozed_from": None,
        "until_at": None,
        "max_occurrences": None,
        "expires_after_seconds": None,
    }
