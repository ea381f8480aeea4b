"""`schedctl mcp` as a process: the SDK's client, clients by hand, and the ways in which it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

from mcp import Client, StdioServerParameters

from tests.acceptance.conftest import running
from tests.mcp.agent import Agent, Json
from tests.support.peer import DEADLINE_SECONDS
from tests.support.process import DaemonProcess, environment

pytestmark = pytest.mark.acceptance

HOUR = {"after_seconds": 3600}
COMMAND = ["-P", "-m", "scheduler_daemon.cli", "mcp"]


def surroundings(daemon: DaemonProcess) -> dict[str, str]:
    """What an agent gives its server; coverage sees what is done in it."""
    measured = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
    return environment(daemon.folder) | measured


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with running() as started:
        yield started


@asynccontextmanager
async def client(
    daemon: DaemonProcess, *words: str, mode: str = "auto", env: dict[str, str] | None = None
) -> AsyncIterator[Agent]:
    """The SDK's client with a server that it started itself, as agents do."""
    server = StdioServerParameters(
        command=sys.executable,
        args=[*COMMAND, "--socket", str(daemon.socket), *words],
        env=surroundings(daemon) | (env or {}),
        cwd=daemon.folder,
    )
    async with Client(server, mode=mode, read_timeout_seconds=DEADLINE_SECONDS) as joined:
        yield Agent(joined)


@pytest.mark.parametrize(("mode", "spoken"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_both_generations_of_the_protocol_are_spoken(
    daemon: DaemonProcess, mode: str, spoken: str
) -> None:
    words = ("--session", mode, "--agent", "claude", "--assume-zone", "asia/tokyo")
    async with client(daemon, *words, mode=mode) as me:
        assert me.client.protocol_version == spoken
        assert me.client.server_info is not None
        assert me.client.server_info.name == "scheduler-daemon"
        assert "Asia/Tokyo" in str(me.client.instructions)
        tools = {tool.name: tool for tool in (await me.client.list_tools()).tools}
        assert len(tools) == 8
        assert tools["reminder_delete"].annotations is not None
        assert tools["reminder_delete"].annotations.destructive_hint
        made = await me.create("café 😀")
        (listed,) = (await me.call("reminder_list"))["reminders"]
        assert listed == made
        await me.call("reminder_delete", id=made["id"])
        assert (await me.refused("reminder_pause", id=made["id"]))["field"] == "id"
        kept = await me.create()
    got = daemon.peer().call("reminder.get", id=kept["id"])["reminder"]
    assert got["session_id"] == mode
    assert got["context"] == {"cwd": str(daemon.folder.resolve()), "agent": "claude"}


async def test_the_session_may_be_what_a_variable_of_the_agent_says(daemon: DaemonProcess) -> None:
    words = ("--session-from-env", "AGENT_SESSION")
    async with client(daemon, *words, env={"AGENT_SESSION": "from-env"}) as me:
        made = await me.create()
        error = await me.refused("reminder_list", {"threadId": "another"})
        assert "the variable AGENT_SESSION" in error["message"]
    got = daemon.peer().call("reminder.get", id=made["id"])["reminder"]
    assert got["session_id"] == "from-env"


async def test_a_reminder_comes_back_into_the_session_that_the_call_named(
    daemon: DaemonProcess,
) -> None:
    host = daemon.peer()
    host.attach(["thread-1"])
    async with client(daemon) as codex:
        made = await codex.call(
            "reminder_create", {"threadId": "thread-1"}, prompt="now", when={"after_seconds": 1}
        )
        followup = await asyncio.to_thread(host.next_followup)
        assert followup.reminders == [made["reminder"]["id"]]


class ByHand:
    """A process with pipes, and JSON-RPC as it is typed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._last_id = 0

    def send(self, message: object) -> None:
        assert self.process.stdin is not None
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: Json) -> Json:
        """The answer to a request, the whole message."""
        self._last_id += 1
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == self._last_id
        return dict(answer)

    def tool(self, name: str, arguments: object) -> Json:
        """What a tool shows to a model."""
        result = self.ask("tools/call", {"name": name, "arguments": arguments})["result"]
        return dict(json.loads(result["content"][0]["text"]))

    def initialize(self, version: str) -> Json:
        params = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "by-hand", "version": "1"},
        }
        answer = self.ask("initialize", params)["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return dict(answer)


@contextmanager
def by_hand(daemon: DaemonProcess, version: str = "2025-06-18") -> Iterator[ByHand]:
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "--socket", str(daemon.socket), "--session", "by-hand"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=surroundings(daemon),
    )
    try:
        typed = ByHand(process)
        assert typed.initialize(version)["protocolVersion"] == version
        yield typed
    finally:
        process.kill()
        with process:
            pass  # its pipes are closed


@pytest.fixture(scope="module")
def typed(daemon: DaemonProcess) -> Iterator[ByHand]:
    """One server for all hostile calls: none may end it."""
    with by_hand(daemon) as shared:
        yield shared


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"prompt": "p", "when": {"after_seconds": float("nan")}}, "invalid_request"),
        ({"prompt": "p", "when": {"after_seconds": float("inf")}}, "invalid_request"),
        ({"prompt": "p", "when": {"after_seconds": 10**100}}, "invalid_request"),
        ({"prompt": "p", "when": {"after_seconds": 1.0}}, "invalid_rule"),
        ({"prompt": "x" * 3_000_000, "when": HOUR}, "invalid_request"),
        ({"prompt": "a\0b", "when": HOUR}, "invalid_prompt"),
        ({"prompt": "p", "when": {"a\0b": 1}}, "invalid_selector"),
        ({"p" * 100_000: 1}, "invalid_request"),
        ({"prompt": [[["p"]]], "when": HOUR}, "invalid_request"),
        ({}, "invalid_request"),
        (None, "invalid_request"),
    ],
    ids=lambda value: f"{value!s:.40}",
)
def test_a_hostile_call_is_refused_in_words_that_a_model_can_read(
    typed: ByHand, arguments: Any, code: str
) -> None:
    shown = typed.tool("reminder_create", arguments)
    assert shown["error"]["code"] == code
    assert len(json.dumps(shown)) < 2000


def test_half_a_character_does_not_leave_a_call_without_an_answer(typed: ByHand) -> None:
    made = typed.tool("reminder_create", {"prompt": "half \ud83d", "when": HOUR})
    assert made["reminder"]["prompt"] == "half �"


@pytest.mark.parametrize("arguments", [[1], "text", 7, True])
def test_arguments_that_are_no_object_are_an_error_of_the_protocol(
    typed: ByHand, arguments: object
) -> None:
    answer = typed.ask("tools/call", {"name": "reminder_list", "arguments": arguments})
    assert answer["error"]["code"] == -32602


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON",
        b"\xff\xfe\x00",
        b"[]",
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ' + b"[" * 100_000,
        b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 999}}',
        b"",
    ],
    ids=lambda line: f"{line!s:.40}",
)
def test_a_line_that_is_no_message_is_passed_over(typed: ByHand, line: bytes) -> None:
    typed.send(line)
    assert "reminders" in typed.tool("reminder_list", {})


def test_after_all_of_that_stdout_had_nothing_but_answers_and_the_log_no_traceback(
    daemon: DaemonProcess,
) -> None:
    """And the server ends, well, when the agent closes its stdin."""
    with by_hand(daemon, "2025-11-25") as agent:
        agent.send(b"no JSON")
        assert "error" in agent.tool("reminder_create", {"when": "x"})
        out, err = agent.process.communicate(timeout=DEADLINE_SECONDS)
        assert (agent.process.returncode, out, err) == (0, b"", b"")


def test_ctrl_c_ends_it_at_once(daemon: DaemonProcess) -> None:
    with by_hand(daemon) as agent:
        agent.process.send_signal(signal.SIGINT)
        assert agent.process.wait(DEADLINE_SECONDS) == -signal.SIGINT


def test_on_a_terminal_it_says_what_it_waits_for(daemon: DaemonProcess) -> None:
    ours, theirs = os.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, *COMMAND],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=surroundings(daemon),
        ) as process:
            assert process.stderr is not None
            assert b"an agent that speaks the Model Context Protocol" in process.stderr.readline()
            os.write(ours, b"\x04")  # ctrl-D, the end of what is typed
            out, err = process.communicate(timeout=DEADLINE_SECONDS)
            assert (process.returncode, out, err) == (0, b"", b"")
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_agent_that_reads_no_more_ends_it_quietly(daemon: DaemonProcess) -> None:
    with by_hand(daemon) as agent:
        assert agent.process.stdin is not None
        assert agent.process.stdout is not None
        assert agent.process.stderr is not None
        agent.process.stdout.close()
        agent.send({"jsonrpc": "2.0", "id": 9, "method": "tools/list"})
        agent.process.stdin.close()
        assert agent.process.stderr.read() == b""
        assert agent.process.wait(DEADLINE_SECONDS) == 141


def test_it_runs_in_a_directory_that_was_removed_or_has_no_readable_name(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    odd = os.fsencode(tmp_path) + b"/\xe4"
    os.mkdir(odd)  # noqa: PTH102 - a Path is text
    script = "import os, sys; os.rmdir(os.getcwdb()); os.execv(sys.argv[1], sys.argv[1:])"
    for words in ([], ["-c", script, sys.executable]):
        done = subprocess.run(
            [sys.executable, *words, *COMMAND, "--socket", str(daemon.socket), "--session", "odd"],
            input=b"",
            cwd=odd,
            env=surroundings(daemon),
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
