"""A host through its life, over a real socket whose other end the test plays."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.client import Admitted, AgentHost, Busy, Gone
from scheduler_daemon.client.host import LONGEST_PAUSE, NAMES_PER_CALL
from scheduler_daemon.errors import InvalidRequest, PermissionDenied
from tests.client.scripted import DEADLINE, AsyncPeer, Listener, listening


@pytest.fixture
async def daemon(path: Path) -> AsyncIterator[Listener]:
    async with listening(path) as listener:
        yield listener


class Pauses:
    """Waits no time, and remembers how long it should have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.last = asyncio.Event()
        self.stop_after = 10_000

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)
        if len(self.seconds) == self.stop_after:
            self.last.set()
            await asyncio.Event().wait()


@asynccontextmanager
async def running(host: AgentHost) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(host.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def attached(daemon: Listener, calls: int = 1) -> AsyncPeer:
    """The next connection, all its attaches answered."""
    peer = await daemon.accepted()
    for _ in range(calls):
        assert (await peer.answer({"sessions": []}))["method"] == "host.attach"
    return peer


def push(peer: AsyncPeer, request_id: int, session_id: str = "s1", **params: object) -> None:
    members = {"session_id": session_id, "text": "due", **params}
    peer.write(
        {"jsonrpc": "2.0", "id": request_id, "method": "session.followup", "params": members}
    )


async def test_a_host_attaches_its_sessions_and_hands_on_what_comes(
    path: Path, daemon: Listener
) -> None:
    texts: list[str] = []

    async def deliver(followup: Any) -> None:
        texts.append(followup["text"])

    async with running(AgentHost("me", ["s1", "s2"], deliver, socket=path, max_in_flight=4)):
        peer = await daemon.accepted()
        request = await peer.answer({"sessions": ["s1", "s2"]})
        assert request["method"] == "host.attach"
        assert request["params"] == {"name": "me", "sessions": ["s1", "s2"], "max_in_flight": 4}
        push(peer, 7)
        assert await peer.read() == {"jsonrpc": "2.0", "id": 7, "result": {"status": "admitted"}}
    assert texts == ["due"]


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        (None, {"status": "admitted"}),
        (Admitted(), {"status": "admitted"}),
        (Admitted("m1"), {"status": "admitted", "message_id": "m1"}),
        (Busy(), {"status": "busy"}),
        (Busy(retry_after_seconds=300), {"status": "busy", "retry_after_seconds": 300}),
        (Gone(), {"status": "gone"}),
    ],
)
async def test_what_deliver_returns_is_the_answer(
    path: Path, daemon: Listener, outcome: Any, answer: object
) -> None:
    async with running(AgentHost("me", ["s1"], lambda followup: outcome, socket=path)):
        peer = await attached(daemon)
        push(peer, 1)
        assert (await peer.read())["result"] == answer


@pytest.mark.parametrize("outcome", ["admitted", True, ValueError("secret")])
async def test_what_deliver_raises_or_returns_amiss_is_an_error_answer(
    path: Path, daemon: Listener, outcome: object, caplog: pytest.LogCaptureFixture
) -> None:
    def deliver(followup: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    caplog.set_level(logging.CRITICAL, "scheduler_daemon.client")
    async with running(AgentHost("me", ["s1"], deliver, socket=path)):
        peer = await attached(daemon)
        push(peer, 1)
        error = (await peer.read())["error"]
        assert error["data"] == {"code": "internal_error"}
        assert "secret" not in error["message"]


@pytest.mark.parametrize("seconds", [0, 301])
def test_a_busy_host_asks_for_a_pause_that_the_daemon_takes(seconds: int) -> None:
    with pytest.raises(ValueError, match="1 to 300"):
        Busy(retry_after_seconds=seconds)


def test_one_name_is_no_list_of_names() -> None:
    with pytest.raises(ValueError, match="list of names"):
        AgentHost("me", "s1", lambda followup: None)


class Gate:
    """A deliver that is entered and left when the test says so."""

    def __init__(self) -> None:
        self.entered: asyncio.Queue[str] = asyncio.Queue()
        self.leave: dict[str, asyncio.Event] = {}
        self.outcome: Any = None
        self.cancelled = 0

    async def __call__(self, followup: Any) -> Any:
        session_id = followup["session_id"]
        self.leave[session_id] = asyncio.Event()
        self.entered.put_nowait(session_id)
        try:
            await self.leave[session_id].wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.outcome


async def test_sessions_are_served_side_by_side_and_one_never_twice_at_once(
    path: Path, daemon: Listener
) -> None:
    gate = Gate()
    async with running(AgentHost("me", "*", gate, socket=path)):
        peer = await attached(daemon)
        push(peer, 1, "s1")
        push(peer, 2, "s2")
        assert [await gate.entered.get(), await gate.entered.get()] == ["s1", "s2"]
        push(peer, 3, "s1")  # the first timed out at the daemon's end
        assert await peer.read() == {"jsonrpc": "2.0", "id": 3, "result": {"status": "busy"}}
        gate.leave["s2"].set()
        assert (await peer.read())["id"] == 2
        gate.leave["s1"].set()
        assert await peer.read() == {"jsonrpc": "2.0", "id": 1, "result": {"status": "admitted"}}
        ready = {"jsonrpc": "2.0", "method": "session.ready", "params": {"session_id": "s1"}}
        assert await peer.read() == ready
        push(peer, 4, "s1")
        assert await gate.entered.get() == "s1"


async def test_a_session_that_stays_busy_is_not_called_ready(path: Path, daemon: Listener) -> None:
    gate = Gate()
    gate.outcome = Busy()
    async with running(AgentHost("me", ["s1"], gate, socket=path)):
        peer = await attached(daemon)
        push(peer, 1)
        await gate.entered.get()
        push(peer, 2)
        assert (await peer.read())["id"] == 2
        gate.leave["s1"].set()
        assert (await peer.read())["id"] == 1
        push(peer, 3)
        await gate.entered.get()
        gate.leave["s1"].set()
        assert (await peer.read())["id"] == 3


async def test_the_daemon_is_called_on_the_same_connection_while_delivering(
    path: Path, daemon: Listener
) -> None:
    async def deliver(followup: Any) -> Admitted:
        created = await host.client.create(followup["session_id"], "next", after_seconds=60)
        return Admitted(created["reminder"]["id"])

    host = AgentHost("me", ["s1"], deliver, socket=path)
    async with running(host):
        peer = await attached(daemon)
        push(peer, 1)
        request = await peer.answer({"reminder": {"id": "r2"}, "created": True})
        assert request["method"] == "reminder.create"
        assert (await peer.read())["result"] == {"status": "admitted", "message_id": "r2"}


async def test_a_host_comes_back_with_the_sessions_it_has_then(path: Path) -> None:
    pauses = Pauses()
    host = AgentHost("me", ["s1", "s2"], lambda followup: None, socket=path, pause=pauses)
    async with listening(path) as daemon, running(host):
        peer = await attached(daemon)
        adding = asyncio.create_task(host.attach("s3", "s1"))
        request = await peer.answer({"sessions": []})
        assert request["params"] == {"name": "me", "sessions": ["s3", "s1"]}
        await adding
        removing = asyncio.create_task(host.detach("s1", "never"))
        request = await peer.answer({"sessions": []})
        assert request["method"] == "host.detach"
        assert request["params"] == {"sessions": ["s1", "never"]}
        await removing
        await peer.close()
        peer = await daemon.accepted()
        assert (await peer.read())["params"]["sessions"] == ["s2", "s3"]


async def test_sessions_can_change_while_there_is_no_connection(
    path: Path, daemon: Listener
) -> None:
    host = AgentHost("me", ["s1"], lambda followup: None, socket=path)
    host.ready("s1")
    await host.attach("s2")
    await host.detach("s1")
    async with running(host):
        peer = await daemon.accepted()
        assert (await peer.read())["params"]["sessions"] == ["s2"]


async def test_a_host_without_sessions_waits_for_its_first(path: Path, daemon: Listener) -> None:
    host = AgentHost("me", [], lambda followup: None, socket=path)
    async with running(host):
        peer = await daemon.accepted()
        async with asyncio.timeout(DEADLINE):
            while host._link is None:
                await asyncio.sleep(0)
        adding = asyncio.create_task(host.attach("s1"))
        assert (await peer.answer({"sessions": ["s1"]}))["params"]["sessions"] == ["s1"]
        await adding


async def test_many_sessions_are_attached_in_calls_that_fit_a_frame(
    path: Path, daemon: Listener
) -> None:
    names = [f"s{n}" for n in range(NAMES_PER_CALL + 1)]
    host = AgentHost("me", [*names, "*"], lambda followup: None, socket=path)
    async with running(host):
        peer = await daemon.accepted()
        asked = [(await peer.answer({}))["params"]["sessions"] for _ in range(3)]
    assert asked == ["*", names[:-1], names[-1:]]


async def test_a_refused_session_is_not_asked_for_again(path: Path, daemon: Listener) -> None:
    host = AgentHost("me", ["s1"], lambda followup: None, socket=path)
    async with running(host):
        peer = await attached(daemon)
        adding = asyncio.create_task(host.attach("s1", ""))
        peer.error((await peer.read())["id"], "invalid_request", "a name has 1 to 200 characters")
        with pytest.raises(InvalidRequest, match="1 to 200"):
            await adding
        assert list(host._sessions) == ["s1"]


async def test_an_attach_that_is_lost_is_made_by_the_next_connection(
    path: Path, daemon: Listener
) -> None:
    host = AgentHost("me", ["s1"], lambda followup: None, socket=path, pause=Pauses())
    async with running(host):
        peer = await attached(daemon)
        adding = asyncio.create_task(host.attach("s2"))
        await peer.read()
        await peer.close()
        await adding
        peer = await daemon.accepted()
        assert (await peer.read())["params"]["sessions"] == ["s1", "s2"]


async def test_the_pause_grows_to_its_bound_for_ever_and_starts_anew_after_success(
    path: Path,
) -> None:
    pauses = Pauses()
    pauses.stop_after = 2000
    host = AgentHost("me", ["s1"], lambda followup: None, socket=path, pause=pauses)
    async with running(host):
        await pauses.last.wait()
    assert 0.1 <= pauses.seconds[0] <= 0.2
    assert all(LONGEST_PAUSE / 2 <= seconds <= LONGEST_PAUSE for seconds in pauses.seconds[10:])
    assert len(set(pauses.seconds[10:])) > 1000  # hosts do not all come back at one moment
    pauses = Pauses()
    host._pause = pauses
    async with listening(path) as daemon, running(host):
        await (await attached(daemon)).close()
        await attached(daemon)
        assert 0.05 <= pauses.seconds[-1] <= 0.1


async def test_a_daemon_that_has_no_room_is_asked_again(path: Path, daemon: Listener) -> None:
    host = AgentHost("me", ["s1"], lambda followup: None, socket=path, pause=Pauses())
    async with running(host):
        peer = await daemon.accepted()
        peer.error((await peer.read())["id"], "overloaded")
        await attached(daemon)
        assert await peer.ended()


@pytest.mark.parametrize("named", [True, False])
async def test_a_refusal_that_no_waiting_heals_ends_the_host(
    path: Path, daemon: Listener, named: bool
) -> None:
    host = AgentHost("me", ["s1"], lambda followup: None, socket=path)
    task = asyncio.create_task(host.run())
    peer = await daemon.accepted()
    peer.error((await peer.read())["id"] if named else None, "permission_denied", "join")
    with pytest.raises(PermissionDenied, match="join"):
        await task
    assert await peer.ended()


async def test_a_delivery_outlives_its_connection_and_is_not_answered_on_another(
    path: Path, daemon: Listener
) -> None:
    gate = Gate()
    async with running(AgentHost("me", ["s1"], gate, socket=path, pause=Pauses())):
        peer = await attached(daemon)
        push(peer, 1)
        await gate.entered.get()
        await peer.close()
        peer = await attached(daemon)
        push(peer, 1)  # the same again, as a daemon does that never saw an answer
        assert (await peer.read())["result"] == {"status": "busy"}
        gate.leave["s1"].set()
        assert (await peer.read())["method"] == "session.ready"
        push(peer, 2)
        await gate.entered.get()
        gate.leave["s1"].set()
        assert await peer.read() == {"jsonrpc": "2.0", "id": 2, "result": {"status": "admitted"}}
    assert gate.cancelled == 0


async def test_cancelling_a_host_cancels_its_deliveries_and_hangs_up(
    path: Path, daemon: Listener
) -> None:
    gate = Gate()
    async with running(AgentHost("me", ["s1"], gate, socket=path)):
        peer = await attached(daemon)
        push(peer, 1)
        await gate.entered.get()
    assert gate.cancelled == 1
    assert await peer.read() is None
    assert len(asyncio.all_tasks()) == 1


async def test_a_host_can_be_cancelled_before_it_is_attached(path: Path, daemon: Listener) -> None:
    async with running(AgentHost("me", ["s1"], lambda followup: None, socket=path)):
        peer = await daemon.accepted()
        await peer.read()
    assert await peer.read() is None
