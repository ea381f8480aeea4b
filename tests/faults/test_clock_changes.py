"""Across the changes of clocks in a year of several zones: time passes, is jumped over, slept over.

What is expected is listed minute by minute (listing.py).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path

import pytest

from scheduler_daemon.model import Instant
from scheduler_daemon.rules import instant_text
from tests.faults.listing import (
    HOUR,
    MINUTE,
    by_night,
    changes,
    daily,
    grid,
    listed,
    weekly,
)
from tests.support.clock import ManualClock
from tests.support.world import ADMIT, Agent, World, few_rounds, running_world

YEARS = {
    "America/New_York": 2026,
    "Europe/Berlin": 2026,
    "Australia/Lord_Howe": 2026,  # by half an hour
    "America/Sao_Paulo": 2018,  # at midnight: its last year
    "Asia/Beirut": 2026,  # at midnight as well, in spring over it
    "Africa/Casablanca": 2025,  # back in winter for Ramadan
    "Asia/Tehran": 2022,  # by the Persian calendar: its last year
    "Antarctica/Troll": 2026,  # by two hours
    "America/Nuuk": 2026,  # before midnight
    "Pacific/Apia": 2011,  # 30 December does not exist
}
ODD = 5340
"""Seconds: no multiple or part of an hour."""

BOUNDS = 14 * HOUR
"""What is looked at before and after a change."""

Due = dict[str, list[Instant]]

each_zone = pytest.mark.parametrize(("zone", "year"), YEARS.items())


async def filled(world: World, zone: str, end: Instant) -> Due:
    """Recurring reminders around the change in `zone`; what each must bring up to `end`, by id."""
    now = world.clock.now()
    rules = [
        *(daily(zone, *time) for time in ((0, 0), (1, 30), (2, 0), (2, 30), (3, 0), (23, 45))),
        weekly(zone, 2, 15, [1, 2, 3, 4, 5, 6, 7]),
        weekly(zone, 0, 30, [6, 7]),
        by_night(zone),
    ]
    due = {await world.create(**rule.selector): listed(rule, now, end) for rule in rules}
    due[await world.create(every_seconds=ODD)] = grid(now, ODD, now, end)
    return {reminder_id: [at for at in due[reminder_id] if at > now] for reminder_id in due}


def due_after(due: Due, after: Instant) -> list[Instant]:
    return sorted({at for listed_ones in due.values() for at in listed_ones if at > after})


def taken(agent: Agent) -> dict[str, tuple[str, str]]:
    """What came since the last look, by id: its instant, and the first that it stands for."""
    found: dict[str, tuple[str, str]] = {}
    for each in itertools.chain(*(followup["occurrences"] for followup in agent.pushed)):
        assert each["reminder_id"] not in found
        missed_from = each.get("missed_from", each["occurrence_at"])
        found[each["reminder_id"]] = (each["occurrence_at"], missed_from)
    agent.pushed.clear()
    return found


async def expect_in_time(world: World, agent: Agent, due: Due) -> None:
    """From now on every occurrence comes, on its millisecond, and not one earlier."""
    for at in due_after(due, world.clock.now()):
        left = (at - world.clock.now()).total_seconds()
        with few_rounds(world, 6):
            await world.advance(left - 0.001)
            assert agent.pushed == [], f"before {at}"
            await world.advance(0.001)
        text = instant_text(at)
        assert taken(agent) == {each: (text, text) for each in due if at in due[each]}


async def expect_latest(world: World, agent: Agent, due: Due, since: Instant) -> None:
    """What became due after `since` came once for each reminder, with its latest occurrence."""
    expected = {}
    for reminder_id, instants in due.items():
        missed = [at for at in instants if since < at <= world.clock.now()]
        if missed:
            expected[reminder_id] = (instant_text(missed[-1]), instant_text(missed[0]))
    assert taken(agent) == expected


@each_zone
async def test_every_occurrence_comes_once_and_on_its_millisecond(
    tmp_path: Path, zone: str, year: int
) -> None:
    found = changes(zone, year)
    assert len(found) >= 2
    for number, change in enumerate(found):
        (tmp_path / f"{number}").mkdir()
        async with running_world(tmp_path / f"{number}", ManualClock(change - BOUNDS)) as world:
            due = await filled(world, zone, change + BOUNDS)
            agent = await world.agent("s", says=ADMIT)
            await expect_in_time(world, agent, due)
            receipts = world.receipts()
        assert len(receipts) == sum(map(len, due.values()))


@pytest.mark.parametrize(
    ("way", "minutes"), [("jump", 61), ("jump", 1500), ("suspend", 200), ("suspend", 1500)]
)
@each_zone
async def test_time_that_is_left_out_brings_the_latest_occurrence_of_it_and_shifts_nothing(
    tmp_path: Path, zone: str, year: int, way: str, minutes: int
) -> None:
    """Over the change, as a clock that is set forward and as a machine that slept."""
    change = changes(zone, year)[-1]
    start = change - 20 * MINUTE
    async with running_world(tmp_path, ManualClock(start)) as world:
        due = await filled(world, zone, start + 32 * HOUR)
        agent = await world.agent("s", says=ADMIT)
        with few_rounds(world, 6):
            getattr(world.clock, way)(60 * minutes)
            await world.settled()
        await expect_latest(world, agent, due, start)
        await expect_in_time(world, agent, due)


@pytest.mark.parametrize("minutes", [31, 150, 1400])
@each_zone
async def test_a_clock_set_back_over_a_change_repeats_nothing_and_loses_nothing(
    tmp_path: Path, zone: str, year: int, minutes: int
) -> None:
    """By less than a day: what was sent stays sent, what is committed stays committed."""
    change = changes(zone, year)[-1]
    start = change - 26 * HOUR
    async with running_world(tmp_path, ManualClock(start)) as world:
        due = await filled(world, zone, change + 6 * HOUR)
        agent = await world.agent("s", says=ADMIT)
        await world.advance((change + 20 * MINUTE - start).total_seconds())
        reached = world.clock.now()
        await expect_latest(world, agent, due, start)
        with few_rounds(world, 6):
            await world.jump(-60 * minutes)
            await world.advance(60 * minutes - 0.001)
        assert agent.pushed == []
        still = {each: [at for at in due[each] if at > reached] for each in due}
        await expect_in_time(world, agent, still)


@each_zone
async def test_whatever_comes_at_one_instant_comes_in_one_message(
    tmp_path: Path, zone: str, year: int
) -> None:
    """Also where a gap moves the times of several rules to the same instant."""
    change = changes(zone, year)[0]
    async with running_world(tmp_path, ManualClock(change - 3 * HOUR)) as world:
        due = await filled(world, zone, change + 5 * HOUR)
        agent = await world.agent("s", says=ADMIT)
        together = defaultdict(set)
        for reminder_id, instants in due.items():
            for at in instants:
                together[instant_text(at)].add(reminder_id)
        for at in due_after(due, world.clock.now()):
            await world.advance((at - world.clock.now()).total_seconds())
        came = [
            (followup["decided_at"], {each["reminder_id"] for each in followup["occurrences"]})
            for followup in agent.pushed
        ]
        assert came == sorted(together.items())
