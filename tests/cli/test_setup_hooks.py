"""What says which Session a call is from: the hook of Claude Code, and opencode's plugin."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.cli.setup.agents import Places, Server, hook_command, opencode
from scheduler_daemon.cli.setup.claude_hook import answer
from scheduler_daemon.mcp.proof import new_key, proof_of, proves, read_key
from tests.cli.conftest import Ended
from tests.support.process import environment

SESSION = "5b0c7e1c-7f3a-4c34-9f0e-2f0d3f6a9b11"
EVENT: dict[str, Any] = {
    "session_id": SESSION,
    "cwd": "/home/ana/project/deep",
    "hook_event_name": "PreToolUse",
    "tool_name": "mcp__reminders__reminder_list",
    "tool_input": {"status": "all", "session": "another", "directory": "/etc"},
}


KEY = bytes(range(32))


def updated(event: object, environ: dict[str, str], key: bytes | None = None) -> Any:
    said = json.loads(answer(json.dumps(event).encode(), environ, key))["hookSpecificOutput"]
    assert (said.pop("hookEventName"), list(said)) == ("PreToolUse", ["updatedInput"])
    return said["updatedInput"]


def test_the_hook_writes_over_whatever_the_model_wrote() -> None:
    given = {"status": "all", "session": SESSION}
    environ = {"CLAUDE_PROJECT_DIR": "/home/ana/project"}
    assert updated(EVENT, environ) == {**given, "directory": "/home/ana/project"}
    assert updated(EVENT, {}) == {**given, "directory": "/home/ana/project/deep"}


def test_a_call_without_arguments_gets_them() -> None:
    assert updated({"session_id": SESSION, "tool_input": None}, {}) == {"session": SESSION}


def test_with_a_key_it_proves_the_session_that_it_writes() -> None:
    forged = {**EVENT, "tool_input": {"session": "another", "session_proof": "00"}}
    found = updated(forged, {}, KEY)
    assert proves(KEY, found["session"], found["session_proof"])


def test_without_the_key_that_it_is_to_have_nothing_passes(
    process: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "short").write_text("00")
    for name in ("missing", "short"):
        options = ("--claude-hook", "--session-proof", str(tmp_path / name))
        ended = process("mcp", *options, data=json.dumps(EVENT).encode())
        assert (ended.status, ended.out) == (1, "")
        assert "run `schedctl setup` for this agent again" in ended.err


@pytest.mark.parametrize("event", [b"", b"{", b"[]", b"{}", b'{"session_id": 1}', b"\xff"])
def test_without_a_session_nothing_passes(event: bytes, process: Callable[..., Ended]) -> None:
    ended = process("mcp", "--claude-hook", data=event)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith("schedctl: no Session can be written into this call: ")


def in_a_shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", line],
        input=json.dumps(EVENT),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_its_line_works_from_a_path_with_spaces_and_quotes(tmp_path: Path) -> None:
    python = tmp_path / 'it\'s "here" $HOME' / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    variables = {"PYTHONPATH": ":".join([environment(tmp_path)["PYTHONPATH"], *sys.path])}
    key = python.parent / "key"
    key.write_text(new_key())
    words = [str(python), "-P", "-m", "scheduler_daemon.cli"]
    server = Server(words, "/d.sock", str(key), variables)
    ended = in_a_shell(hook_command(server))
    assert (ended.returncode, ended.stderr) == (0, "")
    said = json.loads(ended.stdout)["hookSpecificOutput"]
    assert said["updatedInput"]["session"] == SESSION
    assert proves(read_key(key), SESSION, said["updatedInput"]["session_proof"])


def test_a_hook_that_is_not_there_stops_the_call(tmp_path: Path) -> None:
    """With any other status than 2 Claude Code would let what the model wrote pass."""
    server = Server([str(tmp_path / "schedctl")], "/d.sock", "/key")
    assert in_a_shell(hook_command(server)).returncode == 2


def test_the_hook_loads_nothing_heavy() -> None:
    """A person waits for it at each call."""
    code = (
        "import sys\nfrom scheduler_daemon.cli.main import run\nstatus = run()\n"
        "print(status, {'mcp', 'mcp_types', 'pydantic', 'asyncio', 'difflib'} & set(sys.modules))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "mcp", "--claude-hook"],
        input=json.dumps(EVENT),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.splitlines()[-1] == "0 set()", ended.stderr


PLUGGED = """
import { readFileSync } from "node:fs"
const source = readFileSync(process.argv[1]).toString("base64")
const plugins = await import(`data:text/javascript;base64,${source}`)
const [plugin] = Object.values(plugins)
const hooks = await plugin({ directory: "/home/ana/project" })
const outputs = []
for (const tool of ["reminders_reminder_create", "reminders_other", "bash"]) {
  const output = { args: { prompt: "x", session: "another", directory: "/etc" } }
  const args = output.args
  await hooks["tool.execute.before"]({ tool, sessionID: "ses_1" }, output)
  outputs.push(args)
}
console.log(JSON.stringify(outputs))
"""


def test_the_plugin_writes_into_the_tools_of_the_server_only(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on this machine")
    key = tmp_path / 'the "key"'
    key.write_text(new_key())
    _, edit = opencode(Server(["schedctl"], "/d.sock", str(key)), Places({}, tmp_path))[0]
    plugin = tmp_path / "plugin.js"
    plugin.write_bytes(edit.put(None))
    ended = subprocess.run(
        [node, "--input-type=module", "-e", PLUGGED, str(plugin)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    model = {"prompt": "x", "session": "another", "directory": "/etc"}
    ours = {"prompt": "x", "session": "ses_1", "directory": "/home/ana/project"}
    ours["session_proof"] = proof_of(read_key(key), "ses_1")
    assert json.loads(ended.stdout) == [ours, model, model], ended.stderr
