"""A home with a daemon, a host, and real agents that talk to a stand-in for a model."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.agents.model import Model, model
from tests.agents.programs import AGENTS, WHERE, Agent
from tests.exec_host.stage import Stage
from tests.support.process import DaemonProcess
from tests.support.short import short_path as short_path

MakeAgent = Callable[[str], Agent]


@pytest.fixture
def stand_in() -> Iterator[Model]:
    with model() as running:
        yield running


@pytest.fixture
def stage(short_path: Path) -> Iterator[Stage]:
    """The home of everything; what agents have left running in it is ended."""
    made = Stage(short_path)
    yield made
    made.close()
    for path in short_path.glob(".codex/app-server-daemon/*.pid"):
        with suppress(ValueError, KeyError, ProcessLookupError):
            os.kill(json.loads(path.read_text())["pid"], signal.SIGKILL)


@pytest.fixture
def agent(stage: Stage, stand_in: Model) -> MakeAgent:
    """Set an agent up: the exec host finds it, and what it needs, in its environment."""

    def make(name: str) -> Agent:
        made = AGENTS[name](stage.home, stand_in)
        stage.environ |= made.environ
        stage.environ["PATH"] = f"{os.environ[WHERE]}:{stage.environ['PATH']}"
        return made

    return make


@pytest.fixture
def daemon(stage: Stage) -> Iterator[DaemonProcess]:
    made = DaemonProcess(stage.home, socket=stage.socket).start()
    yield made
    made.close()
