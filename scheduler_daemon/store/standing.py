"""Whether the files that are open are still the ones that others see, and whole.

SQLite goes on writing into a file that was deleted, replaced or cut off, and reads on past a log of
writes that is torn, all without an error. What is opened here stays open until SQLite has closed
the file: to close any descriptor of it gives up SQLite's own locks (fcntl(2)).
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from scheduler_daemon.store.database import open_file
from scheduler_daemon.store.lineage import HEADER_BYTES, MARK_BYTES, Origin, is_foreign, noted, sign
from scheduler_daemon.store.log_file import (
    INDEX_BYTES,
    NO_PAGE,
    Log,
    indexed,
    is_another,
    is_broken,
    is_brought_over,
    last_page,
    said_by,
)
from scheduler_daemon.store.room import reserve

MOVED = "the database file was moved, deleted or replaced"
CUT_OFF = "the database file was cut off"
OVERWRITTEN = "the database file was overwritten with another"
LOG_CHANGED = "the log beside the database file was cut off or overwritten"

_PAGES = struct.Struct(">H10xI")
"""Page size and number of pages, from byte 16 of a database (SQLite file format, 1.3)."""

_READERS = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0x40000002, 510, 0)
"""The lock of whoever reads in a file (SQLite's os.h), as fcntl(2) takes it."""


class Standing:
    """The file, its log and the log's index as they were opened; `close` after SQLite."""

    def __init__(self, path: Path) -> None:
        self._paths = [path, *(path.with_name(f"{path.name}-{kind}") for kind in ("wal", "shm"))]
        self._fds: list[int] = []
        self._opened = self._look()
        self._file = self._open(path, os.O_RDWR)
        self._size = os.fstat(self._file).st_size if self._file is not None else 0
        self._index = self._open(self._paths[2], os.O_RDONLY)
        self._log = self._open(self._paths[1], os.O_RDONLY)
        self._mark = self._open(path.with_name(f"{path.name}.mark"), os.O_RDWR | os.O_CREAT)
        self._origin = noted(path)
        self._header = b""  # the last that was found to be right
        self._last: Log | None = None
        self._signed = self._signs = False

    def _open(self, path: Path, how: int) -> int | None:
        try:
            self._fds.append(os.open(path, how | os.O_CLOEXEC, 0o600))
        except OSError:  # what is wrong with the file is said elsewhere
            return None
        return self._fds[-1]

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())

    def keep(self) -> None:
        """Let SQLite close the file without bringing the log over, which would destroy it.

        It does so only where nobody else reads: this counts as somebody, until `close`.
        """
        if self._file is not None:
            with suppress(OSError):
                fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _READERS)

    def _look(self) -> list[tuple[int, int]] | None:
        try:
            return [(found.st_dev, found.st_ino) for found in map(Path.stat, self._paths)]
        except OSError:
            return None

    def wrong(self) -> str | None:
        """What is wrong with the files, None where nothing is."""
        if self._opened is None or self._look() != self._opened:
            return MOVED
        if self._is_cut_off():
            return CUT_OFF
        if self._is_log_another():
            return LOG_CHANGED
        return OVERWRITTEN if self._is_overwritten() else None

    def _is_log_another(self) -> bool:
        if self._log is None or self._index is None:
            return False
        return is_another(self._log, self._index, self._last)

    def _is_overwritten(self) -> bool:
        """Whether the file has a header that neither it had nor its log brought over."""
        if self._file is None or self._log is None or self._origin is None:
            return False
        header = os.pread(self._file, HEADER_BYTES, 0)
        if header != self._header and is_foreign(header, self._log, self._origin):
            return True
        self._header = header
        return False

    def _is_cut_off(self) -> bool:
        """Whether the file shrank, and not to the size that its header says.

        It may well be shorter than its header says: a page that was never written is in no log.
        Only a whole checkpoint makes it shrink, to exactly that size.
        """
        if self._file is None:
            return True
        size = os.fstat(self._file).st_size
        if size < self._size:
            header = os.pread(self._file, _PAGES.size, 16)
            if len(header) < _PAGES.size:
                return True
            page_size, pages = map(int, _PAGES.unpack(header))
            if size < pages * (65536 if page_size == 1 else page_size):
                return True
        self._size = size
        return False

    def prepare(self, conn: sqlite3.Connection) -> None:
        """Before a commit: let the file have room for it, and the first one be signed.

        Raises DiskFull.
        """
        self._signs = not self._signed and conn.total_changes > 0
        if self._signs:
            sign(conn)
        if self._file is not None:
            reserve(conn, self._file)

    def note(self) -> None:
        """What is in the log now, after a commit or a start: a later start sees when it is gone.

        The mark says what the index does, what the log's origin is (lineage.py) and which page was
        written last (log_file.py). It is not forced to the disk: after a kill in between, or when
        power fails, it may be older than the log, never newer.
        """
        self._signed |= self._signs
        if self._file is None or self._index is None or self._log is None or self._mark is None:
            return
        said = indexed(self._index)
        if said is None:
            return  # another program writes already: the mark stays behind
        self._last = said
        if self._origin is None or self._origin.salts != said.salts:
            self._origin = Origin(said.salts, os.pread(self._file, HEADER_BYTES, 0))
        with suppress(OSError):  # a full disk: it stays behind too
            page = last_page(self._log, said)
            os.pwrite(self._mark, said.note() + b"".join(self._origin) + page, 0)


def is_log_broken(path: Path) -> bool:
    """Whether a log is there that SQLite will not take.

    To be asked before anything opens the file: who does makes a log that is empty at first.
    """
    with suppress(OSError):  # what is wrong with the file is said by who uses it
        return is_broken(path.with_name(f"{path.name}-wal"))
    return False


def lost_frames(path: Path, *, log_was_broken: bool) -> int:
    """How many frames of its log a process noted before it was killed and are there no more.

    To be asked before anybody closes the file: who is the last empties the log.
    """
    mark = _first_bytes(path.with_name(f"{path.name}.mark"))
    noted = said_by(mark)
    if noted is None:
        return 0
    try:
        if log_was_broken:
            return 0 if is_brought_over(path, mark[MARK_BYTES:]) else noted.frames
        found = said_by(_recovered(path))
    except (OSError, sqlite3.Error):  # what is wrong with the file is said by who uses it
        return 0
    if found is None or found.salts != noted.salts:
        return 0  # another log: of this one all was in the file
    return max(0, noted.frames - found.frames)


def _recovered(path: Path) -> bytes:
    """The index of the log as SQLite makes it from what it can read there."""
    with ExitStack() as at_end:
        conn = at_end.enter_context(closing(open_file(path)))
        conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
        index = os.open(path.with_name(f"{path.name}-shm"), os.O_RDONLY | os.O_CLOEXEC)
        at_end.pop_all()
        at_end.callback(os.close, index)
        at_end.callback(conn.close)  # which comes first: it holds locks on that file
        return os.pread(index, INDEX_BYTES, 0)


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MARK_BYTES + len(NO_PAGE))
    except OSError:
        return b""
