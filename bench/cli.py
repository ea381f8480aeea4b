"""A whole `schedctl list` and `schedctl preview`, beside the interpreter that it runs on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import scheduler_daemon
from bench.daemon import Daemon
from bench.fill import PROMPT
from bench.report import Bound, progress
from bench.setting import Setting
from bench.wire import Line, request

REMINDERS = 20
TURNS = 10
"""Processes of each program in one run; the fastest counts, since a start only ever loses time."""

_SCHEDCTL = "import sys; from scheduler_daemon.cli.main import main; sys.exit(main(sys.argv[1:]))"
_PREVIEW = ("preview", "--cron", "0 9 * * mon", "--tz", "UTC")
BARE, IMPORTS = "python -c pass", "python -c 'import json, socket, argparse'"


@dataclass
class _Program:
    """A Python program, and the milliseconds of its processes in this run: whole, and CPU."""

    name: str
    command: tuple[str, ...]
    environ: dict[str, str]
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def spend(self, folder: Path) -> None:
        """Run it once. Raises CalledProcessError."""
        command = [sys.executable, "-c", *self.command]
        start = perf_counter()
        process = subprocess.Popen(command, env=self.environ, cwd=folder, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        self.wall.append(1000 * (perf_counter() - start))
        self.cpu.append(1000 * (usage.ru_utime + usage.ru_stime))
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)


def run(setting: Setting) -> None:
    """In turns, so that what else the machine does falls on all of them alike."""
    with setting.place() as folder, Daemon(folder) as daemon:
        with Line(daemon.socket) as line:
            for number in range(REMINDERS):
                session = f"session-{number}"
                asked = {"session_id": session, "prompt": PROMPT, "after_seconds": 3600}
                line.ask(request(number, "reminder.create", **asked))
        programs = _programs(folder, daemon.socket)
        for program in programs:
            program.spend(folder)  # fills the caches
        for number in range(setting.runs):
            progress(f"cli, run {number + 1} of {setting.runs}")
            _turns(setting, programs, folder)
    for program in programs[2:]:
        setting.report.compare(program.name, IMPORTS, Bound(at_most=1.6))
        setting.report.compare(f"{program.name}, CPU", f"{IMPORTS}, CPU", Bound(at_most=1.6))


def _turns(setting: Setting, programs: list[_Program], folder: Path) -> None:
    for program in programs:
        program.wall.clear()
        program.cpu.clear()
    for _ in range(max(1, round(TURNS * min(1.0, setting.scale)))):
        for program in programs:
            program.spend(folder)
    for program in programs:
        setting.report.add(program.name, min(program.wall), "ms")
        setting.report.add(f"{program.name}, CPU", min(program.cpu), "ms")


def _programs(folder: Path, socket: Path) -> list[_Program]:
    """The bare interpreter first. schedctl runs from a copy that keeps its bytecode."""
    package = Path(scheduler_daemon.__file__).parent
    copy = folder / "copy" / package.name
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    environ = {"PATH": os.defpath, "SCHEDULER_DAEMON_SOCKET": str(socket)}
    kept = {**environ, "PYTHONPATH": str(folder / "copy")}
    return [
        _Program(BARE, ("pass",), environ),
        _Program(IMPORTS, ("import json, socket, argparse",), environ),
        _Program("schedctl list", (_SCHEDCTL, "list"), kept),
        _Program("schedctl preview", (_SCHEDCTL, *_PREVIEW), kept),
    ]
