"""Everything that holds words is its owner's alone, from the instant at which it is made."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.inprocess import needs_root
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

IN_ATTRIB = 0x4  # linux/inotify.h
_EVENT = struct.Struct("iIII")
_UMASK = "import os, sys; os.umask(0); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


class Changes:
    """Names of what had its mode or owner changed in folders, inotify(7).

    Made so and never changed: with a umask of 0 that means private from the first instant.
    """

    def __init__(self, *folders: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in folders:
            assert libc.inotify_add_watch(self._fd, os.fsencode(folder), IN_ATTRIB) >= 0

    def names(self) -> set[str]:
        """Also "" for a folder itself."""
        try:
            data = os.read(self._fd, 1 << 20)
        except BlockingIOError:
            return set()
        found = set()
        while data:
            _, _, _, length = _EVENT.unpack_from(data)
            name = data[_EVENT.size : _EVENT.size + length].rstrip(b"\0")
            found.add(os.fsdecode(name))
            data = data[_EVENT.size + length :]
        return found

    def close(self) -> None:
        os.close(self._fd)


@contextmanager
def watched(*folders: Path) -> Iterator[Changes]:
    changes = Changes(*folders)
    yield changes
    changes.close()


def open_to_all(process: DaemonProcess) -> DaemonProcess:
    """As a careless person starts it."""
    process.wrapper = [sys.executable, "-c", _UMASK]
    command = process.command
    process.command = lambda: [  # type: ignore[method-assign]
        word for place, word in enumerate(command()) if place != len(process.wrapper)
    ]
    return process


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.iterdir()}


def is_sqlites(name: str) -> bool:
    """SQLite makes its files with the mode of the database, and then sets that once more."""
    return name.endswith(("-wal", "-shm", "-journal"))


def test_files_of_the_daemon_are_private_from_their_first_instant(process: DaemonProcess) -> None:
    process.state.mkdir(mode=0o700)
    with watched(process.state) as changes:
        open_to_all(process).start()
        process.peer().create("s", "secret", after_seconds=90_000)
        found = modes(process.state)
        assert [name for name in changes.names() if not is_sqlites(name)] == []
    ends = ["", "-shm", "-wal", ".lock", ".mark"]
    assert found == {f"scheduler.db{end}": 0o600 for end in ends}


def test_what_schedctl_writes_is_private_from_its_first_instant(process: DaemonProcess) -> None:
    """Copies, exports, and what a restore leaves behind; a calendar is for others to read."""
    copies = process.folder / "copies"
    copies.mkdir(mode=0o755)
    process.start()
    process.peer().create("s", "secret", after_seconds=90_000)
    database = ["--database", str(process.database)]
    before = os.umask(0)
    try:
        with watched(copies) as changes:
            for verb in ("backup", "export"):
                for more in ([], ["--force"]):
                    done = process.schedctl(verb, str(copies / verb), *more, *database)
                    assert done.returncode == 0, done.stderr
            assert [name for name in changes.names() if not is_sqlites(name)] == []
        assert process.stop() == 0
        done = process.schedctl("restore", str(copies / "backup"), *database)
        assert done.returncode == 0, done.stderr
    finally:
        os.umask(before)
    found = modes(process.state) | modes(copies)
    assert {"backup", "export", "scheduler.db", "scheduler.db.lock"} <= found.keys()
    assert any(".replaced-" in name for name in found)
    assert set(found.values()) == {0o600}, found


def test_folders_are_private_and_so_is_the_socket(process: DaemonProcess, folder: Path) -> None:
    process.flags |= {"state_directory": folder / "a" / "state", "socket": folder / "b" / "s.sock"}
    open_to_all(process).begin()
    process.logged("daemon_started")
    assert modes(folder / "a")["state"] == 0o700
    assert modes(folder)["b"] == 0o700
    assert modes(folder / "b") == {"s.sock": 0o600}


@needs_root
def test_the_socket_of_one_group_is_that_groups_and_nobody_elses(
    folder: Path, process: DaemonProcess
) -> None:
    process.flags |= {"allowed_gids": "[60001]", "socket": folder / "run" / "s.sock"}
    open_to_all(process).begin()
    process.logged("daemon_started")
    found = (folder / "run" / "s.sock").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o660, 0, 60001)
    assert modes(folder)["run"] == 0o711
