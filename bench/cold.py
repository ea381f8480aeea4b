"""1,000 live Sessions with one reminder each, alone and beside 1,000,000 that nobody takes."""

from __future__ import annotations

import datetime as dt
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

from bench.daemon import ROOMY, Daemon
from bench.fill import Many, Row, fill, now, one_shot
from bench.report import Bound, progress
from bench.setting import Setting
from bench.wire import Host
from scheduler_daemon.model import Instant

LIVE = 1000
COLD = 1_000_000
EACH = 100
"""Overdue reminders in each Session that nobody takes."""

ASKED_A_SECOND = 200
"""Parked Sessions that are surely asked in a second, and asked again; how long is not measured."""
AHEAD = 4.0
"""Seconds for what comes before."""

ALONE, BESIDE = "live ones alone", "beside cold ones"
STAR, STAR_BESIDE = '"*" host, live ones alone', '"*" host, beside gone and busy ones'


def run(setting: Setting) -> None:
    """Named hosts beside cold Sessions; a `*` host beside Sessions that it calls gone or busy."""
    live = setting.size(LIVE, 10)
    cold = setting.size(COLD, 2 * EACH)
    names = [f"live-{number}" for number in range(live)]
    for number in range(setting.runs):
        progress(f"drain-cold, run {number + 1} of {setting.runs}")
        for figure, beside in ((ALONE, 0), (BESIDE, cold)):
            setting.report.add(figure, _named(setting, names, beside), "ms")
        for figure, beside in ((STAR, 0), (STAR_BESIDE, cold)):
            setting.report.add(figure, _starred(setting, names, beside), "ms")
    setting.report.compare(BESIDE, ALONE, Bound(at_most=1.3))
    setting.report.compare(STAR_BESIDE, STAR, Bound(at_most=1.3))
    setting.report.note(f"{live} live reminders, {cold} overdue ones that nobody takes")


def _named(setting: Setting, names: list[str], beside: int) -> float:
    """Milliseconds from attaching until the receipts of the live ones are on disk."""
    overdue = now() - dt.timedelta(hours=1)
    with setting.place() as folder:
        fill(folder / "scheduler.db", *_live(names, overdue), *_cold(beside))
        with Daemon(folder, *ROOMY) as daemon:
            daemon.settle()
            with Host(daemon.socket, names) as host:
                _serve(host, set())
                return 1000 * (_receipts(daemon.database, len(names)) - host.started)


def _starred(setting: Setting, names: list[str], beside: int) -> float:
    """Milliseconds from their target, when all parked ones were asked before, until on disk."""
    parked: set[bytes] = set()
    with setting.place() as folder:
        fill(folder / "scheduler.db", *_cold(beside))
        target = now() + dt.timedelta(seconds=AHEAD + beside / EACH / ASKED_A_SECOND)
        fill(folder / "scheduler.db", *_live(names, target))
        with Daemon(folder, *ROOMY) as daemon, Host(daemon.socket, "*") as host:
            _serve(host, parked)
            while len(parked) < -(-beside // EACH) and now() < target:
                time.sleep(0.01)
            if now() >= target:
                progress("the live ones were due before every parked Session was asked")
            _receipts(daemon.database, len(names))
            return (now() - target) / dt.timedelta(milliseconds=1)


def _answer(line: bytes, parked: set[bytes]) -> bytes:
    name = line[line.index(b'"session_id":') + 14 :].lstrip(b' "').partition(b'"')[0]
    if name.startswith(b"live"):
        return b"admitted"
    parked.add(name)
    return b"gone" if name[-1] % 2 else b"busy"


def _serve(host: Host, parked: set[bytes]) -> None:
    """Answer on a thread of its own, until the connection is closed."""

    def serve() -> None:
        with suppress(OSError):
            for line in host.followups():
                host.answer(line, _answer(line, parked))

    threading.Thread(target=serve, daemon=True).start()


def _receipts(path: Path, count: int) -> float:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as conn:
        found = 0
        while found < count:
            time.sleep(0.002)
            (found,) = conn.execute("SELECT count(*) FROM dispatches").fetchone()
        return time.perf_counter()


def _live(names: list[str], target: Instant) -> list[Row]:
    after = target - dt.timedelta(hours=1)
    return [one_shot(name, after, target) for name in names]


def _cold(count: int) -> list[Many]:
    target = now() - dt.timedelta(days=1)
    sample = one_shot("sample", target - dt.timedelta(hours=1), target)
    return [Many("cold", -(-count // EACH), count, [sample])] if count else []
