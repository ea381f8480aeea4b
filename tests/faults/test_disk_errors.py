"""Errors of the disk under SQLite (disk.c): what was answered is there, nothing is pushed again.

What a full disk and a limit on file sizes do to a group of creations is in
tests/acceptance/test_failing_writes.py, each step of a commit in tests/store/test_writer_faults.py.
"""

from __future__ import annotations

import errno
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.steps import LONG, make_soon, overdue, receipts
from tests.faults.disk import (
    LOG,
    MAIN,
    SYNC,
    TRUNCATE,
    WRITE,
    Disk,
    after_a_crash,
    compiled,
    prompts_in,
)
from tests.support.peer import SILENCE, Peer, Refused
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

LINES_A_MINUTE = 8
"""Lines of one kind that may be written in a minute: at once, and after 1, 2, 4, 8, 16, 32 s."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("disk"))


@pytest.fixture
def disk(library: Path, folder: Path) -> Disk:
    return Disk(library, folder)


@pytest.fixture
def daemon(disk: Disk, folder: Path) -> Iterator[DaemonProcess]:
    made = DaemonProcess(folder, environ=disk.environ)
    try:
        yield made.start()
    finally:
        disk.heals()
        made.close()


def create(peer: Peer, prompt: str) -> str:
    """`made`, or the code of the refusal."""
    try:
        peer.create("s1", prompt, after_seconds=3600)
    except Refused as refusal:
        return refusal.code
    return "made"


def check_truth(prompt: str, said: str, found: set[str]) -> None:
    """What the caller was told of a creation, and what a restart finds."""
    match said:
        case "made":
            assert prompt in found
        case "persistence_failed":
            assert prompt not in found
        case _:
            assert said == "persistence_uncertain"


KINDS: dict[str, dict[str, Any]] = {
    "EIO": {"error": errno.EIO},
    "ENOSPC": {"error": errno.ENOSPC},
    "EDQUOT": {"error": errno.EDQUOT},
    "short": {"short": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_creation_whose_nth_write_fails_is_answered_truly(
    daemon: DaemonProcess, disk: Disk, folder: Path, kind: str
) -> None:
    """Every write and sync of a creation in turn, once each and then for good; after each of them
    the file and its log are read as a restart would."""
    peer = daemon.peer()
    said: Counter[str] = Counter()
    for ops, files in ((WRITE, LOG), (SYNC, LOG)):
        for times in (1, 1000):
            after = 0
            while True:
                prompt = f"{ops} {times} {after}"
                with disk.fails(ops, files=files, after=after, times=times, **KINDS[kind]):
                    outcome = create(peer, prompt)
                    if not disk.hits:
                        break
                said[outcome] += 1
                found = prompts_in(after_a_crash(daemon, folder))
                check_truth(prompt, outcome, found)
                after += 1 if LONG or after < 8 else 5
    print(f"{kind}: {dict(said)}")
    assert create(peer, "afterwards") == "made"
    told = prompts_in(after_a_crash(daemon, folder))
    daemon.restart()
    assert prompts_in(after_a_crash(daemon, folder)) == told
    assert sum(said.values()) > 10


def test_after_an_uncertain_creation_a_retry_with_its_key_makes_one(
    daemon: DaemonProcess, disk: Disk
) -> None:
    peer = daemon.peer()
    with disk.fails(SYNC, files=LOG, times=1), pytest.raises(Refused, match="not known") as said:
        peer.create("s1", "once", after_seconds=3600, idempotency_key="k")
    assert said.value.code == "persistence_uncertain"
    peer.create("s1", "once", after_seconds=3600, idempotency_key="k")
    daemon.restart()
    assert daemon.sql("SELECT prompt FROM reminders") == [("once",)]


def test_checkpoints_that_fail_cost_nobody_an_answer(
    daemon: DaemonProcess, disk: Disk, folder: Path
) -> None:
    """The main file cannot be written: everything stays in the log, and comes over later."""
    peer = daemon.peer()
    large = "x" * 30_000
    prompts = [f"{number} {large}" for number in range(200)]
    log = daemon.database.with_name("scheduler.db-wal")
    with disk.fails(WRITE | SYNC | TRUNCATE, files=MAIN):
        assert {create(peer, prompt) for prompt in prompts} == {"made"}
        assert disk.hits
        assert log.stat().st_size > 1000 * 4096
        assert prompts_in(after_a_crash(daemon, folder)) == set(prompts)
    assert create(peer, "afterwards") == "made"
    assert prompts_in(after_a_crash(daemon, folder)) == {*prompts, "afterwards"}
    before = log.stat().st_size
    for number in range(20):
        assert create(peer, f"more {number}") == "made"
    assert log.stat().st_size == before  # it began anew at its start
    assert "last_persistence_error" not in peer.call("daemon.status")


def troubles(daemon: DaemonProcess) -> Counter[str]:
    """How many lines of warnings and errors there are of each kind."""
    entries = [json.loads(line) for line in daemon.logs[-1].lines]
    kinds = [
        f"{entry['event']} {entry.get('code') or entry.get('reason') or ''}"
        for entry in entries
        if entry["level"] in ("warning", "error")
    ]
    return Counter(kinds)


def check_status(daemon: DaemonProcess) -> int:
    """What `schedctl status --check` exits with; without a bound on free space."""
    return daemon.schedctl("status", "--check", "--critical-disk=0", "--warn-disk=0").returncode


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_while_nothing_can_be_written_nothing_is_repeated_and_it_recovers_by_itself(
    daemon: DaemonProcess, disk: Disk, folder: Path, error: str
) -> None:
    """One admission without a receipt, hosts that come and go, and callers that try all the time:
    no push, few lines; when the disk is well the receipt is written without a restart."""
    peer, host = daemon.peer(), daemon.peer()
    host.reply = SILENCE
    host.attach(["s1"])
    make_soon(peer, "s1", "once")
    followup = host.next_followup()
    with disk.fails(**KINDS[error]):
        host.answer(followup)
        daemon.logged("receipt_not_written")
        begin, tries = time.monotonic(), 0
        second = daemon.peer()
        while tries <= 10 or time.monotonic() < begin + (30 if LONG else 4):
            assert create(peer, f"try {tries}") in ("persistence_failed", "persistence_uncertain")
            host.ready("s1")
            host.attach(["s1"])
            second.attach(["s1"])
            tries += 1
        assert peer.call("daemon.status")["last_persistence_error"]["over"] is False
        assert check_status(daemon) == 2
    daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])
    assert peer.call("daemon.status")["last_persistence_error"]["over"] is True
    assert check_status(daemon) in (0, 1)
    assert len(host.followups) == 1
    second.nothing_comes(0.2)
    assert receipts(daemon, "s1") == followup.occurrences
    assert overdue(daemon, "s1") == []
    lines = troubles(daemon)
    print(f"{error}: {tries} creations failed, {dict(lines)}")
    assert all(count <= LINES_A_MINUTE for count in lines.values())
