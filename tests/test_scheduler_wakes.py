"""When the loop wakes: recomputed after every change, and never when nothing is to come."""

from __future__ import annotations

import pytest

from tests.support.clock import START
from tests.support.world import ADMIN, ADMIT, BUSY, ERROR, GONE, UID, Json, World, few_rounds

pytestmark = pytest.mark.usefixtures("full_pauses")


def wake(world: World) -> float | None:
    """In how many seconds after the start of the clock the loop wakes, None for never."""
    at = world.scheduler.next_wake_at
    assert world.clock.waiting == [at]
    return None if at is None else (at - START).total_seconds()


@pytest.mark.parametrize("sessions", ["s", "*"])
async def test_the_next_wake_is_right_after_each_change(world: World, sessions: str) -> None:
    agent = await world.agent(sessions, says=ADMIT)
    assert wake(world) is None
    first = await world.create(after_seconds=100)
    assert wake(world) == 100
    second = await world.create(after_seconds=50)
    assert wake(world) == 50
    await world.update(second, after_seconds=200)
    await world.delete(first)
    await world.advance(100)
    assert wake(world) == 200
    await world.advance(100)
    assert len(agent.pushed) == 1
    assert wake(world) is None
    await world.create(every_seconds=300)
    await world.advance(300)
    assert wake(world) == 800
    await world.delete("r3")
    assert wake(world) is None
    await world.create(every_seconds=300)
    assert wake(world) == 800
    agent.close()
    await world.settled()
    assert wake(world) is None


async def test_only_live_sessions_are_waited_for(world: World) -> None:
    await world.agent("s")
    await world.create("cold", after_seconds=10)
    assert wake(world) is None
    await world.agent("cold")
    assert wake(world) == 10


async def test_a_step_of_the_clock_changes_the_next_wake_of_an_after_that_ran_ahead(
    world: World,
) -> None:
    await world.agent("s")
    await world.jump(1e9)
    await world.create(after_seconds=10)
    await world.jump(-1e9)
    assert wake(world) == 10


@pytest.mark.parametrize("sessions", ["s", "*"])
async def test_with_nothing_due_the_loop_does_not_run(world: World, sessions: str) -> None:
    await world.agent(sessions)
    await world.create(after_seconds=10_000)
    with few_rounds(world, 0):
        await world.advance(9_999)


@pytest.mark.parametrize("sessions", ["s", "*"])
@pytest.mark.parametrize(
    ("answer", "rounds"), [(GONE, 0), (BUSY, 20), (ERROR, 20), (None, 20), (ADMIT, 0)]
)
async def test_whatever_the_answer_the_loop_does_not_spin(
    world: World, sessions: str, answer: Json | None, rounds: int
) -> None:
    """An hour of trying again and again costs few rounds; with gone there are none."""
    await world.agent(sessions, says=answer)
    await world.create(after_seconds=1)
    with few_rounds(world, 5):
        await world.advance(1)
    with few_rounds(world, 4 * rounds):
        for _ in range(60):
            await world.advance(60)


async def test_an_overdue_session_without_a_free_slot_does_not_spin(world: World) -> None:
    agent = await world.agent("*", max_in_flight=1)
    for session in ("a", "b", "c"):
        await world.create(session, after_seconds=1)
    await world.advance(1)
    with few_rounds(world, 0):
        await world.advance(20)
    assert len(agent.pushed) == 1


async def test_a_message_aside_leaves_the_next_target_to_be_waited_for(world: World) -> None:
    agent = await world.agent("*", says=ERROR)
    await world.create(prompt="bad", after_seconds=1)
    await world.create(prompt="good", after_seconds=6)
    await world.advance(1)
    await world.advance(1)
    await world.advance(2)
    assert wake(world) == 6
    agent.says = ADMIT
    await world.advance(2)
    assert agent.prompts[-1] == ["good"]
    assert wake(world) is None


async def test_status_tells_each_user_its_own_next_wake(world: World) -> None:
    """Another user's targets are none of its business; an admin sees the loop's."""
    for owner in (1, UID):
        await world.agent("s", uid=owner)
        await world.agent("*", uid=owner)
    await world.create("s", after_seconds=50)
    await world.create("t", after_seconds=40, owner_uid=1, caller=ADMIN)
    await world.create("s", after_seconds=45, owner_uid=1, caller=ADMIN)
    assert (await world.status())["next_wake_at"] == "2026-01-01T12:00:50.000Z"
    assert (await world.status(ADMIN))["next_wake_at"] == "2026-01-01T12:00:40.000Z"
    await world.delete("r1")
    assert "next_wake_at" not in await world.status()


async def test_every_session_that_is_told_of_again_is_noted_once(world: World) -> None:
    """The loop's memory does not grow with the number of changes."""
    await world.agent("s")
    await world.create(after_seconds=5000)
    for _ in range(3):
        world.scheduler.rescan()
        await world.settled()
    assert len(world.scheduler._targets._heap) == 1
