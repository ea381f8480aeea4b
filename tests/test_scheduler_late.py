"""Admissions that come late, and receipts that cannot be written: nothing of them goes again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler_daemon.errors import PersistenceFailed, PersistenceUncertain
from scheduler_daemon.store.store import Left
from scheduler_daemon.wire import params
from tests.support.world import ADMIT, BUSY, ERROR, Json, World, few_rounds, ids_of

pytestmark = pytest.mark.usefixtures("full_pauses")


class Disk:
    """Stands before `store.record`: while `full`, nothing can be written."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full: Exception | None = None
        self.tried = 0
        self._record = world.store.record
        monkeypatch.setattr(world.store, "record", self._try)

    async def _try(self, *values: Any) -> Left:
        self.tried += 1
        if isinstance(self.full, PersistenceUncertain):
            await self._record(*values)
        if self.full is not None:
            raise self.full
        return await self._record(*values)


@pytest.fixture
def disk(world: World, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(world, monkeypatch)


# --- late admissions


async def test_a_late_admission_has_its_receipt_and_nothing_is_pushed_again(world: World) -> None:
    agent = await world.agent("s")
    reminder_id = await world.create(after_seconds=1)
    await world.advance(1)
    await world.advance(30)
    agent.answer({"status": "admitted", "message_id": "late"})
    await world.settled()
    await world.advance(1000)
    assert len(agent.pushed) == 1
    reminder = await world.get(reminder_id)
    assert reminder["ended_reason"] == "delivered"
    assert reminder["last_dispatch"]["message_id"] == "late"
    assert world.clock.pending_calls == 0


async def test_an_admission_in_the_moment_of_its_time_out_keeps_it_from_every_other_session(
    world: World, disk: Disk
) -> None:
    """Its push is over, and it is under way until its receipt is written, wherever it moves."""
    agent = await world.agent("s", "t")
    await world.create(after_seconds=1)
    await world.advance(1)
    disk.full = PersistenceFailed("full")
    world.clock.advance(30)
    agent.answer(ADMIT)
    await world.settled()
    await world.call("sessions.transfer", params.Transfer, {"from": "s", "to": "t"})
    await world.advance(600)
    disk.full = None
    await world.advance(600)
    assert len(agent.pushed) == 1
    assert world.scheduler.failures == 0
    assert len(world.receipts()) == 1


@pytest.mark.parametrize("by_hand", [False, True])
async def test_what_its_new_session_read_before_the_receipt_was_written_is_not_pushed_there(
    world: World, monkeypatch: pytest.MonkeyPatch, by_hand: bool
) -> None:
    agent = await world.agent("s", "t")
    reminder_id = await world.create(after_seconds=1000 if by_hand else 1)
    if by_hand:
        await world.act("run_now", reminder_id)
    await world.advance(1)
    has_read, goes_on, due = asyncio.Event(), asyncio.Event(), world.store.reader.due

    async def slow(key: Any, *more: Any) -> Any:
        found = await due(key, *more)
        if key[1] == "t":
            has_read.set()
            await goes_on.wait()
        return found

    monkeypatch.setattr(world.store.reader, "due", slow)
    await world.call("sessions.transfer", params.Transfer, {"from": "s", "to": "t"})
    await has_read.wait()
    agent.answer(ADMIT)
    await world.settled()
    goes_on.set()
    await world.settled()
    assert agent.sessions == ["s"]
    assert len(world.receipts()) == 1


async def test_a_late_admission_ends_the_pause_of_its_session(world: World) -> None:
    agent = await world.agent("s")
    await world.create(prompt="first", after_seconds=1)
    await world.create(prompt="second", after_seconds=1)
    await world.advance(1)
    await world.advance(30)
    agent.answer(ADMIT)
    await world.settled()
    assert agent.prompts == [["first"], ["second"]]


async def test_an_admission_in_the_moment_of_its_time_out_counts(world: World) -> None:
    agent = await world.agent("s")
    reminder_id = await world.create(after_seconds=1)
    await world.advance(1)
    world.clock.advance(30)
    agent.answer(ADMIT)
    await world.settled()
    await world.advance(1000)
    assert len(agent.pushed) == 1
    assert await world.why(reminder_id) == {"why": "ended"}


@pytest.mark.parametrize("answer", [ADMIT, BUSY, ERROR, {}])
async def test_a_late_admission_counts_while_the_message_is_pushed_again(
    world: World, answer: Json
) -> None:
    """Whatever the host says to the second push, the record advances once and that is all."""
    agent = await world.agent("s")
    reminder_id = await world.create(every_seconds=300)
    await world.advance(300)
    await world.advance(30)
    await world.advance(1)
    first, second = agent.pushed
    agent.answer(ADMIT, first)
    await world.settled()
    assert (await world.get(reminder_id))["scheduled_at"] == "2026-01-01T12:10:00.000Z"
    agent.answer(answer, second)
    await world.settled()
    await world.advance(200)
    assert len(agent.pushed) == 2
    assert world.receipts() == ids_of(first)
    agent.says = ADMIT
    await world.advance(100)
    assert len(agent.pushed) == 3


async def test_a_late_admission_of_an_older_occurrence_writes_its_row_and_moves_nothing(
    world: World,
) -> None:
    agent = await world.agent("s")
    reminder_id = await world.create(every_seconds=300)
    await world.advance(300)
    await world.advance(30)
    await world.advance(299)
    first, second = agent.pushed
    agent.answer(ADMIT, second)
    await world.settled()
    moving = "scheduled_at, after_at, computed_at, last_occurrence_at, generation, status"
    before = world.sql(f"SELECT {moving} FROM reminders")
    agent.answer(ADMIT, first)
    await world.settled()
    assert world.sql(f"SELECT {moving} FROM reminders") == before
    assert world.receipts() == [*ids_of(second), *ids_of(first)]
    assert (await world.get(reminder_id))["scheduled_at"] == "2026-01-01T12:15:00.000Z"


async def test_a_late_admission_of_a_record_that_was_timed_anew_does_not_consume_it(
    world: World,
) -> None:
    agent = await world.agent("s")
    reminder_id = await world.create(after_seconds=1)
    await world.advance(1)
    await world.advance(30)
    await world.update(reminder_id, after_seconds=100)
    agent.answer(ADMIT)
    await world.settled()
    assert world.receipts() == ids_of(agent.pushed[0])
    agent.says = ADMIT
    await world.advance(100)
    assert world.receipts() == [*ids_of(agent.pushed[0]), *ids_of(agent.pushed[1])]
    assert len({*world.receipts()}) == 2


async def test_only_the_newest_push_that_timed_out_is_remembered_per_session(
    world: World,
) -> None:
    agent = await world.agent("s")
    reminder_id = await world.create(after_seconds=1)
    await world.advance(1)
    await world.advance(30)
    await world.advance(1)
    await world.advance(30)
    first, second = agent.pushed
    agent.answer(ADMIT, first)
    await world.settled()
    assert world.receipts() == []
    agent.answer(BUSY, second)
    await world.settled()
    assert (await world.why(reminder_id))["why"] == "no_answer"
    agent.answer(ADMIT, second)
    await world.settled()
    assert len(world.receipts()) == 1


async def test_an_admission_after_the_connection_broke_is_none(world: World) -> None:
    agent = await world.agent("s")
    await world.create(after_seconds=1)
    await world.advance(1)
    await world.advance(30)
    (followup,) = agent.pushed
    agent.close()
    agent.answer(ADMIT, followup)
    await world.settled()
    assert world.receipts() == []


async def test_a_late_admission_wakes_a_session_that_was_forgotten(world: World) -> None:
    agent = await world.agent("*")
    reminder_id = await world.create(after_seconds=1)
    await world.advance(1)
    await world.advance(30)
    agent.detach("*")
    await world.advance(1)
    assert world.state() is None
    agent.answer(ADMIT)
    await world.settled()
    assert await world.why(reminder_id) == {"why": "ended"}
    assert world.state() is None


async def test_nothing_is_planned_while_a_late_admission_is_being_written(
    world: World, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan that was under way when it came, and those that would follow, are not pushed."""
    agent = await world.agent("s")
    await world.create(after_seconds=1)
    await world.advance(1)
    await world.advance(30)
    (followup,) = agent.pushed
    read = world.store.reader.due

    async def read_while_the_admission_comes(*values: Any) -> Any:
        found = await read(*values)
        if agent.open:
            agent.answer(ADMIT, followup)
        return found

    monkeypatch.setattr(world.store.reader, "due", read_while_the_admission_comes)
    disk.full = PersistenceFailed("the disk is full")
    await world.advance(1)
    await world.advance(10)
    disk.full = None
    await world.advance(10)
    assert len(agent.pushed) == 1
    assert world.receipts() == ids_of(followup)


async def test_what_was_planned_before_a_late_admission_and_comes_after_it_is_not_pushed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its receipt was written while the file was read."""
    agent = await world.agent("s")
    await world.create(after_seconds=1)
    await world.advance(1)
    await world.advance(30)
    read = world.store.reader.due

    async def read_and_record(*values: Any) -> Any:
        found = await read(*values)
        if agent.open:
            agent.answer(ADMIT)
            state = world.state()
            while state is not None and state.recording:
                await asyncio.sleep(0)
        return found

    monkeypatch.setattr(world.store.reader, "due", read_and_record)
    await world.advance(1)
    assert len(agent.pushed) == 1


# --- receipts that cannot be written


@pytest.mark.parametrize("recurs", [False, True])
async def test_a_receipt_that_cannot_be_written_is_tried_alone_and_without_end(
    world: World, disk: Disk, recurs: bool
) -> None:
    agent = await world.agent("s", "t", says=ADMIT)
    rule: Json = {"every_seconds": 300} if recurs else {"after_seconds": 300}
    reminder_id = await world.create(**rule)
    behind = await world.create(after_seconds=301)
    disk.full = PersistenceFailed("the disk is full")
    with few_rounds(world, 20):
        await world.advance(300)
        for _ in range(60):
            await world.advance(60)
    assert len(agent.pushed) == 1
    assert await world.why(reminder_id) == {"why": "receipt"}
    assert await world.why(behind) == {"why": "behind"}
    (retrying,) = (await world.status())["retrying"]
    assert retrying == {"session_id": "s", "why": "receipt", "attempts": 1}
    assert 15 < disk.tried < 30  # 1 s doubling to 300 s
    disk.full = None
    await world.advance(300)
    assert world.receipts()[0] == ids_of(agent.pushed[0])[0]
    assert world.receipts().count(ids_of(agent.pushed[0])[0]) == 1
    assert (await world.why(behind)) == {"why": "ended"}


async def test_a_receipt_that_waits_keeps_its_count_although_its_reminder_was_deleted(
    world: World, disk: Disk
) -> None:
    agent = await world.agent("s", says=BUSY)
    reminder_id = await world.create(after_seconds=1)
    await world.advance(1)
    disk.full = PersistenceFailed("the disk is full")
    agent.says = ADMIT
    await world.advance(1)
    await world.delete(reminder_id)
    (retrying,) = (await world.status())["retrying"]
    assert retrying == {"session_id": "s", "why": "receipt", "attempts": 2}


async def test_other_sessions_go_on_while_a_receipt_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = world.store.record

    async def record_others(followup: Any, *values: Any) -> Left:
        if followup.session_id == "s":
            raise RuntimeError("only this one")
        return await record(followup, *values)

    monkeypatch.setattr(world.store, "record", record_others)
    agent = await world.agent("s", "t", says=ADMIT)
    await world.create("s", after_seconds=1)
    await world.create("t", after_seconds=1)
    await world.create("t", after_seconds=2)
    await world.advance(1)
    await world.advance(1)
    assert sorted(agent.sessions) == ["s", "t", "t"]
    assert len(world.receipts()) == 2
    assert world.scheduler.failures >= 1


async def test_a_receipt_of_which_it_was_not_known_whether_it_was_written_is_written_once(
    world: World, disk: Disk
) -> None:
    agent = await world.agent("s", says=ADMIT)
    reminder_id = await world.create(every_seconds=300)
    disk.full = PersistenceUncertain("who knows")
    await world.advance(300)
    assert (await world.why(reminder_id))["why"] == "receipt"
    disk.full = None
    await world.advance(1)
    assert world.receipts() == ids_of(agent.pushed[0])
    assert (await world.why(reminder_id)) == {"why": "target"}


async def test_a_late_admission_that_cannot_be_written_says_so(world: World, disk: Disk) -> None:
    agent = await world.agent("s")
    reminder_id = await world.create(after_seconds=1)
    await world.advance(1)
    await world.advance(30)
    disk.full = PersistenceFailed("the disk is full")
    agent.answer(ADMIT)
    await world.settled()
    assert await world.why(reminder_id) == {"why": "receipt"}
    await world.advance(100)
    assert len(agent.pushed) == 1
    disk.full = None
    await world.advance(100)
    assert await world.why(reminder_id) == {"why": "ended"}


# --- stopping


async def test_stopping_waits_for_what_is_in_flight_and_its_receipts(world: World) -> None:
    agent = await world.agent("s")
    await world.create("s", after_seconds=1)
    await world.create("s", after_seconds=1)
    await world.advance(1)
    stopping = asyncio.create_task(world.scheduler.stop(60.0))
    await asyncio.sleep(0)
    assert not stopping.done()
    agent.answer(ADMIT)
    await stopping
    assert world.receipts() == ids_of(agent.pushed[0])
    assert len(agent.pushed) == 1
    assert world.clock.pending_calls == 0


async def test_stopping_starts_nothing_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what is being planned nor what comes due."""
    agent = await world.agent("s", "t")
    await world.create("s", after_seconds=1)
    await world.create("t", after_seconds=2)
    read = world.store.reader.due
    stopping: list[asyncio.Task[None]] = []

    async def read_and_stop(*values: Any) -> Any:
        found = await read(*values)
        stopping.append(asyncio.create_task(world.scheduler.stop(60.0)))
        await asyncio.sleep(0)
        return found

    monkeypatch.setattr(world.store.reader, "due", read_and_stop)
    await world.advance(1)
    await world.advance(1)
    await asyncio.gather(*stopping)
    assert agent.pushed == []


async def test_what_comes_due_after_stopping_is_not_even_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.agent("s")
    await world.create(after_seconds=1)
    await world.scheduler.stop(0.0)

    async def unwanted(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(world.store.reader, "due", unwanted)
    await world.advance(1)
    assert world.scheduler.failures == 0


async def test_stopping_does_not_wait_for_ever(world: World) -> None:
    agent = await world.agent("s")
    await world.create(after_seconds=1)
    await world.advance(1)
    await world.scheduler.stop(0.0)
    assert len(agent.pushed) == 1
    assert agent.host.in_flight == 0
    assert world.receipts() == []
