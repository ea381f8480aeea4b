"""Opening the file: who holds it, whether it is ours, and the two connections on it."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import aiosqlite

from scheduler_daemon.places import HOST_QUEUE_NAME, SETUP_NAME
from scheduler_daemon.store.lineage import HEADER_BYTES, log_is_foreign
from scheduler_daemon.ways import make, weak_spot

APPLICATION_ID = 0x73636864
"""`schd`, in the header of every database of ours."""

LOCK_STEP_SECONDS = 0.1
"""How long one attempt waits for another process's write lock."""

OPEN_SECONDS = 10.0
"""How long opening waits for one: at a start nobody else waits."""

LARGEST_LOG_BYTES = 64 << 20
"""What the log of writes keeps of the disk when nobody reads in it."""

REMEDY = "`schedctl restore FILE` puts a backup in its place, and keeps what is there"

_MAGIC = b"SQLite format 3\0"
_MARK = slice(68, 72)  # the application id (SQLite file format, 1.3)

_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EINVAL, errno.ESPIPE)
"""What a link, a folder, a socket and a pipe answer where a file is to be opened and cut."""

T = TypeVar("T")


class DatabaseRefused(Exception):
    """The file or its folder cannot be used; the message is one plain line for a person."""


class DatabaseHeld(DatabaseRefused):
    """A daemon holds the file."""


class DatabaseTaken(DatabaseRefused):
    """Another program keeps everybody else from the file; time mends it."""


class NotOurs(DatabaseRefused):
    """What lies there is a file, but no database of ours, or not with the log beside it."""


def is_of_the_file(error: Exception) -> bool:
    """Whether the file or its disk is at fault; a constraint or a defect is neither."""
    # DatabaseError itself stands for a damaged file, its other subclasses for what was asked.
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


def is_locked(error: Exception) -> bool:
    """Whether another connection holds the lock, which time mends."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def taken(path: Path) -> DatabaseTaken:
    """What is said of a file whose lock another program did not give up in time."""
    return DatabaseTaken(
        f"another program holds the database {path} and lets nobody else use it; nothing was "
        f"changed: end that program (`fuser {path}` names it) or try again later"
    )


def is_taken(path: Path) -> bool:
    """Whether another program lets nobody read the file (PRAGMA locking_mode = EXCLUSIVE).

    Asked at once and without a trace: who only reads leaves the log of writes as it lies there.
    """
    try:
        with closing(sqlite3.connect(_address(path, "mode=ro"), timeout=0, uri=True)) as conn:
            conn.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.Error as error:  # any other is said by who uses the file
        return is_locked(error)
    return False


def address_to_read(path: Path) -> str:
    """The `file:` address of a file that is only read, which may lie where nothing can be made.

    Without a log beside it nobody writes it, and then it is read as it lies there.
    """
    log = path.with_name(f"{path.name}-wal")
    writable = log.exists() or os.access(path.parent, os.W_OK)
    return _address(path, "mode=rw" if writable else "immutable=1")


def _address(path: Path, how: str) -> str:
    return f"file:{quote(str(path))}?{how}"


def copy_into(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy a whole database. OperationalError where `source` stays locked for its time-out."""

    def stepped(status: int, _remaining: int, _total: int) -> None:
        # `backup` itself would go on without end.
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = status
            raise error

    source.backup(target, progress=stepped)


def advice(error: sqlite3.Error) -> str:
    """What can be done about a file that is damaged, as the end of a message; else nothing."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return ""
    return f"; `schedctl doctor` looks through it, {REMEDY}"


class Lock:
    """Holds a database for one process, by `flock(2)` on a file beside it and on the file itself.

    The first says who holds it and is there before the database is. The second stands against
    another name of the same file (a hard link).
    """

    def __init__(self, path: Path) -> None:
        self._fds: list[int] = []
        try:
            fd = self._open(f"{path}.lock")
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(fd, 64, 0).decode(errors="replace").strip() or "unknown"
            self.release()
            raise DatabaseHeld(
                f"the database {path} is held by another scheduler-daemon (process {holder})"
            ) from None
        except OSError as error:
            self.release()
            if error.errno in _NO_FILE:
                raise DatabaseRefused(
                    f"{path}.lock is not a file; it was left as it is: take it away"
                ) from None
            raise DatabaseRefused(
                f"cannot write in the state directory {path.parent}: {error.strerror}; "
                "it must be a folder that this user may write"
            ) from None

    def hold_file(self, path: Path) -> None:
        """Hold the database itself, which must be there and not open yet."""
        try:
            fcntl.flock(self._open(str(path)), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DatabaseHeld(
                f"the database {path} is held by another scheduler-daemon under another name"
            ) from None

    def release(self) -> None:
        """Let go; only once SQLite has closed the file, whose locks would go with ours."""
        while self._fds:
            os.close(self._fds.pop())

    def _open(self, path: str) -> int:
        # No link is followed: what is behind one would be overwritten.
        how = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fds.append(os.open(path, how, 0o600))
        return self._fds[-1]


def examine(path: Path, remedy: str = f"; {REMEDY}") -> None:
    """Refuse what stands at `path` and is not a database of ours, without touching it.

    The header is read as bytes: SQLite itself would leave files beside it, and bring over a log
    that lies there. Every database of ours is marked there from its first page on (`create_file`);
    an empty file is what a start that was cut short leaves. `remedy` is what can be done about a
    file that is another's.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DatabaseRefused(f"{path} is not a file; it was left as it is")
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise DatabaseRefused(f"cannot read {path}: {error.strerror}") from None
    if not header:
        return
    if not header.startswith(_MAGIC):
        raise NotOurs(f"{path} is not an SQLite database; it was left as it is{remedy}")
    if header[_MARK] != APPLICATION_ID.to_bytes(4, "big"):
        raise NotOurs(f"{path} is the database of another program; it was left as it is{remedy}")
    if log_is_foreign(path):
        raise NotOurs(
            f"{path} was put in the place of another file, whose log of writes {path}-wal would be "
            "mixed into it; nothing was changed: put the other back, or move this one away and "
            "`schedctl restore` it"
        )


def make_private(path: Path, *, for_its_owner: bool = False) -> None:
    """Make the folder of the database, or make it private (0700) where it is this user's own.

    Its own is one that holds nothing else: the modes of /etc or of a home are no matter of ours.
    A folder in which others may replace what is there is left as it is and refused: one that
    everybody or a group writes in, one of another user but root, and one on the way to which others
    could replace a folder or a link (ways.py). With `for_its_owner` root
    works on the file of that user.
    """
    folder = path.parent
    try:
        make(folder, 0o700)
        found = folder.stat()
        if found.st_uid == os.geteuid() and is_alone(path):
            if found.st_mode & 0o077:
                folder.chmod(0o700)
        elif found.st_uid not in (os.geteuid(), 0) and not for_its_owner:
            raise DatabaseRefused(
                f"the state directory {folder} is that of uid {found.st_uid}; choose one that is "
                "this user's"
            )
        elif found.st_mode & 0o022:
            raise DatabaseRefused(
                f"others may write in the state directory {folder}; choose one that is this user's"
            )
        weak = weak_spot(folder, found.st_uid if for_its_owner else os.geteuid(), itself=False)
    except OSError as error:
        raise DatabaseRefused(
            f"cannot make the state directory {path.parent}: {error.strerror}"
        ) from None
    if weak is not None:
        raise DatabaseRefused(
            f"{weak}, on the way to the state directory {folder}: another could be put in its "
            "place; choose one below folders that only this user or root may write"
        )


def is_alone(path: Path) -> bool:
    """Whether the folder of a database holds only that and what this program's commands keep there.

    One that everybody writes in (sticky, /tmp) never does.
    """
    own = (path.name, HOST_QUEUE_NAME, SETUP_NAME)
    try:
        if path.parent.stat().st_mode & stat.S_ISVTX:
            return False
        return all(each.name.startswith(own) for each in path.parent.iterdir())
    except PermissionError:
        return False


def create_file(path: Path) -> None:
    """Make the file where it is missing, for its owner alone, and mark it as ours.

    SQLite gives its own files beside it the same mode.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            made = os.fstat(fd)
            if made.st_uid != os.geteuid():
                raise DatabaseRefused(
                    f"the database {path} belongs to uid {made.st_uid}, who could change it under "
                    "the daemon; it was left as it is: chown it, or choose another folder"
                )
            if made.st_mode & 0o077 and made.st_uid == os.geteuid():
                os.fchmod(fd, 0o600)  # every user's words are in it
        finally:
            os.close(fd)
        if made.st_size == 0:
            with closing(open_file(path)) as conn:
                conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    except OSError as error:
        raise DatabaseRefused(f"cannot open the database {path}: {error.strerror}") from None
    except sqlite3.Error as error:
        raise DatabaseRefused(f"cannot write the database {path}: {error}") from None


def open_file(path: Path | str) -> sqlite3.Connection:
    """A connection as SQLite gives it, but with explicit transactions; nothing is changed.

    A text is the file's `file:` address (sqlite.org/uri.html).

    Text that is no UTF-8 (an edit by hand) is read with surrogates in it, which no row of ours
    has: it fails where the row is decoded, not where a page of rows is read.
    """
    conn = sqlite3.connect(
        path, timeout=OPEN_SECONDS, isolation_level=None, uri=isinstance(path, str)
    )
    conn.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    return conn


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """A connection with the settings that durability rests on. DatabaseRefused where it cannot."""
    conn = None
    try:
        conn = open_file(path)
        settle(conn)
        conn.execute(f"PRAGMA query_only = {int(read_only)}")
        conn.execute(f"PRAGMA busy_timeout = {round(LOCK_STEP_SECONDS * 1000)}")
    except sqlite3.Error as error:
        if conn:
            conn.close()
        raise DatabaseRefused(f"cannot open the database {path}: {error}{advice(error)}") from None
    return conn


def settle(conn: sqlite3.Connection) -> None:
    """Write ahead, and to the disk at every commit."""
    (mode,) = conn.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise sqlite3.OperationalError("its file system cannot hold a write-ahead log")
    conn.execute("PRAGMA synchronous = FULL")
    # What a long reader made of the log is given back once it has gone.
    conn.execute(f"PRAGMA journal_size_limit = {LARGEST_LOG_BYTES}")
    conn.execute("PRAGMA foreign_keys = ON")


class Database(aiosqlite.Connection):
    """A connection on a thread of its own that runs whole functions there.

    aiosqlite's public calls cost one hop between threads per statement; a transaction of ours
    is one hop whatever it holds.
    """

    async def open(self) -> None:
        """Start the thread and open the file there; raises what opening it raises."""
        try:
            await self
        except BaseException:
            # The thread is told to end, but speaks to this loop once more before it does.
            await asyncio.to_thread(self._thread.join)
            raise

    async def run(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """Call `act` with the connection on its thread. When cancelled, it may still be run."""
        return await self._execute(act, self._conn)  # type: ignore[no-any-return,no-untyped-call]


async def open_database(path: Path, *, read_only: bool) -> Database:
    """Open a connection on its own thread; `close` ends the thread. DatabaseRefused."""
    database = Database(lambda: connect(path, read_only=read_only), iter_chunk_size=64)
    await database.open()
    return database
