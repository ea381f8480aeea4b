"""An agent of the tests: the SDK's client, joined in memory to a server whose daemon is real."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import Implementation

from scheduler_daemon.client import AsyncClient
from scheduler_daemon.mcp.calling import Setup
from scheduler_daemon.mcp.reminders import Reminders
from scheduler_daemon.mcp.server import build
from scheduler_daemon.mcp.session import Sources

Json = dict[str, Any]

BERLIN = "Europe/Berlin"
SESSION = Sources(fixed="mine")
MODES = ["legacy", "2026-07-28"]
"""Both generations of the protocol: the one with a handshake, and the one without."""


class Agent:
    """Calls tools, and reads what is shown to a model."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, meta: Json | None = None, /, **arguments: object) -> Json:
        """The result of a call that must not be refused."""
        answer = await self.client.call_tool(tool, arguments, meta=meta)  # type: ignore[arg-type]
        shown = json.loads(answer.content[0].text)  # type: ignore[union-attr]
        assert not answer.is_error, shown
        assert answer.structured_content == shown
        return dict(shown)

    async def refused(self, tool: str, meta: Json | None = None, /, **arguments: object) -> Json:
        """The error of a call that must be refused; it has the current time beside it."""
        answer = await self.client.call_tool(tool, arguments, meta=meta)  # type: ignore[arg-type]
        shown = json.loads(answer.content[0].text)  # type: ignore[union-attr]
        assert answer.is_error, shown
        assert answer.structured_content is None
        assert set(shown["now"]) == {"utc", "local", "weekday", "time_zone"}
        return dict(shown["error"])

    async def create(self, prompt: str = "p", /, **arguments: object) -> Json:
        """Make a reminder, due in an hour where nothing else is said."""
        made = await self.call(
            "reminder_create", prompt=prompt, **{"when": {"after_seconds": 3600}, **arguments}
        )
        assert made["created"]
        return dict(made["reminder"])


@asynccontextmanager
async def agent(
    socket: Path,
    sources: Sources = SESSION,
    *,
    mode: str = MODES[0],
    zone: str | None = BERLIN,
    calls_itself: str = "tester",
    timeout: float = 60.0,
    **setup: Any,
) -> AsyncIterator[Agent]:
    """An agent of the Session `mine`, where nothing else is said."""
    name = Implementation(name=calls_itself, version="1")
    async with AsyncClient(socket, timeout=timeout) as daemon:
        server = build(Setup(sources, lambda: zone, **setup), Reminders(daemon))
        async with Client(server, mode=mode, client_info=name) as client:
            yield Agent(client)
