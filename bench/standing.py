"""What a daemon costs that stands there with many reminders: its start, its memory, its rest."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from bench.daemon import ROOMY, Daemon
from bench.drain import drained
from bench.fill import Many, fill, now, one_shot, recurring
from bench.report import Bound, progress
from bench.setting import Setting

SIZES = (1000, 100_000, 1_000_000)
OVERDUE = 1000
"""Reminders that are drained before memory is looked at again."""

_IMPORTS = "import asyncio, sqlite3, aiosqlite, pydantic, structlog, tzdata, zoneinfo, argparse"


def start(setting: Setting) -> None:
    """From the process's start to READY, in turns over stores of three sizes."""
    with _stores(setting, SIZES) as stores:
        for folder in stores.values():
            _started(folder)  # the first start of a file writes into it, and fills the caches
        for run in range(setting.runs):
            progress(f"start, run {run + 1} of {setting.runs}")
            setting.report.add("importing the same libraries", _imported(), "ms")
            for size, folder in stores.items():
                setting.report.add(_stored(size), _started(folder), "ms")
    least, most = _stored(SIZES[0]), _stored(SIZES[-1])
    setting.report.compare(most, least, Bound(at_most=1.2))
    base = sorted(setting.report.figures["importing the same libraries"].values)
    setting.report.aim(most, Bound(at_most=base[len(base) // 2] + 60))


def memory(setting: Setting) -> None:
    """Resident memory when nothing is due, and after 1,000 reminders were delivered."""
    for run in range(setting.runs):
        progress(f"memory, run {run + 1} of {setting.runs}")
        with _stores(setting, (SIZES[0], SIZES[-1])) as stores:
            for size, folder in stores.items():
                overdue = setting.size(OVERDUE, 10)
                samples = recurring(now() - dt.timedelta(days=3))
                fill(folder / "scheduler.db", Many("due", overdue // 10, overdue, samples))
                with Daemon(folder, *ROOMY) as daemon:
                    daemon.settle()
                    setting.report.add(f"idle, {size:,} stored", daemon.resident_mib(), "MiB")
                    drained(daemon.database, daemon.socket, overdue)
                    daemon.settle()
                    setting.report.add(f"drained, {size:,} stored", daemon.resident_mib(), "MiB")
    for state in ("idle", "drained"):
        least, most = f"{state}, {SIZES[0]:,} stored", f"{state}, {SIZES[-1]:,} stored"
        setting.report.aim(least, Bound(at_most=45))
        setting.report.aim(most, Bound(at_most=45))
        setting.report.compare(most, least, Bound(at_most=1.1))


def idle(setting: Setting) -> None:
    """Wake-ups and time on the processor while nothing is due, with 1,000,000 to come."""
    seconds = max(2.0, 60 * min(1.0, setting.scale))
    with _stores(setting, SIZES[-1:]) as stores, Daemon(stores[SIZES[-1]], *ROOMY) as daemon:
        daemon.settle()
        for run in range(setting.runs):
            progress(f"idle, run {run + 1} of {setting.runs}")
            before = daemon.used()
            time.sleep(seconds)
            after = daemon.used()
            switches = after.switches - before.switches
            setting.report.add(f"wake-ups in {seconds:g} s", switches, "switches")
            setting.report.add(f"CPU in {seconds:g} s", after.cpu_ms - before.cpu_ms, "ms")
    for name in list(setting.report.figures):
        setting.report.aim(name, Bound(at_most=0))


def _stored(size: int) -> str:
    return f"{size:,} stored"


@contextmanager
def _stores(setting: Setting, sizes: tuple[int, ...]) -> Iterator[dict[int, Path]]:
    """A database of each size, all of it due in years."""
    with setting.place() as place:
        stores = {}
        for size in sizes:
            count = setting.size(size, 10)
            target = now() + dt.timedelta(days=2000)
            sample = one_shot("sample", now() - dt.timedelta(days=1), target)
            stores[size] = place / str(size)
            stores[size].mkdir()
            wanted = Many("session", max(1, count // 10), count, [sample])
            fill(stores[size] / "scheduler.db", wanted)
        yield stores


def _started(folder: Path) -> float:
    with Daemon(folder) as daemon:
        return daemon.ready_ms


def _imported() -> float:
    """Milliseconds of a whole process that imports what the daemon imports of others."""
    begin = perf_counter()
    subprocess.run([sys.executable, "-P", "-c", _IMPORTS], check=True)
    return 1000 * (perf_counter() - begin)
