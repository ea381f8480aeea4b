"""What goes wrong inside: counted, logged at once and then at a growing distance."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.troubles import KINDS_KEPT, Confined, Troubles, Unfailing
from tests.support.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def troubles(clock: ManualClock) -> Troubles:
    return Troubles(clock.monotonic)


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with capture_logs() as entries:
        yield entries


def fail(troubles: Troubles, error: BaseException) -> None:
    with troubles.caught("it_failed", owner_uid=1):
        raise error


def test_a_defect_is_counted_and_logged_with_its_traceback(
    troubles: Troubles, lines: list[Any]
) -> None:
    error = RuntimeError("a defect")
    fail(troubles, error)
    (line,) = lines
    assert (line["event"], line["log_level"], line["owner_uid"]) == ("it_failed", "error", 1)
    assert line["exc_info"] is error
    assert troubles.count == 1


def test_a_failure_of_the_file_is_no_defect_and_needs_no_traceback(
    troubles: Troubles, lines: list[Any]
) -> None:
    fail(troubles, PersistenceFailed("no room"))
    (line,) = lines
    assert (line["log_level"], line["code"]) == ("warning", "persistence_failed")
    assert "exc_info" not in line
    assert troubles.count == 0


def test_what_repeats_is_written_at_a_growing_distance_and_says_what_it_left_out(
    clock: ManualClock, troubles: Troubles, lines: list[Any]
) -> None:
    """At once, after 1, 2, 4, ... seconds and from then on once in five minutes."""
    for _ in range(3600):
        fail(troubles, RuntimeError("a defect"))
        clock.advance(1)
    assert troubles.count == 3600
    assert len(lines) <= 9 + 3600 / 300
    assert sum(line.get("left_out", 0) for line in lines) + len(lines) > 3600 - 300
    with capture_logs() as first_minute:
        other = Troubles(clock.monotonic)
        for _ in range(600):
            other.told("database_failed", "disk I/O error")
            clock.advance(0.1)
    assert len(first_minute) == 6


def test_another_kind_of_trouble_is_written_at_once(troubles: Troubles, lines: list[Any]) -> None:
    fail(troubles, RuntimeError("here"))
    with troubles.caught("it_failed"):
        int("there")
    fail(troubles, PersistenceFailed("no room"))
    troubles.told("it_failed", "disk I/O error")
    troubles.told("it_failed", "database or disk is full")
    fail(troubles, RuntimeError("here, again"))
    assert len(lines) == 5


def test_what_comes_back_after_a_long_time_is_written_as_if_new(
    clock: ManualClock, troubles: Troubles, lines: list[Any]
) -> None:
    for _ in range(2):
        troubles.told("it_failed", "no room")
        troubles.told("it_failed", "no room")
        clock.advance(1000)
    assert len(lines) == 2
    assert "left_out" not in lines[1]


def test_few_kinds_are_remembered(troubles: Troubles, lines: list[Any]) -> None:
    for number in range(KINDS_KEPT + 1):
        troubles.told("it_failed", str(number))
    troubles.told("it_failed", "0")
    troubles.told("it_failed", str(KINDS_KEPT))
    assert len(lines) == KINDS_KEPT + 2


def test_an_error_that_was_never_raised_is_logged_too(troubles: Troubles, lines: list[Any]) -> None:
    troubles.met("it_failed", sqlite3.OperationalError("made up"))
    assert len(lines) == 1


async def test_a_cancellation_gone_astray_is_caught_and_a_real_one_is_not(
    troubles: Troubles,
) -> None:
    fail(troubles, asyncio.CancelledError())
    assert troubles.count == 1

    async def wait() -> None:
        with troubles.caught("it_failed"):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert troubles.count == 1


def test_what_is_kept_from_its_caller_is_called_as_it_is(troubles: Troubles) -> None:
    heard: list[tuple[int, str]] = []

    def hear(number: int, *, word: str) -> None:
        heard.append((number, word))
        raise RuntimeError("a defect")

    troubles.kept_from("telling_failed", hear)(1, word="w")
    assert heard == [(1, "w")]
    assert troubles.count == 1


async def test_a_session_is_taken_up_again_once_however_often_it_failed(
    clock: ManualClock, troubles: Troubles
) -> None:
    again: list[tuple[int, str]] = []
    confined = Confined(clock, troubles, again.append)
    for _ in range(3):
        with confined.to((1, "s")):
            int("a defect")
    with confined.to((1, "t")):
        int("1")
    clock.advance(1)
    assert again == [(1, "s")]
    with confined.to((1, "s")):
        int("a defect")
    clock.advance(1)
    assert again == [(1, "s")] * 2

    async def wait() -> None:
        with confined.to((1, "s")):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Failing:
    """Fails so often, and counts its calls."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.times:
            raise RuntimeError("a defect")
        return self.calls

    async def later(self) -> int:
        return self()


@pytest.mark.parametrize(("longest", "seconds"), [(300.0, 1 + 2 + 4 + 8), (1.0, 4)])
async def test_what_must_not_be_left_undone_is_tried_again_after_pauses_until_it_is_done(
    clock: ManualClock, troubles: Troubles, longest: float, seconds: int
) -> None:
    failing = Failing(4)
    act = Unfailing(clock, troubles).run("not_done", failing.later, longest=longest, owner_uid=1)
    task = asyncio.create_task(act)
    passed = 0.0
    while not task.done():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if clock.pending_calls:
            clock.advance(0.25)
            passed += 0.25
    assert await task == failing.calls == 5
    assert seconds / 2 <= passed <= seconds + 4 * 0.25
    assert troubles.count == 4


async def test_what_must_not_be_left_undone_can_be_cancelled(
    clock: ManualClock, troubles: Troubles
) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(Unfailing(clock, troubles).run("not_done", wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert troubles.count == 0


async def test_what_is_called_is_called_at_once_and_from_timers_until_it_is_done(
    clock: ManualClock, troubles: Troubles
) -> None:
    failing = Failing(2)
    Unfailing(clock, troubles).call("not_done", failing)
    assert failing.calls == 1
    clock.advance(1)
    assert failing.calls == 2
    clock.advance(1000)
    assert failing.calls == 3
    assert troubles.count == 2
