"""A home with agents in its PATH, and `schedctl host-exec` as a process."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.support.peer import DEADLINE_SECONDS
from tests.support.process import Lines, environment

Json = dict[str, Any]

SESSION = "5b0c7e1c-7f3a-4c34-9f0e-2f0d3f6a9b11"

_RECORD = '{{ pwd -P; echo "$@"; cat; }} >{0}/.$$ && mv {0}/.$$ {0}/$(date +%s%N)'


class Stage:
    """`home` holds everything; `close` ends what runs, by its own process id."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.bin = home / "bin"
        self.bin.mkdir()
        self.socket = home / "d.sock"
        self.environ = environment(home) | {"SCHEDULER_DAEMON_SOCKET": str(self.socket)}
        self.environ["PATH"] = f"{self.bin}:/usr/bin:/bin"
        # What a host does is measured where it runs.
        self.environ |= {name: os.environ[name] for name in os.environ if name[:8] == "COVERAGE"}
        self.logs: list[Lines] = []
        self._hosts: list[subprocess.Popen[bytes]] = []

    def directory(self, name: str) -> Path:
        path = self.home / name
        path.mkdir(exist_ok=True)
        return path

    def agent(self, name: str, body: str = "exit 0") -> None:
        """A program in PATH that keeps what it got, and then does what the shell makes of `body`.

        What belongs to one run is a file in `runs/NAME`, called by its time: its directory, its
        arguments, its stdin.
        """
        runs = self.home / "runs" / name
        runs.mkdir(parents=True, exist_ok=True)
        path = self.bin / name
        beside = path.with_suffix(".new")
        beside.write_text(f"#!/bin/sh\n{_RECORD.format(shlex.quote(str(runs)))}\n{body}\n")
        beside.chmod(0o755)
        beside.rename(path)

    def runs(self, name: str) -> list[list[str]]:
        """The lines of each run: directory, arguments, and then the text."""
        folder = self.home / "runs" / name
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        return [path.read_text("utf-8").split("\n") for path in paths]

    def host(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a host; `attached` waits for it."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "scheduler_daemon.cli", "host-exec", *words],
            cwd=self.home,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._hosts.append(process)
        assert process.stderr is not None
        self.logs.append(Lines(process.stderr))
        return process

    def schedctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "scheduler_daemon.cli", *words],
            cwd=self.home,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )

    def queue(self) -> list[Json]:
        """All messages of the queue, as `schedctl spool list` has them."""
        listed = self.schedctl("spool", "list", "--all", "--json")
        assert listed.returncode == 0, listed.stderr
        return [json.loads(line) for line in listed.stdout.splitlines()]

    def settled(self, number: int, state: str, **members: object) -> Json:
        """The message once it has this state and these members."""

        def look() -> Json | None:
            found = [each for each in self.queue() if each["number"] == number]
            fits = found and members.items() <= found[0].items() and found[0]["state"] == state
            return found[0] if fits else None

        return until(look, lambda: f"message {number} is not {state}: {self.queue()}")

    def end(self, process: subprocess.Popen[bytes], number: signal.Signals) -> int:
        process.send_signal(number)
        return process.wait(DEADLINE_SECONDS)

    def close(self) -> Self:
        for process, log in zip(self._hosts, self.logs, strict=True):
            if process.poll() is None:
                self.end(process, signal.SIGTERM)
            log.finish()
            print("--- a host", *log.lines[-30:], sep="\n")
        return self


def until(look: Callable[[], Json | None], failure: Callable[[], str]) -> Json:
    """The first thing that `look` finds."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        found = look()
        if found is not None:
            return found
        assert time.monotonic() < deadline, failure()
        time.sleep(0.05)


def exists(path: Path) -> Path:
    """The path, once it is there."""
    until(lambda: {} if path.exists() else None, lambda: f"{path} does not appear")
    return path


def waiting_for(path: Path) -> str:
    """Words of a shell that wait until the path is there."""
    return f"while ! test -e {shlex.quote(str(path))}; do sleep 0.05; done"


def touch(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
