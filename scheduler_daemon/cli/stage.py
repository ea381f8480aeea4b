"""The processes and the folder of `schedctl demo`: started, killed, and always cleared away."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Self

from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.client import Client
from scheduler_daemon.client.finding import answering

_LONGEST_SOCKET = 100
"""In bytes: a Unix socket's path has at most 107 (unix(7)), and $TMPDIR may be long."""
_PATIENCE = 400
"""How many twentieths of a second a process may take to start or to be seen."""
_GRACE = 5.0
"""Seconds that a process has to end by itself."""


class Stage:
    """A temporary folder with a daemon's database and socket, and the processes around it.

    Leaving it, however that happens, ends the processes and removes the folder.
    """

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="schedctl-demo-"))
        if len(os.fsencode(self.folder)) > _LONGEST_SOCKET - len("/d.sock"):
            self.folder.rmdir()
            self.folder = Path(tempfile.mkdtemp(prefix="schedctl-demo-", dir="/tmp"))
        self._handlers = {
            sig: signal.signal(sig, _leave) for sig in (signal.SIGTERM, signal.SIGHUP)
        }
        self.socket = self.folder / "d.sock"
        self.database = self.folder / "scheduler.db"
        self.daemon: subprocess.Popen[bytes] | None = None
        self.host: subprocess.Popen[bytes] | None = None
        self._printed: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        impatience = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for process in (self.host, self.daemon):
            if process is not None:
                _end(process)
        shutil.rmtree(self.folder, ignore_errors=True)
        for sig, handler in self._handlers.items():
            signal.signal(sig, handler)
        signal.signal(signal.SIGINT, impatience)

    def start_daemon(self) -> int:
        """Start a daemon in the folder and wait until it answers; return its process id."""
        with (self.folder / "daemon.log").open("ab") as log:
            self.daemon = self._start("scheduler_daemon", "run", stdout=log, stderr=log)
        for _ in range(_PATIENCE):
            if answering(self.socket):
                return self.daemon.pid
            if _ended_within(self.daemon, 0.05):
                break
        raise FailedError(f"the daemon did not start; its last words: {self._last_words()}")

    def kill_daemon(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed, nothing is said."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()

    def start_host(self, session: str) -> None:
        """Start `schedctl host` for the Session and wait until the daemon lists it."""
        command = ("scheduler_daemon.cli", "host", session, "--name", "demo-host")
        with (self.folder / "host.log").open("ab") as log:
            self.host = self._start(*command, stdout=subprocess.PIPE, stderr=log)
        threading.Thread(target=self._read, args=(self.host.stdout,), daemon=True).start()
        with Client(self.socket) as client:
            for _ in range(_PATIENCE):
                if client.status()["hosts"]:
                    return
                if _ended_within(self.host, 0.05):
                    break
        raise FailedError("the agent host did not attach")

    def followup(self, seconds: float) -> dict[str, Any] | None:
        """The next follow-up that the host printed, None where none comes within the time."""
        try:
            return self._printed.get(timeout=seconds)
        except queue.Empty:
            return None

    def schedctl(self, *words: str) -> str:
        """Run one command line against the daemon of the stage; return what it printed."""
        ended = self._start("scheduler_daemon.cli", *words, stdout=subprocess.PIPE)
        out, _ = ended.communicate()
        if ended.returncode:
            raise FailedError(f"`schedctl {words[0]}` ended with status {ended.returncode}")
        return out.decode("utf-8")

    def _start(
        self, module: str, *words: str, stdout: int | IO[bytes], stderr: IO[bytes] | None = None
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - this program's own modules
            [sys.executable, "-P", "-m", module, *words],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=self.folder,
            env=self._environment(),
        )

    def _environment(self) -> dict[str, str]:
        """This process's own, with its import path, and nothing that leads to a user's daemon."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("SCHEDULER_DAEMON_") and name not in ("NOTIFY_SOCKET", "COLUMNS")
        }
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
            "TZ": "UTC",  # the clock of the story, so that all its times agree
            "XDG_CONFIG_HOME": str(self.folder),
            "SCHEDULER_DAEMON_STATE_DIRECTORY": str(self.folder),
            "SCHEDULER_DAEMON_SOCKET": str(self.socket),
        }

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            self._printed.put(json.loads(line))

    def _last_words(self) -> str:
        log = (self.folder / "daemon.log").read_text("utf-8", "replace")
        return log.rstrip().rpartition("\n")[2] or "none"


def _leave(number: int, _frame: FrameType | None) -> None:
    """Leave the stage as by the front door when asked to go, so that it is cleared."""
    raise SystemExit(128 + number)


def _ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    if not _ended_within(process, _GRACE):
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
