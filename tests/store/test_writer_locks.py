"""A foreign write lock costs waiting, and never an answer that was not stored."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import TypeVar

import pytest

from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.store.writer import LOCKED
from tests.store.writing import Act, Bench, InterruptedFromOutside, bench, write

T = TypeVar("T")


class Stranger:
    """Another program on the file, which takes the write lock and keeps it."""

    def __init__(self, path: Path) -> None:
        self._conn = sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    def lock(self) -> None:
        self._conn.execute("BEGIN IMMEDIATE")

    def unlock(self) -> None:
        self._conn.execute("ROLLBACK")

    def close(self) -> None:
        self._conn.close()


@pytest.fixture
async def writing(path: Path) -> AsyncIterator[Bench]:
    async with bench(path) as the_bench:
        yield the_bench


@pytest.fixture
async def stranger(writing: Bench) -> AsyncIterator[Stranger]:
    program = Stranger(writing.path)
    yield program
    program.close()


async def soon(awaited: Awaitable[T]) -> T:
    """What comes of it; a writer that hangs is a failure, not a test that never ends."""
    async with asyncio.timeout(30):
        return await awaited


def started(writing: Bench, *names: str, patient: bool = False) -> list[asyncio.Task[str]]:
    return [asyncio.create_task(writing.writer.run(write(name), patient=patient)) for name in names]


async def test_a_writer_waits_for_the_lock_and_tries_again(
    writing: Bench, stranger: Stranger
) -> None:
    stranger.lock()
    runs = started(writing, "a", "b")
    await writing.ticks.next_read()
    for _ in range(2):  # attempts that met the lock
        await writing.ticks.next_read()
        assert not any(run.done() for run in runs)
    stranger.unlock()
    assert await soon(asyncio.gather(*runs)) == ["a", "b"]
    assert writing.stored() == ["a", "b"]
    assert writing.failures == []


async def test_after_wait_seconds_nothing_was_stored_and_that_is_said(
    writing: Bench, stranger: Stranger
) -> None:
    stranger.lock()
    (early,) = started(writing, "early")
    await writing.ticks.next_read()
    writing.ticks.now = 9.0
    (later,) = started(writing, "later")
    await writing.ticks.next_read()
    assert not early.done()
    writing.ticks.now = 10.0
    with pytest.raises(PersistenceFailed, match=LOCKED):
        await soon(early)
    assert not later.done()
    assert writing.failures == ["another program holds the write lock"]
    stranger.unlock()
    assert await soon(later) == "later"
    assert writing.stored() == ["later"]


async def test_the_patient_wait_without_end(writing: Bench, stranger: Stranger) -> None:
    stranger.lock()
    (patient,) = started(writing, "patient", patient=True)
    (other,) = started(writing, "other")
    await writing.ticks.next_read()
    writing.ticks.now = 1e9
    with pytest.raises(PersistenceFailed):
        await soon(other)
    await writing.ticks.next_read()
    assert not patient.done()
    stranger.unlock()
    assert await soon(patient) == "patient"


async def test_of_a_patient_one_it_is_said_once_that_it_waits(
    writing: Bench, stranger: Stranger
) -> None:
    """A receipt that nobody asked for waits in the open."""
    stranger.lock()
    (patient,) = started(writing, "patient", patient=True)
    await writing.ticks.next_read()
    writing.ticks.now = 9.9
    for _ in range(2):
        await writing.ticks.next_read()
    assert writing.failures == []
    writing.ticks.now = 10.0
    for _ in range(3):
        await writing.ticks.next_read()
    assert writing.failures == ["another program holds the write lock"]
    assert not patient.done()
    stranger.unlock()
    assert await soon(patient) == "patient"
    assert len(writing.failures) == 1


async def test_when_the_store_closes_even_the_patient_wait_no_longer_than_wait_seconds(
    writing: Bench, stranger: Stranger
) -> None:
    stranger.lock()
    (patient,) = started(writing, "patient", patient=True)
    await writing.ticks.next_read()
    closing = asyncio.create_task(writing.writer.close())
    await writing.ticks.next_read()
    writing.ticks.now = 9.9
    await writing.ticks.next_read()
    assert not patient.done()
    writing.ticks.now = 10.0
    with pytest.raises(PersistenceFailed, match=LOCKED):
        await soon(patient)
    await soon(closing)
    stranger.unlock()
    assert writing.stored() == []


async def test_more_than_a_group_waits_and_is_refused_as_a_whole(
    writing: Bench, stranger: Stranger
) -> None:
    stranger.lock()
    runs = started(writing, *map(str, range(100)))
    await writing.ticks.next_read()
    writing.ticks.now = 10.0
    given = await soon(asyncio.gather(*runs, return_exceptions=True))
    assert {type(error) for error in given} == {PersistenceFailed}
    assert len({id(error) for error in given}) == 100
    stranger.unlock()
    assert writing.stored() == []
    assert await writing.writer.run(write("after")) == "after"


def hold_from(writing: Bench, stranger: Stranger, first: int, end: int | None = None) -> None:
    """Lock the file just before the transaction of that number, and unlock it before another."""

    def begins() -> None:
        if writing.transactions == first:
            stranger.lock()
        if writing.transactions == end:
            stranger.unlock()
        else:
            writing.on["BEGIN IMMEDIATE"] = begins

    writing.on["BEGIN IMMEDIATE"] = begins


async def test_a_lock_between_acts_that_go_one_by_one_holds_up_only_those_behind_it(
    writing: Bench, stranger: Stranger
) -> None:
    """The first of a torn group is stored and answered; the rest waits."""
    hold_from(writing, stranger, first=3)
    acts: list[Act] = [write("a"), InterruptedFromOutside("b", times=1), write("c")]
    runs = [asyncio.create_task(writing.writer.run(act)) for act in acts]
    assert await runs[0] == "a"
    assert writing.stored() == ["a"]
    await writing.ticks.next_read()
    assert not runs[1].done()
    assert not runs[2].done()
    writing.on.clear()
    stranger.unlock()
    assert await soon(asyncio.gather(*runs)) == ["a", "b", "c"]
    assert writing.stored() == ["a", "b", "c"]


async def test_what_waits_for_a_lock_is_not_overtaken(writing: Bench, stranger: Stranger) -> None:
    """Not even if the lock goes before the next of its torn group would be tried."""
    hold_from(writing, stranger, first=3, end=4)
    given = await writing.together(
        write("a"), InterruptedFromOutside("b", times=1), write("c"), write("d")
    )
    assert given == ["a", "b", "c", "d"]
    assert writing.stored() == ["a", "b", "c", "d"]


async def test_somebody_who_only_reads_holds_nobody_up(writing: Bench) -> None:
    reader = sqlite3.connect(writing.path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM written").fetchone() == (0,)
    assert await writing.writer.run(write("a")) == "a"
    assert reader.execute("SELECT count(*) FROM written").fetchone() == (0,)
    reader.close()
