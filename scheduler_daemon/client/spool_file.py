"""The file of a host's queue: its form, how it is opened, and its transactions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

APPLICATION_ID = int.from_bytes(b"sdhq")
VERSION = 1
SCHEMA = """
CREATE TABLE messages (
  number      INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id  TEXT NOT NULL,
  followup    TEXT NOT NULL CHECK (json_valid(followup)),
  state       TEXT NOT NULL DEFAULT 'queued'
    CHECK (state IN ('queued', 'running', 'done', 'failed', 'unknown', 'dropped')),
  waits       TEXT CHECK (waits IN ('busy', 'failed')), -- why it is queued again, and
  not_before  TEXT CHECK ((waits IS NULL) = (not_before IS NULL)), -- until when it pauses
  attempts    INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0), -- the one under way included
  failures    INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0), -- since a person let it try again
  reason      TEXT, -- of the last attempt that delivered nothing
  admitted_at TEXT NOT NULL,
  changed_at  TEXT NOT NULL
) STRICT;
CREATE INDEX unfinished ON messages (session_id) WHERE state IN ('queued', 'running');
CREATE INDEX ended ON messages (changed_at) WHERE state IN ('done', 'dropped');

-- What runs in its Session, or waits its turn there. After a failure it steps aside.
CREATE VIEW occupying AS SELECT number, session_id, state FROM messages
  WHERE state IN ('queued', 'running') AND waits IS NOT 'failed';

-- For knowing a repeat by: each under the first message that it came in.
CREATE TABLE occurrences (
  occurrence_id TEXT NOT NULL PRIMARY KEY,
  message       INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX of_message ON occurrences (message);

-- What the host that works on this queue is: one row of JSON.
CREATE TABLE host (about TEXT NOT NULL CHECK (json_valid(about))) STRICT;
"""


class SpoolRefused(Exception):
    """The file cannot be used; the message is one plain line for a person."""


def opened(path: Path) -> sqlite3.Connection:
    """A connection on the file, which is made with its folder where there is none.

    Both are for this user only. Raises SpoolRefused.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite would let the umask decide who may read.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        conn = sqlite3.connect(path, timeout=10, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise SpoolRefused(f"the queue {path} cannot be opened: {error}") from None
    try:
        _prepare(conn)
    except (SpoolRefused, sqlite3.Error) as error:
        conn.close()
        raise SpoolRefused(f"the queue {path} cannot be used: {error}") from None
    return conn


def _prepare(conn: sqlite3.Connection) -> None:
    _check(conn)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("PRAGMA foreign_keys = ON")
    with transaction(conn):
        (version,) = conn.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in SCHEMA.split(";\n"):
                conn.execute(statement)
            conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            conn.execute(f"PRAGMA user_version = {VERSION}")


def _check(conn: sqlite3.Connection) -> None:
    """Raises SpoolRefused for a database of others, which is left as it is."""
    (application,) = conn.execute("PRAGMA application_id").fetchone()
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    (tables,) = conn.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application != APPLICATION_ID and (application or tables):
        raise SpoolRefused("it is no queue of a host, and was left as it is")
    if version not in (0, VERSION):
        raise SpoolRefused(f"it has form {version}, and this program knows form {VERSION}")


@contextmanager
def transaction(conn: sqlite3.Connection) -> Iterator[None]:
    """All that is written inside is written, or nothing; others wait until then."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        yield
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:  # an error of the disk may have ended it
            conn.execute("ROLLBACK")
        raise
