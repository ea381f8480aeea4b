"""Starting and stopping: each in one order, and nothing left behind in any case."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon import assembly, daemon
from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.server.address import SocketRefused
from scheduler_daemon.settings import Settings
from scheduler_daemon.store.database import LOCK_STEP_SECONDS, DatabaseRefused
from tests.store.support import taken_by_another
from tests.support.clock import ManualClock
from tests.support.inprocess import (
    DEADLINE_SECONDS,
    Blocked,
    Peer,
    Running,
    refuses,
    request,
    running,
    until,
)
from tests.support.process import short_folder

PAST_DUE = "UPDATE reminders SET scheduled_at = after_at WHERE id = 'r1'"


@pytest.fixture
def folder() -> Iterator[Path]:
    path = short_folder()
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def on(folder: Path) -> AsyncIterator[Running]:
    async with running(folder) as started:
        yield started


def settings(folder: Path, **more: Any) -> Settings:
    values = {"state_directory": folder / "state", "socket": folder / "run" / "s.sock"}
    return Settings(**(values | more))


def sql(database: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(database)) as conn, conn:
        return conn.execute(statement).fetchall()


async def overdue_at_a_host(on: Running) -> tuple[Peer, dict[str, Any]]:
    """A host, and the follow-up that waits for its answer."""
    host = await on.peer()
    await host.call("host.attach", name="h", sessions=["s"])
    await host.create("s", after_seconds=60)
    on.clock.advance(60)
    return host, await host.followup()


# --- starting


@contextmanager
def writing(database: Path) -> Iterator[None]:
    with Blocked(database):
        yield


async def started_once(folder: Path) -> Path:
    async with running(folder) as on:
        return on.database


async def told_to_wait(
    folder: Path, clock: ManualClock
) -> tuple[daemon.Daemon, asyncio.Task[None]]:
    """A daemon that has said that it waits for another program's lock."""
    waiting = daemon.Daemon(settings(folder), clock)
    task = asyncio.create_task(waiting.run())
    with capture_logs() as logs:
        await until(lambda: hasattr(waiting, "parts") or clock.pending_calls == 2)
        clock.advance(daemon.LOCK_NEWS_SECONDS)
        await until(lambda: [entry["event"] for entry in logs] == ["waiting_for_lock"])
    return waiting, task


async def as_time_passes(clock: ManualClock, coming: asyncio.Task[Any]) -> None:
    """What waits for a lock looks again after a moment, each time."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not coming.done():
            clock.advance(LOCK_STEP_SECONDS)
            await asyncio.wait([coming], timeout=0.01)


@pytest.mark.parametrize("taken", [writing, taken_by_another])
async def test_a_start_waits_until_another_program_lets_it(
    folder: Path, taken: Callable[[Path], AbstractContextManager[None]]
) -> None:
    database = await started_once(folder)
    clock = ManualClock()
    with taken(database):
        waiting, task = await told_to_wait(folder, clock)
        assert not waiting.ready.is_set()
    await as_time_passes(clock, asyncio.create_task(waiting.ready.wait()))
    waiting.stop()
    await asyncio.wait_for(task, 30)


@pytest.mark.parametrize("taken", [writing, taken_by_another])
async def test_a_start_that_waits_for_another_program_can_be_stopped(
    folder: Path, taken: Callable[[Path], AbstractContextManager[None]]
) -> None:
    database = await started_once(folder)
    clock = ManualClock()
    with taken(database):
        waiting, task = await told_to_wait(folder, clock)
        waiting.stop()
        await as_time_passes(clock, task)
    assert not waiting.ready.is_set()


async def test_folders_files_and_socket_are_private(on: Running) -> None:
    paths = (on.database.parent, on.database, on.path.parent, on.path)
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o700, 0o600, 0o700, 0o600]


async def test_a_start_and_a_stop_are_each_a_line_in_the_log(folder: Path) -> None:
    with capture_logs() as logs:
        async with running(folder) as on:
            pass
    started = next(entry for entry in logs if entry["event"] == "daemon_started")
    assert started["database"] == str(on.database)
    assert started["socket"] == str(on.path)
    assert started["pid"] == os.getpid()
    assert [entry["event"] for entry in logs][-2:] == ["stop_requested", "daemon_stopped"]


async def refused(folder: Path, error: type[Exception], **more: Any) -> None:
    """A start that fails so: no thread, no socket, no lock and no signal handler stays."""
    threads = threading.active_count()
    handler = signal.getsignal(signal.SIGHUP)
    with pytest.raises(error):
        await daemon.Daemon(settings(folder, **more), ManualClock()).run()
    await until(lambda: threading.active_count() == threads)
    assert signal.getsignal(signal.SIGHUP) == handler
    assert not (folder / "run" / "s.sock").exists()


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("scheduler_daemon.daemon.bring_up_to_date", DatabaseRefused("no")),
        ("scheduler_daemon.store.store.Store.open", sqlite3.OperationalError("no")),
        ("scheduler_daemon.store.store.Store.upkeep", PersistenceFailed("no")),
        ("scheduler_daemon.daemon.bind", SocketRefused("no")),
        ("scheduler_daemon.scheduler.Scheduler.run", ZeroDivisionError()),
        ("scheduler_daemon.server.listener.Listener.start", OSError("no")),
        ("scheduler_daemon.daemon.create_file", DatabaseRefused("no")),
    ],
)
async def test_a_start_that_fails_anywhere_leaves_nothing_and_the_next_one_succeeds(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, error: Exception
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(place, failing(error))
        await refused(folder, type(error))
    async with running(folder) as on:
        await (await on.peer()).call("hello")


async def test_a_second_daemon_is_refused_and_the_first_goes_on(on: Running, folder: Path) -> None:
    second = daemon.Daemon(settings(folder), ManualClock())
    with pytest.raises(DatabaseRefused, match=f"process {os.getpid()}"):
        await second.run()
    other = settings(folder, state_directory=folder / "other")
    with pytest.raises(SocketRefused, match="another daemon listens at"):
        await daemon.Daemon(other, ManualClock()).run()
    await (await on.peer()).call("hello")


async def test_a_first_look_that_fails_keeps_peers_waiting_only_for_so_long(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop goes on trying; meanwhile reminders can be made, and status tells."""
    monkeypatch.setattr(Scheduler, "_round", failing(OSError("no")))
    clock = ManualClock()
    early = daemon.Daemon(settings(folder), clock)
    task = asyncio.create_task(early.run())
    await until(lambda: clock.pending_calls == 2)  # its own, and the loop's retry
    with capture_logs() as logs:
        clock.advance(daemon.FIRST_LOOK_SECONDS)
        await asyncio.wait_for(early.ready.wait(), 30)
    assert [entry["event"] for entry in logs][-1] == "daemon_started"
    early.stop()
    await task


async def test_a_stop_during_a_first_look_that_fails_is_heard(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scheduler, "_round", failing(OSError("no")))
    clock = ManualClock()
    early = daemon.Daemon(settings(folder), clock)
    task = asyncio.create_task(early.run())
    await until(lambda: clock.pending_calls == 2)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(task, 30)
    assert not early.ready.is_set()
    assert not early._settings.socket.exists()


async def test_a_loop_that_ends_takes_the_daemon_with_it(folder: Path) -> None:
    """Better started again by whoever watches it than deaf for ever."""

    class BrokenClock(ManualClock):
        broken = False

        async def wait(self, *_: object) -> None:
            if self.broken:
                raise OSError("the timer is gone")
            await super().wait(None, asyncio.Event())

    clock = BrokenClock()
    async with AsyncExitStack() as at_end:
        on = await at_end.enter_async_context(running(folder, clock))
        peer = await on.peer()
        clock.broken = True
        clock.jump(1)
        assert await peer.read_until_end() == []
        with pytest.raises(OSError, match="the timer is gone"):
            await on.task
        at_end.pop_all()
        await peer.close()
    assert not (folder / "run" / "s.sock").exists()


# --- signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_it_in_good_order(on: Running, number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    await asyncio.wait_for(on.task, 30)
    assert not on.path.exists()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


async def test_sighup_makes_it_notice_edits_by_hand(on: Running) -> None:
    host = await on.peer()
    await host.call("host.attach", name="h", sessions=["s"])
    await host.create("s", after_seconds=3600)
    sql(on.database, PAST_DUE)
    await host.call("hello")
    assert host.requests == []
    os.kill(os.getpid(), signal.SIGHUP)
    assert (await host.followup())["method"] == "session.followup"


# --- stopping


async def test_it_waits_for_a_host_that_answers_and_writes_the_receipt(on: Running) -> None:
    host, followup = await overdue_at_a_host(on)
    on.daemon.stop()
    await until(lambda: refuses(on.path))
    host.admit(followup)
    await asyncio.wait_for(on.task, 30)
    assert sql(on.database, "SELECT host FROM dispatches") == [("h",)]


async def test_it_waits_no_longer_than_stop_timeout_seconds_for_one_that_does_not(
    folder: Path,
) -> None:
    """What was admitted before is on disk, what was not comes again."""
    async with running(folder, stop_timeout_seconds=0.05) as on:
        host, _ = await overdue_at_a_host(on)
        await host.call("host.attach", name="h", sessions=["t"])
        await host.create("t", after_seconds=60)
        on.clock.advance(60)
        host.admit(await host.followup())
        await on.stop()
        assert sql(on.database, "SELECT session_id FROM dispatches") == [("t",)]
        assert await host.read_until_end() == []
    async with running(folder, ManualClock(on.clock.now())) as on:
        host = await on.peer()
        await host.call("host.attach", name="h", sessions=["s", "t"])
        assert (await host.followup())["params"]["session_id"] == "s"


async def test_nothing_new_is_pushed_while_it_stops(on: Running) -> None:
    host, followup = await overdue_at_a_host(on)
    on.daemon.stop()
    await until(lambda: refuses(on.path))
    await host.create("s", after_seconds=1)
    on.clock.advance(1)
    host.admit(followup)
    assert await host.read_until_end() == []


async def test_a_receipt_that_waits_for_a_foreign_lock_is_written_when_it_is_free(
    on: Running,
) -> None:
    host, followup = await overdue_at_a_host(on)
    with Blocked(on.database):
        host.admit(followup)
        await host.call("hello")
        on.daemon.stop()
        await until(lambda: refuses(on.path))
    await asyncio.wait_for(on.task, 30)
    assert len(sql(on.database, "SELECT * FROM dispatches")) == 1


async def test_requests_that_cannot_be_answered_in_time_do_not_hold_it_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "LAST_ANSWERS_SECONDS", 0.05)
    async with running(folder, stop_timeout_seconds=0.05) as on:
        peer = await on.peer()
        with Blocked(on.database):
            peer.write(request(1, "reminder.create", session_id="s", prompt="p", after_seconds=9))
            await (await on.peer()).call("hello")
            on.daemon.stop()
            assert await peer.read_until_end() == []
        await asyncio.wait_for(on.task, 30)
        with closing(sqlite3.connect(on.database)) as conn:
            assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_it_starts_again_at_once_with_what_it_had(folder: Path) -> None:
    for number in range(1, 4):
        async with running(folder) as on:
            made = await (await on.peer()).create("s", after_seconds=3600)
            assert made["id"] == f"r{number}"


async def test_a_socket_that_somebody_put_in_its_place_stays(on: Running) -> None:
    on.path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(on.path))
        other.listen()
        await on.stop()
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(on.path))


async def test_a_failure_of_the_file_is_logged_with_its_reason(
    on: Running,
) -> None:
    """The log is for whoever runs the daemon; callers get no word of the database's."""
    peer = await on.peer()
    on.database.rename(on.database.with_name("moved"))
    with capture_logs() as logs:
        error = await peer.refused("reminder.create", session_id="s", prompt="p", after_seconds=9)
    assert error["data"]["code"] == "persistence_failed"
    reasons = {entry["reason"] for entry in logs if entry["event"] == "database_failed"}
    assert reasons == {"the database file was moved, deleted or replaced"}


@pytest.mark.parametrize("emptied", [True, False])
def test_a_database_that_was_here_and_is_lost_is_not_begun_anew(
    tmp_path: Path, emptied: bool
) -> None:
    path = tmp_path / "scheduler.db"
    if emptied:
        path.touch()
    mark = tmp_path / "scheduler.db.mark"
    mark.write_bytes(b"noted")
    with pytest.raises(DatabaseRefused, match="gone or empty"):
        daemon._take(path)
    mark.unlink()
    daemon._take(path).release()


def test_who_is_refused_hears_which_group_is_wanted(tmp_path: Path) -> None:
    nobody = Settings(state_directory=tmp_path, socket=tmp_path / "s")
    assert "allowed_gids must name it" in assembly._denied_hint(nobody)
    group = Settings(state_directory=tmp_path, socket=tmp_path / "s", allowed_gids=(0,))
    wanted = assembly._denied_hint(group)
    assert wanted.endswith("must be a member of the group 0")


async def test_a_torn_log_stands_in_log_and_status(tmp_path: Path) -> None:
    async with running(tmp_path) as on:
        peer = await on.peer()
        assert "last_persistence_error" not in await peer.call("daemon.status")
        with capture_logs() as lines:
            on.daemon._tell_of_lost(0)
            on.daemon._tell_of_lost(3)
        fault = (await peer.call("daemon.status"))["last_persistence_error"]
        assert fault["code"] == "persistence_uncertain"
        assert [(line["event"], line["pages"]) for line in lines] == [("writes_lost", 3)]
