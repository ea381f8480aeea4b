"""What the units of the system and of a user both promise, under a real systemd."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_daemon.store.database import create_file
from scheduler_daemon.store.migrate import known, migrate
from tests.support.peer import SILENCE, Peer
from tests.systemd.inside import LAUNCH, Unit, until

pytestmark = [pytest.mark.systemd, pytest.mark.acceptance]

_HANGS = """\
import signal, sys, time
from scheduler_daemon.__main__ import main
signal.signal(signal.SIGUSR1, lambda *_: time.sleep(3600))
sys.exit(main(sys.argv[1:]))
"""


def reminders(peer: Peer) -> dict[str, str]:
    """All there are, and what they say."""
    found = peer.call("reminder.list", limit=1000)["items"]
    return {each["id"]: each["prompt"] for each in found}


def test_it_is_started_once_it_serves_and_says_how_it_is(unit: Unit) -> None:
    unit.start()
    assert unit.is_active()
    assert unit.prop("Type") == "notify"
    host = unit.peer()
    host.attach(["s"])
    host.create("s", "words", at="2999-01-01T00:00:00Z")
    said = "next wake 2999-01-01T00:00:00.000Z; 0 overdue; 1 agent hosts connected"
    until(lambda: unit.prop("StatusText") == said)
    started = [e for e in unit.entries() if json.loads(e["MESSAGE"])["event"] == "daemon_started"]
    assert [entry["PRIORITY"] for entry in started] == ["6"]
    assert json.loads(started[0]["MESSAGE"])["database"] == f"{unit.state}/scheduler.db"


def test_whoever_connects_starts_it(unit: Unit) -> None:
    unit.ctl("start scheduler-daemon.socket")
    assert not unit.is_active()
    assert reminders(unit.peer()) == {}
    assert unit.is_active()


def test_killed_it_comes_back_with_all_that_was_answered_and_callers_wait(unit: Unit) -> None:
    unit.start()
    peer = unit.peer()
    made = {
        peer.create("s", f"words {n}", after_seconds=3600)["id"]: f"words {n}" for n in range(50)
    }
    unit.kill("KILL")
    peer.hung_up()
    assert reminders(unit.peer()) == made
    assert unit.prop("NRestarts") == "1"
    assert unit.prop("Result") == "success"


def test_its_socket_outlives_restarts_and_nobody_is_refused_meanwhile(unit: Unit) -> None:
    unit.start()
    inode = unit.inside.path(unit.socket).stat().st_ino
    answered, over = [], threading.Event()

    def knock() -> None:
        while not over.is_set():
            with closing(Peer(unit.inside.path(unit.socket))) as peer:
                try:
                    answered.append(peer.call("hello")["protocol"])
                except ConnectionError:  # it was taken, and then the daemon stopped
                    answered.append(None)

    knocking = threading.Thread(target=knock)
    knocking.start()
    try:
        for _ in range(3):
            unit.ctl("restart scheduler-daemon.service")
    finally:
        over.set()
        knocking.join()
    assert answered[-1] == 1
    assert answered.count(None) <= 3
    assert unit.inside.path(unit.socket).stat().st_ino == inode


def test_the_watchdog_ends_a_daemon_whose_loop_stands_still_and_it_comes_back(unit: Unit) -> None:
    unit.inside.write(
        "/usr/local/bin/hangs", f"{LAUNCH.removesuffix('-m ')}-c '{_HANGS}' \"$@\"\n", 0o755
    )
    command = unit.prop("ExecStart").partition("argv[]=scheduler-daemon ")[2].partition(" ;")[0]
    unit.more(f"[Service]\nWatchdogSec=3\nExecStart=\nExecStart=hangs {command}\n")
    unit.start()
    made = unit.peer().create("s", "words", after_seconds=3600)
    unit.kill("USR1")
    until(lambda: unit.prop("NRestarts") == "1")
    assert reminders(unit.peer()) == {made["id"]: "words"}
    log = unit.log()
    assert "Watchdog timeout" in log
    assert "code=dumped" not in log
    assert "code=killed, status=6/ABRT" in log


def test_it_stops_in_time_and_well_while_a_host_does_not_answer(unit: Unit) -> None:
    unit.inside.write(unit.config, "stop_timeout_seconds = 4\n")
    unit.more("[Service]\nTimeoutStopSec=1\n")  # the daemon asks for what it needs
    unit.start()
    host = unit.peer()
    host.reply = SILENCE
    host.attach(["s"])
    made = host.create("s", "words", after_seconds=1)
    host.next_followup("s")
    unit.ctl("stop scheduler-daemon.service")
    assert unit.prop("Result") == "success"
    assert "State 'stop-sigterm' timed out" not in unit.log()
    assert reminders(unit.peer()) == {made["id"]: "words"}


def test_a_reload_changes_what_can_change_and_names_the_rest(unit: Unit) -> None:
    unit.inside.write(unit.config, "max_prompt_chars = 5\n")
    unit.start()
    pid = unit.prop("MainPID")
    unit.inside.write(unit.config, 'max_prompt_chars = 6\nsocket = "/run/else"\n')
    unit.ctl("reload scheduler-daemon.service")
    until(lambda: unit.prop("StatusText").endswith("; a restart is wanted for socket"))
    assert unit.is_active()
    unit.peer().create("s", "sixsix", after_seconds=3600)
    unit.inside.write(unit.config, "max_prompt_chars = six\n")
    unit.ctl("reload scheduler-daemon.service")
    until(lambda: "; settings not read again: " in unit.prop("StatusText"))
    assert unit.prop("MainPID") == pid
    (refused,) = [e for e in unit.entries() if "settings_refused" in e["MESSAGE"]]
    assert refused["PRIORITY"] == "3"


def test_with_bad_settings_it_is_not_tried_again_and_says_why(unit: Unit) -> None:
    unit.inside.write(unit.config, "sockt = 1\n")
    assert unit.run("systemctl start scheduler-daemon.service").returncode != 0
    assert unit.prop("ActiveState") == "failed"
    assert (unit.prop("ExecMainStatus"), unit.prop("NRestarts")) == ("6", "0")
    (entry,) = unit.entries()
    assert "unknown key sockt" in entry["MESSAGE"]
    assert entry["PRIORITY"] == "3"


def test_each_caller_is_told_that_settings_cannot_be_used_and_has_it_tried_once(
    unit: Unit,
) -> None:
    unit.inside.write(unit.config, "sockt = 1\n")
    unit.ctl("start scheduler-daemon.socket")
    for _ in range(2):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(60)
            caller.connect(str(unit.inside.path(unit.socket)))
            assert b"its settings cannot be used" in caller.makefile("rb").read()
        until(lambda: unit.prop("ActiveState") == "failed")
    assert unit.prop("ActiveState", "socket") == "active"
    assert len(unit.entries()) == 2


def test_what_is_only_for_now_is_tried_again_until_it_is_over(unit: Unit) -> None:
    unit.more("[Service]\nRestartSec=100ms\n")
    unit.inside.sh(f"mkdir -p {Path(unit.state).parent} && touch {unit.state}")
    assert unit.run("systemctl start scheduler-daemon.service").returncode != 0
    until(lambda: int(unit.prop("NRestarts")) > 6)
    unit.inside.sh(f"rm {unit.state}")
    until(unit.is_active)


def test_an_older_database_is_brought_up_to_date_with_all_that_is_in_it(
    unit: Unit, tmp_path: Path
) -> None:
    unit.start()
    made = unit.peer().create("s", "words", at="2999-01-01T00:00:00Z")
    unit.ctl("stop scheduler-daemon.socket scheduler-daemon.service")
    database = unit.inside.path(f"{unit.state}/scheduler.db")
    newest = Path(
        shutil.copy(database, tmp_path / "newest.db")
    )  # SQLite follows the link in its path
    unit.inside.sh(f"rm {unit.state}/scheduler.db.*")
    database.write_bytes(older(tmp_path, newest).read_bytes())
    unit.start()
    assert reminders(unit.peer()) == {made["id"]: "words"}
    assert unit.peer().call("daemon.status")["schema"] == known()[-1].number
    assert len(list(unit.inside.path(unit.state).glob("scheduler.db.schema1-*"))) == 1


def older(folder: Path, database: Path) -> Path:
    """The reminders of a file in one of the first schema."""
    path = folder / "scheduler.db"
    create_file(path)
    migrate(path, "2026-01-01T00:00:00.000Z", known()[:1])
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(database)) as new:
        names = [row[1] for row in old.execute("PRAGMA table_info(reminders)") if row[1] != "id"]
        marks = ", ".join("?" * len(names))
        rows = new.execute(f"SELECT {', '.join(names)} FROM reminders").fetchall()
        old.executemany(f"INSERT INTO reminders ({', '.join(names)}) VALUES ({marks})", rows)
        old.commit()
    return path
