"""What a model is told when the daemon is not there, or goes away in the middle of a call."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

from scheduler_daemon import wall
from scheduler_daemon.mcp.keys import MEMORY
from tests.mcp.agent import agent
from tests.support.inprocess import DEADLINE_SECONDS, Running, running

HOUR = {"after_seconds": 3600}


class Line:
    """Between a client and a daemon: passes on what each says, and can lose the answers.

    `answers_to_lose` are lost with their connection at once, the next one with `keeping` when it
    is `released`.
    """

    def __init__(self, path: Path, daemon: Path) -> None:
        self.path = path
        self.answers_to_lose = 0
        self.keeping = False
        self.released = asyncio.Event()
        self.calls = 0
        self._daemon = daemon
        self._server: asyncio.Server
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=1 << 21)

    async def close(self) -> None:
        """Nobody can connect from now on; what is connected stays so."""
        self._server.close()
        self.path.unlink(missing_ok=True)

    async def end(self) -> None:
        await self.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, ours: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._pass_on(ours, back)
        finally:
            back.close()

    async def _pass_on(self, ours: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        theirs, on = await asyncio.open_unix_connection(self._daemon, limit=1 << 21)
        try:
            while call := await ours.readline():
                self.calls += 1
                on.write(call)
                answer = await theirs.readline()
                if self.keeping:
                    await self.released.wait()
                    self.keeping = False
                    return
                if self.answers_to_lose:
                    self.answers_to_lose -= 1
                    return
                back.write(answer)
        finally:
            on.close()


@pytest.fixture
async def line(on: Running, folder: Path) -> AsyncIterator[Line]:
    between = Line(folder / "line.sock", on.path)
    await between.open()
    yield between
    await between.end()


@asynccontextmanager
async def closed_after_a_lost_answer(line: Line) -> AsyncIterator[None]:
    """The next call is carried out, and neither its answer comes nor a new connection."""
    await line.close()
    line.answers_to_lose = 1
    yield
    await line.open()


async def prompts(on: Running) -> list[str]:
    page = await (await on.peer()).call("reminder.list", status="all")
    return [each["prompt"] for each in page["items"]]


async def test_without_a_daemon_a_call_says_how_to_start_one(folder: Path) -> None:
    async with agent(folder / "none.sock") as me:
        error = await me.refused("reminder_create", prompt="p", when=HOUR)
        assert error["code"] == "daemon_unreachable"
        assert "scheduler-daemon run" in error["message"]
        assert str(folder / "none.sock") in error["message"]


async def test_after_a_restart_of_the_daemon_calls_go_on(folder: Path) -> None:
    async with running(folder) as first, agent(first.path) as me:
        await me.create("before")
        await first.stop()
        assert (await me.refused("reminder_list"))["code"] == "daemon_unreachable"
        async with running(folder):
            await me.create("after")
            listed = (await me.call("reminder_list"))["reminders"]
            assert [each["prompt"] for each in listed] == ["before", "after"]


@pytest.mark.parametrize("tool", ["reminder_create", "reminder_snooze"])
async def test_what_was_made_and_not_answered_is_asked_for_again_and_made_once(
    on: Running, line: Line, tool: str
) -> None:
    async with agent(line.path) as me:
        await me.create("first")
        line.answers_to_lose = 1
        arguments = {"prompt": "p"} if tool == "reminder_create" else {"id": "r1"}
        made = await me.call(tool, when=HOUR, **arguments)
        assert (made["created"], made["reminder"]["id"]) == (True, "r2")
        assert line.calls == 3
        assert len(await prompts(on)) == 2


async def test_a_repeated_call_of_unknown_outcome_makes_nothing_twice(
    on: Running, line: Line
) -> None:
    async with agent(line.path) as me:
        await me.call("reminder_list")
        async with closed_after_a_lost_answer(line):
            error = await me.refused("reminder_create", prompt="p", when=HOUR)
            assert error["code"] == "persistence_uncertain"
            assert "same arguments does not make it twice" in error["message"]
            error = await me.refused("reminder_create", prompt="p", when=HOUR)
            assert error["code"] == "daemon_unreachable"
        made = await me.call("reminder_create", prompt="p", when=HOUR)
        assert (made["created"], made["reminder"]["id"]) == (False, "r1")
        again = await me.call("reminder_create", prompt="p", when=HOUR)
        assert (again["created"], again["reminder"]["id"]) == (True, "r2")


async def test_a_repeated_call_is_a_second_wish_when_time_has_passed(
    on: Running, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with agent(line.path) as me:
        await me.call("reminder_list")
        async with closed_after_a_lost_answer(line):
            await me.refused("reminder_create", prompt="p", when=HOUR)
        later = wall.now() + MEMORY + dt.timedelta(seconds=1)
        monkeypatch.setattr("scheduler_daemon.wall.now", lambda: later)
        made = await me.call("reminder_create", prompt="p", when=HOUR)
        assert (made["created"], made["reminder"]["id"]) == (True, "r2")


async def test_a_repetition_of_what_was_deleted_since_says_so(on: Running, line: Line) -> None:
    async with agent(line.path) as me:
        await me.call("reminder_list")
        async with closed_after_a_lost_answer(line):
            await me.refused("reminder_create", prompt="p", when=HOUR)
        await (await on.peer()).call("reminder.delete", id="r1")
        error = await me.refused("reminder_create", prompt="p", when=HOUR)
        assert error["code"] == "reminder_not_found"
        assert "r1 was made by this call and deleted since" in error["message"]


async def test_a_change_of_unknown_outcome_is_told_as_such(on: Running, line: Line) -> None:
    async with agent(line.path) as me:
        await me.create()
        async with closed_after_a_lost_answer(line):
            error = await me.refused("reminder_update", id="r1", revision=1, title="T")
            assert error["code"] == "persistence_uncertain"
            assert "whether the call took effect is unknown" in error["message"]


async def test_looking_leaves_nothing_in_doubt(line: Line) -> None:
    async with agent(line.path) as me:
        await me.call("reminder_list")
        async with closed_after_a_lost_answer(line):
            error = await me.refused("reminder_list")
            assert error["code"] == "daemon_unreachable"
            assert "unknown" not in error["message"]


async def test_a_call_is_sent_again_once_and_not_for_ever(on: Running, line: Line) -> None:
    async with agent(line.path) as me:
        line.answers_to_lose = 2
        error = await me.refused("reminder_create", prompt="p", when=HOUR)
        assert error["code"] == "persistence_uncertain"
        assert line.calls == 2
        made = await me.call("reminder_create", prompt="p", when=HOUR)
        assert (made["created"], made["reminder"]["id"]) == (False, "r1")


async def test_a_daemon_that_does_not_answer_is_not_asked_twice(on: Running, line: Line) -> None:
    async with agent(line.path, timeout=0.5) as me:
        line.keeping = True
        error = await me.refused("reminder_create", prompt="p", when=HOUR)
        assert error["code"] == "persistence_uncertain"
        assert line.calls == 1
        line.released.set()
        assert (await me.call("reminder_create", prompt="p", when=HOUR))["created"] is False


async def test_a_cancelled_creation_is_remembered_as_one_of_unknown_outcome(
    on: Running, line: Line
) -> None:
    async with agent(line.path) as me:
        line.keeping = True
        given_up = asyncio.create_task(me.call("reminder_create", prompt="p", when=HOUR))
        await until_made(on)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await me.client.list_tools()  # the server has read of the cancellation before this
        line.released.set()
        assert (await me.call("reminder_create", prompt="p", when=HOUR))["created"] is False


async def until_made(on: Running) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await prompts(on):
            await asyncio.sleep(0.01)
