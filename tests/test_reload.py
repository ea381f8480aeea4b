"""SIGHUP: settings that can change do, others are named, and a manager hears when it is over."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon import assembly
from scheduler_daemon.config import ConfigError
from scheduler_daemon.settings import SCHEMA, Settings
from tests.support.inprocess import Running, needs_root, running, until
from tests.support.short import short_path as short_path

STRANGER = 54_321


class Told:
    """What a manager was told since the daemon was ready."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.lines: list[str] = []

    def read(self) -> list[str]:
        with suppress(BlockingIOError):
            while True:
                self.lines.append(self._sock.recv(10_000).decode())
        return self.lines

    def has(self, count: int) -> bool:
        return len(self.read()) >= count


@pytest.fixture
def told(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        sock.bind(str(short_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", sock.getsockname())
        yield Told(sock)


@pytest.fixture
async def on(short_path: Path, told: Told) -> AsyncIterator[Running]:
    async with running(short_path) as started:
        await until(lambda: told.has(3))  # it starts, is ready, and how it is
        told.lines.clear()
        yield started


async def hang_up(on: Running, load: Callable[[], Settings]) -> dict[str, Any]:
    """SIGHUP, where `load` reads the settings; what the log says of them."""
    on.daemon._load = load
    with capture_logs() as logs:
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: any(entry["event"].startswith("settings_") for entry in logs))
    (entry,) = [entry for entry in logs if entry["event"].startswith("settings_")]
    return dict(entry)


async def changed(on: Running, **settings: Any) -> dict[str, Any]:
    return await hang_up(on, lambda: Settings(**(on.settings.model_dump() | settings)))


async def test_the_manager_hears_since_when_it_reloads_and_that_it_is_ready_again(
    on: Running, told: Told
) -> None:
    said = await changed(on)
    assert (said["changed"], said["waiting_for_restart"]) == ([], [])
    await until(lambda: told.has(3))
    reloading, ready, status = told.lines
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", reloading)
    assert ready == "READY=1"
    assert status == "STATUS=nothing to wake for; 0 overdue; 0 agent hosts connected"


async def test_bounds_of_what_may_be_made_change_at_once(on: Running) -> None:
    peer = await on.peer()
    said = await changed(on, max_prompt_chars=3, max_active_per_session=1)
    assert said["changed"] == ["max_prompt_chars", "max_active_per_session"]
    refusal = await peer.refused("reminder.create", session_id="s", prompt="long", after_seconds=9)
    assert refusal["data"]["code"] == "invalid_prompt"
    await peer.create("s", prompt="p", after_seconds=9)
    refusal = await peer.refused("reminder.create", session_id="s", prompt="p", after_seconds=9)
    assert refusal["data"]["code"] == "limit_reached"


async def test_what_the_loop_keeps_to_changes_at_once(on: Running) -> None:
    times = {"followup_timeout_seconds": 7.0, "unclaimed_warn_seconds": 60.0, "ended_days": 2}
    await changed(on, **times)
    scheduler = on.daemon.parts.scheduler
    assert scheduler._timeout == 7
    assert scheduler._unclaimed._warn_after.total_seconds() == 60
    assert scheduler._retention.keep.ended_days == 2
    assert on.daemon.parts.settings.ended_days == 2


@needs_root
async def test_who_may_come_changes_at_once_and_nobody_is_thrown_out(short_path: Path) -> None:
    async with running(short_path, allowed_uids=(STRANGER,)) as on:
        admitted = await on.peer_as(STRANGER)
        await changed(on, allowed_uids=(STRANGER + 1,))
        assert "protocol" in await admitted.call("hello")
        late = await on.peer_as(STRANGER)
        assert (await late.read())["error"]["data"]["code"] == "permission_denied"
        assert "protocol" in await (await on.peer_as(STRANGER + 1)).call("hello")


async def test_whom_the_mode_of_its_socket_keeps_out_waits_for_a_restart(on: Running) -> None:
    said = await changed(on, allowed_uids=(STRANGER,))
    assert (said["changed"], said["waiting_for_restart"]) == ([], ["allowed_uids"])
    said = await changed(on, allowed_uids=(STRANGER,))
    assert (said["changed"], said["waiting_for_restart"]) == ([], ["allowed_uids"])
    assert (await changed(on))["waiting_for_restart"] == []


async def test_what_a_user_may_make_it_hold_changes_for_those_who_are_there(on: Running) -> None:
    peers = [await on.peer() for _ in range(9)]
    for peer in peers:
        peer.write(b"x" * 1_000_000)
    await changed(on, max_write_buffer_bytes=1 << 20)
    with capture_logs() as logs:
        for peer in peers:
            peer.write(b"x")
        await until(lambda: any(entry["event"] == "peer_dropped" for entry in logs))


async def test_a_hang_up_during_the_start_counts_when_it_is_over(
    short_path: Path, told: Told
) -> None:
    async def hang_up_soon() -> None:
        while signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGHUP)

    soon = asyncio.create_task(hang_up_soon())
    async with running(short_path):
        await soon
        await until(lambda: told.has(4))
    said = [line.partition("=")[0] for line in told.lines]
    assert said[:4] == ["STATUS", "READY", "RELOADING", "READY"]


async def test_a_hang_up_during_the_stop_does_not_call_it_ready_again(
    short_path: Path, told: Told
) -> None:
    async with running(short_path) as on:
        on.daemon.stop()
        await until(lambda: any(line.startswith("STOPPING") for line in told.read()))
        os.kill(os.getpid(), signal.SIGHUP)
    assert not any(line.startswith("RELOADING") for line in told.read())


async def test_what_cannot_change_stays_and_is_named_in_log_and_status(
    on: Running, told: Told, short_path: Path
) -> None:
    said = await changed(on, socket=short_path / "other", history_days=3, max_frame_bytes=2 << 20)
    assert said["changed"] == ["history_days"]
    assert said["waiting_for_restart"] == ["socket", "max_frame_bytes"]
    assert on.daemon.parts.settings.max_frame_bytes == 1 << 20
    peer = await on.peer()
    status = await peer.call("daemon.status")
    assert status["restart_wanted_for"] == ["socket", "max_frame_bytes"]
    await until(lambda: told.has(3))
    assert told.lines[-1].endswith("; a restart is wanted for socket, max_frame_bytes")
    await changed(on)
    await until(lambda: told.has(6))
    assert told.lines[-1].endswith("; 0 agent hosts connected")
    assert "restart_wanted_for" not in await peer.call("daemon.status")


async def test_settings_that_cannot_be_used_leave_all_as_it_is_and_are_told(
    on: Running, told: Told
) -> None:
    def refuse() -> Settings:
        raise ConfigError("/etc/c.toml, line 3: unknown key sockt")

    said = await hang_up(on, refuse)
    assert (said["event"], said["log_level"]) == ("settings_refused", "error")
    assert "line 3" in said["reason"]
    await until(lambda: told.has(3))
    assert told.lines[1] == "READY=1"
    assert told.lines[2].endswith(
        "; settings not read again: /etc/c.toml, line 3: unknown key sockt"
    )
    assert on.daemon.parts.settings == on.settings


async def test_another_level_of_the_log_counts_at_once(
    on: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(assembly, "configure", lambda *how: given.append(how[:2]))
    await changed(on, log_level="debug")
    await changed(on, log_level="debug")
    assert given == [("debug", "auto")]


def test_settings_that_cannot_change_are_settings() -> None:
    assert set(assembly.FIXED) <= set(SCHEMA)
