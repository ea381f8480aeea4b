"""The lives of one file under the test build: each ends by a kill, and the next begins later."""

from __future__ import annotations

import datetime as dt
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, cast

from scheduler_daemon.config import CRASH_VARIABLE
from scheduler_daemon.rules import instant_text
from tests.faults.crashing import CLOCK_VARIABLE
from tests.faults.dials import TURNED
from tests.faults.nursery import Child, Nursery
from tests.faults.seeds import START
from tests.support.peer import DEADLINE_SECONDS, Peer
from tests.support.process import DaemonProcess, Lines

OVERDUE = """SELECT occurrence_id FROM runs WHERE due_at <= ?1
  UNION ALL SELECT id FROM reminders WHERE status = 'active' AND paused = 0 AND scheduled_at <= ?1
    AND scheduled_at <= coalesce(until_at, '9999')"""


class TestBuild(DaemonProcess):
    """The test build on files in `folder`. `crash_at` holds for the starts after it was set.

    `now` is what its clock shows; it goes on with the next life where the last one left it.
    """

    __test__ = False  # it is no test, whatever its name

    def __init__(self, nursery: Nursery, folder: Path, **settings: object) -> None:
        super().__init__(folder, settings=settings)
        self.crash_at = ""
        self.now = START
        self.told: Lines
        self._nursery = nursery
        self._child: Child

    def begin(self) -> None:
        environ = self.environ | {CLOCK_VARIABLE: instant_text(self.now)}
        if self.crash_at:
            environ[CRASH_VARIABLE] = self.crash_at
        arguments = self.command()[self.command().index("run") :]
        self._child = self._nursery.fork(arguments, environ, self.cwd)
        self._process = cast("subprocess.Popen[bytes]", self._child)  # as much as is used of it
        self.logs.append(Lines(self._child.stderr))
        self.told = Lines(self._child.stdout)

    def start(self, later: float = 0) -> TestBuild:
        """Start it, so many seconds after the end of its last life."""
        self.now += dt.timedelta(seconds=later)
        self.begin()
        self.logged("daemon_started")
        return self

    def turn(self, how: Literal["advance", "jump"], seconds: float) -> bool:
        """Turn its clock; whether it was there to carry that out."""
        self.now += dt.timedelta(seconds=seconds)
        since = len(self.told.lines)
        try:
            self._child.stdin.write(f"{how} {seconds}\n".encode())
            self.told.wait(lambda line: line == TURNED, since)
        except (BrokenPipeError, AssertionError):
            if self._child.wait() == -signal.SIGKILL:
                return False
            raise
        return True

    def has_ended(self) -> bool:
        return self._child.poll() is not None

    def crashed(self) -> None:
        """Return when it has killed itself."""
        status = self._child.wait()
        self._finish()
        assert status == -signal.SIGKILL, status

    def _end(self, number: signal.Signals) -> int:
        status = super()._end(number)
        self._finish()
        return status

    def _finish(self) -> None:
        self.logs[-1].finish()
        self.told.finish()
        self._child.close()
        for peer in self._peers:
            peer.hung_up()

    def overdue(self) -> list[str]:
        """What is due and not dispatched by the clock of the process; reminders, and runs."""
        return [each for (each,) in self.sql(OVERDUE, instant_text(self.now))]

    def healed(self, take_all: bool = True) -> Peer:
        """Let a host admit everything that is due; it, when nothing is overdue any more."""
        host = self.peer()
        if take_all:
            host.attach("*")
        self.until(lambda: not self.overdue())
        return host

    def until(self, wanted: Callable[[], object]) -> None:
        """Wait until something holds in the file."""
        end = time.monotonic() + DEADLINE_SECONDS
        while not wanted():
            assert time.monotonic() < end, self.overdue()
            time.sleep(0.005)

    def table(self, name: str, where: str = "true", *values: object) -> list[dict[str, Any]]:
        """The rows of a table, each by the names of its columns."""
        with closing(sqlite3.connect(self.database, timeout=DEADLINE_SECONDS)) as conn:
            conn.row_factory = sqlite3.Row
            found = conn.execute(f"SELECT * FROM {name} WHERE {where} ORDER BY 1", values)
            return [dict(row) for row in found]

    def facts(self) -> dict[str, list[dict[str, Any]]]:
        """Everything that the file holds of reminders."""
        return {name: self.table(name) for name in ("reminders", "dispatches", "runs", "sessions")}


def occurrences(peer: Peer) -> list[str]:
    """The occurrence ids that came to a host, in their order."""
    return [each for followup in peer.followups for each in followup.occurrences]
