"""Reminders that are changed or deleted while they are being planned or in flight."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_daemon.desk import Caller
from scheduler_daemon.wire import params
from tests.support.world import ADMIT, BUSY, UID, Json, World, ids_of

ME = Caller(UID, False)


class Planning:
    """Lets something happen once between the first read of what is due and the push."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self._world = world
        self._read = world.store.reader.due
        self._method = ""
        self._asked: Json = {}
        monkeypatch.setattr(world.store.reader, "due", self._read_and_act)

    def then(self, method: str, **asked: Any) -> None:
        self._method, self._asked = method, asked

    async def _read_and_act(self, *values: Any) -> Any:
        found = await self._read(*values)
        method, self._method = self._method, ""
        if method:
            model: Any = {"delete": params.One, "update": params.Update}[method]
            await getattr(self._world.service, method)(ME, params.parse(model, self._asked))
        return found


@pytest.fixture
def planning(world: World, monkeypatch: pytest.MonkeyPatch) -> Planning:
    return Planning(world, monkeypatch)


# --- before the push


async def test_what_is_deleted_before_the_push_is_not_pushed(
    world: World, planning: Planning
) -> None:
    agent = await world.agent("s", says=ADMIT)
    reminder_id = await world.create(after_seconds=1)
    planning.then("delete", id=reminder_id)
    await world.advance(1)
    assert agent.pushed == []


async def test_words_changed_before_the_push_are_the_ones_pushed(
    world: World, planning: Planning
) -> None:
    agent = await world.agent("s", says=ADMIT)
    reminder_id = await world.create(prompt="old", after_seconds=1)
    planning.then("update", id=reminder_id, revision=1, prompt="new")
    await world.advance(1)
    assert agent.prompts == [["new"]]


async def test_what_is_timed_anew_before_the_push_goes_at_its_new_time(
    world: World, planning: Planning
) -> None:
    agent = await world.agent("s", says=ADMIT)
    reminder_id = await world.create(prompt="old", after_seconds=1)
    planning.then("update", id=reminder_id, revision=1, after_seconds=60)
    await world.advance(1)
    assert agent.pushed == []
    await world.advance(60)
    assert len(agent.pushed) == 1


async def test_a_host_that_takes_over_before_the_push_gets_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await world.agent("s", says=ADMIT)
    new = await world.agent("other", says=ADMIT)
    read = world.store.reader.due

    async def read_and_attach(*values: Any) -> Any:
        found = await read(*values)
        if "s" not in new.host.sessions:
            new.attach("s")
        return found

    monkeypatch.setattr(world.store.reader, "due", read_and_attach)
    await world.create(after_seconds=1)
    await world.advance(1)
    assert (len(old.pushed), len(new.pushed)) == (0, 1)


# --- in flight


@pytest.mark.parametrize("recurs", [False, True])
async def test_a_record_deleted_in_flight_stays_deleted_and_its_receipt_is_kept(
    world: World, recurs: bool
) -> None:
    agent = await world.agent("s")
    rule: Json = {"every_seconds": 300} if recurs else {"after_seconds": 300}
    reminder_id = await world.create(prompt="gone", **rule)
    await world.advance(300)
    assert await world.delete(reminder_id)
    agent.answer(ADMIT)
    await world.settled()
    assert world.sql("SELECT count(*) FROM reminders") == [(0,)]
    (dispatch,) = (await world.history(session_id="s"))["items"]
    assert (dispatch["reminder_id"], dispatch["prompt"]) == (reminder_id, "gone")
    await world.advance(1000)
    assert len(agent.pushed) == 1


async def test_a_record_deleted_while_its_session_is_busy_is_not_tried_again(
    world: World,
) -> None:
    agent = await world.agent("s")
    reminder_id = await world.create(after_seconds=1)
    await world.advance(1)
    assert await world.delete(reminder_id)
    agent.answer(BUSY)
    await world.advance(1000)
    assert len(agent.pushed) == 1


async def test_a_one_shot_timed_anew_in_flight_comes_again_at_its_new_time(world: World) -> None:
    """The receipt of what was sent is written, and does not consume the new timing."""
    agent = await world.agent("s")
    reminder_id = await world.create(after_seconds=1)
    await world.advance(1)
    updated = await world.update(reminder_id, after_seconds=60)
    assert updated["dropped_occurrence"] == "2026-01-01T12:00:01.000Z"
    assert await world.why(reminder_id) == {"why": "target"}
    agent.answer(ADMIT)
    await world.settled()
    assert world.receipts() == ids_of(agent.pushed[0])
    assert (await world.get(reminder_id))["status"] == "active"
    agent.says = ADMIT
    await world.advance(60)
    assert world.receipts() == [*ids_of(agent.pushed[0]), *ids_of(agent.pushed[1])]
    assert (await world.get(reminder_id))["status"] == "ended"


async def test_a_recurring_record_timed_anew_in_flight_keeps_its_new_target(world: World) -> None:
    agent = await world.agent("s")
    reminder_id = await world.create(every_seconds=300)
    await world.advance(300)
    await world.update(reminder_id, every_seconds=3600)
    agent.answer(ADMIT)
    await world.settled()
    reminder = await world.get(reminder_id)
    assert reminder["scheduled_at"] == "2026-01-01T13:05:00.000Z"
    assert reminder["last_dispatch"]["occurrence_at"] == "2026-01-01T12:05:00.000Z"


async def test_a_target_that_is_moved_back_behind_what_is_in_flight_gets_a_new_generation(
    world: World,
) -> None:
    agent = await world.agent("s")
    reminder_id = await world.create(at="2026-01-01T14:00:00Z")
    await world.advance(7200)
    await world.jump(-7200)
    await world.update(reminder_id, at="2026-01-01T13:00:00Z")
    agent.answer(ADMIT)
    await world.settled()
    agent.says = ADMIT
    await world.advance(3600)
    assert [ids_of(followup) for followup in agent.pushed] == [
        [f"{reminder_id}@2026-01-01T14:00:00.000Z"],
        [f"{reminder_id}.1@2026-01-01T13:00:00.000Z"],
    ]


async def test_words_changed_in_flight_change_nothing_else(world: World) -> None:
    """The record is consumed, and its receipt shows the words that were sent."""
    agent = await world.agent("s")
    reminder_id = await world.create(prompt="sent", after_seconds=1)
    await world.advance(1)
    await world.update(reminder_id, prompt="new", title="new too")
    assert await world.why(reminder_id) == {"why": "in_flight", "attempts": 1}
    agent.answer(ADMIT)
    await world.settled()
    assert await world.why(reminder_id) == {"why": "ended"}
    (dispatch,) = (await world.history(id=reminder_id))["items"]
    assert dispatch["prompt"] == "sent"
    assert "title" not in dispatch


async def test_one_of_a_batch_that_is_deleted_or_changed_in_flight_leaves_the_others_be(
    world: World,
) -> None:
    agent = await world.agent("s")
    kept = await world.create(prompt="kept", every_seconds=300)
    gone = await world.create(prompt="gone", every_seconds=300)
    moved = await world.create(prompt="moved", every_seconds=300)
    await world.advance(300)
    await world.delete(gone)
    await world.update(moved, every_seconds=600)
    agent.answer(ADMIT)
    await world.settled()
    assert len(world.receipts()) == 3
    assert (await world.get(kept))["scheduled_at"] == "2026-01-01T12:10:00.000Z"
    assert (await world.get(moved))["scheduled_at"] == "2026-01-01T12:15:00.000Z"
    agent.says = ADMIT
    await world.advance(300)
    assert agent.prompts[1:] == [["kept"]]


async def test_management_never_waits_for_a_host(world: World) -> None:
    agent = await world.agent("s")
    reminder_id = await world.create(every_seconds=300)
    await world.advance(300)
    await world.update(reminder_id, prompt="other")
    await world.page()
    await world.history(session_id="s")
    await world.delete(reminder_id)
    assert len(agent.open) == 1


# --- rows that do not decode


async def test_a_row_that_does_not_decode_is_set_aside_and_others_go_on(world: World) -> None:
    once = await world.create(prompt="bad once", after_seconds=300)
    often = await world.create(prompt="bad often", every_seconds=300)
    await world.create(prompt="good once", after_seconds=301)
    await world.create(prompt="good often", every_seconds=300)
    for reminder_id in (once, often):
        world.spoil(reminder_id)
    await world.advance(301)
    agent = await world.agent("s", says=ADMIT)
    assert agent.prompts == [["good once"], ["good often"]]
    assert world.sql("SELECT id FROM reminders WHERE status = 'set_aside'") == [(once,), (often,)]
    assert (await world.status())["counts"]["set_aside"] == 2


async def test_a_bad_row_far_down_in_a_batch_does_not_cut_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_daemon.planning.CHUNK", 3)
    ids = [await world.create(prompt=f"p{number}", every_seconds=300) for number in range(8)]
    world.spoil(ids[6])
    await world.advance(300)
    agent = await world.agent("s", says=ADMIT)
    assert agent.prompts == [["p0", "p1", "p2", "p3", "p4", "p5", "p7"]]
