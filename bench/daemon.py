"""The daemon as a process of its own, started as a service manager starts it, and what it uses."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import scheduler_daemon
from bench.report import progress

PATIENCE = 300.0
"""Seconds that a daemon may take to start or to end, on any machine."""

ROOMY = ("--max-active-per-session=1000000000", "--max-active-per-owner=1000000000")
"""No limit stands in the way of what is measured."""


class Used(NamedTuple):
    """What the process used so far; see proc(5)."""

    cpu_ms: float
    switches: int
    written_bytes: int


class Daemon:
    """`scheduler-daemon run` on the database in `state`; leaving it ends the process.

    `ready_ms` is from just before the process was started to its word READY (sd_notify(3)).
    """

    def __init__(self, state: Path, *flags: str) -> None:
        self.state = state
        self.database = state / "scheduler.db"
        self._flags = flags

    def __enter__(self) -> Self:
        # A Unix socket's path has at most 107 bytes (unix(7)), and the disk's may be longer.
        self._short = Path(tempfile.mkdtemp(prefix="sdb-", dir="/tmp"))
        self.socket = self._short / "d.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(self._short / "notify"))
            notify.settimeout(1.0)
            with (self.state / "daemon.log").open("ab") as log:
                start = time.perf_counter()
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "scheduler_daemon", "run", *self._flags],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._short,
                    env=self._environment(),
                )
            self._await_ready(notify)
            self.ready_ms = 1000 * (time.perf_counter() - start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            progress(f"the daemon's last words: {self._last_words()}")
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self._short, ignore_errors=True)

    def used(self) -> Used:
        """What every thread of it used so far."""
        nanoseconds = switches = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            nanoseconds += int((task / "schedstat").read_text().split()[0])
            status = (task / "status").read_text()
            switches += sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", status)))
        io = Path(f"/proc/{self.process.pid}/io").read_text()
        written = re.search(r"^write_bytes: (\d+)$", io, re.MULTILINE)
        return Used(nanoseconds / 1e6, switches, int(written[1]) if written else 0)

    def settle(self) -> None:
        """Return when it has done nothing for half a second: what follows its start is over."""
        before, now = Used(0, -1, 0), self.used()
        while now.switches != before.switches:
            time.sleep(0.5)
            before, now = now, self.used()

    def resident_mib(self) -> float:
        """Its resident memory (VmRSS, proc(5))."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) / 1024

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._short),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(Path(scheduler_daemon.__file__).parents[1]),
            "NOTIFY_SOCKET": str(self._short / "notify"),
            "SCHEDULER_DAEMON_STATE_DIRECTORY": str(self.state),
            "SCHEDULER_DAEMON_SOCKET": str(self.socket),
        }

    def _await_ready(self, notify: socket.socket) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if b"READY=1" in notify.recv(4096).split(b"\n"):
                    return
            except TimeoutError:
                continue
        self.process.kill()
        self.process.wait()
        raise RuntimeError(f"the daemon did not start: {self._last_words()}")

    def _last_words(self) -> str:
        log = (self.state / "daemon.log").read_text("utf-8", "replace")
        return log.rstrip().rpartition("\n")[2]
