"""Starting the process that keeps an attempt, and waiting for it without being its keeper."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from scheduler_daemon.exec_host.command import GRACE_SECONDS
from scheduler_daemon.exec_host.runs import Order, Run

_ROOT = Path(__file__).parents[2]
_PROGRAM = f"""
import sys
sys.path.append(sys.argv[1])
from {__package__}.keeper import main
main(sys.argv[2])
"""
"""Finds this package where the host did, also in a clone, without a word in the environment."""

_LOOK_SECONDS = 1.0
"""Between looks at a keeper that an earlier host began."""

_STEP_SECONDS = 0.1
"""Between looks at what was told to end."""


def start(run: Run, order: Order, followup: dict[str, Any], text: str) -> subprocess.Popen[bytes]:
    """Start a keeper, which has the lock of its folder from the first moment on. Raises OSError."""
    lock = run.prepare(order, followup, text)
    try:
        return subprocess.Popen(  # noqa: S603 - this program's own module
            [sys.executable, "-P", "-c", _PROGRAM, str(_ROOT), str(run.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock,),
            start_new_session=True,
        )
    except OSError:
        run.remove()
        raise
    finally:
        os.close(lock)


async def over(run: Run, keeper: subprocess.Popen[bytes] | None) -> None:
    """Wait until nobody works on it; a keeper goes on when the waiting is cancelled.

    asyncio's own processes would be killed with their transport.
    """
    if keeper is not None:
        with suppress(OSError):  # without pidfd_open(2), before Linux 5.3, looking does it
            await _ended(keeper)
    while run.is_kept():  # noqa: ASYNC110 - nobody tells of the end of another's child
        await asyncio.sleep(_LOOK_SECONDS)


async def end_rest(run: Run) -> None:
    """End what a killed keeper left running: the next attempt must not run beside it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in run.processes():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                while run.processes():  # noqa: ASYNC110 - nobody tells of the end of another's child
                    await asyncio.sleep(_STEP_SECONDS)


async def _ended(process: subprocess.Popen[bytes]) -> None:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    fd = os.pidfd_open(process.pid)
    try:
        loop.add_reader(fd, over.set)
        await over.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
    process.wait()
