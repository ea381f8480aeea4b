"""A daemon as a process of its own: started, killed, started again, and never left behind."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any, Self

import scheduler_daemon
from tests.support.peer import DEADLINE_SECONDS, Peer

Json = dict[str, Any]

_LONGEST_FOLDER = 80
"""In bytes: a Unix socket's path has at most 107 (unix(7))."""

_TAIL = 50
"""Lines of a log that are shown with a test that failed."""


def short_folder() -> Path:
    """A new folder whose path leaves room for a socket's name, wherever $TMPDIR is."""
    folder = tempfile.mkdtemp(prefix="sd-")
    if len(os.fsencode(folder)) > _LONGEST_FOLDER:
        Path(folder).rmdir()
        folder = tempfile.mkdtemp(prefix="sd-", dir="/tmp")
    return Path(folder)


def environment(home: Path) -> dict[str, str]:
    """What a process of the tests knows: nothing of the user who runs them."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(scheduler_daemon.__file__).parents[1]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


class Lines:
    """Reads a process's stream on a thread, so that one can wait for a line."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, wanted: Callable[[str], bool], since: int = 0) -> str:
        """The first line from number `since` on that is wanted; AssertionError without one."""

        def found() -> str | None:
            return next(filter(wanted, self.lines[since:]), None)

        with self._changed:
            self._changed.wait_for(lambda: found() is not None or self._ended, DEADLINE_SECONDS)
            line = found()
        assert line is not None, "the line did not come; there are:\n" + "\n".join(self.lines)
        return line

    def finish(self) -> None:
        """Read to the end; the process has ended."""
        self._thread.join(DEADLINE_SECONDS)


class DaemonProcess:
    """`scheduler-daemon run` on files in `folder`, with `settings` as flags.

    `state` and `socket` default to places in the folder; `environ` is laid over `environment`.
    `wrapper` is a command that carries out the one behind it, in the same process. `close`
    ends whatever runs, by its own process id.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        state: Path | None = None,
        socket: Path | None = None,
    ) -> None:
        self.folder = folder
        self.state = state or folder / "state"
        self.socket = socket or folder / "s.sock"
        self.environ = environment(folder) | dict(environ or {})
        self.cwd = cwd or folder
        self.flags = {
            "state_directory": self.state,
            "socket": self.socket,
            **(settings or {}),
        }
        self.wrapper: list[str] = []
        self.logs: list[Lines] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._peers: list[Peer] = []

    @property
    def database(self) -> Path:
        return self.state / "scheduler.db"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        """The command line, not through a shell."""
        words = [f"--{key.replace('_', '-')}={value}" for key, value in self.flags.items()]
        return [*self.wrapper, sys.executable, "-P", "-m", "scheduler_daemon", "run", *words]

    def begin(self) -> None:
        """Start the process, and do not wait for it."""
        self._process = subprocess.Popen(
            self.command(),
            cwd=self.cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert self._process.stderr is not None
        self.logs.append(Lines(self._process.stderr))

    def start(self) -> Self:
        """Start and return when it says that it has started: its socket answers from then on."""
        self.begin()
        self.logged("daemon_started")
        return self

    def refused(self) -> subprocess.CompletedProcess[str]:
        """Start it where it cannot: how it ended, and what it said."""
        return subprocess.run(
            self.command(),
            cwd=self.cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed, nothing is said."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        status = self._process.wait(DEADLINE_SECONDS)
        self.logs[-1].finish()
        return status

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def freeze(self) -> None:
        """SIGSTOP; on return none of its threads runs."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def restart(self) -> None:
        self.kill()
        self.start()

    def logged(self, event: str, **members: object) -> Json:
        """The first line of the present log with this event and these members, when it comes."""

        def wanted(line: str) -> bool:
            entry = _entry(line)
            return entry.get("event") == event and members.items() <= entry.items()

        return _entry(self.logs[-1].wait(wanted))

    def events(self, event: str) -> list[Json]:
        """The lines with this event, of every run."""
        entries = [_entry(line) for log in self.logs for line in log.lines]
        return [entry for entry in entries if entry.get("event") == event]

    def peer(self) -> Peer:
        """A new connection, which `close` closes too."""
        self._peers.append(Peer(self.socket))
        return self._peers[-1]

    def sql(self, statement: str, *values: object) -> list[Any]:
        """Carry out one statement on the file, as a tester with sqlite3 would."""
        with closing(sqlite3.connect(self.database, timeout=DEADLINE_SECONDS)) as conn, conn:
            return conn.execute(statement, values).fetchall()

    def schedctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command line against this daemon."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "scheduler_daemon.cli", *words],
            cwd=self.cwd,
            env=self.environ
            | ({"SCHEDULER_DAEMON_SOCKET": str(self.socket)} if self.flags else {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )

    def close(self) -> None:
        """Kill what runs, close every connection, and print the end of the log for who reads it."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        for peer in self._peers:
            peer.close()
        for number, log in enumerate(self.logs, 1):
            print(f"--- log of run {number} of {self.folder}", *log.lines[-_TAIL:], sep="\n")


def _entry(line: str) -> Json:
    """A line of the log; what is not JSON (a traceback of the interpreter) is shown as text."""
    try:
        value = json.loads(line)
    except ValueError:
        return {"text": line}
    return value if isinstance(value, dict) else {"text": line}
