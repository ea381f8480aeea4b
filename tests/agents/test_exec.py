"""Real agents behind `schedctl host-exec`: each message stands in its own Session, once."""

from __future__ import annotations

import signal
import time

import pytest

from scheduler_daemon.delivery.framing import _quoted
from tests.agents.conftest import MakeAgent
from tests.agents.model import Model
from tests.agents.programs import DEADLINE_SECONDS, Agent
from tests.exec_host.stage import Stage
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

NAMES = ["claude", "codex", "opencode", "dsh"]
HOSTILE = "-rf --help \"'`$(touch gone)`' $HOME {session} \x1b[2J\x07 \u202e ä; "
LONGEST = 32_768


def remind(stage: Stage, agent: Agent, session: str, prompt: str, after: str = "1s") -> None:
    """Make a reminder as a tool of that agent would, with its context."""
    made = stage.schedctl(
        *("create", "--session", session, "--after", after),
        *("--context", f"agent={agent.name}", "--context", f"cwd={agent.project}"),
        *("--", prompt),
    )
    assert made.returncode == 0, made.stderr


def settled(stage: Stage, number: int, state: str) -> None:
    """Wait until the message has ended like this; a turn of a real agent takes its time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        found = [each for each in stage.queue() if each["number"] == number]
        if found and found[0]["state"] not in ("queued", "running"):
            assert found[0]["state"] == state, found
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


@pytest.mark.parametrize("name", NAMES)
def test_a_reminder_comes_into_its_session_once_though_everything_was_killed(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess, stand_in: Model, name: str
) -> None:
    real = agent(name)
    session = real.begin("said first")
    host = stage.host("--all", "--profile", "auto")
    remind(stage, real, session, "THE-REMINDER", after="3s")
    daemon.kill()
    stage.end(host, signal.SIGKILL)
    daemon.start()
    host = stage.host("--all", "--profile", "auto")
    settled(stage, 1, "done")
    stage.end(host, signal.SIGKILL)
    daemon.restart()
    stage.host("--all", "--profile", "auto")
    remind(stage, real, session, "ONE-MORE")
    settled(stage, 2, "done")
    turns = stand_in.turns("ONE-MORE")
    assert [sum(word in turn for turn in turns) for word in ("said first", "THE-REMINDER")] == [
        1,
        1,
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_longest_and_oddest_text_stands_there_as_it_was_framed(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess, stand_in: Model, name: str
) -> None:
    real = agent(name)
    session = real.begin("said first")
    prompt = (HOSTILE * LONGEST)[: LONGEST - 4] + " END"
    daemon.peer().create(
        session, prompt, after_seconds=1, context={"agent": name, "cwd": str(real.project)}
    )
    stage.host("--all", "--profile", "auto")
    settled(stage, 1, "done")
    line = f"prompt: {_quoted(prompt)}"
    assert any(line in turn.split("\n") for turn in stand_in.turns("[end of the scheduled"))
    assert not list(stage.home.rglob("gone"))


@pytest.mark.parametrize("name", NAMES)
def test_a_session_that_was_deleted_ends_in_a_state_that_is_shown(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess, name: str
) -> None:
    real = agent(name)
    session = real.begin("said first")
    real.delete(session)
    stage.host("--all", "--profile", "auto")
    remind(stage, real, session, "THE-REMINDER")
    settled(stage, 1, "unknown")


def test_two_agents_in_one_directory_get_each_its_own(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess, stand_in: Model
) -> None:
    one, other = agent("claude"), agent("codex")
    other.project = one.project
    sessions = {each.name: each.begin(f"said to {each.name}") for each in (one, other)}
    stage.host("--all", "--profile", "auto")
    for each in (one, other):
        remind(stage, each, sessions[each.name], f"FOR-{each.name}")
    settled(stage, 1, "done")
    settled(stage, 2, "done")
    for each in (one, other):
        turns = "\n".join(stand_in.turns(f"FOR-{each.name}"))
        assert f"said to {each.name}" in turns
        assert turns.count("FOR-") == 1


def test_an_agent_that_is_missing_from_path_is_named(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess
) -> None:
    real = agent("codex")
    session = real.begin("said first")
    stage.environ["PATH"] = "/usr/bin:/bin"
    stage.host("--all", "--profile", "auto")
    remind(stage, real, session, "THE-REMINDER")
    waiting = stage.settled(1, "queued", waits="failed")
    assert waiting["reason"].startswith("there is no program codex in PATH=/usr/bin:/bin")
