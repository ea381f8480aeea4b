"""A write that fails inside a group of others: each caller is told the truth, and only its own."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import NewDaemon
from tests.acceptance.steps import make_soon, overdue, receipts, transaction
from tests.support.peer import DEADLINE_SECONDS, SILENCE, Peer, Refused
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

GROUP = 64
"""Requests that wait at most on one connection, and that one commit may hold."""

LARGE = "\U0001f600" * 32_000
"""128 kB: a few dozen of them are more than SQLite keeps in memory of one transaction."""

MAY_HAVE_STORED = {"persistence_uncertain"}
STORED_NOTHING = {"persistence_failed", "internal_error"}


def queue_group(peer: Peer, prompts: list[str]) -> list[Future[Any]]:
    """Send creations of these words and return when the daemon has taken them all.

    The write lock must be held by somebody, so that they wait for one another.
    """
    assert len(prompts) == GROUP
    answers = [begin_create(peer, prompt) for prompt in prompts]
    # One more than may wait is refused at once: the others have been taken by then.
    with pytest.raises(Refused, match="wait on this connection"):
        begin_create(peer, "one more").result(DEADLINE_SECONDS)
    return answers


def begin_create(peer: Peer, prompt: str) -> Future[Any]:
    return peer.begin("reminder.create", session_id="s1", prompt=prompt, after_seconds=1000)


def outcome(answer: Future[Any]) -> str:
    """The id of what was made, or the code of the refusal."""
    try:
        reminder_id: str = answer.result(DEADLINE_SECONDS)["reminder"]["id"]
    except Refused as refusal:
        return refusal.code
    return reminder_id


def check_truth(prompts: list[str], outcomes: list[str], stored: dict[str, str]) -> None:
    """Compare what the callers were told with the prompts stored, by id."""
    told_made = {}
    for prompt, said in zip(prompts, outcomes, strict=True):
        if said in STORED_NOTHING:
            assert prompt not in stored.values()
        elif said not in MAY_HAVE_STORED:
            told_made[said] = prompt
    assert told_made.items() <= stored.items()
    assert len(stored) <= len(prompts)


def in_file(daemon: DaemonProcess) -> dict[str, str]:
    """The prompts by id."""
    return dict(daemon.sql("SELECT id, prompt FROM reminders WHERE session_id = 's1'"))


@pytest.mark.parametrize("how", ["ROLLBACK", "ABORT", "FAIL"])
def test_one_that_fails_inside_a_group_harms_none_of_the_others(
    daemon: DaemonProcess, peer: Peer, how: str
) -> None:
    """ROLLBACK is what SQLite does by itself on a full disk or an interrupt: all is undone."""
    daemon.sql(
        "CREATE TRIGGER poison BEFORE INSERT ON reminders WHEN NEW.prompt LIKE 'bad%' "
        f"BEGIN SELECT raise({how}, 'no'); END"
    )
    prompts = [f"bad {n}" if n in (20, 40) else f"good {n}" for n in range(GROUP)]
    with transaction(daemon, "IMMEDIATE"):
        answers = queue_group(peer, prompts)
    outcomes = [outcome(answer) for answer in answers]
    refused = {p for p, said in zip(prompts, outcomes, strict=True) if said in STORED_NOTHING}
    assert refused == {"bad 20", "bad 40"}
    daemon.restart()
    assert sorted(in_file(daemon).values()) == sorted(set(prompts) - refused)
    check_truth(prompts, outcomes, in_file(daemon))


def mixed() -> list[str]:
    """Words of a group: every second is large, each is told from the others."""
    return [f"{number} {LARGE if number % 2 else 'small'}" for number in range(GROUP)]


def limit_files(daemon: DaemonProcess, size: int | None) -> None:
    """Let no file of the daemon grow beyond so many bytes; None takes the limit away."""
    _, most = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (most if size is None else size, most))


@pytest.mark.parametrize("room_pages", [2, 200, 1000])
def test_when_the_file_cannot_grow_each_of_a_group_is_answered_truly(
    daemon: DaemonProcess, peer: Peer, room_pages: int
) -> None:
    """The limit on file sizes stops the log of writes somewhere within the group."""
    prompts = mixed()
    host = daemon.peer()
    with transaction(daemon, "IMMEDIATE"):
        answers = queue_group(peer, prompts)
        log = daemon.database.with_name("scheduler.db-wal")
        limit_files(daemon, log.stat().st_size + room_pages * 4096)
    outcomes = [outcome(answer) for answer in answers]
    kinds = Counter("made" if said.startswith("r") else said for said in outcomes)
    assert kinds["made"] < GROUP
    assert set(kinds) <= {"made", *STORED_NOTHING, *MAY_HAVE_STORED}
    assert host.call("daemon.status")["last_persistence_error"]["code"] == "persistence_failed"

    limit_files(daemon, None)
    prompts.append("afterwards")
    outcomes.append(outcome(begin_create(peer, "afterwards")))
    assert outcomes[-1].startswith("r")
    daemon.restart()
    check_truth(prompts, outcomes, in_file(daemon))


@contextmanager
def tiny_disk(daemon: DaemonProcess) -> Iterator[Path]:
    """Let the daemon's state lie on a disk of 2 MB, seen by itself alone; where we see it."""
    unshare = shutil.which("unshare")
    command = [unshare or "", "--user", "--map-root-user", "--mount"]
    if unshare is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("this machine does not let a user mount a file system in a namespace")
    daemon.state.mkdir()
    mount = f'mount -t tmpfs -o size=2m,mode=700 none {daemon.state} && exec "$@"'
    daemon.wrapper = [*command, "sh", "-c", mount, "sh"]
    daemon.start()
    yield Path(f"/proc/{daemon.pid}/root{daemon.state}")


def test_when_the_disk_is_full_each_of_a_group_is_answered_truly_and_it_recovers(
    new_daemon: NewDaemon,
) -> None:
    daemon = new_daemon()
    with tiny_disk(daemon) as disk:
        peer, reader = daemon.peer(), daemon.peer()
        filler = disk / "filler"
        fill(filler, leave=300_000)
        prompts = mixed()
        answers = [begin_create(peer, prompt) for prompt in prompts]
        outcomes = [outcome(answer) for answer in answers]
        assert "persistence_failed" in outcomes
        check_truth(prompts, outcomes, listed(reader))
        filler.unlink()
        prompts.append("afterwards")
        outcomes.append(outcome(begin_create(peer, "afterwards")))
        assert outcomes[-1].startswith("r")
        check_truth(prompts, outcomes, listed(reader))


def fill(path: Path, leave: int) -> None:
    """Write a file that leaves so many bytes of its disk free."""
    disk = os.statvfs(path.parent)
    path.write_bytes(bytes(disk.f_bavail * disk.f_frsize - leave))


def listed(peer: Peer) -> dict[str, str]:
    """The prompts by id, as the daemon tells them."""
    found: dict[str, str] = {}
    cursor: dict[str, str] = {}
    while True:
        page = peer.call("reminder.list", session_id="s1", **cursor)
        found |= {each["id"]: each["prompt"] for each in page["items"]}
        if "next_cursor" not in page:
            return found
        cursor = {"cursor": page["next_cursor"]}


def test_an_admission_whose_receipt_cannot_be_written_is_kept_and_never_pushed_again(
    daemon: DaemonProcess, peer: Peer
) -> None:
    host = daemon.peer()
    host.reply = SILENCE
    host.attach(["s1"])
    made = make_soon(peer, "s1", "once")
    followup = host.next_followup()
    limit_files(daemon, 0)
    host.answer(followup)
    daemon.logged("receipt_not_written")
    assert peer.call("reminder.get", id=made)["reminder"]["waiting_for"]["why"] == "receipt"
    host.ready("s1")
    host.attach(["s1"])
    second = daemon.peer()
    second.attach(["s1"])
    second.nothing_comes(1.2)
    limit_files(daemon, None)
    daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])
    assert receipts(daemon, "s1") == followup.occurrences
    assert overdue(daemon) == []
    host.nothing_comes(0.2)
    second.nothing_comes(0.2)
