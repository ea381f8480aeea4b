"""A daemon for one recording: real file, real socket, a clock that only the scene turns."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scheduler_daemon.daemon import Daemon
from scheduler_daemon.rules import instant_text
from scheduler_daemon.settings import Settings
from tests.support.clock import ManualClock
from tests.support.transcript import DEADLINE_SECONDS, Json, Recorder

START = dt.datetime(2026, 8, 7, 1, 0, tzinfo=dt.UTC)
EXAMPLES: Json = {
    "uid": 1000,
    "owner_uid": 1000,
    "server": "scheduler-daemon 0.1.0",
    "python": "3.13.5",
    "sqlite": "3.46.1",
    "zone_data": "2025b",
    "clock": "timerfd",
    "database": "/home/ada/.local/state/scheduler-daemon/scheduler.db",
    "free_disk_bytes": 48318382080,
    "cursor": "WyI3YjFhOWY0YzJlNjAiLCIiLDFd",
    "next_cursor": "WyI3YjFhOWY0YzJlNjAiLCIiLDFd",
}
"""What stands on the page for values that differ from machine to machine."""

_FOLLOWUP_ID = re.compile(r"f[0-9a-f]{16}")
_FIRST_FOLLOWUP = 0x5D1C0E2A7B943860


class Stage:
    """`peer` is written down, `aside` is not: it prepares what the scene needs."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.peer: Recorder
        self.aside: Recorder
        self._whole_text = True
        self._followups: list[str] = []

    async def connect(self, socket: Path) -> None:
        self.peer = await Recorder.connect(socket, self._edited)
        self.aside = await Recorder.connect(socket, self._edited)

    async def close(self) -> None:
        await self.peer.close()
        await self.aside.close()

    def shorten_text(self) -> None:
        """Show only the marker line of each follow-up's text from here on."""
        self._whole_text = False

    async def dispatched(self, reminder_id: str) -> None:
        """Wait until a receipt of this reminder is stored."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                got = await self.aside.call("reminder.get", {"id": reminder_id})
                if "last_dispatch" in got["result"]["reminder"]:
                    return

    async def scanned(self) -> None:
        """Wait until the daemon has looked for what is due at this instant of the clock."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                status = await self.aside.call("daemon.status")
                if status["result"]["last_scan_at"] == instant_text(self.clock.now()):
                    return

    def _edited(self, frame: Json) -> Json:
        return {name: self._edited_value(name, value) for name, value in frame.items()}

    def _edited_value(self, name: str, value: Any) -> Any:
        if name in EXAMPLES:
            return EXAMPLES[name]
        if isinstance(value, dict):
            return self._edited(value)
        if isinstance(value, list):
            return [self._edited(item) if isinstance(item, dict) else item for item in value]
        if name == "text" and not self._whole_text:
            return value.split("\n")[0] + "\n…"
        if isinstance(value, str) and _FOLLOWUP_ID.fullmatch(value):
            return self._example_id(value)
        return value

    def _example_id(self, followup_id: str) -> str:
        if followup_id not in self._followups:
            self._followups.append(followup_id)
        return f"f{_FIRST_FOLLOWUP + self._followups.index(followup_id):x}"


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """A running daemon in a temporary folder and two connections to it."""
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "scheduler.sock"
        clock = ManualClock(START)
        daemon = Daemon(Settings(state_directory=Path(folder), socket=socket), clock)
        running = asyncio.create_task(daemon.run())
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await daemon.ready.wait()
            on = Stage(clock)
            await on.connect(socket)
            yield on
            await on.close()
        finally:
            daemon.stop()
            await running
