"""Numbered SQL files into the schema, each in one transaction with its checksum recorded."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from scheduler_daemon.store.database import (
    DatabaseRefused,
    advice,
    copy_into,
    is_locked,
    open_file,
    settle,
    taken,
)

COPIES_KEPT = 3

_LEDGER = """CREATE TABLE IF NOT EXISTS migrations (
  number     INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  checksum   TEXT NOT NULL,
  applied_at TEXT NOT NULL
) STRICT"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: `number` from its name, `checksum` the SHA-256 of its text."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def folder() -> Path:
    """Where the SQL files are: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def known(where: Path | None = None) -> list[Migration]:
    """Every migration of this version, by number; DatabaseRefused where there are none."""
    files = sorted((where or folder()).glob("[0-9][0-9][0-9][0-9]_*.sql"))
    if not files:
        raise DatabaseRefused("this installation lacks its migrations; install it again")
    return [Migration(int(f.name[:4]), f.stem, f.read_text(encoding="utf-8")) for f in files]


def pending(conn: sqlite3.Connection, migrations: list[Migration]) -> list[Migration]:
    """What the file lacks; DatabaseRefused where it is newer or has another history."""
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    newest = migrations[-1].number
    if version > newest:
        raise DatabaseRefused(
            f"the database has schema {version}, this program knows up to {newest}; "
            "use a newer scheduler-daemon, nothing was changed"
        )
    applied = _applied(conn)
    shared = [(m.number, m.checksum) for m in migrations[: len(applied)]]
    if applied != shared or version != (shared[-1][0] if shared else 0):
        raise DatabaseRefused(
            f"the database came to its schema {version} by other migrations than this program's; "
            "nothing was changed"
        )
    return migrations[len(applied) :]


def _applied(conn: sqlite3.Connection) -> list[tuple[int, str]]:
    if not conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").fetchone():
        return []
    return conn.execute("SELECT number, checksum FROM migrations ORDER BY number").fetchall()


def migrate(path: Path, now: str, migrations: list[Migration] | None = None) -> list[str]:
    """Bring the file at `path` to the newest schema; gives the names of what was applied.

    `now` is a canonical instant. Before the first migration of a file that has a schema, a copy
    is made beside it. All are applied in one transaction: where one fails the file is as it was,
    DatabaseRefused.
    """
    wanted = known() if migrations is None else migrations
    try:
        with closing(open_file(path)) as conn:
            todo = pending(conn, wanted)
            if todo:
                settle(conn)
                if len(todo) < len(wanted):
                    _copy(conn, path, wanted[-len(todo) - 1].number, now)
                _apply(conn, todo, now)
            check_whole(conn, wanted)
    except sqlite3.Error as error:
        if is_locked(error):
            raise taken(path) from None
        raise DatabaseRefused(
            f"cannot bring the database {path} to this schema: {error}{advice(error)}"
        ) from None
    except OSError as error:
        raise DatabaseRefused(
            f"cannot copy the database {path} before its schema changes: {error.strerror}"
        ) from None
    return [m.name for m in todo]


def _apply(conn: sqlite3.Connection, todo: list[Migration], now: str) -> None:
    conn.execute("BEGIN IMMEDIATE")
    try:
        conn.execute(_LEDGER)
        for migration in todo:
            for statement in statements(migration.sql):
                conn.execute(statement)
            conn.execute(
                "INSERT INTO migrations VALUES (?, ?, ?, ?)",
                (migration.number, migration.name, migration.checksum, now),
            )
        conn.execute(f"PRAGMA user_version = {todo[-1].number}")
        conn.execute("COMMIT")
    except sqlite3.Error:
        conn.rollback()
        raise


def check_whole(conn: sqlite3.Connection, migrations: list[Migration]) -> None:
    """Refuse a file that lacks a part of the schema; parts that somebody added are no matter."""
    with closing(sqlite3.connect(":memory:")) as model:
        for migration in migrations:
            model.executescript(migration.sql)
        lacking = _parts(model) - _parts(conn)
    if lacking:
        raise DatabaseRefused(
            f"the database lacks {', '.join(sorted(lacking))}; put a copy of it in its "
            "place (`schedctl restore`)"
        )


def differences(conn: sqlite3.Connection, migrations: list[Migration]) -> list[str]:
    """In what its schema differs from what the migrations make, a sentence each."""
    with closing(sqlite3.connect(":memory:")) as model:
        for migration in migrations:
            model.executescript(migration.sql)
        wanted = _texts(model)
    found = _texts(conn)
    return [
        f"its {name} {'is missing' if name not in found else 'was changed by hand'}"
        for name in wanted
        if found.get(name) != wanted[name]
    ]


def _texts(conn: sqlite3.Connection) -> dict[str, str | None]:
    rows = conn.execute("SELECT type || ' ' || name, sql FROM sqlite_master")
    return {name: text for name, text in rows if not name.startswith("index sqlite_")}


def _parts(conn: sqlite3.Connection) -> set[str]:
    return {f"{kind} {name}" for kind, name in conn.execute("SELECT type, name FROM sqlite_master")}


def statements(script: str) -> Iterator[str]:
    """The statements of a script. `executescript` would commit the open transaction first."""
    statement = ""
    for part in script.split(";"):
        statement += part
        if sqlite3.complete_statement(f"{statement};"):
            yield statement
            statement = ""
        else:  # the semicolon stands in a trigger, a string or a comment
            statement += ";"
    yield statement  # nothing, a comment, or what SQLite refuses as incomplete


def _copy(conn: sqlite3.Connection, path: Path, version: int, now: str) -> None:
    """A consistent copy named with the schema it has and the date; the newest three stay."""
    stamp = now[:19].replace("-", "").replace(":", "")
    copy = path.with_name(f"{path.name}.schema{version}-{stamp}Z")
    unfinished = path.with_name(f"{path.name}.copying")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with closing(sqlite3.connect(unfinished)) as target:
            copy_into(conn, target)
        unfinished.rename(copy)
    except BaseException:
        unfinished.unlink()
        raise
    copies = sorted(path.parent.glob(f"{escape(path.name)}.schema*Z"), key=lambda p: p.name[-16:])
    for old in copies[:-COPIES_KEPT]:
        old.unlink()
