"""Locked, replaced, cut and damaged files under a daemon that runs, or before it starts.

Elsewhere: locks during operation, a long reader and SIGHUP (acceptance/test_foreign_sqlite.py),
what else lies in the database's place (acceptance/test_refusals_to_start.py), a newer schema and a
migration that fails half way, with the copy beside it (store/test_migrate.py), bad rows
(test_bad_rows.py).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import NewDaemon
from tests.acceptance.steps import make_soon, receipts, transaction
from tests.store.support import taken_by_another
from tests.support.peer import SILENCE, Peer, Refused
from tests.support.process import DaemonProcess

PAGE = 4096


QUIET_SECONDS = float(os.environ.get("SCHEDULER_DAEMON_TEST_QUIET_SECONDS", "4"))
"""How long a fault is left to repeat itself while the lines of the log are counted."""


def fault(peer: Peer) -> Any:
    """What status says of the file; a status that cannot be read is no false answer either."""
    try:
        return peer.call("daemon.status").get("last_persistence_error", {"code": None})
    except Refused as refused:
        return {"code": refused.code, "over": False}


def refused_create(peer: Peer) -> str:
    with pytest.raises(Refused) as refused:
        peer.create("s1", "refused", after_seconds=1000)
    return refused.value.code


def truly(peer: Peer, method: str, **params: object) -> Any:
    """What a call gives, None where it says that the file cannot be read."""
    try:
        return peer.call(method, **params)
    except Refused as refused:
        if refused.code != "persistence_failed":
            raise
        return None


def prompts(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as conn:
        return [each for (each,) in conn.execute("SELECT prompt FROM reminders ORDER BY number")]


def lines(daemon: DaemonProcess) -> list[str]:
    return list(daemon.logs[-1].lines)


def check_quiet(daemon: DaemonProcess, most: int = 20) -> None:
    """However often it fails, the log says it a few times, and never with a traceback."""
    before = len(lines(daemon))
    time.sleep(QUIET_SECONDS)
    new = lines(daemon)[before:]
    assert len(new) <= most, new
    assert not any("Traceback" in line for line in lines(daemon)), lines(daemon)


# --- the file goes away under the daemon


def delete(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("other"))
    path.with_name("other").rename(path)


def rename_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


@pytest.mark.parametrize("harm", [delete, rename, replace, rename_folder])
def test_nothing_is_acknowledged_once_the_file_is_not_in_its_place(
    daemon: DaemonProcess, harm: Callable[[Path], None]
) -> None:
    """Status says so before anybody tried to write; what is there can still be read."""
    peer = daemon.peer()
    made = peer.create("s1", "kept", after_seconds=1000)["id"]
    assert fault(peer)["code"] is None
    harm(daemon.database)
    assert fault(peer)["over"] is False
    for _ in range(30):
        assert refused_create(peer) == "persistence_failed"
    assert fault(peer)["code"] == "persistence_failed"
    assert "moved, deleted or replaced" in daemon.logged("database_failed")["reason"]
    assert peer.call("reminder.get", id=made)["reminder"]["prompt"] == "kept"
    check_quiet(daemon)
    assert len(daemon.events("database_failed")) < 10


@pytest.mark.parametrize("harm", [rename, rename_folder])
def test_a_file_that_is_put_back_is_written_again_without_a_restart(
    daemon: DaemonProcess, harm: Callable[[Path], None]
) -> None:
    peer, host = daemon.peer(), daemon.peer()
    host.reply = SILENCE
    host.attach(["s2"])
    due = make_soon(peer, "s2", "admitted meanwhile")
    followup = host.next_followup()
    harm(daemon.database)
    host.answer(followup)
    daemon.logged("receipt_not_written")
    refused_create(peer)
    if harm is rename:
        daemon.database.with_name("elsewhere.db").rename(daemon.database)
    else:
        daemon.state.with_name("elsewhere").rename(daemon.state)
    daemon.logged("followup_admitted")
    peer.create("s1", "after", after_seconds=1000)
    assert fault(peer)["over"] is True
    host.nothing_comes(0.3)
    daemon.restart()
    assert prompts(daemon.database) == ["admitted meanwhile", "after"]
    assert receipts(daemon, "s2") == followup.occurrences
    assert followup.reminders == [due]


def test_a_deleted_file_comes_back_from_a_backup(daemon: DaemonProcess, folder: Path) -> None:
    peer = daemon.peer()
    peer.create("s1", "kept", after_seconds=1000)
    words = ["--database", str(daemon.database)]
    assert daemon.schedctl("backup", str(folder / "b.db"), *words).returncode == 0
    delete(daemon.database)
    refused_create(peer)
    daemon.stop()
    assert daemon.schedctl("restore", str(folder / "b.db"), *words).returncode == 0
    daemon.start()
    daemon.peer().create("s1", "after", after_seconds=1000)
    assert prompts(daemon.database) == ["kept", "after"]


def test_a_file_made_read_only_is_written_on_and_a_restart_says_what_is_wrong(
    daemon: DaemonProcess,
) -> None:
    """Rights are asked for when a file is opened: what is acknowledged is stored."""
    peer = daemon.peer()
    peer.create("s1", "before", after_seconds=1000)
    daemon.database.chmod(0o400)
    peer.create("s1", "after", after_seconds=1000)
    assert prompts(daemon.database) == ["before", "after"]
    daemon.kill()
    if os.geteuid():
        refused = daemon.refused()
        assert refused.returncode == 1
        assert str(daemon.database) in refused.stderr
    daemon.database.chmod(0o600)
    daemon.start()
    assert prompts(daemon.database) == ["before", "after"]


# --- the file is cut off or damaged


def many(daemon: DaemonProcess, count: int = 300) -> Peer:
    """A daemon with a file of some hundred pages, all of them in the database itself."""
    peer = daemon.peer()
    for number in range(count):
        peer.create(f"s{number}", f"{number} " + "x" * 1500, after_seconds=100_000)
    daemon.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return peer


@pytest.mark.parametrize("left", [0.0, 0.5])
def test_nothing_is_acknowledged_once_the_file_is_cut_off(
    daemon: DaemonProcess, left: float
) -> None:
    peer = many(daemon)
    os.truncate(daemon.database, int(daemon.database.stat().st_size * left) // PAGE * PAGE)
    for _ in range(10):
        assert refused_create(peer) == "persistence_failed"
    assert fault(peer)["over"] is False
    check_quiet(daemon)
    daemon.kill()
    assert daemon.schedctl("doctor", "--database", str(daemon.database)).returncode == 1


def pages_of(path: Path, name: str) -> list[int]:
    """The pages of a table or an index, from 0, the root first."""
    with closing(sqlite3.connect(path)) as conn:
        try:
            rows = conn.execute("SELECT pageno FROM dbstat WHERE name = ? ORDER BY path", (name,))
            return [number - 1 for (number,) in rows]
        except sqlite3.OperationalError:  # built without it
            sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
            return [number - 1 for (number,) in conn.execute(sql, (name,))]


@pytest.mark.parametrize("where", ["reminders", "sessions", "reminders_due", "header"])
@pytest.mark.parametrize("running", [True, False], ids=["running", "starting"])
def test_a_damaged_page_is_told_and_answered_truly(
    daemon: DaemonProcess, where: str, running: bool
) -> None:
    """What is answered is right or persistence_failed; a start that cannot be says so in a line."""
    many(daemon)
    page = 0 if where == "header" else pages_of(daemon.database, where)[-1]
    if not running:
        daemon.kill()
        daemon.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    with daemon.database.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(b"\xa5" * PAGE)
    if not running:
        daemon.begin()
        ended = daemon.logs[-1].wait(
            lambda line: "daemon_started" in line or line.startswith("scheduler-daemon: ")
        )
        if "daemon_started" not in ended:
            return
    peer = daemon.peer()
    told = set()
    for number in range(300):
        found = truly(peer, "reminder.get", id=f"r{number + 1}")
        told.add(found["reminder"]["prompt"] if found else None)
    assert told <= {f"{number} " + "x" * 1500 for number in range(300)} | {None}
    for call in ("daemon.status", "session.list", "reminder.list"):
        truly(peer, call)
    check_quiet(daemon)
    daemon.kill()
    found = daemon.schedctl("doctor", "--database", str(daemon.database))
    assert found.returncode == 1
    assert "Traceback" not in found.stderr


# --- the log of writes


def test_a_torn_log_of_writes_is_noticed_though_sqlite_reads_on(daemon: DaemonProcess) -> None:
    """What is in it behind the tear is gone, and the next start says that something is."""
    peer = daemon.peer()
    for number in range(20):
        peer.create("s1", f"{number}", after_seconds=1000)
    daemon.kill()
    log = daemon.database.with_name("scheduler.db-wal")
    with log.open("r+b") as file:
        file.seek(log.stat().st_size * 3 // 4)
        file.write(b"\xff" * 64)
    daemon.start()
    lost = daemon.logged("writes_lost")
    assert lost["pages"] > 0
    peer = daemon.peer()
    assert fault(peer)["code"] == "persistence_uncertain"
    left = prompts(daemon.database)
    assert left == [str(number) for number in range(len(left))]
    assert len(left) < 20
    assert daemon.schedctl("status", "--check").returncode == 2  # nothing was written since
    peer.create("s1", "after", after_seconds=1000)
    assert daemon.schedctl("status", "--check").returncode == 1
    daemon.restart()
    assert len(daemon.events("writes_lost")) == 1


def test_doctor_sees_the_tear_too_when_it_comes_first(daemon: DaemonProcess) -> None:
    peer = daemon.peer()
    for number in range(20):
        peer.create("s1", f"{number}", after_seconds=1000)
    daemon.kill()
    log = daemon.database.with_name("scheduler.db-wal")
    with log.open("r+b") as file:
        file.seek(log.stat().st_size * 3 // 4)
        file.write(b"\xff" * 64)
    words = ["doctor", "--database", str(daemon.database)]
    found = daemon.schedctl(*words)
    assert found.returncode == 1
    assert found.stdout.startswith("problem: the log of writes was damaged")
    assert daemon.schedctl(*words).returncode == 0  # only those who open it first can see it


def test_a_kill_without_a_tear_is_no_loss(daemon: DaemonProcess) -> None:
    for _ in range(3):
        daemon.peer().create("s1", "kept", after_seconds=1000)
        daemon.restart()
    daemon.stop()
    daemon.start()
    assert daemon.events("writes_lost") == []


def test_a_long_reader_lets_the_log_grow_and_it_is_given_back_afterwards(
    daemon: DaemonProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody waits for it; what the log takes beyond its bound goes with the next writes."""
    peer = daemon.peer()
    log = daemon.database.with_name("scheduler.db-wal")
    sizes = []
    with transaction(daemon, "DEFERRED"):
        for _ in range(3):
            for _ in range(100):
                peer.create("s1", "x" * 1500, after_seconds=1000)
            sizes.append(log.stat().st_size)
        assert sizes == sorted(set(sizes))
    grown = (sizes[-1] - sizes[0]) / 200
    for _ in range(20):
        peer.create("s1", "x" * 1500, after_seconds=1000)
    after = log.stat().st_size
    with capsys.disabled():
        print(f"\na reader pins the log: {grown / 1024:.0f} KiB a creation; {sizes}, then {after}")
    assert after <= sizes[-1] + 20 * grown
    size = log.stat().st_size
    for _ in range(100):
        peer.create("s2", "x" * 1500, after_seconds=1000)
    assert log.stat().st_size <= size + 4 * (1 << 20)


# --- the lock at the start


def test_a_start_waits_for_the_lock_as_long_as_it_is_held(new_daemon: NewDaemon) -> None:
    """Longer than a request would; it says so, and serves when the lock is free."""
    daemon = new_daemon({"write_wait_seconds": 0.2}).start()
    made = daemon.peer().create("s1", "words", after_seconds=1000)["id"]
    daemon.stop()
    with transaction(daemon, "IMMEDIATE"):
        daemon.begin()
        daemon.logged("waiting_for_lock")
        time.sleep(1.0)
        assert not daemon.events("daemon_started")[1:]
    daemon.logged("daemon_started")
    assert daemon.peer().call("reminder.get", id=made)["reminder"]["prompt"] == "words"
    check_quiet(daemon)


def test_a_start_waits_for_a_program_that_lets_nobody_read(new_daemon: NewDaemon) -> None:
    """It says so; no migration is pending, and none is spoken of."""
    daemon = new_daemon().start()
    made = daemon.peer().create("s1", "words", after_seconds=1000)["id"]
    daemon.stop()
    with taken_by_another(daemon.database):
        daemon.begin()
        daemon.logged("waiting_for_lock")
        assert not daemon.events("daemon_started")[1:]
    daemon.logged("daemon_started")
    assert daemon.peer().call("reminder.get", id=made)["reminder"]["prompt"] == "words"


def test_a_start_that_waits_until_it_may_read_can_be_stopped(new_daemon: NewDaemon) -> None:
    daemon = new_daemon().start()
    daemon.stop()
    with taken_by_another(daemon.database):
        daemon.begin()
        daemon.logged("waiting_for_lock")
        assert daemon.stop() == 0


def test_a_start_that_waits_for_the_lock_can_be_stopped(new_daemon: NewDaemon) -> None:
    daemon = new_daemon({"write_wait_seconds": 0.2}).start()
    daemon.stop()
    with transaction(daemon, "IMMEDIATE"):
        daemon.begin()
        daemon.logged("waiting_for_lock")
        assert daemon.stop() == 0
