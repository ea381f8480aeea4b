"""Where a daemon cannot start it says so in one line, fails, and leaves everything as it was."""

from __future__ import annotations

import ctypes
import hashlib
import os
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from scheduler_daemon.store.database import create_file
from scheduler_daemon.store.migrate import migrate
from tests.acceptance.conftest import NewDaemon
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

Prepare = Callable[[Path], None]


def said(ended: subprocess.CompletedProcess[str]) -> str:
    """The one plain line on stderr of a start that failed."""
    assert ended.returncode == 1, ended
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("scheduler-daemon: ")
    return line


def contents(folder: Path) -> dict[str, str]:
    """What lies in a folder, with a checksum of each file."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"
        for path in folder.iterdir()
    }


# --- two daemons


def test_a_second_daemon_on_the_same_file_is_told_who_holds_it(
    daemon: DaemonProcess, new_daemon: NewDaemon
) -> None:
    made = daemon.peer().create("s1", "words", after_seconds=1000)
    second = new_daemon(socket=daemon.folder / "other.sock")
    line = said(second.refused())
    assert f"process {daemon.pid}" in line
    assert not second.socket.exists()
    assert daemon.peer().call("reminder.get", id=made["id"])["reminder"]["prompt"] == "words"


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_second_daemon_that_comes_to_the_same_file_by_a_link_is_refused_too(
    daemon: DaemonProcess, new_daemon: NewDaemon, what: str
) -> None:
    other = daemon.folder / "other"
    if what == "folder":
        other.symlink_to(daemon.state)
    else:
        other.mkdir()
        (other / "scheduler.db").symlink_to(daemon.database)
    second = new_daemon(state=other, socket=daemon.folder / "other.sock")
    assert f"process {daemon.pid}" in said(second.refused())
    daemon.stop()
    second.start().peer().create("s1", "words", after_seconds=1000)
    assert daemon.sql("SELECT prompt FROM reminders") == [("words",)]


def test_a_second_daemon_on_the_same_socket_path_is_refused_and_the_first_goes_on(
    daemon: DaemonProcess, new_daemon: NewDaemon
) -> None:
    peer = daemon.peer()
    before = daemon.socket.stat().st_ino
    second = new_daemon(state=daemon.folder / "other")
    assert str(daemon.socket) in said(second.refused())
    assert daemon.socket.stat().st_ino == before
    peer.create("s1", "words", after_seconds=1000)
    assert len(daemon.peer().call("reminder.list")["items"]) == 1


def test_of_several_that_start_at_once_one_serves(new_daemon: NewDaemon) -> None:
    """On one file and one socket path."""
    daemons = [new_daemon() for _ in range(3)]
    processes = [
        subprocess.Popen(
            each.command(),
            env=each.environ,
            cwd=each.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for each in daemons
    ]
    try:
        refused = wait_for_all_but_one(processes)
        daemons[0].peer().create("s1", "words", after_seconds=1000)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    for line in refused:
        assert line.startswith("scheduler-daemon: ")
        assert line.count("\n") == 1


def wait_for_all_but_one(processes: list[subprocess.Popen[bytes]]) -> list[str]:
    """What those said that ended; the one that goes on has said that it started."""
    refused = []
    running = []
    for process in processes:
        assert process.stderr is not None
        line = process.stderr.readline().decode()
        if "daemon_started" in line:
            running.append(process)
        else:
            refused.append(line + process.stderr.read().decode())
            assert process.wait(60) == 1
    (serving,) = running
    assert serving.poll() is None
    return refused


# --- what lies at the socket's path


def test_a_stale_socket_is_replaced(new_daemon: NewDaemon) -> None:
    daemon = new_daemon()
    with closing(socket.socket(socket.AF_UNIX)) as stale:
        stale.bind(str(daemon.socket))
    daemon.start().peer().create("s1", "words", after_seconds=1000)
    daemon.kill()
    assert stat.S_ISSOCK(daemon.socket.stat().st_mode)
    assert len(daemon.start().peer().call("reminder.list")["items"]) == 1
    assert daemon.stop() == 0
    assert not daemon.socket.exists()


def test_a_file_at_the_sockets_path_is_left_as_it_is(new_daemon: NewDaemon) -> None:
    daemon = new_daemon()
    daemon.socket.write_text("mine")
    assert str(daemon.socket) in said(daemon.refused())
    assert daemon.socket.read_text() == "mine"


def test_a_socket_on_which_something_else_listens_is_left_to_it(new_daemon: NewDaemon) -> None:
    daemon = new_daemon()
    with closing(socket.socket(socket.AF_UNIX)) as other:
        other.bind(str(daemon.socket))
        other.listen()
        said(daemon.refused())
        with closing(socket.socket(socket.AF_UNIX)) as client:
            client.connect(str(daemon.socket))


# --- folders that cannot be written


@contextmanager
def read_only(daemon: DaemonProcess, folder: Path) -> Iterator[None]:
    """Let the daemon, which may be root's, find a folder that it may not write in."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o500)
    if os.getuid() == 0:
        daemon.wrapper = [sys.executable, "-I", "-c", _WITHOUT_OVERRIDE]
        if ctypes.CDLL(None).prctl(_PR_CAPBSET_READ, _CAP_SETPCAP) != 1:
            pytest.skip("this root may not give up its right to write everywhere")
    try:
        yield
    finally:
        folder.chmod(0o700)


_PR_CAPBSET_READ, _CAP_SETPCAP = 23, 8
_WITHOUT_OVERRIDE = """
import ctypes, os, sys
for capability in (1, 2): # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    if ctypes.CDLL(None).prctl(24, capability, 0, 0, 0): # PR_CAPBSET_DROP
        sys.exit("capability not dropped")
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_state_folder_that_is_read_only_is_named(new_daemon: NewDaemon) -> None:
    daemon = new_daemon()
    with read_only(daemon, daemon.state):
        assert str(daemon.state) in said(daemon.refused())
        assert contents(daemon.state) == {}


def test_a_database_in_a_folder_that_became_read_only_is_left_as_it_is(
    daemon: DaemonProcess,
) -> None:
    daemon.peer().create("s1", "words", after_seconds=1000)
    daemon.kill()
    before = contents(daemon.state)
    with read_only(daemon, daemon.state):
        for path in daemon.state.iterdir():
            path.chmod(0o400)
        said(daemon.refused())
        assert contents(daemon.state) == before
        for path in daemon.state.iterdir():
            path.chmod(0o600)
    assert len(daemon.start().peer().call("reminder.list")["items"]) == 1


def test_a_socket_folder_that_is_read_only_is_named(new_daemon: NewDaemon, folder: Path) -> None:
    daemon = new_daemon(socket=folder / "run" / "s.sock")
    with read_only(daemon, folder / "run"):
        assert str(folder / "run") in said(daemon.refused())


# --- what lies in the database's place


def text(path: Path) -> None:
    path.write_text("my notes\n" * 10_000)


def magic_and_noise(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 400)


def other_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE photos (name TEXT)")
        conn.executemany("INSERT INTO photos VALUES (?)", [("a.jpg",)] * 1000)
        conn.commit()


def crashed_other_program(path: Path) -> None:
    """With a log of writes that it left behind when it died."""
    original = path.with_name("original")
    with closing(sqlite3.connect(original)) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("CREATE TABLE photos (name TEXT)")
        conn.commit()
        for suffix in ("", "-wal"):
            path.with_name(path.name + suffix).write_bytes(
                original.with_name("original" + suffix).read_bytes()
            )
    original.unlink()


def newer_version(path: Path) -> None:
    ours(path, "PRAGMA user_version = 99")


def other_history(path: Path) -> None:
    ours(path, "UPDATE migrations SET checksum = 'other'")


def ours(path: Path, change: str) -> None:
    """A database of this program, changed by hand."""
    create_file(path)
    migrate(path, "2026-01-01T00:00:00.000Z")
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute(change)
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def cut_short(path: Path) -> None:
    """Only the first page is left: the schema is there, the tables are not."""
    ours(path, "PRAGMA user_version = 1")
    os.truncate(path, 4096)


def pipe(path: Path) -> None:
    os.mkfifo(path)


WRONG: list[Prepare] = [
    text,
    magic_and_noise,
    other_program,
    crashed_other_program,
    newer_version,
    other_history,
    cut_short,
    pipe,
]


@pytest.mark.parametrize("prepare", WRONG, ids=lambda prepare: prepare.__name__)
def test_a_wrong_file_in_place_of_the_database_is_left_as_it_is(
    new_daemon: NewDaemon, prepare: Prepare
) -> None:
    daemon = new_daemon()
    daemon.state.mkdir(mode=0o700)
    prepare(daemon.database)
    before = contents(daemon.state)
    said(daemon.refused())
    after = contents(daemon.state)
    after.pop("scheduler.db.lock", None)
    before.pop("scheduler.db.lock", None)
    assert after == before
    assert not daemon.socket.exists()
