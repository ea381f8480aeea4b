"""The shell blocks of docs/agents.md, run as they stand there in a home with nothing in it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import scheduler_daemon
from tests.support.process import environment

ROOT = Path(scheduler_daemon.__file__).parents[1]
PAGE = ROOT / "docs/agents.md"
DEADLINE_SECONDS = 180.0

_PROGRAMS = {"schedctl": "scheduler_daemon.cli", "scheduler-daemon": "scheduler_daemon"}


def blocks(name: str) -> list[str]:
    """What is typed in a section, block by block."""
    found = re.findall(
        rf"<!-- guide: {name} -->\n```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
    assert found, f"docs/agents.md has no guide for {name}"
    return found


class Guide:
    """A home in which blocks are run; `close` ends whatever they have left running."""

    def __init__(self, home: Path, more: dict[str, str] | None = None) -> None:
        self.home = home
        programs = home / "programs"
        programs.mkdir()
        for name, module in {**_PROGRAMS, "python": ""}.items():
            words = [sys.executable, *(["-P", "-m", module] if module else [])]
            path = programs / name
            path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            path.chmod(0o755)
        self.environ = environment(home) | (more or {})
        path_of_all = self.environ["PATH"] if more else "/usr/bin:/bin"
        self.environ["PATH"] = f"{programs}:{path_of_all}"
        self._shells: list[subprocess.Popen[str]] = []

    def run(self, text: str, cwd: Path | None = None) -> str:
        """What it prints. The jobs that it leaves go on until `close`."""
        log = self.start(text, cwd)
        status = self._shells[-1].wait(DEADLINE_SECONDS)
        assert status == 0, log.read_text("utf-8", "replace")
        return log.read_text("utf-8", "replace")

    def start(self, text: str, cwd: Path | None = None) -> Path:
        """The file that gets what it prints; it goes on until `close`."""
        log = self.home / f"typed-{len(self._shells)}.log"
        with log.open("w") as out:
            shell = subprocess.Popen(
                ["bash", "-e", "-u", "-c", f"set -m\n{text}"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd or self.home,
                env=self.environ | {"PWD": str(cwd or self.home)},
                text=True,
                start_new_session=True,
            )
        self._shells.append(shell)
        return log

    def close(self) -> None:
        """Kill the sessions of all shells: each job is a process group of its own there."""
        for shell in self._shells:
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit() and _session_of(int(entry.name)) == shell.pid:
                    with suppress(ProcessLookupError):
                        os.kill(int(entry.name), signal.SIGKILL)
            shell.wait(DEADLINE_SECONDS)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
