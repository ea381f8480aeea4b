"""A clock that is behind for a while, as after a start without a battery: nothing comes early."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pytest

from tests.support.clock import START, ManualClock
from tests.support.world import ADMIT, Json, World, open_world, running_world

DAY = 86_400
LONG = 7300 * DAY
RECURRING: list[Json] = [
    {"every_seconds": 3600},
    {"daily": {"time": "10:00", "time_zone": "UTC"}},
    {"weekly": {"time": "10:00", "time_zone": "UTC", "weekdays": [1]}},
    {"cron": {"expression": "0 10 1 3 *", "time_zone": "UTC"}},
]


async def targets(world: World) -> list[str]:
    return [each["scheduled_at"] for each in (await world.page())["items"]]


@pytest.mark.parametrize("behind", [2 * DAY, LONG])
async def test_a_clock_that_is_behind_for_a_moment_makes_nothing_early(
    world: World, behind: int
) -> None:
    agent = await world.agent("s", says=ADMIT)
    for delay in (7 * DAY, DAY):
        await world.create(after_seconds=delay)
    for rule in RECURRING:
        await world.create(**rule)
    before = await targets(world)
    await world.jump(-behind)
    await world.advance(1.5)
    assert await targets(world) != before
    await world.jump(behind)
    assert agent.pushed == []
    assert await targets(world) == before
    rows = world.sql("SELECT DISTINCT after_at, computed_at FROM reminders")
    assert all(after == computed for after, computed in rows if behind == LONG)


@pytest.mark.parametrize("ahead", [3 * DAY, LONG])
@pytest.mark.parametrize("back", [[-LONG], [-2 * DAY], [-2 * DAY, -2 * DAY], [-LONG, -DAY - 3600]])
async def test_a_clock_that_was_ahead_then_right_then_behind_makes_nothing_early(
    world: World, ahead: int, back: list[int]
) -> None:
    """However often it was set: what counts is where it comes back to."""
    agent = await world.agent("s", says=ADMIT)
    await world.jump(ahead)
    for rule in [*RECURRING, {"after_seconds": 7200}]:
        await world.create(**rule)
    await world.jump(-ahead)
    await world.advance(1)
    before = await targets(world)
    for seconds in back:
        await world.jump(seconds)
        await world.advance(1)
    await world.jump(-sum(back))
    assert agent.pushed == []
    assert await targets(world) == before


@pytest.mark.parametrize("seed", range(24))
async def test_however_often_a_clock_is_set_back_nothing_comes_early_when_it_is_right_again(
    world: World, seed: int
) -> None:
    choose = random.Random(seed)
    agent = await world.agent("s", says=ADMIT)
    for rule in [*RECURRING, {"after_seconds": 7200}]:
        await world.create(**rule)
    before, off = await targets(world), 0
    steps = [3600, DAY - 60, DAY + 3600, 2 * DAY, 6 * DAY, 40 * DAY, LONG]
    for back in choose.choices(steps, k=choose.randint(2, 6)):
        await world.jump(-back)
        off -= back
        await world.advance(1)
    await world.jump(-off)
    assert agent.pushed == []
    assert await targets(world) == before


async def test_a_start_in_the_past_makes_nothing_early_when_the_clock_is_put_right(
    tmp_path: Path,
) -> None:
    async with running_world(tmp_path) as world:
        for rule in [*RECURRING, {"after_seconds": DAY}]:
            await world.create(**rule)
        before = await targets(world)
    async with running_world(tmp_path, ManualClock(START - dt.timedelta(days=7300))) as world:
        agent = await world.agent("s", says=ADMIT)
        await world.advance(2)
        assert await targets(world) != before
        await world.jump(LONG)
        assert agent.pushed == []
        assert await targets(world) == before


async def test_a_machine_killed_while_it_is_in_the_past_starts_right(tmp_path: Path) -> None:
    async with running_world(tmp_path) as world:
        for rule in [*RECURRING, {"after_seconds": DAY}]:
            await world.create(**rule)
        before = await targets(world)
    async with running_world(tmp_path, ManualClock(START - dt.timedelta(days=7300))):
        pass
    async with running_world(tmp_path, ManualClock(START + dt.timedelta(seconds=5))) as world:
        agent = await world.agent("s", says=ADMIT)
        assert agent.pushed == []
        assert await targets(world) == before


async def test_what_is_due_before_upkeep_came_to_it_is_put_back_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_world(tmp_path) as world:
        await world.create(after_seconds=DAY)
        await world.create(every_seconds=3600)
        before = await targets(world)
    async with running_world(tmp_path, ManualClock(START - dt.timedelta(days=7300))):
        pass
    world = await open_world(tmp_path)
    monkeypatch.setattr(world.scheduler._upkeep, "start", lambda: None)
    await world.start()
    agent = await world.agent("s", says=ADMIT)
    assert agent.pushed == []
    assert await targets(world) == before
    await world.stop()


async def test_a_former_clock_days_ahead_makes_nothing_late_once_this_one_can_be_trusted(
    world: World,
) -> None:
    """The clock reaches what the record was counted from before by going on."""
    agent = await world.agent("s", says=ADMIT)
    await world.jump(3 * DAY)
    await world.create(after_seconds=4 * DAY)
    await world.jump(-3 * DAY)
    await world.advance(700)
    await world.advance(4 * DAY - 701)
    assert agent.pushed == []
    await world.advance(1)
    assert len(agent.pushed) == 1


async def test_a_clock_years_behind_is_put_right_also_after_it_seemed_to_be_right(
    world: World,
) -> None:
    agent = await world.agent("s", says=ADMIT)
    await world.create(after_seconds=DAY)
    before = await targets(world)
    await world.jump(-LONG)
    await world.advance(3600)
    await world.jump(LONG)
    assert agent.pushed == []
    assert await targets(world) == before


async def test_nothing_is_called_missed_from_before_it_was_made(world: World) -> None:
    """What went while the clock was behind left its target there."""
    agent = await world.agent("s", says=ADMIT)
    await world.create(every_seconds=3600)
    await world.jump(-LONG)
    await world.advance(3600)
    assert len(agent.pushed) == 1
    agent.close()
    await world.jump(LONG + 3 * 3600)
    agent = await world.agent("s", says=ADMIT)
    (each,) = agent.pushed[0]["occurrences"]
    assert each["occurrence_at"] == "2026-01-01T16:00:00.000Z"
    assert each["missed_from"] == "2026-01-01T13:00:00.000Z"
