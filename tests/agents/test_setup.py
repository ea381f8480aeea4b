"""After `schedctl setup` alone: a model calls the tool, and its Session's next turn has it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec

import pytest

from tests.agents.conftest import MakeAgent
from tests.agents.model import Model
from tests.agents.programs import Agent
from tests.agents.test_exec import settled
from tests.exec_host.stage import Stage
from tests.support.process import DaemonProcess

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(find_spec("mcp") is None, reason="the extra `mcp` is not installed"),
]

APPROVED = 'mcp_servers.reminders.default_tools_approval_mode="approve"'
RESUME = {
    "claude": ["-p", "--allowedTools", "mcp__reminders__reminder_create", "--resume"],
    "codex": ["exec", "-c", APPROVED, "resume", "--skip-git-repo-check"],
    "opencode": ["run", "--format", "json", "--session"],
}
"""How the Session is gone on with, before its id: with the leave that a person would give."""

WITH_SESSION = {"claude", "opencode"}
"""Agents whose tools have the argument `session`, which is overwritten."""


def call(**more: object) -> str:
    wanted = {"prompt": "THE-REMINDER", "when": {"after_seconds": 5}, **more}
    return f"CALLTOOL:reminder_create{json.dumps(wanted)}"


def go_on(agent: Agent, session: str, text: str) -> str:
    words = [*RESUME[agent.name], session]
    return agent.run(*words, *(["-"] if agent.name == "codex" else []), stdin=text)


def set_up(stage: Stage, name: str, *words: str) -> None:
    done = stage.schedctl("setup", name, "--yes", *words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", RESUME)
def test_what_a_model_asked_for_is_the_next_turn_of_that_very_session_once(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess, stand_in: Model, name: str
) -> None:
    real = agent(name)
    set_up(stage, name)
    other, session = real.begin("said in another Session"), real.begin("said first")
    host = stage.host("--all", "--profile", "auto")
    said = call(session=other) if name in WITH_SESSION else call()
    go_on(real, session, said)
    daemon.kill()
    stage.end(host, signal.SIGKILL)
    daemon.start()
    stage.host("--all", "--profile", "auto")
    settled(stage, 1, "done")
    shown = json.loads(stage.schedctl("show", "r1", "--json").stdout)["reminder"]
    assert shown["session_id"] == session
    assert shown["context"] == {"agent": name, "cwd": str(real.project)}
    # Some show the model a tool's result as a turn of the person's.
    turns = [each for each in stand_in.turns('prompt: "THE-REMINDER"') if each[:7] != '{"now":']
    assert ["said first" in turns[-3], said in turns[-2]] == [True, True]
    assert turns[-1].endswith("[end of the scheduled reminder]")
    assert "\n".join(turns).count('prompt: "THE-REMINDER"') == 1


@pytest.mark.parametrize("name", sorted(WITH_SESSION))
def test_where_hooks_or_plugins_are_turned_off_no_word_of_a_model_counts(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess, stand_in: Model, name: str
) -> None:
    """By a file of the project, as it may come with a repository, and by an option."""
    real = agent(name)
    set_up(stage, name)
    session = real.begin("said first")
    words = [*RESUME[name], session]
    if name == "claude":
        settings = real.project / ".claude/settings.json"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text('{"disableAllHooks": true}')
    else:
        words.insert(1, "--pure")
    real.run(*words, stdin=call(session="victim"))
    assert "hook or plugin did not run" in json.dumps(stand_in.requests)
    assert stage.schedctl("list", "--json").stdout == ""


def say_in_turn(claude: Agent, texts: Sequence[str], *words: str) -> None:
    """One process that takes turn after turn."""
    streams = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
    with subprocess.Popen(
        [claude.program, "-p", *streams, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=claude.project,
        env=claude.whole_environ() | {"PWD": str(claude.project)},
        text=True,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for text in texts:
            message = {"type": "user", "message": {"role": "user", "content": text}}
            print(json.dumps(message), file=running.stdin, flush=True)
            for line in running.stdout:
                if json.loads(line)["type"] == "result":
                    break
        running.stdin.close()


def test_claude_resumes_where_it_was_started_though_its_shell_went_elsewhere(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess
) -> None:
    """From any other directory it does not find the Session."""
    claude = agent("claude")
    set_up(stage, "claude")
    turns = ['CALLTOOL:Bash{"command": "mkdir sub && cd sub"}', call()]
    say_in_turn(claude, turns, "--allowedTools", "mcp__reminders__reminder_create", "Bash")
    assert (claude.project / "sub").is_dir()
    shown = json.loads(stage.schedctl("show", "r1", "--json").stdout)["reminder"]
    assert shown["context"]["cwd"] == str(claude.project)
    stage.host("--all", "--profile", "auto")
    settled(stage, 1, "done")
