"""The clock of the test build: a manual one that whoever started the process turns."""

from __future__ import annotations

import asyncio
import os
import signal

from scheduler_daemon import daemon
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
    """Give the daemon a clock that begins at `start`, and let it say which admissions it read."""
    clock = DrivenClock(start)
    run, read = daemon.Daemon.run, SessionState.read_admission

    async def driven_run(self: daemon.Daemon) -> None:
        asyncio.get_running_loop().add_reader(0, clock.obey)
        await run(self)

    def told_read(self: SessionState, followup: FollowUp) -> None:
        say(f"read {followup.followup_id}")
        read(self, followup)

    daemon.Daemon.run = driven_run  # type: ignore[method-assign]
    setattr(daemon, "SystemClock", lambda: clock)  # noqa: B010  a name that it only imports
    SessionState.read_admission = told_read  # type: ignore[method-assign]
