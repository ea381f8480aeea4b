"""How the daemon is, as one caller may see it."""

from __future__ import annotations

import os
import platform
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from scheduler_daemon import __version__
from scheduler_daemon.desk import Caller
from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.rules import zone_data_version
from scheduler_daemon.status import SHOWN
from scheduler_daemon.wire.shapes import Status
from tests.support.clock import START
from tests.support.world import ADMIN, ADMIT, BUSY, ERROR, GONE, UID, World, open_world

pytestmark = pytest.mark.usefixtures("full_pauses")


async def test_an_idle_daemon_says_what_it_is(world: World) -> None:
    view = await world.status()
    assert view.pop("free_disk_bytes") > 0
    assert view == {
        "server": f"scheduler-daemon {__version__}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "protocol": 1,
        "schema": 1,
        "zone_data": zone_data_version(),
        "clock": "manual",
        "started_at": "2026-01-01T12:00:00.000Z",
        "counts": {
            "active": 0,
            "overdue": 0,
            "overdue_without_host": 0,
            "paused": 0,
            "ended": 0,
            "set_aside": 0,
            "runs": 0,
        },
        "hosts": [],
        "retrying": [],
    }


async def test_only_an_admin_sees_where_the_file_is_and_when_the_loop_looked(world: World) -> None:
    """The loop looks for everybody: when it did tells of others."""
    assert not {"database", "last_scan_at"} & set(await world.status())
    view = await world.status(ADMIN)
    assert (view["database"], view["last_scan_at"]) == (str(world.path), "2026-01-01T12:00:00.000Z")
    assert set(await world.status(ADMIN)) <= set(Status.__annotations__)


async def test_before_the_first_look_there_is_no_last_one(tmp_path: Path) -> None:
    world = await open_world(tmp_path)
    assert "last_scan_at" not in await world.status(ADMIN)
    await world.stop()


async def test_the_last_look_is_when_the_loop_came_round(world: World) -> None:
    await world.advance(100)
    assert (await world.status(ADMIN))["last_scan_at"] == "2026-01-01T12:00:00.000Z"
    await world.agent("s")
    assert (await world.status(ADMIN))["last_scan_at"] == "2026-01-01T12:01:40.000Z"


async def test_the_last_failure_of_the_file_is_shown(world: World) -> None:
    world.board.persistence_failed(START, "persistence_uncertain")
    world.board.persistence_failed(START, PersistenceFailed.code)
    assert (await world.status())["last_persistence_error"] == {
        "at": "2026-01-01T12:00:00.000Z",
        "code": "persistence_failed",
        "over": False,
    }


async def test_what_only_the_status_page_finds_wrong_with_the_file_is_in_the_log(
    world: World,
) -> None:
    """And once, however often somebody looks."""
    world.path.rename(world.path.with_name("elsewhere"))
    with capture_logs() as logs:
        for _ in range(3):
            assert (await world.status())["last_persistence_error"]["code"] == "persistence_failed"
    reasons = [line["reason"] for line in logs if line["event"] == "database_failed"]
    assert reasons == ["the database file was moved, deleted or replaced"]


async def test_a_failure_of_the_file_is_over_once_something_was_written(world: World) -> None:
    async def over() -> bool:
        fault: dict[str, bool] = (await world.status())["last_persistence_error"]
        return fault["over"]

    await world.create()
    world.board.persistence_failed(START, PersistenceFailed.code)
    await world.page()
    assert not await over()
    await world.create()
    assert await over()
    world.board.persistence_failed(START, PersistenceFailed.code)
    assert not await over()


async def test_the_disk_that_an_ordinary_process_may_still_fill_is_shown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def room(path: Path) -> SimpleNamespace:
        asked.append(path)
        return SimpleNamespace(f_bsize=1, f_frsize=4096, f_blocks=9, f_bfree=5, f_bavail=3)

    monkeypatch.setattr(os, "statvfs", room)
    assert (await world.status())["free_disk_bytes"] == 3 * 4096
    assert asked == [world.path.parent]


async def test_where_nobody_can_say_how_much_disk_is_free_that_is_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(path: Path) -> SimpleNamespace:
        raise OSError(path)

    monkeypatch.setattr(os, "statvfs", nobody)
    assert "free_disk_bytes" not in await world.status()


async def test_defects_of_the_daemon_are_counted_for_admins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreadable(*_: object) -> None:
        raise OSError("no such luck")

    with monkeypatch.context() as broken:
        broken.setattr(world.store.reader, "targets", unreadable)
        world.scheduler.rescan()
        await world.agent("s")
    assert (await world.status(ADMIN))["failures"] >= 1
    assert "failures" not in await world.status()


# --- counts


async def test_reminders_are_counted_by_state_and_each_user_sees_its_own(world: World) -> None:
    await world.agent("live", says=ADMIT)
    await world.create("live", after_seconds=1)
    await world.create("cold", after_seconds=1)
    await world.create("cold", after_seconds=1)
    await world.create("cold", after_seconds=600)
    await world.act("pause", await world.create("cold", after_seconds=1))
    spoilt = await world.create("broken", after_seconds=1)
    await world.create("cold", after_seconds=1, caller=Caller(2000, False))
    world.spoil(spoilt)
    await world.page()
    await world.advance(1)
    assert (await world.status())["counts"] == {
        "active": 4,
        "overdue": 2,
        "overdue_without_host": 2,
        "paused": 1,
        "ended": 1,
        "set_aside": 1,
        "runs": 0,
    }
    assert (await world.status(Caller(2000, False)))["counts"]["overdue"] == 1
    assert (await world.status(ADMIN))["counts"]["active"] == 0


async def test_what_was_asked_for_by_hand_counts_until_a_host_admits_it(world: World) -> None:
    asked = [await world.create("cold", after_seconds=600) for _ in range(2)]
    for reminder_id in (*asked, asked[0]):
        await world.act("run_now", reminder_id)
    await world.act("run_now", await world.create("other", after_seconds=600))
    counts = (await world.status())["counts"]
    assert (counts["runs"], counts["overdue"]) == (4, 0)
    assert (await world.status(ADMIN))["counts"]["runs"] == 0
    await world.agent("cold", says=ADMIT)
    assert (await world.status())["counts"]["runs"] == 1


async def overdue_without_host(world: World) -> int:
    count: int = (await world.status())["counts"]["overdue_without_host"]
    return count


async def test_what_is_overdue_in_a_session_without_a_willing_host_is_counted(
    world: World,
) -> None:
    for session, count in (("a", 1), ("b", 2), ("c", 4), ("d", 8)):
        for _ in range(count):
            await world.create(session, after_seconds=1)
    await world.advance(1)
    assert await overdue_without_host(world) == 15
    await world.agent("a", says=BUSY)
    await world.agent("b", "never heard of", says=GONE)
    assert await overdue_without_host(world) == 14
    await world.agent("*", says=lambda each: GONE if each["session_id"] == "c" else BUSY)
    assert await overdue_without_host(world) == 4


# --- hosts


async def test_hosts_are_shown_with_what_they_take(world: World) -> None:
    await world.agent("s", "a", name="codex", max_in_flight=3)
    await world.advance(1)
    await world.agent("*", name="all")
    await world.agent("s", uid=2000)
    await world.create("s", after_seconds=1)
    await world.advance(1)
    assert (await world.status())["hosts"] == [
        {
            "name": "codex",
            "sessions": ["a", "s"],
            "session_count": 2,
            "in_flight": 1,
            "max_in_flight": 3,
            "attached_at": "2026-01-01T12:00:00.000Z",
        },
        {
            "name": "all",
            "sessions": "*",
            "in_flight": 0,
            "max_in_flight": 16,
            "attached_at": "2026-01-01T12:00:01.000Z",
        },
    ]


async def test_only_the_first_hundred_of_each_are_shown(world: World) -> None:
    names = [f"s{number:03}" for number in range(SHOWN + 1)]
    for name in names:
        await world.create(name, after_seconds=1)
    for number in range(SHOWN + 1):
        await world.agent(f"host {number}")
    await world.advance(1)
    await world.agent(*names, says=BUSY)
    view = await world.status()
    assert (len(view["hosts"]), len(view["retrying"])) == (SHOWN, SHOWN)
    for each in range(SHOWN + 1):
        world.hosts.detach(world.hosts.line((UID, f"host {each}"))[0], "*")
    (host,) = (await world.status())["hosts"]
    assert (host["session_count"], host["sessions"]) == (SHOWN + 1, names[:SHOWN])


# --- what is tried again


async def test_sessions_that_are_tried_again_are_shown(world: World) -> None:
    says = {"busy": BUSY, "bad": ERROR, "quiet": None}
    await world.agent(*says, says=lambda each: says[each["session_id"]])
    await world.agent("busy", uid=2000, says=BUSY)
    for session in says:
        await world.create(session, after_seconds=1)
    await world.create("busy", after_seconds=1, caller=Caller(2000, False))
    await world.advance(1)
    await world.advance(1)
    await world.advance(2)
    retrying = {each["session_id"]: each for each in (await world.status())["retrying"]}
    assert retrying == {
        "busy": {
            "session_id": "busy",
            "why": "busy",
            "attempts": 3,
            "next_try_at": "2026-01-01T12:00:08.000Z",
        },
        "bad": {
            "session_id": "bad",
            "why": "set_aside",
            "attempts": 3,
            "next_try_at": "2026-01-01T12:00:08.000Z",
            "last_error": "the host answered with an error: no room",
        },
    }
    await world.advance(27)
    quiet = [each for each in (await world.status())["retrying"] if each["session_id"] == "quiet"]
    assert [(each["why"], each["last_error"]) for each in quiet] == [
        ("no_answer", "the host did not answer in time")
    ]
