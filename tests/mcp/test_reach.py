"""How far a call reaches: into one Session, which whoever runs the agent names, and no further."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

from scheduler_daemon.mcp.session import Sources
from tests.mcp.agent import MODES, agent
from tests.support.inprocess import Running

HOUR = {"after_seconds": 3600}

ID_TOOLS: dict[str, dict[str, Any]] = {
    "reminder_list": {},
    "reminder_update": {"revision": 1, "title": "stolen"},
    "reminder_delete": {},
    "reminder_pause": {},
    "reminder_resume": {},
    "reminder_snooze": {"when": HOUR},
}


@pytest.mark.parametrize("tool", ID_TOOLS)
async def test_a_reminder_of_another_session_looks_like_none(on: Running, tool: str) -> None:
    peer = await on.peer()
    theirs = await peer.create("theirs")
    async with agent(on.path) as me:
        other = await me.refused(tool, id=theirs["id"], **ID_TOOLS[tool])
        none = await me.refused(tool, id="r77", **ID_TOOLS[tool])
        assert other == none
        assert (other["code"], other["field"]) == ("reminder_not_found", "id")
    assert (await peer.call("reminder.get", id=theirs["id"]))["reminder"] == theirs
    assert len((await peer.call("reminder.list", status="all"))["items"]) == 1


async def test_a_list_shows_only_ones_own_session_also_with_a_cursor_of_another(
    on: Running,
) -> None:
    peer = await on.peer()
    for _ in range(2):
        await peer.create("theirs")
    page = await peer.call("reminder.list", session_id="theirs", limit=1)
    async with agent(on.path) as me:
        assert (await me.call("reminder_list", status="all"))["reminders"] == []
        error = await me.refused("reminder_list", limit=1, cursor=page["next_cursor"])
        assert (error["code"], error["field"]) == ("invalid_request", "cursor")


CALLS: dict[str, dict[str, Any]] = {
    **{tool: {"id": "r1", **more} for tool, more in ID_TOOLS.items()},
    "reminder_list": {},
    "reminder_create": {"prompt": "p", "when": HOUR},
}


@pytest.mark.parametrize("tool", CALLS)
async def test_where_nothing_says_the_session_no_tool_that_needs_one_does_anything(
    on: Running, tool: str
) -> None:
    async with agent(on.path, Sources()) as me:
        error = await me.refused(tool, **CALLS[tool])
        assert (error["code"], error["field"]) == ("invalid_request", "session")
        await me.call("reminder_preview", when=HOUR)


@pytest.mark.parametrize("mode", MODES)
async def test_one_server_serves_the_sessions_that_its_calls_name(on: Running, mode: str) -> None:
    async with agent(on.path, Sources(), mode=mode) as codex:
        ids = {"threadId": "t1", "sessionId": "t1", "progressToken": 5}
        made = await codex.call("reminder_create", ids, prompt="p", when=HOUR)
        other = await codex.call("reminder_list", {"threadId": "t2"})
        assert other["reminders"] == []
        mine = await codex.call("reminder_list", {"threadId": "t1"})
        assert mine["reminders"] == [made["reminder"]]
        error = await codex.refused("reminder_list", {"threadId": "t1", "sessionId": "t2"})
        assert "name different conversations" in error["message"]


async def kept(on: Running, reminder: dict[str, Any]) -> dict[str, Any]:
    """The Session and the context that the daemon keeps with a reminder."""
    got = await (await on.peer()).call("reminder.get", id=reminder["id"])
    return {name: got["reminder"].get(name) for name in ("session_id", "context")}


async def test_what_a_hook_puts_in_is_the_session_and_the_directory(on: Running) -> None:
    hooks = Sources(argument=True)
    async with agent(on.path, hooks, agent="claude", directory="/srv/start") as me:
        made = await me.create(session="c1", directory="/srv/project")
        there = {"cwd": "/srv/project", "agent": "claude"}
        assert await kept(on, made) == {"session_id": "c1", "context": there}
        bare = await me.create(session="c1")
        assert (await kept(on, bare))["context"] == {"cwd": "/srv/start", "agent": "claude"}
        await me.call("reminder_preview", when=HOUR, session="c1", directory="/srv/project")
        error = await me.refused("reminder_create", prompt="p", when=HOUR, session="auto")
        assert "did not fill in `session`" in error["message"]


@pytest.mark.parametrize(
    ("calls_itself", "kind"),
    [
        ("claude-code", "claude"),
        ("codex-mcp-client", "codex"),
        ("opencode", "opencode"),
        ("some-agent", "some-agent"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
async def test_the_kind_of_agent_is_known_by_what_it_calls_itself(
    on: Running, calls_itself: str, kind: str, mode: str
) -> None:
    async with agent(on.path, calls_itself=calls_itself, mode=mode) as me:
        assert (await kept(on, await me.create()))["context"] == {"agent": kind}
    async with agent(on.path, calls_itself=calls_itself, mode=mode, agent="mine") as me:
        assert (await kept(on, await me.create()))["context"] == {"agent": "mine"}


@pytest.mark.parametrize("directory", ["/srv/\udce4", "/srv/" + "x" * 4096, 7, ""])
async def test_a_directory_that_no_context_can_keep_is_left_out(
    on: Running, directory: Any
) -> None:
    async with agent(on.path, agent="mine", directory=directory) as me:
        assert (await kept(on, await me.create()))["context"] == {"agent": "mine"}


async def test_a_model_cannot_say_in_which_directory_it_is(on: Running) -> None:
    async with agent(on.path) as me:
        error = await me.refused("reminder_create", prompt="p", when=HOUR, directory="/etc")
        assert error["field"] == "directory"
