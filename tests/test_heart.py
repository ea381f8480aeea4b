"""The loop tells its manager how it is: when it has come round, and not more often than asked."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from scheduler_daemon.heart import WORDS_SECONDS, Heart
from scheduler_daemon.systemd import Manager
from tests.support.short import short_path as short_path
from tests.support.world import ADMIT, World, few_rounds

PID = 4321


class Told:
    """What a manager hears, on a real socket."""

    def __init__(self, sock: socket.socket, world: World, **more: str) -> None:
        self._sock = sock
        manager = Manager({"NOTIFY_SOCKET": sock.getsockname(), **more}, PID)
        self.heart = Heart(world.clock, world.store.reader, world.scheduler, manager)

    def since(self) -> list[str]:
        """What was told since the last look."""
        heard = []
        with suppress(BlockingIOError):
            while True:
                heard.append(self._sock.recv(1000).decode())
        return heard


@pytest.fixture
def sock(short_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        sock.bind(str(short_path / "notify"))
        yield sock


async def test_it_beats_twice_in_the_time_of_the_watchdog_while_the_loop_comes_round(
    world: World, sock: socket.socket
) -> None:
    told = Told(sock, world, WATCHDOG_USEC="60000000")
    told.heart.start()
    await world.settled()
    assert told.since().count("WATCHDOG=1") == 1
    for _ in range(4):
        await world.advance(30)
        assert told.since() == ["WATCHDOG=1"]
    world.scheduler.go_round = lambda: None  # type: ignore[method-assign]
    await world.advance(300)
    assert told.since() == []
    await told.heart.stop()
    assert world.clock.pending_calls == 0


async def test_without_a_watchdog_nothing_wakes(world: World, sock: socket.socket) -> None:
    told = Told(sock, world)
    told.heart.start()
    await world.advance(WORDS_SECONDS)
    told.since()
    with few_rounds(world, 0):
        await world.advance(100_000)
    assert told.since() == []
    await told.heart.stop()


async def test_its_words_follow_what_happens_but_not_more_often_than_so(
    world: World, sock: socket.socket
) -> None:
    told = Told(sock, world)
    told.heart.start()
    await world.settled()
    assert told.since() == ["STATUS=nothing to wake for; 0 overdue; 0 agent hosts connected"]
    agent = await world.agent("s", says=ADMIT)
    await world.create(after_seconds=60)
    assert told.since() == []
    await world.advance(WORDS_SECONDS)
    wake = "STATUS=next wake 2026-01-01T12:01:00.000Z; 0 overdue; 1 agent hosts connected"
    assert told.since() == [wake]
    agent.close()
    await world.advance(2 * WORDS_SECONDS)
    assert told.since()[-1].endswith("; 0 overdue; 0 agent hosts connected")
    await told.heart.stop()


async def test_a_status_that_cannot_be_counted_is_left_out(
    world: World, sock: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken() -> list[int]:
        raise RuntimeError("no")

    monkeypatch.setattr(world.store.reader, "owners", broken)
    told = Told(sock, world)
    told.heart.start()
    await world.settled()
    assert told.since() == []
    await told.heart.stop()


async def test_where_no_manager_listens_nothing_is_begun(world: World) -> None:
    heart = Heart(world.clock, world.store.reader, world.scheduler, Manager({}, PID))
    heart.start()
    await world.settled()
    assert world.clock.pending_calls == 0
    await heart.stop()
