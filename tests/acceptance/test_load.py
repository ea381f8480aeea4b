"""Many requests at once on one connection, and from many: each is answered, and truly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.acceptance.steps import ago, recurring
from tests.support.peer import DEADLINE_SECONDS, Peer
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

WINDOW = 64
"""Requests that may wait on one connection."""


def pipelined(peer: Peer, session: str, count: int) -> Iterator[str]:
    """Make so many reminders with as many requests waiting as may; their ids, as answered."""
    selectors = recurring(ago(hours=2))
    waiting: deque[Future[Any]] = deque()
    for number in range(count):
        waiting.append(
            peer.begin(
                "reminder.create",
                session_id=f"{session}-{number // 1000}",
                prompt=f"{session} {number}",
                **selectors[number % len(selectors)],
            )
        )
        if len(waiting) == WINDOW:
            yield waiting.popleft().result(DEADLINE_SECONDS)["reminder"]["id"]
    for answer in waiting:
        yield answer.result(DEADLINE_SECONDS)["reminder"]["id"]


def test_a_client_that_keeps_as_many_requests_waiting_as_may_is_never_turned_away(
    daemon: DaemonProcess, peer: Peer
) -> None:
    """A request that is sent because an answer came finds the place of the answered one free."""
    made = list(pipelined(peer, "s", 2000))
    numbers = [int(each[1:]) for each in made]
    assert numbers == sorted(numbers)  # requests of one connection take effect in order
    assert daemon.sql("SELECT count(*) FROM reminders") == [(2000,)]


def test_many_clients_at_once_each_get_their_own_answers(daemon: DaemonProcess) -> None:
    peers = [daemon.peer() for _ in range(32)]
    with ThreadPoolExecutor(len(peers)) as pool:
        tasks = [
            pool.submit(lambda peer, name: list(pipelined(peer, name, 30)), peer, f"s{number}")
            for number, peer in enumerate(peers)
        ]
        made = {f"s{number}": task.result() for number, task in enumerate(tasks)}
    daemon.restart()
    for name, reminder_ids in made.items():
        stored = daemon.sql(
            "SELECT id, prompt FROM reminders WHERE session_id = ? ORDER BY number", f"{name}-0"
        )
        assert stored == [(each, f"{name} {number}") for number, each in enumerate(reminder_ids)]
