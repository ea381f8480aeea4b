"""A Session that is open in a terminal: the message shows there, and stands there once."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.agents.conftest import MakeAgent
from tests.agents.model import Model
from tests.agents.programs import DEADLINE_SECONDS, Agent
from tests.agents.terminal import terminal
from tests.agents.test_exec import remind, settled
from tests.exec_host.stage import Stage
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance


def test_codex_shows_it_where_the_session_is_open(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess, stand_in: Model
) -> None:
    codex = agent("codex")
    session = codex.begin("said first")
    with terminal() as screen:
        screen.start(["codex", "resume", session], codex.project, codex.whole_environ())
        screen.shows("ACK said first")
        host = stage.host("--all", "--profile", "auto")
        remind(stage, codex, session, "THE-REMINDER")
        settled(stage, 1, "done")
        screen.shows("THE-REMINDER")
        stage.end(host, signal.SIGKILL)
        daemon.restart()
        stage.host("--all", "--profile", "auto")
        remind(stage, codex, session, "ONE-MORE")
        settled(stage, 2, "done")
        until_said(stand_in, "ONE-MORE")
    turns = "\n".join(stand_in.turns("ONE-MORE"))
    assert (turns.count("said first"), turns.count("THE-REMINDER")) == (1, 1)


def test_opencode_shows_it_where_the_session_is_open(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess, stand_in: Model
) -> None:
    opencode = agent("opencode")
    session = opencode.begin("said first")
    with serving(opencode) as url, terminal() as screen:
        words = ["opencode", "attach", url, "--session", session]
        screen.start(words, opencode.project, opencode.whole_environ())
        screen.shows("ACK said first")
        stage.host("--all", "--profile", "auto", "--profiles", profiles(stage, url))
        remind(stage, opencode, session, "THE-REMINDER")
        settled(stage, 1, "done")
        screen.shows("THE-REMINDER")
        remind(stage, opencode, session, "ONE-MORE")
        settled(stage, 2, "done")
        until_said(stand_in, "ONE-MORE")
    turns = "\n".join(stand_in.turns("ONE-MORE"))
    assert (turns.count("said first"), turns.count("THE-REMINDER")) == (1, 1)


def test_opencode_runs_by_itself_where_no_server_listens_and_knows_what_it_does_not_know(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess, stand_in: Model
) -> None:
    opencode = agent("opencode")
    session = opencode.begin("said first")
    with serving(opencode) as url:
        host = stage.host("--all", "--profile", "auto", "--profiles", profiles(stage, url))
        remind(stage, opencode, "ses_" + "0" * 26, "FOR-NOBODY")
        settled(stage, 1, "unknown")
    remind(stage, opencode, session, "THE-REMINDER")
    settled(stage, 2, "done")
    stage.end(host, signal.SIGTERM)
    assert "\n".join(stand_in.turns("THE-REMINDER")).count("THE-REMINDER") == 1


def until_said(model: Model, text: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not model.turns(text):
        assert time.monotonic() < deadline, f"{text} was never said"
        time.sleep(0.1)


def profiles(stage: Stage, url: str) -> str:
    path = stage.home / "profiles.toml"
    path.write_text(f'[opencode]\nserver = "{url}"\n')
    return str(path)


@contextmanager
def serving(opencode: Agent) -> Iterator[str]:
    """`opencode serve` in the project; its address."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        ["opencode", "serve", "--hostname", "127.0.0.1", "--port", str(port)],
        executable=opencode.program,
        cwd=opencode.project,
        env=opencode.whole_environ() | {"PWD": str(opencode.project)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not is_healthy(url):
            assert time.monotonic() < deadline, "opencode serve does not answer"
            time.sleep(0.2)
        yield url
    finally:
        server.kill()
        server.wait()


def is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/global/health", timeout=5) as answer:
            return bool(json.load(answer)["healthy"])
    except OSError:
        return False
