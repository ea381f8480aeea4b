"""The MCP server on stdin and stdout, and its tools as a client sees them.

On the SDK's low-level server, because every answer here has the current time, refused arguments
and defects too, and because an unknown argument is refused and not passed over.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from scheduler_daemon import __version__
from scheduler_daemon.client.aio import AsyncClient
from scheduler_daemon.mcp import guidance
from scheduler_daemon.mcp.calling import FROM_HOOKS, Calling, Setup
from scheduler_daemon.mcp.reminders import Reminders
from scheduler_daemon.mcp.schemas import EXAMPLE_ZONE, Schema, schema_of
from scheduler_daemon.mcp.stdin import Lines
from scheduler_daemon.mcp.tools import TOOLS, Tool


def serve(setup: Setup, socket: str | None) -> None:
    """Serve one client until stdin ends; `socket` is the daemon's, None looks for it.

    Raises BrokenPipeError when the client reads no more.
    """
    broken = False
    try:
        anyio.run(_serve, setup, socket)
    except* BrokenPipeError:
        broken = True
    if broken:
        raise BrokenPipeError


async def _serve(setup: Setup, socket: str | None) -> None:
    stdin = anyio.wrap_file(Lines(sys.stdin.buffer))
    async with AsyncClient(socket) as client, stdio_server(stdin=stdin) as (incoming, outgoing):
        server = build(setup, Reminders(client))
        await server.run(incoming, outgoing, server.create_initialization_options())


def build(setup: Setup, reminders: Reminders) -> Server[Any]:
    """A server for one client, whose calls go to `reminders`."""

    async def list_tools(
        _context: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed(setup))

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        client = context.session.client_params
        name = None if client is None else client.client_info.name
        calling = Calling(setup, reminders, context.meta or {}, name)
        return await calling.carry_out(params.name, params.arguments or {})

    return Server(
        "scheduler-daemon",
        version=__version__,
        title="Reminders",
        instructions=guidance.instructions(setup.zone()),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def listed(setup: Setup) -> list[types.Tool]:
    """The tools with their schemas, hints and the zone to assume at this moment."""
    zone = setup.zone()
    return [
        types.Tool(
            name=name,
            title=tool.title,
            description=guidance.description(name, zone),
            input_schema=_input_schema(tool, setup.sources.argument, zone or EXAMPLE_ZONE),
            output_schema=schema_of(tool.gives),
            annotations=types.ToolAnnotations(
                title=tool.title,
                read_only_hint=tool.hints.reads,
                destructive_hint=tool.hints.destroys,
                idempotent_hint=tool.hints.reads or tool.hints.repeats,
                open_world_hint=False,
            ),
        )
        for name, tool in TOOLS.items()
    ]


def _input_schema(tool: Tool, from_hooks: bool, zone: str) -> Schema:
    """What a tool takes; models copy the zone of an example, so it is the one to assume."""
    text = json.dumps(schema_of(tool.takes))
    schema: Schema = json.loads(text.replace(EXAMPLE_ZONE, zone))
    if from_hooks:
        schema["properties"] = {**FROM_HOOKS, **schema["properties"]}
        schema["required"] = ["session", *schema.get("required", [])]
    return schema
