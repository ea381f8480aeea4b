"""One command, from its start to what its end means."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from scheduler_daemon.exec_host.runs import Order, Report

BUSY = 75
"""EX_TEMPFAIL of sysexits.h."""
UNKNOWN = 67
"""EX_NOUSER of sysexits.h."""
GRACE_SECONDS = 10.0
"""Between SIGTERM and SIGKILL."""
TAIL_BYTES = 1 << 16
"""How much of the end of what a command prints is kept."""
_DRAIN_SECONDS = 1.0

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")


@dataclass(frozen=True, slots=True)
class Ended:
    """`status` is negative for the signal that ended it, None where its time was over."""

    status: int | None
    stdout: str
    stderr: str


def run(argv: Sequence[str], order: Order, cwd: str, env: Mapping[str, str], text: Path) -> Report:
    """Run it with `text` as its stdin; it and what it starts in its group end with its time."""
    program = shutil.which(argv[0], path=env.get("PATH"))
    if program is None:
        where = "" if "/" in argv[0] else f" in PATH={env.get('PATH', '')}"
        return Report("failed", f"there is no program {argv[0]}{where}")
    try:
        with text.open("rb") as stdin:
            process = subprocess.Popen(  # noqa: S603 - what the user's table or command line says
                [program, *argv[1:]],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=env,
                process_group=0,
                preexec_fn=_ending_with(os.getpid()),  # no other thread runs yet
            )
    except OSError as error:
        return Report("failed", f"{argv[0]} cannot be run: {error.strerror}")
    return judge(_watched(process, order.timeout), order)


def judge(ended: Ended, order: Order) -> Report:
    """What the end of a command means."""
    if ended.status == 0:
        return Report("done")
    said = _said(ended)
    if ended.status is None:
        return Report("uncertain", f"ended after {order.timeout:g} s without coming to an end")
    if ended.status == BUSY or _finds(order.busy, ended.stderr):
        return Report("busy", said)
    if ended.status == UNKNOWN or _finds(order.unknown, ended.stderr):
        return Report("unknown", said)
    how = f"exit status {ended.status}"
    if ended.status < 0:
        how = f"ended by signal {-ended.status}"
    return Report("failed", f"{how}: {said}" if said else how)


def _finds(patterns: Sequence[str], text: str) -> bool:
    return any(re.search(pattern, text) for pattern in patterns)


def _said(ended: Ended) -> str:
    """The line that names the error, else the last one: some end with a backtrace."""
    lines = [line.strip() for line in (ended.stderr or ended.stdout).splitlines() if line.strip()]
    named = [line for line in lines if line.lower().startswith("error")]
    return (named or lines or [""])[-1]


def _watched(process: subprocess.Popen[bytes], timeout: float) -> Ended:
    assert process.stdout is not None
    assert process.stderr is not None
    tails = [_Tail(process.stdout), _Tail(process.stderr)]
    status: int | None
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        status = None
    return Ended(status, *(tail.text() for tail in tails))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group: politely first, and then what is left of it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    process.wait()


class _Tail:
    """Reads a stream on a thread and keeps its end.

    What the command left running may hold the stream open for ever; it is not waited for.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            while data := os.read(stream.fileno(), TAIL_BYTES):
                self._kept += data
                del self._kept[:-TAIL_BYTES]

    def text(self) -> str:
        self._thread.join(_DRAIN_SECONDS)
        return _ESCAPES.sub("", bytes(self._kept).decode("utf-8", "replace"))


def _ending_with(parent: int) -> Callable[[], None]:
    """For the child to do before it becomes the command: end when its parent does, prctl(2)."""
    libc = ctypes.CDLL(None)

    def end_with_parent() -> None:  # pragma: no cover  in the child; a test sees what it is for
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:
            os._exit(1)

    return end_with_parent
