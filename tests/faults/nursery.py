"""Processes of the test build by fork(2) from one that has loaded the program: cheap starts.

Each is a process of its own with its own descriptors, environment and working directory, and is
killed like any other. What a start of the interpreter does is tested with real ones elsewhere.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO, Any

from tests.faults import crashing
from tests.support.fresh import unmeasured
from tests.support.peer import DEADLINE_SECONDS

FDS = 4  # stdin, stdout, stderr and the pipe on which a process's life is told


class Child:
    """A forked process, as subprocess.Popen would show it."""

    def __init__(
        self, told: IO[str], stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]
    ) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._told = told
        self._status: int | None = None
        self.pid = int(told.readline())

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if self._status is None and select.select([self._told], [], [], 0)[0]:
            self._status = int(self._told.readline())
            self._told.close()
        return self._status

    def wait(self, timeout: float = DEADLINE_SECONDS) -> int:
        """The exit status, when it has ended. TimeoutError."""
        if self._status is None and not select.select([self._told], [], [], timeout)[0]:
            raise TimeoutError(f"process {self.pid} did not end")
        status = self.poll()
        assert status is not None
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def close(self) -> None:
        """Give back what belongs to a process that has ended."""
        self.stdin.close()


class Nursery:
    """Starts the process that forks; `close` ends it, and with it whatever it still has."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            fd = theirs.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.faults.nursery", str(fd)],
                pass_fds=[fd],
                cwd=tempfile.gettempdir(),
                env=unmeasured() | {"PYTHONPATH": str(Path(__file__).parents[2])},
            )

    def fork(self, arguments: list[str], environ: dict[str, str], cwd: Path) -> Child:
        """A new process with these arguments, this whole environment and this working directory."""
        wanted = json.dumps({"arguments": arguments, "environ": environ, "cwd": str(cwd)})
        (told, tell), (in_r, in_w), (out_r, out_w), (err_r, err_w) = (os.pipe() for _ in range(FDS))
        theirs = [in_r, out_w, err_w, tell]
        socket.send_fds(self._ours, [wanted.encode()], theirs)
        for fd in theirs:
            os.close(fd)
        return Child(
            os.fdopen(told),
            os.fdopen(in_w, "wb", 0),
            os.fdopen(out_r, "rb"),
            os.fdopen(err_r, "rb"),
        )

    def close(self) -> None:
        self._ours.close()
        self._process.wait(DEADLINE_SECONDS)


def serve(asked: socket.socket) -> None:
    """Fork what is asked for until nobody asks any more. A keeper waits for each process."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
    while True:
        text, fds, _, _ = socket.recv_fds(asked, 1 << 20, FDS)
        if not text:
            return
        if os.fork() == 0:
            asked.close()
            _keep(json.loads(text), fds)
        for fd in fds:
            os.close(fd)


def _keep(wanted: dict[str, Any], fds: list[int]) -> None:
    """Start one process, tell its id, wait for it, tell its status."""
    *standard, tell = fds
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(tell)
        _become(wanted, standard)
    for fd in standard:
        os.close(fd)
    os.write(tell, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    os.write(tell, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(wanted: dict[str, Any], standard: list[int]) -> None:
    for number, fd in enumerate(standard):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["environ"])
    status = 1
    try:
        status = crashing.main(wanted["arguments"])
    except BaseException:  # noqa: BLE001  as the interpreter would say it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    from scheduler_daemon import daemon  # noqa: F401  before the first fork: what costs most

    serve(socket.socket(fileno=int(sys.argv[1])))
