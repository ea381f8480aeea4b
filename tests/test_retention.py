"""When the loop removes what has been kept long enough: rarely, rightly, and waking nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.retention import LOOK_SECONDS
from scheduler_daemon.store.retention import Keep
from scheduler_daemon.watching import Watch
from tests.support.clock import START, ManualClock
from tests.support.world import ADMIT, UID, World, few_rounds, running_world

DAY = 86_400.0
MONTH = 31 * DAY
TEN_MINUTES = 600.0


class Ear:
    """A watcher of everything."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def hear(self, frame: bytes) -> None:
        change: Any = json.loads(frame)["params"]
        self.heard.append((change["id"], change["change"]))


async def come_round(world: World) -> None:
    world.scheduler.rescan()
    await world.settled()


async def ended(world: World, **more: Any) -> str:
    """The id of a reminder that was delivered and has ended."""
    agent = await world.agent("s", says=ADMIT)
    made = await world.create("s", after_seconds=1, **more)
    await world.advance(2)
    agent.close()
    await world.settled()
    return made


def numbers(world: World) -> list[int]:
    return [number for (number,) in world.sql("SELECT number FROM reminders ORDER BY number")]


async def test_after_their_time_an_ended_reminder_and_its_receipt_go_and_watchers_hear(
    world: World,
) -> None:
    ear = Ear()
    made = await ended(world)
    world.watchers.add(ear, Watch(UID, None))
    await world.advance(29 * DAY)
    await come_round(world)
    assert ear.heard == []
    await world.advance(2 * DAY)
    with capture_logs() as logs:
        await come_round(world)
    assert ear.heard == [(made, "deleted")]
    assert (numbers(world), world.receipts()) == ([], [])
    (line,) = [each for each in logs if each["event"] == "retention_removed"]
    assert (line["ended_reminders"], line["old_receipts"]) == (1, 1)
    await come_round(world)
    assert len(ear.heard) == 1


async def test_an_active_reminder_stays_with_its_newest_receipt(world: World) -> None:
    await world.agent("s", says=ADMIT)
    made = await world.create("s", every_seconds=300)
    await world.advance(301)
    await world.advance(301)
    await world.act("pause", made)
    await world.advance(MONTH)
    await come_round(world)
    assert (await world.get(made))["last_dispatch"]["occurrence_at"] == "2026-01-01T12:10:00.000Z"
    assert len(world.receipts()) == 1


async def test_a_reminder_keeps_so_many_receipts(tmp_path: Path) -> None:
    async with running_world(tmp_path, keep=Keep(30, 3, 30)) as world:
        await world.agent("s", says=ADMIT)
        made = await world.create("s", every_seconds=300)
        for _ in range(3 * 12):
            await world.advance(300)
        assert 3 <= len(world.receipts()) <= 3 + LOOK_SECONDS / 300
        await world.act("pause", made)
        await world.advance(LOOK_SECONDS)
        await come_round(world)
        assert len(world.receipts()) == 3


async def test_the_key_of_a_reminder_that_went_finds_it_for_as_long_again(world: World) -> None:
    made = await ended(world, idempotency_key="k")
    await world.advance(MONTH)
    await come_round(world)
    again = await world.make("s", after_seconds=1, idempotency_key="k")
    assert again == {"id": made, "deleted": True, "created": False}
    await world.advance(MONTH)
    await come_round(world)
    assert (await world.make("s", after_seconds=1, idempotency_key="k"))["created"]


async def test_a_reminder_that_was_asked_for_by_hand_stays_until_it_has_come(world: World) -> None:
    made = await world.create("s", every_seconds=300, max_occurrences=1)
    await world.act("run_now", made)
    world.sql(
        "UPDATE reminders SET status = 'ended', ended_at = created_at, ended_reason = 'count'"
    )
    await world.advance(MONTH)
    await come_round(world)
    assert numbers(world) == [1]
    await world.agent("s", says=ADMIT)
    await world.advance(LOOK_SECONDS)
    await come_round(world)
    assert numbers(world) == []


async def test_nothing_goes_under_a_clock_that_is_put_right_within_ten_minutes(
    tmp_path: Path,
) -> None:
    """A machine that started in the far future, or was set there."""
    async with running_world(tmp_path) as world:
        await ended(world)
    for far in (10 * 365 * DAY, 100 * DAY):
        clock = ManualClock(START)
        clock.jump(far)
        async with running_world(tmp_path, clock) as world:
            await world.advance(TEN_MINUTES - 1)
            await come_round(world)
            await world.jump(-far)
            await world.advance(2 * LOOK_SECONDS)
            await come_round(world)
            await world.jump(far)
            await world.advance(TEN_MINUTES - 1)
            await world.jump(-far)
            await world.advance(2 * LOOK_SECONDS)
            await come_round(world)
            assert (numbers(world), len(world.receipts())) == ([1], 1)


async def test_after_a_start_it_begins_by_itself_as_soon_as_the_clock_can_be_trusted(
    tmp_path: Path,
) -> None:
    async with running_world(tmp_path) as world:
        await ended(world)
    clock = ManualClock(START)
    clock.advance(MONTH)
    clock.jump(7200)  # so that it has to be trusted anew
    async with running_world(tmp_path, clock) as world:
        clock.steady()
        assert clock.pending_calls == 1
        with few_rounds(world, 0):
            await world.advance(TEN_MINUTES - 1)
            assert numbers(world) == [1]
            await world.advance(1)
        assert (numbers(world), world.receipts(), clock.pending_calls) == ([], [], 0)


async def test_with_nothing_to_remove_no_timer_is_kept(tmp_path: Path) -> None:
    async with running_world(tmp_path) as world:
        await ended(world)
    async with running_world(tmp_path) as world:
        assert world.clock.pending_calls == 0
        with few_rounds(world, 0):
            await world.advance(2 * MONTH)
        assert numbers(world) == [1]  # whose time has come while nothing woke the process
        await come_round(world)
        assert numbers(world) == []


async def test_it_looks_at_most_once_an_hour_and_again_when_the_clock_was_set(
    world: World,
) -> None:
    await ended(world)
    await world.advance(MONTH)
    await come_round(world)
    looks = 0
    upkeep = world.store.reader.upkeep

    async def counted(look: Any) -> Any:
        nonlocal looks
        looks += look.__module__ == "scheduler_daemon.retention"  # not those of the rest of upkeep
        return await upkeep(look)

    world.store.reader.upkeep = counted  # type: ignore[method-assign]
    for _ in range(5):
        await world.advance(LOOK_SECONDS / 6)
        await come_round(world)
    assert looks == 0
    await world.advance(LOOK_SECONDS / 6)
    await come_round(world)
    await come_round(world)
    assert looks == 4
    await world.jump(5)
    assert looks == 8


async def test_a_write_that_fails_is_logged_and_tried_again_at_the_next_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ended(world)
    await world.advance(MONTH)

    async def fails(act: object) -> None:
        raise PersistenceFailed("full")

    with monkeypatch.context() as patch, capture_logs() as logs:
        patch.setattr(world.store, "upkeep", fails)
        await come_round(world)
    assert [each["event"] for each in logs] == ["retention_failed"]
    assert numbers(world) == [1]
    await world.advance(LOOK_SECONDS)
    await come_round(world)
    assert numbers(world) == []


async def test_between_two_slices_others_have_the_disk_for_as_long_as_one_took(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_daemon.store.retention.REMOVED", 1)
    for _ in range(3):
        await ended(world)
    await world.advance(MONTH)
    upkeep = world.store.upkeep

    async def slow(act: Any) -> Any:
        part = await upkeep(act)
        world.clock.advance(0.25)
        return part

    monkeypatch.setattr(world.store, "upkeep", slow)
    await come_round(world)
    assert len(world.receipts()) == 2
    await world.advance(0.2)
    assert len(world.receipts()) == 2
    await world.advance(0.05)
    assert len(world.receipts()) == 1
    await world.advance(10)
    assert len(world.receipts()) == 0


async def test_stopping_leaves_the_rest_to_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock(START)
    async with running_world(tmp_path, clock) as world:
        await ended(world)
        await world.advance(MONTH)
    async with running_world(tmp_path, ManualClock(clock.now())) as world:
        assert world.clock.pending_calls == 1  # it waits for a clock that can be trusted
    assert world.clock.pending_calls == 0
