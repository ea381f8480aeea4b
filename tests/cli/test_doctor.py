"""`schedctl doctor`: sentences and exit status, alone and beside a daemon that runs."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_daemon.cli import exits
from scheduler_daemon.cli.main import main
from scheduler_daemon.cli.verbs import doctor
from tests.acceptance.conftest import folder_for_a_while
from tests.store.support import new_file
from tests.support.process import DaemonProcess


@pytest.fixture
def daemon() -> Iterator[DaemonProcess]:
    with folder_for_a_while() as folder:
        daemon = DaemonProcess(folder)
        try:
            yield daemon.start()
        finally:
            daemon.close()


def spoil(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as conn, conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute(statement)


def test_a_file_in_order_is_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = new_file(tmp_path)
    tmp_path.chmod(0o700)
    assert main(["doctor", "--database", str(path)]) == exits.DONE
    assert capsys.readouterr().out == f"all is well with {path}\n"


def test_what_is_wrong_is_said_in_a_sentence_and_mended_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = new_file(tmp_path)
    tmp_path.chmod(0o700)
    spoil(path, "INSERT INTO owners (owner_uid, active) VALUES (7, 1)")
    words = ["doctor", "--database", str(path)]
    assert main(words) == exits.FAILED
    said = capsys.readouterr().out
    assert said.startswith("problem: the table of owners is wrong about 1, the first is uid 7; ")
    assert main([*words, "--json"]) == exits.FAILED
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["code"], found["kind"], found["fixable"]) == ("counts", "problem", True)
    assert main([*words, "--fix"]) == exits.DONE
    assert capsys.readouterr().out == (
        f"fixed: Sessions and owners were counted anew\nall is well with {path}\n"
    )
    assert main([*words, "--fix", "--json"]) == exits.DONE
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"database": str(path), "findings": [], "fixed": []}


def test_without_a_database_it_fails_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--database", str(tmp_path / "none.db")]) == exits.FAILED
    assert capsys.readouterr().err.count("\n") == 1


def test_a_daemon_that_runs_is_told_and_sends_what_was_put_back(daemon: DaemonProcess) -> None:
    """A row with a broken zone is set aside; mended by hand and put back, it comes."""
    host, peer = daemon.peer(), daemon.peer()
    host.attach(["s1"])
    made = peer.create("s1", "words", daily={"time": "09:00", "time_zone": "Europe/Berlin"})["id"]
    past = "2020-01-01T08:00:00.000Z"
    daemon.sql(f"UPDATE reminders SET time_zone = 'Mars/Olympus', scheduled_at = '{past}'")
    words = ["doctor", "--database", str(daemon.database), "--json"]
    assert daemon.schedctl(*words).returncode == exits.FAILED
    fixed = json.loads(daemon.schedctl(*words, "--fix").stdout)
    assert fixed["fixed"] == [
        f"{made} was set aside",
        f"the daemon (process {daemon.pid}) reads the file again",
    ]
    assert peer.call("daemon.status")["counts"]["set_aside"] == 1
    daemon.sql("UPDATE reminders SET time_zone = 'Europe/Berlin'")
    done = daemon.schedctl(*words, "--fix")
    assert json.loads(done.stdout)["fixed"][0] == f"{made} was put back"
    assert done.returncode == exits.DONE
    assert host.next_followup().reminders == [made]


def test_a_daemon_is_told_by_sighup_and_one_that_is_gone_is_said_to_be() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: heard.append(number))
    try:
        assert doctor._tell(os.getpid()) == [
            f"the daemon (process {os.getpid()}) reads the file again"
        ]
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == [signal.SIGHUP]
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    (said,) = doctor._tell(gone.pid)
    assert said.endswith("could not be told: No such process; send it SIGHUP")
