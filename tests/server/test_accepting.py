"""Connections taken off a listening socket, also when the system has none to give."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from scheduler_daemon.server.accepting import REST_SECONDS, Acceptor
from scheduler_daemon.server.listener import share
from tests.support.clock import ManualClock
from tests.support.inprocess import until


class Stingy:
    """A listening socket whose accept fails with what it is told, as long as there is something."""

    def __init__(self, path: Path) -> None:
        self.fails: list[OSError] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self.fileno = self._socket.fileno
        self.setblocking = self._socket.setblocking
        self.close = self._socket.close

    def accept(self) -> tuple[socket.socket, object]:
        if self.fails:
            raise self.fails.pop(0)
        return self._socket.accept()


class Bench:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = Stingy(path)
        self.clock = ManualClock()
        self.taken: list[socket.socket] = []
        self.failed: list[str] = []
        self.acceptor = Acceptor(
            self.socket,  # type: ignore[arg-type]
            self.clock,
            self.taken.append,
            self.failed.append,
        )

    def has_failed(self, times: int) -> bool:
        return len(self.failed) == times

    def knock(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(self.path))
        return sock


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    made = Bench(folder / "s")
    yield made
    for sock in made.taken:
        sock.close()
    made.socket.close()


async def test_whoever_knocks_is_taken_and_never_waited_for(bench: Bench) -> None:
    bench.acceptor.start()
    with bench.knock(), bench.knock():
        await until(lambda: len(bench.taken) == 2)
    assert not any(sock.getblocking() for sock in bench.taken)
    bench.acceptor.stop()


async def test_one_that_left_before_it_was_taken_is_no_matter(bench: Bench) -> None:
    bench.socket.fails = [ConnectionAbortedError(), InterruptedError()]
    bench.acceptor.start()
    with bench.knock():
        await until(lambda: len(bench.taken) == 1)
    assert (bench.failed, bench.clock.pending_calls) == ([], 0)
    bench.acceptor.stop()


async def test_without_descriptors_it_rests_and_then_takes_who_waited(bench: Bench) -> None:
    bench.socket.fails = [OSError(errno.EMFILE, "Too many open files"), OSError("odd")]
    bench.acceptor.start()
    with bench.knock():
        for number, why in enumerate(("Too many open files", "odd"), 1):
            await until(partial(bench.has_failed, number))
            assert bench.failed[-1] == why
            for _ in range(10):  # no busy loop
                await asyncio.sleep(0)
            assert len(bench.failed) == number
            bench.clock.advance(REST_SECONDS)
        await until(lambda: len(bench.taken) == 1)
    bench.acceptor.stop()


async def test_stopped_while_it_rests_it_does_not_begin_again(bench: Bench) -> None:
    bench.socket.fails = [OSError(errno.ENFILE, "too many")]
    bench.acceptor.start()
    with bench.knock():
        await until(lambda: bench.clock.pending_calls == 1)
        bench.acceptor.stop()
        bench.acceptor.stop()
        assert bench.clock.pending_calls == 0
    assert bench.taken == []


@pytest.mark.parametrize(
    ("own", "all_of_them", "most", "may"),
    [
        (0, 0, 100, 50),
        (50, 50, 100, 50),
        (0, 50, 100, 25),
        (0, 98, 100, 1),
        (0, 99, 100, 1),
        (0, 100, 100, 0),
        (0, 0, 1, 1),
        (1, 1, 1, 1),
        (1, 2, 2, 1),
    ],
)
def test_a_user_may_have_half_of_what_others_left(
    own: int, all_of_them: int, most: int, may: int
) -> None:
    assert share(own, all_of_them, most) == may
