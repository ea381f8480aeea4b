"""A disk that fails on purpose under SQLite: `disk.c` preloaded into the daemon, and told what."""

from __future__ import annotations

import errno
import mmap
import shutil
import signal
import sqlite3
import struct
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.process import DaemonProcess

WRITE, SYNC, TRUNCATE = 1, 2, 4
MAIN, LOG, COPY = 1, 2, 4
EVER = 1 << 40
_NUMBERS = struct.Struct("7q")


def compiled(folder: Path) -> Path:
    """The library that is preloaded; skips where nothing compiles it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("this machine has no C compiler to make a failing disk with")
    library = folder / "disk.so"
    source = Path(__file__).with_name("disk.c")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return library


class Disk:
    """The disk of one daemon. What `fails` begins, `heals` or leaving the block ends."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._path = folder / "disk-control"
        self._path.write_bytes(bytes(4096))
        with self._path.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), 4096)
        self.environ = {"LD_PRELOAD": str(library), "DISK_CONTROL": str(self._path)}

    @property
    def hits(self) -> int:
        """How many calls failed since the fault began."""
        hits: int = _NUMBERS.unpack_from(self._control)[-1]
        return hits

    @contextmanager
    def fails(
        self,
        ops: int = WRITE | SYNC | TRUNCATE,
        *,
        files: int = MAIN | LOG,
        error: int = errno.EIO,
        after: int = 0,
        times: int = EVER,
        short: bool = False,
    ) -> Iterator[None]:
        """Calls of `ops` on `files` fail: so many after the first `after`.

        `short`: half of the data is written instead, which SQLite tries to complete.
        """
        _NUMBERS.pack_into(self._control, 0, 0, files, error, after, times, short, 0)
        self._control[0:8] = struct.pack("q", ops)
        try:
            yield
        finally:
            self.heals()

    def heals(self) -> None:
        self._control[0:8] = bytes(8)


def after_a_crash(daemon: DaemonProcess, folder: Path) -> Path:
    """What a restart would find: copies of the file and its log, taken while nothing runs."""
    daemon.freeze()
    try:
        copy = folder / "copy" / daemon.database.name
        shutil.rmtree(copy.parent, ignore_errors=True)
        copy.parent.mkdir()
        for end in ("", "-wal"):
            shutil.copy(f"{daemon.database}{end}", f"{copy}{end}")
    finally:
        daemon.signal(signal.SIGCONT)
    return copy


def prompts_in(database: Path, session: str = "s1") -> set[str]:
    """The prompts of a Session in a file that nobody has open; it must be whole."""
    with closing(sqlite3.connect(database)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = conn.execute("SELECT prompt FROM reminders WHERE session_id = ?", (session,))
        return {prompt for (prompt,) in rows}
