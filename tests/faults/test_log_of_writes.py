"""The log of writes and its index cut off, emptied, put back or deleted by hand.

SQLite goes on without an error then, in a daemon that runs and in the next start after a kill.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.test_files import fault, prompts, refused_create
from tests.support.process import DaemonProcess


@pytest.fixture
def daemon(daemon: DaemonProcess) -> DaemonProcess:
    """It runs; three reminders are in its file, and none in its log."""
    for number in range(3):
        daemon.peer().create("s1", f"old {number}", after_seconds=1000)
    daemon.stop()
    return daemon.start()


def beside(daemon: DaemonProcess, kind: str) -> Path:
    return daemon.database.with_name(f"scheduler.db-{kind}")


def empty(daemon: DaemonProcess, _: Path) -> None:
    os.truncate(beside(daemon, "wal"), 0)


def halve(daemon: DaemonProcess, _: Path) -> None:
    os.truncate(beside(daemon, "wal"), beside(daemon, "wal").stat().st_size // 2)


def put_back_all(daemon: DaemonProcess, earlier: Path) -> None:
    for path in earlier.iterdir():
        if path.name.startswith("scheduler.db") and path.name != "scheduler.db.lock":
            shutil.copyfile(path, daemon.state / path.name)


def put_back_the_log(daemon: DaemonProcess, earlier: Path) -> None:
    shutil.copyfile(earlier / "scheduler.db-wal", beside(daemon, "wal"))


def delete_the_index(daemon: DaemonProcess, _: Path) -> None:
    beside(daemon, "shm").unlink()


@pytest.mark.parametrize("harm", [empty, halve, put_back_all, put_back_the_log, delete_the_index])
def test_nothing_is_acknowledged_once_its_log_is_another_and_the_file_outlives_it(
    daemon: DaemonProcess, folder: Path, harm: Callable[[DaemonProcess, Path], None]
) -> None:
    """An orderly stop brings no log over that is not whole: what was in the file stays."""
    peer = daemon.peer()
    peer.create("s1", "in the log", after_seconds=1000)
    shutil.copytree(daemon.state, folder / "earlier")
    peer.create("s1", "later", after_seconds=1000)
    harm(daemon, folder / "earlier")
    for _ in range(3):
        assert refused_create(peer) == "persistence_failed"
    assert fault(peer)["over"] is False
    daemon.stop()
    daemon.start()
    assert prompts(daemon.database)[:3] == ["old 0", "old 1", "old 2"]
    daemon.peer().create("s1", "after", after_seconds=1000)


def tear_the_first(log: Path) -> None:
    with log.open("r+b") as file:
        file.seek(17)
        file.write(b"\xff\xee")


def cut(log: Path) -> None:
    os.truncate(log, 0)


@pytest.mark.parametrize("harm", [tear_the_first, cut])
@pytest.mark.parametrize("first", ["start", "doctor"])
def test_a_log_that_has_lost_its_beginning_after_a_kill_is_told(
    daemon: DaemonProcess, harm: Callable[[Path], None], first: str
) -> None:
    daemon.peer().create("s1", "lost", after_seconds=1000)
    daemon.kill()
    harm(beside(daemon, "wal"))
    if first == "doctor":
        found = daemon.schedctl("doctor", "--database", str(daemon.database))
        assert found.stdout.startswith("problem: the log of writes was damaged")
        return
    daemon.start()
    assert daemon.logged("writes_lost")["pages"] > 0
    assert fault(daemon.peer())["code"] == "persistence_uncertain"


def test_a_log_that_was_brought_over_and_emptied_by_others_is_no_loss(
    daemon: DaemonProcess,
) -> None:
    """Before the kill or after it, while the daemon runs and goes on."""
    peer = daemon.peer()
    peer.create("s1", "kept", after_seconds=1000)
    daemon.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    assert fault(peer)["code"] is None
    peer.create("s1", "too", after_seconds=1000)
    daemon.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    daemon.kill()
    daemon.start()
    assert daemon.events("writes_lost") == []
    assert prompts(daemon.database) == ["old 0", "old 1", "old 2", "kept", "too"]
