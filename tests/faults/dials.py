"""The clock of the test build: a manual one that whoever started the process turns."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from scheduler_daemon import daemon
from scheduler_daemon.hosts.host import Host, Push
from scheduler_daemon.model import FollowUp, Instant
from scheduler_daemon.sessions import SessionState
from tests.support.clock import ManualClock

TURNED = "turned"
"""What is answered on standard output when a turn was carried out."""


class DrivenClock(ManualClock):
    """Obeys lines on standard input: `advance SECONDS` and `jump SECONDS`."""

    def __init__(self, start: Instant) -> None:
        super().__init__(start)
        self._heard = b""

    def obey(self) -> None:
        """Carry out what was written; when nobody is left to write, the process goes too."""
        heard = os.read(0, 65536)
        if not heard:
            os.kill(os.getpid(), signal.SIGKILL)
        *lines, self._heard = (self._heard + heard).split(b"\n")
        for line in lines:
            turn, seconds = line.split()
            (self.jump if turn == b"jump" else self.advance)(float(seconds))
            say(TURNED)

    def close(self) -> None:
        """As the real one, which has a descriptor to give back."""


def say(line: str) -> None:
    """Tell whoever started the process; what was said stays said when it is killed."""
    os.write(1, line.encode() + b"\n")


def install(start: Instant) -> None:
    """Give the daemon a clock that begins at `start`; let it say what it pushed, read, recorded."""
    clock = DrivenClock(start)
    run, push = daemon.Daemon.run, Host.push
    read, recorded = SessionState.read_admission, SessionState.recorded

    async def driven_run(self: daemon.Daemon) -> None:
        asyncio.get_running_loop().add_reader(0, clock.obey)
        await run(self)

    async def told_push(self: Host, followup: FollowUp, *more: Any) -> Push:
        say(f"push {followup.followup_id}")
        return await push(self, followup, *more)

    def told_read(self: SessionState, followup: FollowUp) -> None:
        say(f"read {followup.followup_id}")
        read(self, followup)

    def told_recorded(self: SessionState, followup: FollowUp) -> None:
        say(f"recorded {followup.followup_id}")
        recorded(self, followup)

    daemon.Daemon.run = driven_run  # type: ignore[method-assign]
    setattr(daemon, "SystemClock", lambda: clock)  # noqa: B010  a name that it only imports
    Host.push = told_push  # type: ignore[method-assign,assignment]  # called alike
    SessionState.read_admission = told_read  # type: ignore[method-assign]
    SessionState.recorded = told_recorded  # type: ignore[method-assign]
