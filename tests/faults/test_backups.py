"""A backup that is taken while the file changes is a state that really was; the way back works."""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from scheduler_daemon.store.backup import backup
from scheduler_daemon.store.carry import export
from tests.support.peer import DEADLINE_SECONDS, Peer
from tests.support.process import DaemonProcess

CHANGES = 1000
IN_FLIGHT = 32
"""Requests that wait for their answers at once: what is committed together is in order, too."""

NOW = "2026-03-02T12:00:00.000Z"

State = dict[str, str]
"""The prompt of each reminder by its id."""


class Change(NamedTuple):
    """A request, and what the file holds when it is done."""

    method: str
    params: dict[str, Any]
    after: State


def changes(random: Random) -> Iterator[Change]:
    """Creations, updates and deletions in an order of chance; ids and revisions are foreseen."""
    state: State = {}
    revisions: dict[str, int] = {}
    made = 0
    for number in range(CHANGES):
        what = random.choice(["create", "create", "update", "delete"])
        words = f"words {number} " + "x" * random.choice([1, 200, 9000])
        if what == "create" or not state:
            made += 1
            state[f"r{made}"], revisions[f"r{made}"] = words, 1
            params = {"session_id": "s", "prompt": words, "after_seconds": 86_400}
            yield Change("reminder.create", params, dict(state))
            continue
        chosen = random.choice(list(state))
        if what == "delete":
            del state[chosen]
            yield Change("reminder.delete", {"id": chosen}, dict(state))
            continue
        params = {"id": chosen, "revision": revisions[chosen], "prompt": words}
        state[chosen], revisions[chosen] = words, revisions[chosen] + 1
        yield Change("reminder.update", params, dict(state))


class Load:
    """Sends the changes, and knows how many were sent and answered."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.states: list[State] = [{}]
        self.answered = 0

    def run(self) -> None:
        waiting: deque[Future[Any]] = deque()
        for change in changes(Random(4)):
            if len(waiting) == IN_FLIGHT:
                self._take(waiting)
            self.states.append(change.after)
            waiting.append(self._peer.begin(change.method, **change.params))
        while waiting:
            self._take(waiting)

    def _take(self, waiting: deque[Future[Any]]) -> None:
        waiting.popleft().result(DEADLINE_SECONDS)
        self.answered += 1


class Taken(NamedTuple):
    """A copy, how many changes were answered before it was begun, and sent when it was done."""

    path: Path
    answered: int
    sent: int


def held_by(path: Path) -> State:
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return dict(conn.execute("SELECT id, prompt FROM reminders"))


@pytest.fixture
def daemon(folder: Path) -> Iterator[DaemonProcess]:
    made = DaemonProcess(folder)
    yield made
    made.close()


def schedctl(daemon: DaemonProcess, *words: str) -> str:
    ended = daemon.schedctl(*words)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_a_backup_under_load_is_a_state_that_was_with_all_that_was_answered(
    daemon: DaemonProcess,
) -> None:
    daemon.start()
    load = Load(daemon.peer())
    taken: list[Taken] = []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(load.run)
        while not running.done():
            answered = load.answered
            path = daemon.folder / f"copy{len(taken)}.db"
            backup(daemon.database, path, overwrite=False)
            taken.append(Taken(path, answered, len(load.states) - 1))
        running.result()
    between = 0  # a verb of schedctl starts too slowly to be in the midst of it often
    for copy in taken:
        held = held_by(copy.path)
        possible = load.states[copy.answered : copy.sent + 1]
        assert held in possible
        between += held not in (load.states[0], load.states[-1])
    assert between
    print(f"{len(taken)} backups during {CHANGES} changes, {between} of them in their midst")
    restored(daemon, load, next((each for each in taken if held_by(each.path)), taken[-1]))


def restored(daemon: DaemonProcess, load: Load, copy: Taken) -> None:
    """Put a copy back: refused while the daemon runs, and a start finds what it held."""
    words = ("restore", str(copy.path), "--database", str(daemon.database))
    refused = daemon.schedctl(*words)
    assert refused.returncode == 1
    assert f"process {daemon.pid}" in refused.stderr
    daemon.stop()
    held = held_by(copy.path)
    schedctl(daemon, *words)
    daemon.start()
    listed = daemon.peer().call("reminder.list", limit=1, order="created")
    assert [each["id"] for each in listed["items"]] == list(held)[:1]
    assert held_by(daemon.database) == held
    new = daemon.peer().create("s", "new", after_seconds=86_400)
    known = {int(name[1:]) for state in load.states for name in state}
    assert int(new["id"][1:]) > max(known) + 900_000


def reminders_of(path: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, path.read_text("utf-8").splitlines())
    return [line["reminder"] for line in lines if "reminder" in line]


def test_an_export_under_load_is_a_state_that_was_and_another_daemon_goes_on_with_it(
    daemon: DaemonProcess,
) -> None:
    daemon.start()
    load = Load(daemon.peer())
    path = daemon.folder / "all.jsonl"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(load.run)
        while not running.done():
            answered = load.answered
            path.write_text("".join(f"{line}\n" for line in export(daemon.database, NOW)), "utf-8")
            sent = len(load.states) - 1
            rows = reminders_of(path)
            held = {f"r{row['number']}": row["prompt"] for row in rows}
            assert held in load.states[answered : sent + 1]
        running.result()
    daemon.stop()
    other = DaemonProcess(daemon.folder, state=daemon.folder / "other")
    try:
        schedctl(other, "import", str(path), "--database", str(other.database))
        other.start()
        for row in rows[:5]:
            shown = other.peer().call("reminder.get", id=f"r{row['number']}")["reminder"]
            assert shown["scheduled_at"] == row["scheduled_at"]
            assert shown["prompt"] == row["prompt"]
    finally:
        other.close()
