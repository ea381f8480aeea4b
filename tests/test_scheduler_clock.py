"""A clock that is set, forward and back; and zone data that changed since targets were made."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.store.retention import Keep
from tests.support.clock import START, ManualClock
from tests.support.world import ADMIT, Json, World, few_rounds, ids_of, open_world, running_world

YEAR = 365.25 * 86400


def occurrences(world: World) -> list[str]:
    """The instants of all receipts, in the order written."""
    return [at for (at,) in world.sql("SELECT occurrence_at FROM dispatches ORDER BY number")]


# --- steps


async def test_a_clock_set_forward_makes_due_at_once(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    agent.attach("*")
    await world.create("s", "named", after_seconds=3600)
    await world.create("t", "any", after_seconds=3600)
    await world.jump(3599)
    assert agent.pushed == []
    await world.jump(1)
    assert sorted(agent.prompts) == [["any"], ["named"]]


async def test_a_clock_set_back_fires_nothing_early(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    agent.attach("*")
    await world.create("s", "named", after_seconds=100)
    await world.create("t", "any", after_seconds=100)
    await world.advance(50)
    await world.jump(-1000)
    with few_rounds(world, 6):
        await world.advance(1049.9)
        assert agent.pushed == []
        await world.advance(0.1)
    assert sorted(agent.prompts) == [["any"], ["named"]]


async def test_what_is_no_longer_due_when_it_is_planned_is_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock went back between finding it due and deciding."""
    agent = await world.agent("*", says=ADMIT)
    read = world.store.reader.sessions_due
    steps = [-10.0, -0.5]

    async def read_and_step(*values: Any) -> Any:
        found = await read(*values)
        if found and steps:
            world.clock.jump(steps.pop())
        return found

    monkeypatch.setattr(world.store.reader, "sessions_due", read_and_step)
    await world.create(after_seconds=100)
    await world.advance(100)
    assert agent.pushed == []
    await world.advance(0.5)
    assert agent.pushed == []
    await world.advance(10)
    assert len(agent.pushed) == 1


async def test_a_step_too_small_to_be_noticed_loses_nothing(world: World) -> None:
    """A host for all has read on to a time that comes again: what is made in it is found."""
    agent = await world.agent("*", says=ADMIT)
    await world.create("a", after_seconds=10)
    await world.advance(10.9)
    await world.jump(-0.9)
    await world.create("b", at="2026-01-01T12:00:10.500Z")
    await world.advance(1)
    assert agent.sessions == ["a", "b"]


async def test_a_step_back_in_the_middle_of_many_overdue_sessions_delays_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_daemon.star_scans.SCAN", 2)
    for session in "abcdef":
        await world.create(session, after_seconds=1)
    await world.advance(10_000)
    agent = await world.agent("*", max_in_flight=1)
    await world.jump(-5000)
    while agent.open:
        agent.answer(ADMIT)
        await world.settled()
    assert agent.sessions == [*"abcdef"]


async def test_nothing_goes_twice_when_the_clock_goes_back_over_it(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    await world.create(every_seconds=300)
    await world.create(after_seconds=300)
    await world.advance(300)
    assert len(agent.pushed) == 2
    await world.jump(-250)
    await world.advance(549)
    assert len(agent.pushed) == 2
    await world.advance(1)
    assert len(agent.pushed) == 3
    assert len(set(world.receipts())) == 3


async def test_a_small_step_back_keeps_the_committed_target(world: World) -> None:
    await world.agent("s", says=ADMIT)
    reminder_id = await world.create(daily={"time": "13:00", "time_zone": "UTC"})
    await world.jump(-23 * 3600)
    assert (await world.get(reminder_id))["scheduled_at"] == "2026-01-01T13:00:00.000Z"


# --- a clock that ran far ahead


async def test_recurring_records_come_back_after_a_far_future_clock(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    daily = await world.create(daily={"time": "13:00", "time_zone": "UTC"})
    every = await world.create(every_seconds=7200)
    await world.jump(20 * YEAR)
    assert len(agent.pushed) == 1
    await world.jump(-20 * YEAR)
    for reminder_id, target in ((daily, "T13:00:00.000Z"), (every, "T14:00:00.000Z")):
        reminder = await world.get(reminder_id)
        assert reminder["scheduled_at"] == "2026-01-01" + target
        assert reminder["waiting_for"] == {"why": "target"}
    await world.advance(3600)
    await world.advance(3600)
    assert [ids_of(followup) for followup in agent.pushed[1:]] == [
        [f"{daily}.1@2026-01-01T13:00:00.000Z"],
        [f"{every}.1@2026-01-01T14:00:00.000Z"],
    ]


async def test_a_delay_that_began_far_in_the_future_counts_from_now(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    await world.jump(20 * YEAR)
    await world.create(prompt="delay", after_seconds=600)
    await world.create(prompt="instant", at="2046-01-02T00:00:00Z")
    await world.jump(-20 * YEAR)
    await world.advance(599)
    assert agent.pushed == []
    await world.advance(1)
    assert agent.prompts == [["delay"]]


@pytest.mark.parametrize("late", [False, True])
async def test_a_one_shot_that_was_with_a_host_when_its_target_was_corrected_comes_once(
    world: World, late: bool
) -> None:
    agent = await world.agent("s")
    await world.create("s", after_seconds=1)
    await world.advance(1)
    if late:
        await world.advance(30)
    await world.jump(-90_000)
    agent.answer(ADMIT)
    agent.says = ADMIT
    await world.advance(600)
    assert len(agent.pushed) == 1
    assert world.sql("SELECT status, ended_reason FROM reminders") == [("ended", "delivered")]
    assert world.sql("SELECT count(*) FROM dispatches") == [(1,)]


async def test_the_correction_happens_at_the_start_as_well(tmp_path: Path) -> None:
    ahead = ManualClock(START + dt.timedelta(days=9000))
    async with running_world(tmp_path, ahead) as world:
        await world.create(daily={"time": "13:00", "time_zone": "UTC"})
    async with running_world(tmp_path) as world:
        assert (await world.page())["items"][0]["scheduled_at"] == "2026-01-01T13:00:00.000Z"


# --- a clock that started far behind


async def test_what_was_sent_is_not_repeated_by_a_machine_that_booted_in_the_past(
    tmp_path: Path,
) -> None:
    """The record comes back under a new generation, and skips what it had sent before."""
    async with running_world(tmp_path) as world:
        await world.agent("s", says=ADMIT)
        await world.create(daily={"time": "12:05", "time_zone": "UTC"})
        await world.create(after_seconds=301)
        await world.advance(600)
        assert len(world.receipts()) == 2
    past = ManualClock(START - dt.timedelta(days=7300))
    # What is counted at the end is twenty years old by then: retention would take it.
    async with running_world(tmp_path, past, keep=Keep(36_500, 200, 36_500)) as world:
        agent = await world.agent("s", says=ADMIT)
        await world.advance(400)
        assert len(agent.pushed) == 1  # decided under a clock behind that of the last dispatch
        await world.jump(7300 * 86400 + 800)
        assert len(agent.pushed) == 1
        await world.advance(86400)
        assert len(agent.pushed) == 2
    assert len(occurrences(world)) == 4
    assert occurrences(world)[-1] == "2026-01-02T12:05:00.000Z"


async def test_a_clock_that_was_far_ahead_before_makes_a_start_in_the_past_repeat_nothing(
    tmp_path: Path,
) -> None:
    """The newest occurrence was sent under a clock ahead of now, the one before it was not."""
    async with running_world(tmp_path) as world:
        agent = await world.agent("s", says=ADMIT)
        await world.create(every_seconds=3600)
        await world.jump(20 * YEAR)
        await world.jump(-20 * YEAR)
        await world.advance(3600)
        assert len(agent.pushed) == 2
    past = ManualClock(START - dt.timedelta(days=7300))
    async with running_world(tmp_path, past) as world:
        agent = await world.agent("s", says=ADMIT)
        await world.jump(7300 * 86400 + 3700)
        assert agent.pushed == []
        await world.advance(3500)
        assert len(agent.pushed) == 1


@pytest.mark.parametrize(("history_days", "again"), [(36_500, False), (30, True)])
async def test_what_was_sent_under_a_clock_like_ours_stays_sent_while_its_receipt_is_kept(
    tmp_path: Path, history_days: int, again: bool
) -> None:
    """A clock far ahead takes it after ten minutes, as any old one: what comes has another id."""
    async with running_world(tmp_path, keep=Keep(history_days, 200, 30)) as world:
        agent = await world.agent("s", says=ADMIT)
        daily = await world.create(daily={"time": "18:30", "time_zone": "UTC"})
        await world.jump(25 * 3600)
        await world.jump(20 * YEAR)
        await world.advance(3600)
        world.scheduler.go_round()
        await world.settled()
        assert ids_of(agent.pushed[0]) == [f"{daily}@2026-01-01T18:30:00.000Z"]
        assert (ids_of(agent.pushed[0])[0] in world.receipts()) is not again
        sent = len(agent.pushed)
        await world.jump(-20 * YEAR - 25 * 3600)
        await world.advance(25 * 3600)
        comes = [ids_of(followup) for followup in agent.pushed[sent:]]
        assert comes == ([[f"{daily}.1@2026-01-01T18:30:00.000Z"]] if again else [])


async def test_records_that_only_pass_leave_the_others_of_their_batch(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    sent = await world.create(prompt="sent", every_seconds=300)
    await world.create(prompt="not sent", every_seconds=600)
    await world.advance(300)
    world.sql("UPDATE reminders SET scheduled_at = after_at WHERE id = ?", sent)
    world.scheduler.rescan()
    await world.settled()
    assert agent.prompts == [["sent"]]
    assert (await world.get(sent))["scheduled_at"] == "2026-01-01T12:10:00.000Z"
    await world.advance(300)
    assert agent.prompts == [["sent"], ["sent", "not sent"]]


@pytest.mark.parametrize("age", [100, None])
async def test_what_was_sent_before_is_neither_sent_again_nor_missed(
    world: World, age: int | None
) -> None:
    """Whatever its age is by now."""
    agent = await world.agent("s", says=ADMIT)
    limit: Json = {} if age is None else {"expires_after_seconds": age}
    sent = await world.create(every_seconds=300, **limit)
    await world.advance(600)
    agent.close()
    world.sql("UPDATE reminders SET scheduled_at = after_at, generation = 1 WHERE id = ?", sent)
    await world.advance(200)
    agent = await world.agent("s", says=ADMIT)
    assert agent.pushed == []
    assert world.sql("SELECT outcome FROM dispatches") == [("admitted",)]
    assert (await world.get(sent))["scheduled_at"] == "2026-01-01T12:15:00.000Z"


async def test_a_record_without_the_receipt_of_its_last_occurrence_is_not_repeated(
    world: World,
) -> None:
    """Retention may have taken the receipt; what was dispatched stays dispatched."""
    agent = await world.agent("s", says=ADMIT)
    sent = await world.create(every_seconds=300)
    await world.advance(300)
    world.sql("DELETE FROM dispatches")
    world.sql("UPDATE reminders SET scheduled_at = after_at WHERE id = ?", sent)
    world.scheduler.rescan()
    await world.settled()
    assert len(agent.pushed) == 1


# --- zone data

OLD = "2026-01-01T13:30:00.000Z"
NEW = "2026-01-01T13:00:00.000Z"


async def make_old(folder: Path, *sessions: str, target: str = OLD, hour: str = "13:00") -> None:
    """Records of 13:00 UTC whose targets other zone data put to another instant."""
    async with running_world(folder) as world:
        for session in sessions:
            await world.create(session, daily={"time": hour, "time_zone": "UTC"})
        world.sql("UPDATE reminders SET scheduled_at = ?", target)
        world.sql("INSERT INTO meta VALUES ('zone_recompute_from', '0')")


async def test_future_targets_are_computed_again_under_new_zone_data(tmp_path: Path) -> None:
    await make_old(tmp_path, "s", "t")
    async with running_world(tmp_path, zone_mark=0) as world:
        assert [each["scheduled_at"] for each in (await world.page())["items"]] == [NEW, NEW]
        assert world.sql("SELECT * FROM meta WHERE name = 'zone_recompute_from'") == []


async def test_computing_again_goes_on_at_its_mark(tmp_path: Path) -> None:
    await make_old(tmp_path, "s", "t")
    async with running_world(tmp_path, zone_mark=1) as world:
        assert [each["scheduled_at"] for each in (await world.page())["items"]] == [OLD, NEW]


async def test_what_moved_to_before_now_is_due_at_once(tmp_path: Path) -> None:
    await make_old(tmp_path, "s", hour="12:05")
    world = await open_world(tmp_path, ManualClock(START + dt.timedelta(minutes=10)))
    await world.start(zone_mark=0)
    agent = await world.agent("s", says=ADMIT)
    assert agent.pushed[0]["occurrences"][0]["occurrence_at"] == "2026-01-01T12:05:00.000Z"
    await world.stop()


@pytest.mark.parametrize("chunk", [100, 1])
async def test_a_record_about_to_be_sent_before_its_slice_is_computed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Whatever its place in its batch is."""
    monkeypatch.setattr("scheduler_daemon.planning.CHUNK", chunk)
    await make_old(tmp_path, "s", "s", target="2026-01-01T12:10:00.000Z")
    world = await open_world(tmp_path)
    monkeypatch.setattr(world.scheduler._upkeep, "start", lambda: None)
    await world.start(zone_mark=0)
    world.sql("UPDATE reminders SET scheduled_at = ? WHERE number = 1", NEW)
    agent = await world.agent("s", says=ADMIT)
    await world.create(every_seconds=300)
    await world.advance(600)
    assert len(agent.pushed[0]["occurrences"]) == 1
    assert [each["scheduled_at"] for each in (await world.page())["items"]][:2] == [NEW, NEW]
    await world.stop()


@pytest.mark.parametrize("upkeep", [True, False])
async def test_a_target_that_lay_behind_the_start_is_kept_as_it_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upkeep: bool
) -> None:
    await make_old(tmp_path, "s", target="2026-01-01T12:10:00.000Z")
    world = await open_world(tmp_path, ManualClock(START + dt.timedelta(minutes=20)))
    if not upkeep:
        monkeypatch.setattr(world.scheduler._upkeep, "start", lambda: None)
    await world.start(zone_mark=0)
    agent = await world.agent("s", says=ADMIT)
    assert agent.pushed[0]["occurrences"][0]["occurrence_at"] == "2026-01-01T12:10:00.000Z"
    await world.stop()


async def test_what_came_due_between_the_start_and_its_slice_is_computed_too(
    tmp_path: Path,
) -> None:
    await make_old(tmp_path, "s", target="2026-01-01T12:10:00.000Z")
    world = await open_world(tmp_path)
    world.clock.advance(1200)
    await world.start(zone_mark=0)
    assert [each["scheduled_at"] for each in (await world.page())["items"]] == [NEW]
    await world.stop()


async def test_upkeep_that_fails_begins_again_and_what_it_wrote_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_old(tmp_path, "s")
    world = await open_world(tmp_path)
    upkeep, broken = world.store.upkeep, [True]

    async def written_but_not_known(act: Any) -> Any:
        part = await upkeep(act)
        if broken.pop() if getattr(part, "moved", None) else False:
            raise OSError("no such luck")
        return part

    monkeypatch.setattr(world.store, "upkeep", written_but_not_known)
    with monkeypatch.context() as before:
        before.setattr(world.scheduler._upkeep, "start", lambda: None)
        await world.start(zone_mark=0)
        agent = await world.agent("*", says=ADMIT)
    world.scheduler._upkeep.start()
    await world.settled()
    assert world.clock.pending_calls == 1
    assert [each["scheduled_at"] for each in (await world.page())["items"]] == [NEW]
    await world.advance(1)
    assert world.clock.pending_calls == 0
    await world.advance(3599)
    assert len(agent.pushed) == 1
    await world.stop()


async def test_upkeep_goes_on_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_daemon.store.upkeep.SLICE", 2)
    await make_old(tmp_path, *"abcde")
    async with running_world(tmp_path, zone_mark=0) as world:
        assert [each["scheduled_at"] for each in (await world.page())["items"]] == [NEW] * 5


async def test_a_step_back_while_upkeep_runs_lets_it_run_again(world: World) -> None:
    await world.jump(1e8)
    await world.create(daily={"time": "13:00", "time_zone": "UTC"})
    world.scheduler._upkeep.start()
    await world.jump(-1e8)
    assert (await world.page())["items"][0]["scheduled_at"] == "2026-01-01T13:00:00.000Z"


async def test_upkeep_sets_rows_aside_that_do_not_decode(tmp_path: Path) -> None:
    await make_old(tmp_path, "s", "t")
    world = await open_world(tmp_path)
    world.spoil("r1")
    await world.start(zone_mark=0)
    assert world.sql("SELECT id FROM reminders WHERE status = 'set_aside'") == [("r1",)]
    await world.stop()


async def test_upkeep_is_left_to_the_next_start_when_the_daemon_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await open_world(tmp_path)

    async def failing(act: Any) -> Any:
        raise OSError("no such luck")

    monkeypatch.setattr(world.store, "upkeep", failing)
    await world.start()
    assert world.clock.pending_calls == 1
    await world.stop()
    assert world.clock.pending_calls == 0
