"""A host with a queue of its own: it admits what is on disk, and delivers in its own time."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.client import AgentHost, Busy, Gone, NotDelivered, Spool
from scheduler_daemon.client.answers import Accept, Outcome
from scheduler_daemon.client.spool import Message, SpoolRefused
from scheduler_daemon.client.spooling import MAX_FAILURES
from scheduler_daemon.wire.shapes import Followup
from tests.client.followups import followup
from tests.client.scripted import DEADLINE, AsyncPeer, Listener, listening

Json = dict[str, Any]


class Clock:
    """What the host takes for the time; a step forward wakes it."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self.now = dt.datetime(2026, 8, 7, 1, 0, tzinfo=dt.UTC)

    def forward(self, **span: float) -> None:
        self.now += dt.timedelta(**span)
        self._spool.bell.ring()


class Agent:
    """Holds each message until the test says what becomes of it."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[tuple[Followup, asyncio.Future[Outcome | None]]] = asyncio.Queue()

    async def deliver(self, message: Followup) -> Outcome | None:
        outcome: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait((message, outcome))
        return await outcome

    async def next(self) -> tuple[Followup, asyncio.Future[Outcome | None]]:
        async with asyncio.timeout(DEADLINE):
            return await self.begun.get()


@pytest.fixture
async def daemon(path: Path) -> AsyncIterator[Listener]:
    async with listening(path) as listener:
        yield listener


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "queue.db")
    yield made
    made.close()


@pytest.fixture
def clock(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(spool)
    monkeypatch.setattr("scheduler_daemon.wall.now", lambda: made.now)
    return made


@pytest.fixture
def agent() -> Agent:
    return Agent()


Hosting = Callable[..., Any]


@pytest.fixture
def hosting(path: Path, daemon: Listener, spool: Spool, agent: Agent) -> Hosting:
    """Run a host and return the daemon's end of its connection."""

    @asynccontextmanager
    async def hosted(
        deliver: Callable[[Followup], Awaitable[Outcome | None]] | None = None,
        accept: Accept | None = None,
        max_parallel: int = 4,
    ) -> AsyncIterator[AsyncPeer]:
        host = AgentHost(
            "me",
            "*",
            deliver or agent.deliver,
            socket=path,
            spool=spool,
            accept=accept,
            max_parallel=max_parallel,
        )
        running = asyncio.create_task(host.run())
        try:
            peer = await daemon.accepted()
            await peer.answer({"sessions": "*"})
            yield peer
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    return hosted


async def answer(peer: AsyncPeer, pushed: Followup) -> Json:
    """Push a follow-up; what the host answers."""
    peer.write({"jsonrpc": "2.0", "id": 1, "method": "session.followup", "params": pushed})
    while True:
        message = await peer.read()
        if message.get("id") == 1:
            result: Json = message["result"]
            return result


async def settled(spool: Spool, number: int, state: str) -> Message:
    """The message once it has this state and nobody works on it."""
    async with asyncio.timeout(DEADLINE):
        while True:
            message = spool.message(number)
            if message is not None and message.state == state:
                return message
            await asyncio.sleep(0.01)


async def test_a_follow_up_is_admitted_before_it_is_delivered_and_told_by_its_number(
    hosting: Hosting, agent: Agent, spool: Spool
) -> None:
    async with hosting() as peer:
        told = await answer(peer, followup("r1@1"))
        assert told == {"status": "admitted", "message_id": "1"}
        message, outcome = await agent.next()
        assert message["occurrences"] == followup("r1@1")["occurrences"]
        outcome.set_result(None)
        assert (await settled(spool, 1, "done")).reason is None
        assert await answer(peer, followup("r1@1", push=2)) == told
        assert agent.begun.empty()


async def test_while_a_session_has_one_the_daemon_keeps_the_next_and_is_called_back(
    hosting: Hosting, agent: Agent
) -> None:
    async with hosting() as peer:
        await answer(peer, followup("r1@1"))
        _, outcome = await agent.next()
        assert await answer(peer, followup("r2@1")) == {"status": "busy"}
        assert (await answer(peer, followup("r3@1", session="s2")))["status"] == "admitted"
        outcome.set_result(None)
        assert await peer.read() == {
            "jsonrpc": "2.0",
            "method": "session.ready",
            "params": {"session_id": "s1"},
        }
        assert (await answer(peer, followup("r2@1", push=2)))["status"] == "admitted"


async def test_sessions_run_side_by_side_up_to_a_bound(
    hosting: Hosting, agent: Agent, spool: Spool
) -> None:
    async with hosting(max_parallel=2) as peer:
        for number in range(1, 4):
            await answer(peer, followup(f"r{number}@1", session=f"s{number}"))
        _, first = await agent.next()
        await agent.next()
        assert spool.message(3).state == "queued"  # type: ignore[union-attr]
        first.set_result(None)
        message, _ = await agent.next()
        assert message["session_id"] == "s3"


async def test_a_busy_session_is_tried_again_soon_and_as_often_as_it_takes(
    hosting: Hosting, agent: Agent, spool: Spool, clock: Clock
) -> None:
    async with hosting() as peer:
        await answer(peer, followup("r1@1"))
        for seconds in (None, 3, 3, 3, 3, 3, 3, 3):
            message, outcome = await agent.next()
            assert message["attempt"] == 1
            outcome.set_result(Busy(retry_after_seconds=seconds))
            await settled(spool, 1, "queued")
            assert await answer(peer, followup("r2@1")) == {"status": "busy"}
            clock.forward(seconds=(seconds or 10) - 1)
            assert (await settled(spool, 1, "queued")).reason == "the Session is busy"
            clock.forward(seconds=1)
        _, outcome = await agent.next()
        outcome.set_result(None)
        await settled(spool, 1, "done")


async def test_what_fails_is_tried_again_with_growing_pauses_and_kept_in_the_end(
    hosting: Hosting, agent: Agent, spool: Spool, clock: Clock
) -> None:
    async with hosting() as peer:
        await answer(peer, followup("r1@1"))
        for attempt, seconds in enumerate((30, 120, 480, 1920, 3600), 1):
            message, outcome = await agent.next()
            assert message["attempt"] == attempt
            outcome.set_exception(NotDelivered("exit status 1"))
            waiting = await settled(spool, 1, "queued")
            assert waiting.reason == "exit status 1"
            due = dt.datetime.fromisoformat(waiting.not_before or "")
            assert due - clock.now == dt.timedelta(seconds=seconds)
            clock.forward(seconds=seconds)
        _, outcome = await agent.next()
        outcome.set_exception(NotDelivered("exit status 1"))
        kept = await settled(spool, 1, "failed")
        assert (kept.failures, kept.attempts) == (MAX_FAILURES, MAX_FAILURES)
        spool.retry(1, clock.now)
        spool.bell.ring()
        message, _ = await agent.next()
        assert message["attempt"] == MAX_FAILURES + 1


async def test_what_may_have_come_through_is_not_tried_again_by_itself(
    hosting: Hosting, agent: Agent, spool: Spool
) -> None:
    async with hosting() as peer:
        await answer(peer, followup("r1@1"))
        _, outcome = await agent.next()
        outcome.set_exception(NotDelivered("its time was over", again=False))
        assert (await settled(spool, 1, "failed")).reason == "its time was over"


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        (Gone(), "the Session is not known"),
        (Gone("no such thread"), "no such thread"),
        (Gone("half \ud800"), "half \\ud800"),  # which no file takes
    ],
)
async def test_a_session_that_nobody_knows_ends_the_message(
    hosting: Hosting, agent: Agent, spool: Spool, gone: Gone, reason: str
) -> None:
    async with hosting() as peer:
        await answer(peer, followup("r1@1"))
        _, outcome = await agent.next()
        outcome.set_result(gone)
        assert (await settled(spool, 1, "unknown")).reason == reason


async def test_a_defect_of_deliver_is_a_failure_like_others(
    hosting: Hosting, agent: Agent, spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "scheduler_daemon.client")
    async with hosting() as peer:
        await answer(peer, followup("r1@1"))
        _, outcome = await agent.next()
        outcome.set_exception(KeyError("cwd"))
        waiting = await settled(spool, 1, "queued")
        assert (waiting.waits, waiting.reason) == ("failed", "KeyError: 'cwd'")


async def test_deliver_may_be_a_plain_function(hosting: Hosting, spool: Spool) -> None:
    async with hosting(lambda message: None) as peer:
        await answer(peer, followup("r1@1"))
        await settled(spool, 1, "done")


async def test_accept_decides_before_anything_is_queued(hosting: Hosting, spool: Spool) -> None:
    def accept(pushed: Followup) -> list[Followup] | Busy | Gone:
        if pushed["session_id"] == "theirs":
            return Gone()
        if pushed["session_id"] == "later":
            return Busy(retry_after_seconds=5)
        return [followup("r1@1"), followup("r2@1")]

    async with hosting(lambda message: None, accept) as peer:
        assert await answer(peer, followup("r9@1", session="theirs")) == {"status": "gone"}
        later = await answer(peer, followup("r9@1", session="later"))
        assert later == {"status": "busy", "retry_after_seconds": 5}
        await answer(peer, followup("r1@1", "r2@1"))
        await settled(spool, 2, "done")
        assert [each.number for each in spool.messages(ended=True)] == [1, 2]


async def test_what_is_known_is_admitted_whatever_accept_says(
    hosting: Hosting, spool: Spool
) -> None:
    pushed = followup("r1@1", "r2@1")
    async with hosting(lambda message: None) as peer:
        await answer(peer, pushed)
        await settled(spool, 1, "done")
    async with hosting(lambda message: None, lambda followup: Gone()) as peer:
        assert await answer(peer, pushed) == {"status": "admitted", "message_id": "1"}
        assert await answer(peer, followup("r2@1", "r3@1")) == {"status": "gone"}


async def test_what_came_before_does_not_come_again_beside_something_new(
    hosting: Hosting, agent: Agent, spool: Spool
) -> None:
    async with hosting() as peer:
        await answer(peer, followup("r1@1"))
        _, outcome = await agent.next()
        outcome.set_result(None)
        await settled(spool, 1, "done")
        pushed = followup("r1@1", "r2@1", push=3)
        assert await answer(peer, pushed) == {"status": "admitted", "message_id": "2"}
        message, _ = await agent.next()
        assert message["text"] == '[head]\n\nreminder: "r2"\nprompt: "do r2"\n\n[end]'
        assert [each["reminder_id"] for each in message["occurrences"]] == ["r2"]
        assert message["attempt"] == 1


async def test_what_was_under_way_comes_again_as_the_same_attempt(
    hosting: Hosting, agent: Agent, path: Path, spool: Spool
) -> None:
    async with hosting() as peer:
        await answer(peer, followup("r1@1"))
        before, _ = await agent.next()
    assert spool.message(1).state == "running"  # type: ignore[union-attr]
    async with hosting() as peer:
        again, outcome = await agent.next()
        assert again == before
        assert (await answer(peer, followup("r1@1", push=2)))["status"] == "admitted"
        outcome.set_result(None)
        await settled(spool, 1, "done")


async def test_a_message_that_a_person_drops_frees_its_session(
    hosting: Hosting, agent: Agent, spool: Spool, clock: Clock
) -> None:
    async with hosting() as peer:
        await answer(peer, followup("r1@1"))
        _, outcome = await agent.next()
        assert await answer(peer, followup("r2@1")) == {"status": "busy"}
        outcome.set_result(Busy())
        await settled(spool, 1, "queued")
        spool.drop(1, clock.now)
        spool.bell.ring()
        assert (await peer.read())["method"] == "session.ready"


async def test_a_queue_that_cannot_be_written_admits_nothing_and_forgets_no_outcome(
    hosting: Hosting,
    agent: Agent,
    spool: Spool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("scheduler_daemon.client.spooling._TROUBLE_SECONDS", 0.01)
    caplog.set_level(logging.ERROR, "scheduler_daemon.client")
    async with hosting() as peer:
        await answer(peer, followup("r1@1"))
        _, outcome = await agent.next()
        with closing(sqlite3.connect(spool.path)) as other:
            for event in ("INSERT", "UPDATE", "DELETE"):
                other.execute(
                    f"CREATE TRIGGER no_{event} BEFORE {event} ON messages"
                    " BEGIN SELECT RAISE(ABORT, 'no room'); END"
                )
            push = {"id": 2, "method": "session.followup", "params": followup("r2@1", session="s2")}
            peer.write({"jsonrpc": "2.0", **push})
            assert (await peer.read())["error"]["data"]["code"] == "internal_error"
            outcome.set_result(None)
            async with asyncio.timeout(DEADLINE):
                while "cannot be written: no room" not in caplog.text:
                    await asyncio.sleep(0.01)
            for event in ("INSERT", "UPDATE", "DELETE"):
                other.execute(f"DROP TRIGGER no_{event}")
        await settled(spool, 1, "done")
        assert agent.begun.empty()


async def test_a_queue_that_cannot_be_read_is_looked_at_again(
    hosting: Hosting,
    agent: Agent,
    spool: Spool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("scheduler_daemon.client.spooling._TROUBLE_SECONDS", 0.01)
    caplog.set_level(logging.ERROR, "scheduler_daemon.client")
    async with hosting() as peer:
        with closing(sqlite3.connect(spool.path)) as other:
            other.execute("ALTER TABLE messages RENAME TO elsewhere")
            spool.bell.ring()
            async with asyncio.timeout(DEADLINE):
                while "cannot be read: no such table" not in caplog.text:
                    await asyncio.sleep(0.01)
            other.execute("ALTER TABLE elsewhere RENAME TO messages")
        await answer(peer, followup("r1@1"))
        await agent.next()


async def test_a_queue_that_was_edited_by_hand_goes_on_once_it_is_right(
    hosting: Hosting,
    agent: Agent,
    spool: Spool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("scheduler_daemon.client.spooling._TROUBLE_SECONDS", 0.01)
    caplog.set_level(logging.ERROR, "scheduler_daemon.client")
    async with hosting() as peer:
        await answer(peer, followup("r1@1"))
        _, outcome = await agent.next()
        outcome.set_result(Busy(300))
        await settled(spool, 1, "queued")
        with closing(sqlite3.connect(spool.path)) as other, other:
            other.execute("UPDATE messages SET not_before = not_before || '?'")
        spool.bell.ring()
        async with asyncio.timeout(DEADLINE):
            while "cannot be worked through" not in caplog.text:
                await asyncio.sleep(0.01)
        with closing(sqlite3.connect(spool.path)) as other, other:
            other.execute("UPDATE messages SET not_before = '2026-01-01T00:00:00.000Z'")
        again, _ = await agent.next()
        assert again["session_id"] == "s1"


async def test_a_second_host_of_a_queue_is_refused(
    hosting: Hosting, path: Path, spool: Spool
) -> None:
    async with hosting():
        other = Spool(spool.path)
        with pytest.raises(SpoolRefused, match="another host"):
            await AgentHost("other", "*", lambda message: None, socket=path, spool=other).run()
        other.close()


def test_nothing_can_run_where_nothing_may_run_at_once(spool: Spool) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        AgentHost("me", "*", lambda message: None, spool=spool, max_parallel=0)
