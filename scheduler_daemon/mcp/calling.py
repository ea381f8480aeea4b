"""One call of a tool: which Session it belongs to, its result, or what the model has to change."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from scheduler_daemon import wall, words
from scheduler_daemon.client.finding import ConnectionLost, DaemonUnreachable
from scheduler_daemon.errors import InvalidRequest, PersistenceUncertain, SchedulerError
from scheduler_daemon.mcp.arguments import field_in_schema, read
from scheduler_daemon.mcp.reminders import Call, Reminders
from scheduler_daemon.mcp.results import now_in, reminder_of
from scheduler_daemon.mcp.schemas import Schema
from scheduler_daemon.mcp.session import PLACEHOLDER, Sources
from scheduler_daemon.mcp.tools import TOOLS

AGENTS = {"claude-code": "claude", "codex-mcp-client": "codex", "opencode": "opencode"}
"""What agents call themselves as MCP clients, and the kind by which a host knows them."""

FROM_HOOKS: dict[str, Schema] = {
    "session": {
        "type": "string",
        "description": f'Always "{PLACEHOLDER}": the agent itself puts the id of this conversation '
        "in its place",
    },
    "session_proof": {
        "type": "string",
        "description": "Leave it out: the agent itself proves with it which conversation this is",
    },
    "directory": {
        "type": "string",
        "description": "Leave it out: the agent itself puts the directory of this conversation in",
    },
}
"""What a hook or plugin adds to the arguments of every call, where one does."""

_LOGGER = logging.getLogger("scheduler_daemon.mcp")


@dataclass(frozen=True, slots=True)
class Setup:
    """What the server was started with.

    `zone` gives the zone to assume at this moment, None where nothing says one. `agent` is the
    kind of agent, None to go by what the client calls itself. `directory` is where it was started.
    """

    sources: Sources
    zone: Callable[[], str | None]
    agent: str | None = None
    directory: str | None = None


class Calling:
    """`meta` is the `_meta` of the call, `client` what the client calls itself."""

    def __init__(
        self, setup: Setup, reminders: Reminders, meta: Mapping[str, Any], client: str | None
    ) -> None:
        self._setup = setup
        self._reminders = reminders
        self._meta = meta
        self._client = client
        self._now = wall.now()
        self._zone = setup.zone() or "UTC"

    async def carry_out(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """The result, which may be an error; only a cancellation is raised."""
        try:
            members = await self._members(tool, arguments)
        except SchedulerError as error:
            return self._refusal(error, arguments)
        except DaemonUnreachable as error:
            in_doubt = isinstance(error, ConnectionLost) and not TOOLS[tool].hints.reads
            code = PersistenceUncertain.code if in_doubt else "daemon_unreachable"
            return self._failure({"code": code, "message": str(error)})
        except Exception:
            _LOGGER.exception("%s failed", tool)
            message = "this failed inside the MCP server, whose log says more"
            return self._failure({"code": "internal_error", "message": message})
        return types.CallToolResult(content=[_text(members)], structured_content=members)

    async def _members(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        tool = TOOLS.get(name)
        if tool is None:
            raise InvalidRequest(f"there is no such tool; there are {', '.join(TOOLS)}")
        sources = self._setup.sources
        sources.check(arguments)
        filled = FROM_HOOKS if sources.argument else {}
        args = read(tool.takes, {k: v for k, v in arguments.items() if k not in filled})
        call = Call(
            now=self._now,
            zone=self._zone,
            session=lambda: sources.session_of(self._meta, arguments),
            context=self._context(arguments),
        )
        result = await tool.run(self._reminders, call, args)
        return result.model_dump(exclude_none=True)

    def _context(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """What a reminder keeps for its host: in which directory, which kind of agent."""
        told = arguments.get("directory") if self._setup.sources.argument else None
        agent = self._setup.agent or AGENTS.get(self._client or "", self._client)
        found = {"cwd": told or self._setup.directory, "agent": agent}
        return {key: value for key, value in found.items() if value and _can_be_kept(value)}

    def _refusal(self, error: SchedulerError, arguments: Mapping[str, Any]) -> types.CallToolResult:
        # The daemon's messages name its methods; those that they send a caller to are tools here.
        told = {
            "code": error.code,
            "message": error.message.replace("reminder.list", "reminder_list"),
        }
        field = field_in_schema(error.field, arguments.get("when"))
        if field is not None:
            told["field"] = field
        if isinstance(current := error.data.get("reminder"), dict):
            shown = reminder_of(current, self._zone).model_dump(exclude_none=True)
            return self._failure({**told, "reminder": shown})
        return self._failure(told)

    def _failure(self, error: Mapping[str, Any]) -> types.CallToolResult:
        """An error as text only: clients hold structured content to the schema of a success."""
        members = {"error": error, "now": now_in(self._now, self._zone).model_dump()}
        return types.CallToolResult(content=[_text(members)], is_error=True)


def _text(members: Mapping[str, Any]) -> types.TextContent:
    return types.TextContent(type="text", text=json.dumps(members, ensure_ascii=False))


def _can_be_kept(value: object) -> bool:
    """Whether a context takes it; a directory may have a name that is no text."""
    try:
        return isinstance(value, str) and bool(words.context({"": value}))
    except ValueError:
        return False
