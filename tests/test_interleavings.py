"""Every verb at every stage on the way of one occurrence, and whatever the host then says.

The stages: scheduled, due without a host, its plan read and not pushed, pushed, admitted with the
receipt not on disk, timed out with the answer still to come. What must come of it is a table; in
every case no admission is read twice, and a restart afterwards repeats nothing.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.errors import InvalidRequest, PersistenceFailed
from scheduler_daemon.model import FollowUp, Instant
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.store import Left
from scheduler_daemon.wire import params
from tests.support.clock import ManualClock
from tests.support.world import ADMIT, BUSY, Agent, Json, World, ids_of, open_world

STAGES = ["scheduled", "due", "planned", "pushed", "admitted", "timed out"]
IN_FLIGHT = ("pushed", "admitted")
STEP = 300
EVERY: Json = {"every_seconds": STEP}
ONCE: Json = {"after_seconds": STEP}


class Run:
    """One reminder, brought to a stage, and a host for its Session and for another one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.agent = Agent(world, 1000, "host")
        self.full = False
        self.go_on: Callable[[], None] = lambda: None
        self.made_at: Instant = world.clock.now()
        self.reminder_id = ""
        self._record = world.store.record
        world.store.record = self._write  # type: ignore[method-assign, assignment]

    async def _write(self, followup: FollowUp, *values: Any) -> Left:
        if self.full:
            raise PersistenceFailed("full")
        return await self._record(followup, *values)

    async def to(self, stage: str, selector: Json) -> None:
        self.made_at = self.world.clock.now()
        self.reminder_id = await self.world.create(**selector)
        if stage in ("pushed", "admitted", "timed out"):
            self.agent.attach("s", "other")
        if stage == "planned":
            await self._plan()
        elif stage != "scheduled":
            await self.world.advance(STEP)
        if stage == "admitted":
            self.full = True
            self.agent.answer(ADMIT)
            await self.world.settled()
        if stage == "timed out":
            await self.world.advance(30)

    async def _plan(self) -> None:
        """Stop where what is due was read and nothing is pushed yet."""
        reader = self.world.store.reader
        due, released, reached = reader.due, asyncio.Event(), asyncio.Event()

        async def read_and_wait(*values: Any) -> Any:
            found = await due(*values)
            reached.set()
            await released.wait()
            return found

        reader.due = read_and_wait  # type: ignore[method-assign, assignment]
        self.agent.attach("s", "other")
        self.world.clock.advance(STEP)
        async with asyncio.timeout(30):
            await reached.wait()
        reader.due = due  # type: ignore[method-assign]
        self.go_on = released.set

    async def finish(self, says: Json) -> None:
        """Let the host answer, and a little more than one more interval pass."""
        self.go_on()
        self.agent.attach("s", "other")
        self.full = False
        await self.world.settled()
        for followup in list(self.agent.open.values()):
            self.agent.answer(says, followup)
        self.agent.says = ADMIT
        await self.world.settled()
        for followup in list(self.agent.open.values()):
            self.agent.answer(ADMIT, followup)  # what came before it said so
        while self.world.clock.now() < self.made_at + dt.timedelta(seconds=2 * STEP + 20):
            await self.world.advance(5)

    def at(self, *steps: int) -> list[str]:
        """The occurrences so many steps after the creation."""
        times = [self.made_at + dt.timedelta(seconds=STEP * step) for step in steps]
        return [f"{self.reminder_id}@{instant_text(at)}" for at in times]

    def rows(self, outcome: str, by_hand: bool = False) -> list[str]:
        """Receipts of the reminder, but for their generation."""
        found = self.world.sql(
            "SELECT reminder_id || substr(occurrence_id, instr(occurrence_id, '@')) "
            "FROM dispatches WHERE outcome = ? AND reminder_id = ? AND "
            "(instr(occurrence_id, '@now-') > 0) = ? ORDER BY occurrence_at",
            outcome,
            self.reminder_id,
            by_hand,
        )
        return [each for (each,) in found]

    @property
    def record(self) -> dict[str, Any]:
        """The columns of the reminder, none when it is gone."""
        names = "status, ended_reason, paused, session_id"
        rows = self.world.sql(f"SELECT {names} FROM reminders WHERE id = ?", self.reminder_id)
        return dict(zip(names.split(", "), rows[0], strict=True)) if rows else {}


# --- the verbs, and what must come of them: steps admitted and steps skipped


async def nothing(run: Run) -> None:
    """No verb at all."""


async def pause(run: Run) -> None:
    await run.world.act("pause", run.reminder_id)


async def pause_and_resume(run: Run) -> None:
    await run.world.act("pause", run.reminder_id)
    await run.world.act("resume", run.reminder_id)


async def skip(run: Run) -> None:
    await run.world.act("skip", run.reminder_id)


async def snooze(run: Run) -> None:
    await run.world.act("snooze", run.reminder_id, seconds=10)


async def run_now(run: Run) -> None:
    await run.world.act("run_now", run.reminder_id)


async def reword(run: Run) -> None:
    await run.world.update(run.reminder_id, prompt="other")


async def retime(run: Run) -> None:
    await run.world.update(run.reminder_id, after_seconds=100_000)


async def end_at_first(run: Run) -> None:
    until = instant_text(run.made_at + dt.timedelta(seconds=STEP))
    await run.world.update(run.reminder_id, until=until)


async def end_after_one(run: Run) -> None:
    await run.world.update(run.reminder_id, max_occurrences=1)


async def transfer(run: Run) -> None:
    asked = {"from": "s", "to": "other"}
    moved = await run.world.call("sessions.transfer", params.Transfer, asked)
    if run.record.get("status") == "active":
        assert moved == {"reminders": 1}


async def forget(run: Run) -> None:
    await run.world.call("sessions.forget", params.Forget, {"session_id": "s"})


async def delete(run: Run) -> None:
    assert await run.world.delete(run.reminder_id)


Verb = Callable[[Run], Awaitable[None]]
Steps = list[int]

BOTH: Steps = [1, 2]


def expected(verb: Verb, stage: str, admits: bool, recurs: bool) -> tuple[Steps, Steps]:
    """Which steps are admitted, and which skipped, of a recurring reminder or a one-shot."""
    taken = stage == "admitted" or (stage in ("pushed", "timed out") and admits)
    first: Steps = [1] if taken else []
    if verb in (pause, delete, forget, retime):
        return first, []
    if not recurs:
        return [1], []
    if verb is pause_and_resume:
        return (BOTH if stage == "scheduled" else [*first, 2]), []
    if verb is skip:
        return ([1], [2]) if stage in IN_FLIGHT else ([2], [1])
    if verb in (end_at_first, end_after_one):
        return [1], []
    return BOTH, []


VERBS: list[Verb] = [
    *(nothing, pause, pause_and_resume, skip, snooze, run_now, reword, retime),
    *(end_at_first, end_after_one, transfer, forget, delete),
]
ONLY_RECURRING = {skip, end_at_first, end_after_one}


async def carry_out(folder: Path, verb: Verb, stage: str, admits: bool, selector: Json) -> Run:
    world = await open_world(folder, ManualClock())
    await world.start()
    try:
        await world.advance(700)  # the clock can be trusted from here on
        run = Run(world)
        await run.to(stage, selector)
        await verb(run)
        await run.finish(ADMIT if admits else BUSY)
        assert world.scheduler.failures == 0
        under_way = world.scheduler.under_way
        assert (under_way._carried, under_way._kept, under_way._held) == ({}, {}, {})
    finally:
        await world.stop()
    return run


async def nothing_is_repeated(folder: Path, run: Run) -> None:
    """After a restart what has its receipt does not come again."""
    before = set(run.world.receipts())
    world = await open_world(folder, run.world.clock)
    await world.start()
    try:
        agent = await world.agent("*", says=ADMIT)
        await world.advance(5 * STEP)
        assert {each for followup in agent.pushed for each in ids_of(followup)} & before == set()
    finally:
        await world.stop()


@pytest.mark.parametrize("admits", [True, False], ids=["admitted", "busy"])
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
async def test_a_verb_at_any_stage_moves_eats_and_doubles_nothing_that_recurs(
    tmp_path: Path, verb: Verb, stage: str, admits: bool
) -> None:
    run = await carry_out(tmp_path, verb, stage, admits, EVERY)
    admitted, skipped = expected(verb, stage, admits, recurs=True)
    assert run.rows("admitted") == run.at(*admitted)
    assert run.rows("skipped") == run.at(*skipped)
    check_record(run, verb, recurs=True)
    await nothing_is_repeated(tmp_path, run)


@pytest.mark.parametrize("admits", [True, False], ids=["admitted", "busy"])
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "verb", [verb for verb in VERBS if verb not in ONLY_RECURRING], ids=lambda verb: verb.__name__
)
async def test_a_verb_at_any_stage_neither_eats_nor_doubles_a_one_shot(
    tmp_path: Path, verb: Verb, stage: str, admits: bool
) -> None:
    run = await carry_out(tmp_path, verb, stage, admits, ONCE)
    admitted, _ = expected(verb, stage, admits, recurs=False)
    assert run.rows("admitted") == run.at(*admitted)
    check_record(run, verb, recurs=False, ended=bool(admitted))
    await nothing_is_repeated(tmp_path, run)


def check_record(run: Run, verb: Verb, *, recurs: bool, ended: bool = False) -> None:
    """Where the record is at last, and what came beside it."""
    if verb in (delete, forget):
        assert run.record == {}
        return
    reasons: dict[Verb, str] = {end_at_first: "until", end_after_one: "count"}
    reason = reasons.get(verb)
    if not recurs and ended and verb is not retime:
        reason = "delivered"
    assert run.record["ended_reason"] == reason
    assert run.record["paused"] == (verb is pause and not reason)
    assert run.record["session_id"] in ("other" if verb is transfer else "s", "s")
    assert len(run.rows("admitted", by_hand=True)) == (verb is run_now)
    snoozed = run.world.sql("SELECT status FROM reminders WHERE snoozed_from IS NOT NULL")
    assert snoozed == ([("ended",)] if verb is snooze else [])


@pytest.mark.parametrize("stage", STAGES)
async def test_a_one_shot_is_not_skipped_at_any_stage(tmp_path: Path, stage: str) -> None:
    async def refused(run: Run) -> None:
        with pytest.raises(InvalidRequest):
            await skip(run)

    run = await carry_out(tmp_path, refused, stage, True, ONCE)
    assert run.rows("admitted") == run.at(1)
