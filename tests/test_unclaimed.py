"""The warning about Sessions that are overdue and that no host takes: one line for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.unclaimed import LINES
from tests.support.world import ADMIT, BUSY, GONE, World, few_rounds


class Lines:
    """The warnings so far."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = entries

    def take(self) -> list[Any]:
        """The Sessions that were named since the last call; a number for those only counted."""
        found = [
            entry.get("sessions") or entry["session_id"]
            for entry in self._entries
            if entry["event"] in ("session_unclaimed", "more_sessions_unclaimed")
        ]
        self._entries.clear()
        return found


@pytest.fixture
def lines() -> Iterator[Lines]:
    with capture_logs() as entries:
        yield Lines(entries)


async def look(world: World) -> None:
    """A round of the loop, a minute after the last look at least."""
    await world.advance(60)
    world.scheduler.rescan()
    await world.settled()


async def overdue(world: World, *sessions: str) -> None:
    """Reminders in these Sessions that are overdue since an hour."""
    for session in sessions:
        await world.create(session, after_seconds=1)
    await world.advance(3601)
    await look(world)


async def test_a_session_overdue_for_an_hour_without_a_host_gets_one_line(
    world: World, lines: Lines
) -> None:
    await overdue(world, "lost")
    assert lines.take() == ["lost"]
    await look(world)
    await world.advance(7200)
    await look(world)
    assert lines.take() == []


async def test_the_line_says_since_when(world: World) -> None:
    with capture_logs() as entries:
        await overdue(world, "lost")
    (entry,) = [each for each in entries if each["event"] == "session_unclaimed"]
    assert entry["log_level"] == "warning"
    assert entry["overdue_since"] == "2026-01-01T12:00:01.000Z"


async def test_nothing_is_unclaimed_before_the_hour_is_over(world: World, lines: Lines) -> None:
    await world.create("lost", after_seconds=1)
    await world.advance(3595)
    await look(world)
    assert lines.take() == ["lost"]
    await world.create("more", after_seconds=1)
    await world.advance(3500)
    await look(world)
    assert lines.take() == []


async def test_hosts_have_an_hour_to_come_back_after_a_start(world: World, lines: Lines) -> None:
    await world.create("s", after_seconds=1)
    await world.jump(100_000)
    await look(world)
    assert lines.take() == []
    await world.advance(3600)
    await look(world)
    assert lines.take() == ["s"]


async def test_a_session_that_a_host_takes_is_not_unclaimed(world: World, lines: Lines) -> None:
    await world.agent("s", says=BUSY)
    await overdue(world, "s")
    assert lines.take() == []


async def test_a_session_that_loses_its_host_while_it_is_overdue_is_seen(
    world: World, lines: Lines
) -> None:
    agent = await world.agent("s", "t", says=BUSY)
    await overdue(world, "s", "t")
    agent.says = ADMIT
    agent.ready("t")
    await world.settled()
    agent.close()
    await look(world)
    assert lines.take() == ["s"]
    await look(world)
    assert lines.take() == []


async def test_a_session_that_every_host_called_gone_is_unclaimed(
    world: World, lines: Lines
) -> None:
    """The commonest fault: the conversation has another name by now."""
    await world.agent("*", says=GONE)
    await overdue(world, "renamed")
    assert lines.take() == ["renamed"]


async def test_only_so_many_sessions_with_a_host_are_remembered(
    world: World, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_daemon.unclaimed.AT_ONCE", 2)
    agent = await world.agent("a", "b", "c", says=BUSY)
    await overdue(world, "a", "b", "c")
    await look(world)
    agent.close()
    await look(world)
    await look(world)
    assert lines.take() == ["a", "b"]


async def test_many_are_named_in_part_and_counted(world: World, lines: Lines) -> None:
    await overdue(world, *[f"s{number:02}" for number in range(LINES + 5)])
    assert lines.take() == [*[f"s{number:02}" for number in range(LINES)], 5]


async def test_a_clock_that_ran_ahead_does_not_silence_the_warning(
    world: World, lines: Lines
) -> None:
    await overdue(world, "s")
    await world.jump(1e8)
    await world.create("far", after_seconds=1)
    await world.advance(3700)
    assert lines.take() == ["s"]
    await world.jump(-1e8)
    await overdue(world, "t")
    assert set(lines.take()) >= {"s", "t"}


async def test_a_change_is_occasion_enough_for_a_look(world: World, lines: Lines) -> None:
    """With no host nothing else would wake the loop; no timer is kept for it."""
    await world.create("s", after_seconds=1)
    with few_rounds(world, 0):
        await world.advance(3601)
    with few_rounds(world, 1):
        await world.create("t", after_seconds=1)
        await world.create("t", after_seconds=1)
    assert lines.take() == ["s"]
