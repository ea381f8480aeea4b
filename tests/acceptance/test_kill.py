"""A reminder comes back through SIGKILL, wherever that falls."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

from tests.acceptance.conftest import NewDaemon
from tests.acceptance.steps import in_seconds, let_pass, overdue, receipts
from tests.support.peer import DEADLINE_SECONDS, SILENCE, Followup, Peer
from tests.support.process import DaemonProcess, Lines

pytestmark = pytest.mark.acceptance


def create_by_cli(daemon: DaemonProcess, *selector: str) -> str:
    """Make a reminder in Session s1 with schedctl; its id."""
    words = ("create", "--session", "s1", *selector, "--json", "Check the build")
    ended = daemon.schedctl(*words)
    assert ended.returncode == 0, ended.stderr
    reminder_id: str = json.loads(ended.stdout)["reminder"]["id"]
    return reminder_id


def target(daemon: DaemonProcess, reminder_id: str) -> str:
    (found,) = daemon.sql("SELECT scheduled_at FROM reminders WHERE id = ?", reminder_id)
    instant: str = found[0]
    return instant


def check_dispatched_once(daemon: DaemonProcess, reminder_id: str, followup: Followup) -> None:
    """The receipt is in the file, the record has ended, and nothing is left to come."""
    daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])
    assert daemon.sql("SELECT reminder_id, outcome, prompt FROM history") == [
        (reminder_id, "admitted", "Check the build")
    ]
    assert daemon.sql("SELECT status, ended_reason FROM reminders") == [("ended", "delivered")]


def test_killed_right_after_it_was_made_it_still_comes_once_with_a_receipt(
    daemon: DaemonProcess,
) -> None:
    made = create_by_cli(daemon, "--after", "2s")
    daemon.kill()
    due_at = target(daemon, made)
    daemon.start()
    host = daemon.peer()
    host.attach(["s1"])
    followup = host.next_followup()
    assert followup.occurrences == [f"{made}@{due_at}"]
    assert followup.params["decided_at"] >= due_at
    check_dispatched_once(daemon, made, followup)
    host.nothing_comes(1)
    daemon.restart()
    again = daemon.peer()
    again.attach(["s1"])
    again.nothing_comes(1)


def test_a_host_that_is_not_there_until_after_the_target_gets_it_when_it_attaches(
    daemon: DaemonProcess,
) -> None:
    made = create_by_cli(daemon, "--after", "2s")
    daemon.restart()
    time.sleep(2.2)  # the target passes while nobody is there: nothing tells of that
    assert overdue(daemon) == [made]
    host = daemon.peer()
    attached = time.monotonic()
    host.attach(["s1"])
    followup = host.next_followup()
    assert followup.at - attached < 1
    check_dispatched_once(daemon, made, followup)
    host.nothing_comes(1)


def test_a_host_process_that_was_stopped_meanwhile_finds_the_new_daemon_and_gets_it(
    daemon: DaemonProcess,
) -> None:
    words = [sys.executable, "-P", "-m", "scheduler_daemon.cli", "host", "s1"]
    with subprocess.Popen(
        [*words, "--socket", str(daemon.socket)],
        env=daemon.environ,
        cwd=daemon.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as host:
        assert host.stdout is not None
        printed = Lines(host.stdout)
        try:
            wait_for_host(daemon)
            host.send_signal(signal.SIGSTOP)
            made = create_by_cli(daemon, "--after", "2s")
            daemon.restart()
            time.sleep(2.2)
            host.send_signal(signal.SIGCONT)
            followup = json.loads(printed.wait(lambda line: made in line))
            daemon.logged("followup_admitted", followup_id=followup["followup_id"])
            assert len(printed.lines) == 1
            assert daemon.sql("SELECT status FROM reminders") == [("ended",)]
        finally:
            host.kill()


def wait_for_host(daemon: DaemonProcess) -> None:
    peer = daemon.peer()
    end = time.monotonic() + DEADLINE_SECONDS
    while not peer.call("daemon.status")["hosts"]:
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("kind", ["one-shot", "batch"])
def test_killed_between_admission_and_receipt_it_comes_again_under_the_same_occurrence_ids(
    new_daemon: NewDaemon, kind: str
) -> None:
    daemon = new_daemon().start()
    maker = daemon.peer()
    if kind == "one-shot":
        maker.create("s1", "once", at=in_seconds(0.3))
    else:
        for number in range(3):
            maker.create("s1", f"often {number}", every_seconds=3600)
        daemon.stop()
        let_pass(daemon, "-1 hours")
        daemon.start()
    host = daemon.peer()
    host.reply = SILENCE
    host.attach(["s1"])
    first = host.next_followup()
    daemon.freeze()
    host.answer(first)  # it lies in the socket: the daemon has not read it
    daemon.kill()
    assert receipts(daemon, "s1") == []

    daemon.start()
    host = daemon.peer()
    host.attach(["s1"])
    again = host.next_followup()
    assert again.occurrences == first.occurrences
    assert again.params["followup_id"] != first.params["followup_id"]
    daemon.logged("followup_admitted", followup_id=again.params["followup_id"])
    assert receipts(daemon, "s1") == first.occurrences
    host.nothing_comes(1)
    assert overdue(daemon) == []


def test_whatever_was_answered_before_a_kill_is_in_the_file_and_comes(
    new_daemon: NewDaemon,
) -> None:
    """Kills fall into the midst of pipelined creations and of admissions, four times."""
    daemon = new_daemon()
    made: set[str] = set()
    for round_number in range(4):
        daemon.start()
        host, maker = daemon.peer(), daemon.peer()
        host.attach("*")
        answers = [start_create(maker, f"s{number % 5}") for number in range(60)]
        answers[random.randrange(60)].result(DEADLINE_SECONDS)
        time.sleep(random.uniform(0, 0.05 * round_number))
        daemon.kill()
        made |= settled(answers)
    stored = ids(daemon, "SELECT id FROM reminders")
    assert made <= stored
    missing = stored - ids(daemon, "SELECT reminder_id FROM dispatches")
    time.sleep(1)
    daemon.start()
    last = daemon.peer()
    last.attach("*")
    while missing:
        followup = last.next_followup()
        missing.remove(followup.reminders[0])
        daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])
    assert overdue(daemon) == []
    assert daemon.sql("SELECT count(*) FROM dispatches") == [(len(stored),)]


def ids(daemon: DaemonProcess, question: str) -> set[str]:
    return {each for (each,) in daemon.sql(question)}


def start_create(maker: Peer, session: str) -> Future[Any]:
    return maker.begin("reminder.create", session_id=session, prompt="x", after_seconds=1)


def settled(answers: list[Future[Any]]) -> set[str]:
    """The ids of those creations that were answered before the connection broke."""
    made = set()
    for answer in answers:
        with suppress(ConnectionError):
            made.add(answer.result(DEADLINE_SECONDS)["reminder"]["id"])
    return made


def test_a_creation_whose_answer_a_kill_swallowed_is_found_again_by_its_key(
    daemon: DaemonProcess, peer: Peer
) -> None:
    """Whether the kill came before the commit or after it: there is one reminder in the end."""
    request = {
        "session_id": "s1",
        "prompt": "once",
        "after_seconds": 1000,
        "idempotency_key": "k1",
    }
    lost = peer.begin("reminder.create", **request)
    time.sleep(random.uniform(0, 0.01))
    daemon.kill()
    before = settled([lost])
    stored = ids(daemon, "SELECT id FROM reminders")
    assert before <= stored

    retry = daemon.start().peer().call("reminder.create", **request)
    assert retry["created"] is not bool(stored)
    assert ids(daemon, "SELECT id FROM reminders") == {retry["reminder"]["id"]}
    assert stored <= {retry["reminder"]["id"]}
