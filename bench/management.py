"""How long a caller waits for `list`, `get` and `create` while everything overdue is sent."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from bench.daemon import ROOMY, Daemon
from bench.fill import PROMPT, Many, fill, now, recurring
from bench.report import Bound, progress
from bench.setting import Setting
from bench.wire import Line, request

ASKED = {
    "list": request(1, "reminder.list", limit=100),
    "get": request(2, "reminder.get", id="r1000"),
    "create": request(3, "reminder.create", session_id="mine", prompt=PROMPT, after_seconds=86_400),
}

_HOST = """
import sys
from pathlib import Path
from bench.drain import drained
drained(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
"""


def run(setting: Setting) -> None:
    """One caller, whose host is another process; each kind of request in turns until it drained."""
    sessions = setting.size(10_000, 100)
    for number in range(setting.runs):
        progress(f"management, run {number + 1} of {setting.runs}")
        with setting.place() as folder:
            samples = recurring(now() - dt.timedelta(days=3))
            wanted = Many("session", sessions, 10 * sessions, samples)
            fill(folder / "scheduler.db", wanted)
            with Daemon(folder, *ROOMY) as daemon, Line(daemon.socket) as line:
                host = _host(daemon, 10 * sessions)
                waited: dict[str, list[float]] = {name: [] for name in ASKED}
                draining = True
                while draining:
                    draining = host.poll() is None
                    for name, frame in ASKED.items():
                        start = perf_counter()
                        line.ask(frame)
                        waited[name].append(1000 * (perf_counter() - start))
                assert host.returncode == 0
        for name, times in waited.items():
            found = sorted(times)
            setting.report.add(f"{name}: p50", found[len(found) // 2], "ms")
            setting.report.add(f"{name}: p99", found[len(found) * 99 // 100], "ms")
    for name in ASKED:
        setting.report.aim(f"{name}: p99", Bound(at_most=25))


def _host(daemon: Daemon, count: int) -> subprocess.Popen[bytes]:
    root = Path(__file__).parents[1]
    where = (str(daemon.database), str(daemon.socket), str(count))
    return subprocess.Popen([sys.executable, "-c", _HOST, *where], cwd=root)
