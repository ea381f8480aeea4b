"""What a whole `schedctl list` costs in CPU, beside the interpreter that it runs on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import scheduler_daemon
from scheduler_daemon.cli.stage import Stage
from scheduler_daemon.client import Client

RUNS = 30
REMINDERS = 20

_LIST = "import sys; from scheduler_daemon.cli.main import main; sys.exit(main(['list']))"


@dataclass
class _Program:
    """A Python program, and the CPU of each of its runs in milliseconds, user and system."""

    name: str
    code: str
    environ: dict[str, str]
    runs: list[float] = field(default_factory=list)

    def spend(self, folder: Path) -> float:
        """Run it once; return its milliseconds. Raises CalledProcessError."""
        command = [sys.executable, "-c", self.code]
        process = subprocess.Popen(command, env=self.environ, cwd=folder, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return 1000 * (usage.ru_utime + usage.ru_stime)


def run() -> str:
    """Measure against a daemon with REMINDERS reminders; return the table that was found."""
    with Stage() as stage:
        stage.start_daemon()
        with Client(stage.socket) as client:
            for number in range(REMINDERS):
                client.create(f"session-{number}", "Check the build", after_seconds=3600)
            assert len(list(client.reminders())) == REMINDERS
        programs = _programs(stage)
        for program in programs:
            program.spend(stage.folder)  # fills the caches
        # In turns, so that what else the machine does falls on all of them alike.
        for _ in range(RUNS):
            for program in programs:
                program.runs.append(program.spend(stage.folder))
    return _table(programs)


def _programs(stage: Stage) -> list[_Program]:
    """The bare interpreter first. Lists run on copies: one keeps its bytecode, one never has any.

    The standard library's bytecode is there in both.
    """
    environ = {"PATH": os.defpath, "SCHEDULER_DAEMON_SOCKET": str(stage.socket)}
    package = Path(scheduler_daemon.__file__).parent
    for copy in ("kept", "none"):
        target = stage.folder / copy / package.name
        shutil.copytree(package, target, ignore=shutil.ignore_patterns("__pycache__"))
    kept = {**environ, "PYTHONPATH": str(stage.folder / "kept")}
    none = {**environ, "PYTHONPATH": str(stage.folder / "none"), "PYTHONDONTWRITEBYTECODE": "1"}
    return [
        _Program("pass", "pass", environ),
        _Program("import json, socket, argparse", "import json, socket, argparse", environ),
        _Program("schedctl list", _LIST, kept),
        _Program("schedctl list, no bytecode", _LIST, none),
    ]


def _table(programs: list[_Program]) -> str:
    bare = programs[0]
    python = platform.python_version()
    lines = [
        f"CPU in ms of {RUNS} runs each, with {REMINDERS} reminders, on Python {python};",
        "the minimum is how much over that of `pass`, and how many times it",
        f"{'':<30}{'minimum':>9}{'median':>9}{'over':>9}{'times':>9}",
    ]
    for program in programs:
        least, over = min(program.runs), min(program.runs) - min(bare.runs)
        figures = f"{least:9.1f}{median(program.runs):9.1f}{over:9.1f}"
        lines.append(f"{program.name:<30}{figures}{least / min(bare.runs):9.2f}")
    return "\n".join(lines)
