"""What goes when: one-shots first and one at a time, then one message of everything overdue."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from scheduler_daemon.planning import CHUNK
from scheduler_daemon.rules import instant_text
from tests.support.clock import START, ManualClock
from tests.support.world import ADMIT, Json, World, ids_of, running_world


def at(seconds: float) -> str:
    """The canonical instant so long after the start of the clock."""
    return instant_text(START + dt.timedelta(seconds=seconds))


async def test_a_reminder_goes_at_its_target_and_not_before(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    await world.create(prompt="look", after_seconds=60)
    await world.advance(59.999)
    assert agent.pushed == []
    await world.advance(0.001)
    assert agent.prompts == [["look"]]


async def test_an_admitted_one_shot_has_its_receipt_and_has_ended(world: World) -> None:
    await world.agent("s", says={"status": "admitted", "message_id": "m1"}, name="codex")
    reminder_id = await world.create(prompt="look", after_seconds=60)
    await world.advance(61)
    reminder = await world.get(reminder_id)
    assert (reminder["status"], reminder["ended_reason"]) == ("ended", "delivered")
    assert reminder["waiting_for"] == {"why": "ended"}
    dispatch = reminder["last_dispatch"]
    assert dispatch["occurrence_id"] == f"{reminder_id}@{at(60)}"
    assert (dispatch["host"], dispatch["message_id"]) == ("codex", "m1")
    assert (dispatch["decided_at"], dispatch["outcome"]) == (at(61), "admitted")


async def test_due_one_shots_go_one_at_a_time_by_target_and_then_creation(world: World) -> None:
    await world.create(prompt="last", after_seconds=30)
    await world.create(prompt="first", after_seconds=20)
    await world.create(prompt="second", after_seconds=20)
    await world.advance(60)
    agent = await world.agent("s")
    assert agent.prompts == [["first"]]
    for expected in (["second"], ["last"]):
        agent.answer(ADMIT)
        await world.settled()
        assert agent.prompts[-1] == expected
    assert [followup["batch"] for followup in agent.pushed] == [False] * 3


async def test_one_shots_go_before_what_recurs_however_long_that_is_due(world: World) -> None:
    await world.create(prompt="often", every_seconds=300)
    await world.create(prompt="once", after_seconds=900)
    await world.advance(1000)
    agent = await world.agent("s", says=ADMIT)
    assert agent.prompts == [["once"], ["often"]]


async def test_a_one_shot_that_comes_due_overtakes_the_batch_that_waits(world: World) -> None:
    agent = await world.agent("s")
    await world.create(prompt="once", after_seconds=300)
    await world.create(prompt="then", after_seconds=301)
    await world.create(prompt="often", every_seconds=300)
    await world.advance(300)
    await world.advance(1)
    for _ in range(3):
        agent.answer(ADMIT)
        await world.settled()
    assert agent.prompts == [["once"], ["then"], ["often"]]


async def test_everything_overdue_that_recurs_comes_in_one_message(world: World) -> None:
    """Each with its one latest occurrence, by target and then creation, one decision time."""
    await world.create(prompt="slow", every_seconds=600)
    await world.create(prompt="fast", every_seconds=300)
    await world.create(prompt="same", every_seconds=600)
    await world.create(prompt="clock", daily={"time": "12:05", "time_zone": "UTC"})
    await world.create(prompt="later", every_seconds=1800)
    await world.advance(1000)
    agent = await world.agent("s", says=ADMIT)
    (followup,) = agent.pushed
    assert followup["batch"] is True
    assert followup["decided_at"] == at(1000)
    facts = [
        (each["prompt"], each["occurrence_at"], each.get("missed_from"))
        for each in followup["occurrences"]
    ]
    assert facts == [
        ("fast", at(900), at(300)),
        ("clock", at(300), None),
        ("slow", at(600), None),
        ("same", at(600), None),
    ]
    decided = world.sql("SELECT DISTINCT followup_id, decided_at FROM dispatches")
    assert decided == [(followup["followup_id"], at(1000))]


async def test_there_is_no_second_round_for_what_was_missed(world: World) -> None:
    reminder_id = await world.create(every_seconds=300)
    await world.advance(1000)
    agent = await world.agent("s", says=ADMIT)
    await world.advance(199)
    assert len(agent.pushed) == 1
    await world.advance(1)
    assert [ids_of(followup) for followup in agent.pushed] == [
        [f"{reminder_id}@{at(900)}"],
        [f"{reminder_id}@{at(1200)}"],
    ]
    assert "missed_from" not in agent.pushed[1]["occurrences"][0]


async def test_a_batch_is_read_in_chunks_and_sent_whole(world: World) -> None:
    prompts = [f"p{number}" for number in range(CHUNK + 20)]
    for prompt in prompts:
        await world.create(prompt=prompt, every_seconds=300)
    await world.advance(300)
    agent = await world.agent("s", says=ADMIT)
    assert agent.prompts == [prompts]
    assert len(world.receipts()) == len(prompts)


async def test_a_batch_too_long_for_a_frame_is_cut_in_order_into_as_few_as_fit(
    tmp_path: Path,
) -> None:
    """Each message is planned when it goes. Agents refuse a frame beyond the limit."""
    async with running_world(tmp_path, max_frame_bytes=64 * 1024) as world:
        for number in range(12):
            await world.create(prompt=f"{number:02}" + "x" * 9000, every_seconds=300)
        await world.advance(300)
        agent = await world.agent("s")
        await world.advance(7)
        while agent.open:
            agent.answer(ADMIT)
            await world.settled()
        assert [len(each) for each in agent.prompts] == [3, 3, 3, 3]
        assert [each[:2] for followup in agent.prompts for each in followup] == [
            f"{number:02}" for number in range(12)
        ]
        assert [each["decided_at"] for each in agent.pushed] == [at(300), at(307), at(307), at(307)]


async def test_while_a_message_is_in_flight_others_of_its_session_wait(world: World) -> None:
    first = await world.create(prompt="first", after_seconds=10)
    second = await world.create(prompt="second", after_seconds=11)
    other = await world.create("other", prompt="elsewhere", after_seconds=11)
    agent = await world.agent("s", "other")
    await world.advance(11)
    assert sorted(agent.prompts) == [["elsewhere"], ["first"]]
    assert (await world.why(first)) == {"why": "in_flight", "attempts": 1}
    assert (await world.why(second)) == {"why": "behind"}
    assert (await world.why(other)) == {"why": "in_flight", "attempts": 1}


async def test_a_reminder_made_for_a_live_session_goes_when_it_is_due(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    await world.create(prompt="second", after_seconds=20)
    await world.create(prompt="first", after_seconds=10)
    await world.advance(10)
    assert agent.prompts == [["first"]]
    await world.advance(10)
    assert agent.prompts == [["first"], ["second"]]


async def test_a_host_gets_only_its_own_users_sessions(world: World) -> None:
    await world.create("s", prompt="mine")
    await world.advance(60)
    for sessions in (["s"], ["*"]):
        stranger = await world.agent(*sessions, uid=2000)
        assert stranger.pushed == []
    assert (await world.agent("s", says=ADMIT)).prompts == [["mine"]]


async def test_the_last_occurrence_of_all_time_ends_a_record(tmp_path: Path) -> None:
    clock = ManualClock(dt.datetime(9999, 12, 31, 23, 50, tzinfo=dt.UTC))
    async with running_world(tmp_path, clock) as world:
        reminder_id = await world.create(every_seconds=300)
        agent = await world.agent("s", says=ADMIT)
        await world.advance(300)
        assert len(agent.pushed) == 1
        reminder = await world.get(reminder_id)
        assert (reminder["status"], reminder["ended_reason"]) == ("ended", "range")


@pytest.mark.parametrize("recurs", [False, True])
async def test_a_reminders_own_turn_may_manage_reminders_before_it_answers(
    world: World, recurs: bool
) -> None:
    agent = await world.agent("s")
    rule: Json = {"every_seconds": 300} if recurs else {"after_seconds": 300}
    await world.create(prompt="turn", **rule)
    gone = await world.create(prompt="to be deleted", after_seconds=301)
    await world.advance(300)
    made = await world.create(prompt="made in the turn", after_seconds=1)
    assert len((await world.page())["items"]) == 3
    assert await world.delete(gone)
    await world.advance(1)
    agent.answer(ADMIT)
    await world.settled()
    assert agent.prompts == [["turn"], ["made in the turn"]]
    assert (await world.why(made))["why"] == "in_flight"
