"""The MCP inspector, the protocol's own tool for trying servers, without its browser.

Opt-in: `npm install @modelcontextprotocol/inspector` takes 150 MB. It is found as `mcp-inspector`
on PATH, or by the path in SCHEDULER_DAEMON_TEST_INSPECTOR.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

from tests.acceptance.conftest import running
from tests.mcp.agent import Json
from tests.support.process import DaemonProcess, environment

INSPECTOR = shutil.which(os.environ.get("SCHEDULER_DAEMON_TEST_INSPECTOR", "mcp-inspector"))

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(INSPECTOR is None, reason="the MCP inspector is not installed"),
]


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with running() as started:
        yield started


def inspect(daemon: DaemonProcess, *words: str) -> Json:
    """What the inspector prints for one method."""
    server = [sys.executable, "-P", "-m", "scheduler_daemon.cli", "mcp", "--session", "inspected"]
    env = environment(daemon.folder)
    passed = [f"{name}={value}" for name, value in env.items() if name.startswith("PYTHON")]
    done = subprocess.run(
        [
            *(str(INSPECTOR), "--cli", *[word for each in passed for word in ("-e", each)]),
            *(*server, "--socket", str(daemon.socket), *words),
        ],
        env=env,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def call(daemon: DaemonProcess, tool: str, *arguments: str) -> Json:
    words = [word for each in arguments for word in ("--tool-arg", each)]
    return inspect(daemon, "--method", "tools/call", "--tool-name", tool, *words)


def test_the_inspector_lists_the_tools(daemon: DaemonProcess) -> None:
    tools = inspect(daemon, "--method", "tools/list")["tools"]
    assert [tool["name"] for tool in tools][:2] == ["reminder_create", "reminder_list"]
    assert all("outputSchema" in tool for tool in tools)


def test_the_inspector_holds_results_to_their_schemas(daemon: DaemonProcess) -> None:
    made = call(daemon, "reminder_create", "prompt=oven", 'when={"after_seconds": 3600}')
    assert made["structuredContent"]["reminder"]["prompt"] == "oven"
    listed = call(daemon, "reminder_list", "limit=5")
    assert listed["structuredContent"]["reminders"] == [made["structuredContent"]["reminder"]]
    previewed = call(
        daemon, "reminder_preview", 'when={"daily": {"time": "09:00", "time_zone": "UTC"}}'
    )
    assert len(previewed["structuredContent"]["items"]) == 5


def test_the_inspector_takes_an_error_for_one(daemon: DaemonProcess) -> None:
    refused = call(daemon, "reminder_delete", "id=r99")
    assert refused["isError"]
    assert "reminder_not_found" in refused["content"][0]["text"]
