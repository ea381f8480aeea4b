"""The whole way: a model calls the tool, everything is killed, the Session's next turn has it."""

from __future__ import annotations

import json
import signal
import sys
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

CALL = 'CALLTOOL:reminder_create{"prompt": "THE-REMINDER", "when": {"after_seconds": 5}}'


def server(stage: Stage, *words: str) -> dict[str, object]:
    """The entry of the tools, as agents have it in JSON."""
    module = ["-P", "-m", "scheduler_daemon.cli", "mcp", "--socket", str(stage.socket)]
    variables = {"PYTHONPATH": stage.environ["PYTHONPATH"], "HOME": str(stage.home)}
    return {"command": sys.executable, "args": [*module, *words], "env": variables}


def claude_calls(stage: Stage, claude: Agent) -> None:
    session = claude.begin("said first")
    entry = server(stage, "--session-from-env", "CLAUDE_CODE_SESSION_ID", "--agent", "claude")
    path = stage.home / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"reminders": entry}}))
    claude.run(
        *("-p", "--mcp-config", str(path), "--strict-mcp-config"),
        *("--allowedTools", "mcp__reminders__reminder_create", "--resume", session),
        stdin=CALL,
    )


def codex_calls(stage: Stage, codex: Agent) -> None:
    entry = server(stage)
    with (stage.home / ".codex/config.toml").open("a") as config:
        config.write(
            f"""
            [mcp_servers.reminders]
            command = {json.dumps(entry["command"])}
            args = {json.dumps(entry["args"])}
            default_tools_approval_mode = "approve"
            required = true # else a headless turn may begin before its tools are there
            startup_timeout_sec = 120
            [mcp_servers.reminders.env]
            PYTHONPATH = {json.dumps(stage.environ["PYTHONPATH"])}
            """
        )
    session = codex.begin("said first")
    codex.run("exec", "resume", "--skip-git-repo-check", session, "-", stdin=CALL)


CALLS = {"claude": claude_calls, "codex": codex_calls}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_model_asked_for_is_the_next_turn_of_that_very_session_once(
    stage: Stage, agent: MakeAgent, daemon: DaemonProcess, stand_in: Model, name: str
) -> None:
    real = agent(name)
    other = real.begin("said in another Session")
    host = stage.host("--all", "--profile", "auto")
    CALLS[name](stage, real)
    daemon.kill()
    stage.end(host, signal.SIGKILL)
    daemon.start()
    host = stage.host("--all", "--profile", "auto")
    settled(stage, 1, "done")
    shown = json.loads(stage.schedctl("show", "r1", "--json").stdout)
    assert shown["session_id"] != other
    assert shown["context"] == {"agent": name, "cwd": str(real.project)}
    turns = stand_in.turns('prompt: "THE-REMINDER"')
    assert ["said first" in turns[-3], CALL in turns[-2]] == [True, True]
    assert turns[-1].endswith("[end of the scheduled reminder]")
    assert "\n".join(turns).count('prompt: "THE-REMINDER"') == 1
