"""Group commit: one transaction for what waits, and to each its own answer, from the disk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler_daemon.errors import LimitReached, PersistenceFailed
from scheduler_daemon.store.writer import CLOSED, FAILED, GROUP_LIMIT
from tests.store.writing import Bench, bench, raising, write, write_then


@pytest.fixture
async def writing(path: Path) -> AsyncIterator[Bench]:
    async with bench(path) as the_bench:
        yield the_bench


async def test_acts_that_wait_together_share_one_transaction(writing: Bench) -> None:
    assert await writing.together(*map(write, "abc")) == ["a", "b", "c"]
    assert writing.transactions == 1
    assert writing.stored() == ["a", "b", "c"]


async def test_acts_one_after_another_have_a_transaction_each(writing: Bench) -> None:
    for name in "abc":
        assert await writing.writer.run(write(name)) == name
        assert writing.stored()[-1] == name
    assert writing.transactions == 3


async def test_what_comes_during_a_commit_is_in_the_next_group(writing: Bench) -> None:
    loop = asyncio.get_running_loop()
    later: list[asyncio.Task[str]] = []
    come = threading.Event()

    def others() -> None:
        later.extend(loop.create_task(writing.writer.run(write(name))) for name in "bc")
        loop.call_soon(come.set)

    def wait_for_others() -> None:
        loop.call_soon_threadsafe(others)
        assert come.wait(30)

    writing.on["COMMIT"] = wait_for_others
    assert await writing.writer.run(write("a")) == "a"
    assert await asyncio.gather(*later) == ["b", "c"]
    assert writing.transactions == 2


async def test_many_go_in_groups_of_64_in_the_order_in_which_they_came(writing: Bench) -> None:
    names = [f"{number:03}" for number in range(2 * GROUP_LIMIT + 22)]
    assert await writing.together(*map(write, names)) == names
    assert writing.transactions == 3
    assert writing.stored() == names


async def test_callers_pass_patient_acts_which_have_half_of_a_transaction(writing: Bench) -> None:
    """Under a flood of either kind, the other goes on."""
    callers = [f"caller {number:03}" for number in range(GROUP_LIMIT)]
    patient = [f"patient {number:03}" for number in range(GROUP_LIMIT)]
    await asyncio.gather(
        writing.together(*map(write, patient), patient=True),
        writing.together(*map(write, callers)),
    )
    assert writing.transactions == 2
    half = GROUP_LIMIT // 2
    parts = [callers[:half], patient[:half], callers[half:], patient[half:]]
    assert writing.stored() == [name for part in parts for name in part]


async def test_a_transaction_ends_with_the_act_that_writes_much(writing: Bench) -> None:
    """Whoever comes next waits for that one alone; and large ones are not put off without end."""
    runs = [
        writing.writer.run(write(name), patient=True, records=records)
        for name, records in (("a", 1), ("large", 1000), ("b", 63), ("c", 1), ("d", 1))
    ]
    assert await asyncio.gather(*runs) == ["a", "large", "b", "c", "d"]
    assert writing.transactions == 3
    assert writing.stored() == ["a", "large", "b", "c", "d"]


async def test_no_answer_leaves_before_the_commit(writing: Bench) -> None:
    """The first act has run, and is in the file for nobody else, until its group is committed."""
    ran, go_on = threading.Event(), threading.Event()
    first = asyncio.create_task(writing.writer.run(write_then("a", lambda conn: ran.set())))
    second = asyncio.create_task(writing.writer.run(lambda conn: go_on.wait(30)))
    await asyncio.to_thread(ran.wait, 30)
    assert writing.stored() == []
    assert not first.done()
    go_on.set()
    await first
    assert writing.stored() == ["a"]
    assert await second


@pytest.mark.parametrize("error", [LimitReached("enough"), ValueError("a defect"), KeyError("x")])
async def test_an_act_that_raises_gets_its_error_and_takes_only_its_own_writes_back(
    writing: Bench, error: Exception
) -> None:
    given = await writing.together(write("a"), write_then("half", raising(error)), write("b"))
    assert given == ["a", error, "b"]
    assert writing.stored() == ["a", "b"]
    assert writing.failures == []
    assert writing.transactions == 1


async def test_a_constraint_harms_only_the_act_that_broke_it(writing: Bench) -> None:
    given = await writing.together(write("a"), write_then("b", write("a")), write("c"))
    assert isinstance(given[1], sqlite3.IntegrityError)
    assert (given[0], given[2]) == ("a", "c")
    assert writing.stored() == ["a", "c"]


async def test_an_error_of_the_file_is_persistence_failed_and_is_heard_of(writing: Bench) -> None:
    broken = write_then("half", lambda conn: conn.execute("SELECT * FROM missing"))
    given = await writing.together(write("a"), broken, write("b"))
    assert (given[0], given[2]) == ("a", "b")
    assert isinstance(given[1], PersistenceFailed)
    assert str(given[1]) == FAILED
    assert writing.failures == ["no such table: missing"]
    assert writing.stored() == ["a", "b"]


async def test_damage_of_the_file_is_persistence_failed(writing: Bench) -> None:
    """SQLite's word for a damaged file (SQLITE_CORRUPT) comes as a plain DatabaseError."""
    damaged = sqlite3.DatabaseError("database disk image is malformed")
    given = await writing.together(raising(damaged), write("a"))
    assert isinstance(given[0], PersistenceFailed)
    assert given[1] == "a"
    assert writing.failures == ["database disk image is malformed"]


async def test_no_two_callers_get_the_same_exception(writing: Bench) -> None:
    """One that is raised at two places would carry the traces of both."""
    given = await writing.together(*[lambda conn: conn.execute("nonsense")] * 3)
    assert len({id(error) for error in given}) == 3
    assert {type(error) for error in given} == {PersistenceFailed}


async def test_an_act_may_even_raise_what_no_future_carries(writing: Bench) -> None:
    given = await writing.together(raising(StopIteration("x")), write("a"))
    assert isinstance(given[0], RuntimeError)
    assert given[1] == "a"


async def test_the_act_of_a_cancelled_caller_is_stored_and_the_others_are_answered(
    writing: Bench,
) -> None:
    runs = [asyncio.create_task(writing.writer.run(write(name))) for name in "abc"]
    await asyncio.sleep(0)
    runs[1].cancel()
    given = await asyncio.gather(*runs, return_exceptions=True)
    assert (given[0], given[2]) == ("a", "c")
    assert isinstance(given[1], asyncio.CancelledError)
    assert writing.stored() == ["a", "b", "c"]


async def test_closing_writes_what_waits_and_takes_nothing_more(path: Path) -> None:
    async with bench(path) as writing:
        runs = [asyncio.create_task(writing.writer.run(write(name))) for name in "ab"]
        await asyncio.sleep(0)
        await writing.writer.close()
        assert await asyncio.gather(*runs) == ["a", "b"]
        assert writing.stored() == ["a", "b"]
        with pytest.raises(PersistenceFailed, match=CLOSED):
            await writing.writer.run(write("c"))
