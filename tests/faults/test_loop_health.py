"""Status and the marker for a watchdog speak from the loop having come round."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler_daemon.cli.health import CRITICAL, OK, Limits, report
from tests.conftest import world as world
from tests.support.world import ADMIN, ADMIT, World


class Rounds:
    """Counts how often the loop says that it has come round."""

    def __init__(self, world: World) -> None:
        self.count = 0
        world.scheduler.came_round = self._count

    def _count(self) -> None:
        self.count += 1


async def check(world: World) -> int:
    """What `schedctl status --check` would say."""
    status: Any = await world.status(ADMIN)
    return report(status, world.clock.now(), Limits(warn_disk=0, critical_disk=0))[0]


async def test_the_loop_says_that_it_has_come_round_also_when_it_was_only_asked_to(
    world: World,
) -> None:
    rounds = Rounds(world)
    for expected in (1, 2, 3):
        await world.advance(30)
        assert rounds.count == expected - 1
        world.scheduler.go_round()
        await world.settled()
        assert rounds.count == expected
        assert world.scheduler.last_scan_at == world.clock.now()


async def test_a_round_that_hangs_is_seen_in_status_and_in_the_marker(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(world)
    agent = await world.agent("s", says=ADMIT)
    await world.create("s", after_seconds=60)
    before, count = world.scheduler.last_scan_at, rounds.count
    hanging = asyncio.Event()
    due = world.store.reader.targets

    async def hang(*asked: Any) -> Any:
        await hanging.wait()
        return await due(*asked)

    with monkeypatch.context() as patch:
        patch.setattr(world.store.reader, "targets", hang)
        world.scheduler.rescan()
        await world.advance(600)
        world.scheduler.go_round()
        await world.settled()
        assert (world.scheduler.last_scan_at, rounds.count) == (before, count)
        assert agent.pushed == []
        assert await check(world) == CRITICAL
        hanging.set()
        await world.settled()
    assert rounds.count > count
    assert world.scheduler.last_scan_at == world.clock.now()
    assert len(agent.pushed) == 1
    assert await check(world) == OK


async def test_a_round_that_fails_has_come_round_but_has_not_looked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watchdog must not end a process because its disk fails: no restart mends that."""
    rounds = Rounds(world)
    await world.agent("s", says=ADMIT)
    before = world.scheduler.last_scan_at

    async def unreadable(*_: object) -> None:
        raise OSError("no such luck")

    with monkeypatch.context() as patch:
        patch.setattr(world.store.reader, "targets", unreadable)
        world.scheduler.rescan()
        await world.advance(0.5)
        for _ in range(10):
            await world.advance(1)
        assert rounds.count >= 10
        assert world.scheduler.last_scan_at == before
    await world.advance(2)
    assert world.scheduler.last_scan_at != before
