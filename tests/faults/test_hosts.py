"""Hosts that misbehave in every way at once, over real sockets, with a daemon in the loop.

At every push, as the daemon makes it: one-shots first and in order, everything else that is due in
one message, nothing whose admission was read, the same occurrence id (or a later one of the same
record) at every repeat. A host of a Session of its own gets what is due while no clock moves, which
is to say without anybody's time-out. At the end everything due was admitted, once for each id.

SCHEDULER_DAEMON_TEST_HOST_RUNS=200 makes so many runs (10 otherwise), SCHEDULER_DAEMON_TEST_SEED
says where their seeds begin.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.expected import Book
from tests.faults.wild import Wild
from tests.support.clock import ManualClock
from tests.support.inprocess import Peer, Running, running, until

RUNS = int(os.environ.get("SCHEDULER_DAEMON_TEST_HOST_RUNS", "10"))
SEED = int(os.environ.get("SCHEDULER_DAEMON_TEST_SEED", "0"))
STEPS = 120

SESSIONS = [f"s{number}" for number in range(6)]
WITNESSED = "witnessed"
WITHIN_SECONDS = 60.0
"""Real ones, for a busy machine; hosts and their time-outs hold for ever while no clock moves."""


class Town:
    """One daemon, its hosts, and the book of what was made."""

    def __init__(self, on: Running, book: Book, seed: int) -> None:
        self.on = on
        self.clock: ManualClock = on.clock
        self.book = book
        self.rng = random.Random(seed)
        self.hosts: list[Wild] = []
        self.left: list[Wild] = []
        self.maker: Peer
        self.witness: Wild
        self.longest = 0.0

    async def begin(self) -> None:
        self.maker = await self.on.peer()
        self.witness = Wild(self.on.path, "witness")
        self.witness.admits = True
        self.witness.attach([WITNESSED])
        for session in SESSIONS:
            for every in (300, 420):
                await self.make(session, every_seconds=every)
            for seconds in self.rng.sample(range(1, 30), 3):
                await self.make(session, after_seconds=seconds)

    async def make(self, session: str, prompt: str = "words", **selector: Any) -> None:
        self.book.enter(await self.maker.create(session, prompt, **selector))

    # --- steps

    async def step(self) -> None:
        kinds = ["answer"] * 10 + ["advance"] * 4 + ["come"] * 2
        kinds += ["go", "break_off", "attach", "attach", "detach", "ready", "create", "deaf"]
        kind = self.rng.choice(kinds)
        if self.hosts or kind in ("create", "advance", "deaf", "come"):
            await getattr(self, kind)()
        if self.rng.random() < 0.7:
            await self.calm()

    async def calm(self) -> None:
        """Let the daemon see what was sent: its answer comes after it has read on."""
        await self.maker.call("daemon.status")
        await asyncio.sleep(0.001)

    async def create(self) -> None:
        await self.make(self.rng.choice(SESSIONS), after_seconds=self.rng.choice([1, 2, 40]))

    async def advance(self) -> None:
        await self.make(WITNESSED, after_seconds=1)
        expected = len(self.witness.got) + 1
        self.clock.advance(self.rng.choice([1, 1, 2, 5, 31, 301]))
        began = time.monotonic()
        async with asyncio.timeout(WITHIN_SECONDS):
            await until(lambda: len(self.witness.got) >= expected)
        self.longest = max(self.longest, time.monotonic() - began)

    async def come(self) -> None:
        if len(self.hosts) < 6:
            self.hosts.append(Wild(self.on.path, f"wild {len(self.hosts) + len(self.left)}"))
            await self.attach(self.hosts[-1])

    async def attach(self, host: Wild | None = None) -> None:
        more = self.rng.choice([{}, {"max_in_flight": 1}, {"max_in_flight": 3}])
        (host or self.rng.choice(self.hosts)).attach(self._some(), **more)

    async def detach(self) -> None:
        self.rng.choice(self.hosts).detach(self._some())

    async def ready(self) -> None:
        self.rng.choice(self.hosts).ready(self.rng.choice(SESSIONS))

    async def deaf(self) -> None:
        """A host that attaches to everything and reads nothing, not even that it may."""
        if not any(host.name == "deaf" for host in self.hosts):
            host = Wild(self.on.path, "deaf", reads=False)
            self.hosts.append(host)
            host.attach("*")

    async def answer(self) -> None:
        waiting = [host for host in self.hosts if host.open]
        if waiting:
            host = self.rng.choice(waiting)
            frame = host.open.pop(self.rng.randrange(len(host.open)))
            others = [each for other in self.hosts if other is not host for each in other.open]
            host.answer(self.rng, frame, others)

    async def go(self) -> None:
        """Close, perhaps with half an answer sent and a push half read."""
        host = self.hosts.pop(self.rng.randrange(len(self.hosts)))
        self.left.append(host)
        await host.close()

    async def break_off(self) -> None:
        """Attach and close before that is answered, or send no more and go on reading."""
        if self.rng.random() < 0.5:
            host = Wild(self.on.path, "brief")
            host.attach(self._some())
            await host.close()
        else:
            self.rng.choice(self.hosts).half_close()

    def _some(self) -> list[str] | str:
        count = self.rng.randrange(4)
        return self.rng.sample(SESSIONS, count) if count else "*"

    # --- the end

    async def heal(self) -> None:
        """All leave, and a good host takes everything."""
        while self.hosts:
            await self.go()
        healer = Wild(self.on.path, "healer")
        healer.admits = True
        healer.attach("*")
        healer.attach(SESSIONS)
        self.left.append(healer)
        for _ in range(6):
            await self.calm()
            self.clock.advance(301)
        await self.nothing_overdue()

    async def nothing_overdue(self) -> None:
        async with asyncio.timeout(WITHIN_SECONDS):
            while (await self.maker.call("daemon.status"))["counts"]["overdue"]:
                await asyncio.sleep(0.01)

    async def check(self) -> None:
        assert self.book.wrong == []
        for host in [*self.left, self.witness]:
            host.check()
        history = await self.receipts()
        assert len(history) == len(set(history))
        assert set(history) == self.book.admitted
        once = {one.occurrence for ones in self.book.once.values() for one in ones}
        assert once <= set(history)

    async def receipts(self) -> list[str]:
        found: list[str] = []
        for session in [*SESSIONS, WITNESSED]:
            cursor: dict[str, Any] = {}
            while True:
                page = await self.maker.call("reminder.history", session_id=session, **cursor)
                found += [each["occurrence_id"] for each in page["items"]]
                if "next_cursor" not in page:
                    break
                cursor = {"cursor": page["next_cursor"]}
        return found


@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
async def test_whatever_hosts_do_each_session_is_told_everything_in_order_and_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    book = Book(monkeypatch)
    async with running(folder) as on:
        town = Town(on, book, seed)
        await town.begin()
        try:
            for _ in range(STEPS):
                await town.step()
                assert book.wrong == []
            await town.heal()
            await town.check()
        finally:
            for host in [*town.hosts, *town.left, town.witness]:
                await host.close()
    again = sum(count - 1 for count in book.pushes.values())
    print(f"{len(book.admitted)} admitted, {again} repeats, longest wait {town.longest:.2f} s")
