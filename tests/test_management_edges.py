"""Ends, ages, skips and runs by hand on edges: of daylight saving, of `until`, of a wrong clock."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.desk import Caller
from scheduler_daemon.errors import ReminderEnded, ReminderNotFound, TimeOutOfRange
from scheduler_daemon.wire import params
from tests.support.clock import ManualClock
from tests.support.world import ADMIT, BUSY, Json, World, ids_of, open_world, running_world

TRUSTED = 601.0
HOUR = 3600.0
DAY = 86_400.0


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """The loop at 12:10:01, with a clock that can be trusted."""
    async with running_world(tmp_path) as running:
        await running.advance(TRUSTED)
        yield running


def outcomes(world: World) -> list[tuple[str, str]]:
    """Occurrence and outcome of every receipt, in the order written."""
    found = world.sql("SELECT occurrence_at, outcome FROM dispatches ORDER BY number")
    return [(at, outcome) for at, outcome in found]


def times(pushed: list[Json]) -> list[str]:
    return [each["occurrence_at"] for followup in pushed for each in followup["occurrences"]]


async def ended(world: World, reminder_id: str) -> str | None:
    reminder = await world.get(reminder_id)
    assert (reminder["status"] == "ended") == ("ended_reason" in reminder)
    return reminder.get("ended_reason")


# --- until


async def test_an_occurrence_exactly_at_until_comes_and_is_the_last(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    until = "2026-01-01T12:20:01.000Z"
    reminder_id = await world.create(every_seconds=300, until=until)
    await world.advance(300)
    await world.advance(300)
    assert times(agent.pushed) == ["2026-01-01T12:15:01.000Z", until]
    assert await ended(world, reminder_id) == "until"


async def test_a_millisecond_before_an_occurrence_until_leaves_it_out(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    reminder_id = await world.create(every_seconds=300, until="2026-01-01T12:20:00.999Z")
    await world.advance(1000)
    assert times(agent.pushed) == ["2026-01-01T12:15:01.000Z"]
    assert await ended(world, reminder_id) == "until"


async def test_what_was_due_by_until_is_delivered_however_late_as_the_latest_up_to_it(
    world: World,
) -> None:
    reminder_id = await world.create(every_seconds=300, until="2026-01-01T12:31:00Z")
    await world.advance(DAY)
    agent = await world.agent("s", says=ADMIT)
    (occurrence,) = agent.pushed[0]["occurrences"]
    assert occurrence["occurrence_at"] == "2026-01-01T12:30:01.000Z"
    assert occurrence["missed_from"] == "2026-01-01T12:15:01.000Z"
    assert await ended(world, reminder_id) == "until"


async def test_an_update_that_sets_until_into_the_past_still_delivers_what_was_due_by_then(
    world: World,
) -> None:
    reminder_id = await world.create(every_seconds=300)
    await world.advance(1000)
    await world.update(reminder_id, until="2026-01-01T12:16:00Z")
    agent = await world.agent("s", says=ADMIT)
    assert times(agent.pushed) == ["2026-01-01T12:15:01.000Z"]
    assert await ended(world, reminder_id) == "until"


async def test_an_update_that_leaves_nothing_is_refused_and_changes_nothing(world: World) -> None:
    reminder_id = await world.create(every_seconds=300)
    before = await world.get(reminder_id)
    with pytest.raises(TimeOutOfRange) as caught:
        await world.update(reminder_id, until="2026-01-01T12:15:00Z")
    assert caught.value.field == "until"
    assert await world.get(reminder_id) == before


@pytest.mark.parametrize("until", ["2025-01-01T00:00:00Z", "2026-01-01T12:15:00Z"])
async def test_a_creation_whose_end_leaves_nothing_is_refused(world: World, until: str) -> None:
    with pytest.raises(TimeOutOfRange):
        await world.create(every_seconds=300, until=until)


async def test_until_ends_nothing_under_a_clock_that_was_just_set_and_everything_later(
    world: World,
) -> None:
    """The clock jumps far ahead: what is due comes, and whether it was the last is left open."""
    agent = await world.agent("s", says=ADMIT)
    reminder_id = await world.create(every_seconds=300, until="2026-01-02T00:00:00Z")
    await world.jump(30 * DAY)
    assert times(agent.pushed) == ["2026-01-01T23:55:01.000Z"]
    assert await ended(world, reminder_id) is None
    await world.advance(599)
    assert await ended(world, reminder_id) is None
    await world.advance(2)
    assert await ended(world, reminder_id) == "until"
    assert len(agent.pushed) == 1


async def test_a_rule_with_an_end_goes_on_after_a_clock_that_was_far_ahead(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    reminder_id = await world.create(every_seconds=300, until="2026-01-02T00:00:00Z")
    await world.jump(30 * DAY)
    await world.advance(100)
    await world.jump(-30 * DAY)
    await world.advance(300)
    assert await ended(world, reminder_id) is None
    assert times(agent.pushed)[-1] == "2026-01-01T12:15:01.000Z"


# --- max_occurrences


async def test_the_count_is_of_admissions_not_of_what_was_skipped_or_run_by_hand(
    world: World,
) -> None:
    agent = await world.agent("s", says=ADMIT)
    reminder_id = await world.create(every_seconds=300, max_occurrences=2)
    await world.act("skip", reminder_id)
    await world.act("run_now", reminder_id)
    for _ in range(4):
        await world.advance(300)
    assert len(agent.pushed) == 3
    assert await ended(world, reminder_id) == "count"
    assert (await world.get(reminder_id))["dispatch_count"] == 2


async def test_count_one_comes_again_with_its_id_after_a_crash_before_the_receipt(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    first = await open_world(tmp_path, clock)
    await first.start()
    agent = await first.agent("s")
    reminder_id = await first.create(every_seconds=300, max_occurrences=1)
    await first.advance(300)
    await first.stop()  # the admission never arrived
    async with running_world(tmp_path, clock) as second:
        again = await second.agent("s", says=ADMIT)
        await second.advance(1000)
        assert [ids_of(each) for each in again.pushed] == [ids_of(agent.pushed[0])]
        assert await ended(second, reminder_id) == "count"


async def test_a_larger_count_lets_a_rule_go_on_and_one_that_was_reached_is_refused(
    world: World,
) -> None:
    agent = await world.agent("s", says=ADMIT)
    reminder_id = await world.create(every_seconds=300, max_occurrences=3)
    await world.advance(300)
    await world.advance(300)
    with pytest.raises(TimeOutOfRange) as caught:
        await world.update(reminder_id, max_occurrences=2)
    assert caught.value.field == "max_occurrences"
    await world.update(reminder_id, max_occurrences=4)
    for _ in range(5):
        await world.advance(300)
    assert len(agent.pushed) == 4


# --- age


async def test_what_is_older_than_its_age_stands_in_history_as_missed_and_is_not_sent(
    world: World,
) -> None:
    once = await world.create(prompt="once", after_seconds=10, expires_after_seconds=60)
    often = await world.create(prompt="often", every_seconds=300, expires_after_seconds=60)
    kept = await world.create(prompt="kept", after_seconds=10, expires_after_seconds=1000)
    await world.advance(380)
    agent = await world.agent("s", says=ADMIT)
    assert agent.prompts == [["kept"]]
    assert sorted(outcomes(world)) == [
        ("2026-01-01T12:10:11.000Z", "admitted"),
        ("2026-01-01T12:10:11.000Z", "missed"),
        ("2026-01-01T12:15:01.000Z", "missed"),
    ]
    assert [await ended(world, each) for each in (once, often, kept)] == [
        "missed",
        None,
        "delivered",
    ]
    await world.advance(220)
    assert agent.prompts == [["kept"], ["often"]]
    (receipt,) = (await world.history(id=once))["items"]
    assert (receipt["outcome"], receipt["host"], receipt["followup_id"]) == ("missed", "", "")


async def test_an_occurrence_exactly_as_old_as_its_age_is_sent(world: World) -> None:
    await world.create(after_seconds=10, expires_after_seconds=60)
    await world.advance(70)
    agent = await world.agent("s", says=ADMIT)
    assert len(agent.pushed) == 1


async def test_nothing_is_missed_under_a_clock_that_was_just_set(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    await world.create(after_seconds=1000, expires_after_seconds=60)
    await world.jump(DAY)
    assert len(agent.pushed) == 1
    assert [outcome for _, outcome in outcomes(world)] == ["admitted"]


async def test_a_machine_that_starts_with_a_wrong_clock_misses_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_world(tmp_path, clock) as world:
        await world.create(after_seconds=10, expires_after_seconds=60)
    clock.jump(DAY)
    async with running_world(tmp_path, clock) as world:
        agent = await world.agent("s", says=ADMIT)
        assert len(agent.pushed) == 1


async def test_a_paused_reminder_neither_comes_nor_expires(world: World) -> None:
    reminder_id = await world.create(after_seconds=10, expires_after_seconds=60)
    await world.act("pause", reminder_id)
    agent = await world.agent("s", says=ADMIT)
    await world.advance(50)
    await world.act("resume", reminder_id)
    assert len(agent.pushed) == 1


# --- daylight saving


@pytest.mark.parametrize(
    ("start", "local", "skipped", "next_one"),
    [
        # 02:30 does not exist on March 8: it is due at 03:30.
        ("2026-03-07T12:00", "02:30", "2026-03-08T07:30:00.000Z", "2026-03-09T06:30:00.000Z"),
        # 01:30 comes twice on November 1: the first counts.
        ("2026-10-31T12:00", "01:30", "2026-11-01T05:30:00.000Z", "2026-11-02T06:30:00.000Z"),
    ],
)
async def test_skipping_and_running_by_hand_on_the_day_that_the_clock_changes(
    tmp_path: Path, start: str, local: str, skipped: str, next_one: str
) -> None:
    clock = ManualClock(dt.datetime.fromisoformat(start).replace(tzinfo=dt.UTC))
    async with running_world(tmp_path, clock) as world:
        agent = await world.agent("s", says=ADMIT)
        rule = {"time": local, "time_zone": "America/New_York"}
        reminder_id = await world.create(daily=rule)
        assert (await world.get(reminder_id))["scheduled_at"] == skipped
        assert (await world.act("skip", reminder_id))["skipped_occurrence"] == skipped
        run = await world.act("run_now", reminder_id)
        assert [ids_of(each) for each in agent.pushed] == [[run["occurrence_id"]]]
        assert (await world.get(reminder_id))["scheduled_at"] == next_one
        for _ in range(60):
            await world.advance(HOUR)
        assert times(agent.pushed)[1:] == [next_one]


async def test_until_on_the_hour_that_comes_twice_means_the_instant(tmp_path: Path) -> None:
    """Until 01:45 in the second of the two hours: the one at 01:30 of the first has come."""
    clock = ManualClock(dt.datetime(2026, 10, 30, 12, tzinfo=dt.UTC))
    async with running_world(tmp_path, clock) as world:
        agent = await world.agent("s", says=ADMIT)
        rule = {"time": "01:30", "time_zone": "America/New_York"}
        reminder_id = await world.create(daily=rule, until="2026-11-01T01:45:00-05:00")
        for _ in range(80):
            await world.advance(HOUR)
        assert times(agent.pushed) == ["2026-10-31T05:30:00.000Z", "2026-11-01T05:30:00.000Z"]
        assert await ended(world, reminder_id) == "until"


# --- runs by hand


async def test_a_run_by_hand_comes_before_recurring_ones_of_a_paused_record_too(
    world: World,
) -> None:
    await world.create(prompt="often", every_seconds=300)
    paused = await world.create(prompt="paused", every_seconds=300)
    await world.act("pause", paused)
    await world.advance(300)
    runs = [(await world.act("run_now", paused))["occurrence_id"] for _ in range(2)]
    agent = await world.agent("s", says=ADMIT)
    assert agent.prompts == [["paused"], ["paused"], ["often"]]
    assert [ids_of(each)[0] for each in agent.pushed[:2]] == runs
    assert len(set(runs)) == 2
    assert (await world.get(paused))["state"] == "paused"


async def test_a_run_by_hand_survives_a_restart_and_a_clock_that_is_set_back(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with running_world(tmp_path, clock) as world:
        reminder_id = await world.create(every_seconds=300)
        run = await world.act("run_now", reminder_id, idempotency_key="k")
    clock.jump(-40 * DAY)
    async with running_world(tmp_path, clock) as world:
        agent = await world.agent("s", says=ADMIT)
        assert [ids_of(each) for each in agent.pushed] == [[run["occurrence_id"]]]
        again = await world.act("run_now", reminder_id, idempotency_key="k")
        assert (again["occurrence_id"], again["created"]) == (run["occurrence_id"], False)
        assert len(agent.pushed) == 1


async def test_deleting_takes_the_run_along_and_an_ended_one_cannot_be_run(world: World) -> None:
    reminder_id = await world.create(every_seconds=300)
    await world.act("run_now", reminder_id)
    assert await world.delete(reminder_id)
    once = await world.create(after_seconds=1)
    agent = await world.agent("s", says=ADMIT)
    await world.advance(1)
    assert len(agent.pushed) == 1
    with pytest.raises(ReminderEnded):
        await world.act("run_now", once)


# --- moving a Session while a follow-up is in flight


async def test_what_is_in_flight_when_its_session_moves_does_not_come_in_the_new_one(
    world: World,
) -> None:
    agent = await world.agent("old", "new")
    moving = await world.create("old", "moving", every_seconds=300)
    await world.create("new", "there", every_seconds=300)
    await world.advance(300)
    assert sorted(agent.sessions) == ["new", "old"]
    agent.answer(ADMIT, next(each for each in agent.pushed if each["session_id"] == "new"))
    await world.settled()
    await world.call("sessions.transfer", params.Transfer, {"from": "old", "to": "new"})
    assert (await world.get(moving))["session_id"] == "new"
    await world.advance(1)
    assert len(agent.pushed) == 2
    agent.answer(ADMIT)
    await world.settled()
    assert len(agent.pushed) == 2
    agent.says = ADMIT
    await world.advance(299)
    assert agent.prompts[2:] == [["moving", "there"]]
    assert [each["session_id"] for each in (await world.history(id=moving))["items"]] == [
        "new",
        "old",
    ]


async def test_a_late_admission_holds_the_session_that_its_reminders_moved_to(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await world.agent("old", "new")
    moving = await world.create("old", every_seconds=300)
    await world.advance(300)
    await world.advance(30)  # it timed out, and its Session pauses
    await world.call("sessions.transfer", params.Transfer, {"from": "old", "to": "new"})
    (first, second) = agent.pushed
    assert second["session_id"] == "new"
    agent.answer(BUSY, second)
    await world.settled()
    record, written = world.store.record, asyncio.Event()

    async def slow(*values: Any) -> Any:
        await written.wait()
        return await record(*values)

    monkeypatch.setattr(world.store, "record", slow)
    agent.answer(ADMIT, first)
    await world.advance(100)
    assert len(agent.pushed) == 2
    written.set()
    await world.settled()
    assert len(agent.pushed) == 2
    assert (await world.get(moving))["waiting_for"]["why"] == "target"


async def test_what_is_in_flight_comes_in_no_session_that_it_moves_to_however_often(
    world: World,
) -> None:
    agent = await world.agent("a", "b", "c")
    often = await world.create("a", every_seconds=300)
    by_hand = await world.create("a", every_seconds=100_000)
    await world.act("run_now", by_hand)
    for session, to in (("a", "b"), ("b", "c")):
        await world.call("sessions.transfer", params.Transfer, {"from": session, "to": to})
    await world.advance(20)
    assert len(agent.pushed) == 1
    agent.answer(ADMIT)
    await world.advance(280)
    assert len(agent.pushed) == 2
    for session, to in (("c", "b"), ("b", "a")):
        await world.call("sessions.transfer", params.Transfer, {"from": session, "to": to})
    await world.advance(10)
    assert len(agent.pushed) == 2
    assert (await world.get(often))["waiting_for"]["why"] == "in_flight"
    agent.answer(ADMIT)
    await world.settled()
    assert len(agent.pushed) == 2
    assert (await world.get(often))["waiting_for"]["why"] == "target"


async def test_a_skip_after_a_transfer_still_means_the_one_after_what_is_in_flight(
    world: World,
) -> None:
    agent = await world.agent("old", "new")
    reminder_id = await world.create("old", every_seconds=300)
    await world.advance(300)
    await world.call("sessions.transfer", params.Transfer, {"from": "old", "to": "new"})
    skipped = await world.act("skip", reminder_id)
    assert skipped["skipped_occurrence"] == "2026-01-01T12:20:01.000Z"
    agent.answer(ADMIT)
    await world.settled()
    assert sorted(outcomes(world)) == [
        ("2026-01-01T12:15:01.000Z", "admitted"),
        ("2026-01-01T12:20:01.000Z", "skipped"),
    ]


async def test_a_skip_takes_effect_in_the_order_asked(world: World) -> None:
    reminder_id = await world.create(every_seconds=300)
    caller = Caller(1000, False)
    one = params.One(id=reminder_id)
    acts = world.service.acts
    answers = await asyncio.gather(
        acts.skip(caller, one),
        acts.pause(caller, one),
        acts.skip(caller, one),
        acts.resume(caller, one),
    )
    assert [each["reminder"]["revision"] for each in answers] == [2, 3, 4, 5]


# --- somebody else's


@pytest.mark.parametrize("verb", ["pause", "resume", "skip", "run_now", "snooze"])
async def test_a_verb_on_somebody_elses_reminder_finds_none(world: World, verb: str) -> None:
    reminder_id = await world.create(every_seconds=300)
    more: Json = {"seconds": 5} if verb == "snooze" else {}
    for asked in ({"caller": Caller(4321, False)}, {"session_id": "another"}):
        with pytest.raises(ReminderNotFound):
            await world.act(verb, reminder_id, **asked, **more)
    with pytest.raises(ReminderNotFound):
        await world.act(verb, "r99", **more)


async def test_nobody_lists_moves_or_forgets_the_sessions_of_others(world: World) -> None:
    reminder_id = await world.create("s", every_seconds=300)
    other = Caller(4321, False)
    listed = await world.call("sessions.list_sessions", params.ListSessions, {}, other)
    assert listed == {"items": []}
    asked = {"from": "s", "to": "t"}
    moved = await world.call("sessions.transfer", params.Transfer, asked, other)
    assert moved == {"reminders": 0}
    gone = await world.call("sessions.forget", params.Forget, {"session_id": "s"}, other)
    assert gone == {"reminders": 0, "dispatches": 0}
    assert (await world.get(reminder_id))["session_id"] == "s"
