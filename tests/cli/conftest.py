"""A scripted daemon, and schedctl run in this process or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scheduler_daemon.cli.main import main
from scheduler_daemon.cli.verbs import watch
from scheduler_daemon.errors import PermissionDenied
from tests.cli.scripted import ScriptedDaemon, serve
from tests.support.logs import log_put_back
from tests.support.short import short_path as short_path


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _no_daemon_of_ones_own(monkeypatch: pytest.MonkeyPatch, short_path: Path) -> None:
    """Nothing that runs on this machine may be found by a test."""
    monkeypatch.setenv("SCHEDULER_DAEMON_SOCKET", str(short_path / "d.sock"))
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def daemon(short_path: Path) -> Iterator[ScriptedDaemon]:
    with serve(short_path / "d.sock") as scripted:
        yield scripted


@pytest.fixture
def watched(daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch) -> ScriptedDaemon:
    """A daemon that goes away after its changes, and refuses the watch that comes back."""

    def answer(params: dict[str, Any]) -> object:
        if len(daemon.params_of("daemon.watch")) > 1:
            raise PermissionDenied("not any more")
        return {}

    daemon.answers["daemon.watch"] = answer
    monkeypatch.setattr(watch, "PAUSE_SECONDS", 0.01)
    return daemon


@pytest.fixture
def schedctl(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Ended]]:
    """Run one command line in this process."""

    def run(*words: str) -> Ended:
        status = main(words)
        captured = capsys.readouterr()
        return Ended(status, captured.out, captured.err)

    with log_put_back():
        yield run


@pytest.fixture
def process() -> Callable[..., Ended]:
    """Run one command line in a process of its own, with `data` on its stdin."""

    def run(*words: str, data: bytes = b"", env: dict[str, str] | None = None) -> Ended:
        ended = subprocess.run(
            [sys.executable, "-m", "scheduler_daemon.cli", *words],
            input=data,
            capture_output=True,
            env={**os.environ, **(env or {})},
            timeout=60,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    return run
