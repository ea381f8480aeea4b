"""Opening the file: who holds it, whether it is ours, and the two connections on it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import aiosqlite

APPLICATION_ID = 0x73636864
"""`schd`, in the header of every database of ours."""

LOCK_STEP_SECONDS = 0.1
"""How long one attempt waits for another process's write lock."""

_MAGIC = b"SQLite format 3\0"

T = TypeVar("T")


class DatabaseRefused(Exception):
    """The file or its folder cannot be used; the message is one plain line for a person."""


class Lock:
    """Holds a database for one process, by `flock(2)` on a file beside it.

    Not on the database itself: closing any descriptor of it would drop SQLite's own locks.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DatabaseRefused(
                f"cannot write in the state directory {path.parent}: {error.strerror}; "
                "it must be a folder that this user may write"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._fd, 64, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise DatabaseRefused(
                f"the database {path} is held by another scheduler-daemon (process {holder})"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._fd)


def examine(path: Path) -> None:
    """Refuse a file that is there but is not a database of ours, without touching it.

    An empty file, or a database with nothing in it, is what a start that was cut short leaves.
    """
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
        if not head:
            return
        if head != _MAGIC:
            raise DatabaseRefused(f"{path} is not an SQLite database; it was left as it is")
        conn = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            (application_id,) = conn.execute("PRAGMA application_id").fetchone()
            (things,) = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
        finally:
            conn.close()
    except OSError as error:
        raise DatabaseRefused(f"cannot read {path}: {error.strerror}") from None
    except sqlite3.Error as error:
        raise DatabaseRefused(f"cannot read the database {path}: {error}") from None
    if application_id != APPLICATION_ID and things:
        raise DatabaseRefused(f"{path} is the database of another program; it was left as it is")


def make_private(path: Path) -> None:
    """Make the folder (0700) and the empty file (0600) where they are missing."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseRefused(
            f"cannot make the state directory {path.parent}: {error.strerror}"
        ) from None


def create_file(path: Path) -> None:
    """Create the database file readable for its owner alone; SQLite's own files follow its mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise DatabaseRefused(f"cannot open the database {path}: {error.strerror}") from None


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """A connection with the settings that durability rests on; transactions are explicit."""
    conn = sqlite3.connect(path, timeout=LOCK_STEP_SECONDS, isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("PRAGMA foreign_keys = ON")
    if read_only:
        conn.execute("PRAGMA query_only = ON")
    return conn


class Database(aiosqlite.Connection):
    """A connection on a thread of its own that runs whole functions there.

    aiosqlite's public calls cost one hop between threads per statement; a transaction of ours
    is one hop whatever it holds.
    """

    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Call `act` with the connection on its thread. When cancelled, it may still be run."""
        return await self._execute(act, self._conn)  # type: ignore[no-any-return,no-untyped-call]


async def open_database(path: Path, *, read_only: bool) -> Database:
    """Open a connection on its own thread; `close` ends the thread."""
    database = Database(lambda: connect(path, read_only=read_only), iter_chunk_size=64)
    await database
    return database


class Identity:
    """Which file a path named when it was opened.

    SQLite goes on writing into a file that was deleted or replaced, without an error.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = self._look()

    def _look(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def holds(self) -> bool:
        """Whether the path still names the file that is open."""
        return self._opened is not None and self._look() == self._opened
