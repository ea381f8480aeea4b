"""The client for asyncio, over a real socket whose other end the test plays."""

from __future__ import annotations

import asyncio
import inspect
import logging
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.client import (
    AsyncClient,
    Client,
    ConnectionLost,
    DaemonUnreachable,
    NoAnswer,
)
from scheduler_daemon.client.link import MAX_WAITING, Link
from scheduler_daemon.errors import InvalidRule, PermissionDenied, ReminderNotFound
from scheduler_daemon.wire.frames import METHOD_NOT_FOUND
from tests.client.methods import METHODS
from tests.client.scripted import DEADLINE, AsyncPeer, Listener, listening


@pytest.fixture
async def daemon(path: Path) -> AsyncIterator[Listener]:
    async with listening(path) as listener:
        yield listener


@pytest.fixture
async def client(path: Path, daemon: Listener) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(path) as client:
        yield client


async def called(client: AsyncClient, daemon: Listener) -> tuple[AsyncPeer, asyncio.Task[Any], Any]:
    """A call on its way: the daemon's end, the task that waits, the request."""
    task = asyncio.create_task(client.call("hello"))
    peer = await daemon.accepted()
    return peer, task, await peer.read()


@pytest.mark.parametrize(("call", "method", "params"), METHODS)
async def test_a_method_sends_what_the_sync_client_sends(
    client: AsyncClient,
    daemon: Listener,
    call: Callable[[Any], Any],
    method: str,
    params: dict[str, object],
) -> None:
    task = asyncio.ensure_future(call(client))
    peer = await daemon.accepted()
    request = await peer.answer({"anything": [1]})
    assert request == {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    assert await task == {"anything": [1]}


def test_both_clients_have_the_same_methods_with_the_same_parameters() -> None:
    names = {name for name in dir(Client) if not name.startswith("_")}
    for name in names:
        sync = inspect.signature(getattr(Client, name))
        aio = inspect.signature(getattr(AsyncClient, name))
        assert aio.parameters == sync.parameters
        assert getattr(AsyncClient, name).__doc__
    assert {name for name in dir(AsyncClient) if not name.startswith("_")} == names | {"connect"}


async def test_pages_are_followed_to_the_one_without_a_cursor(
    client: AsyncClient, daemon: Listener
) -> None:
    async def collected() -> list[Any]:
        found: list[Any] = [item async for item in client.reminders("s1")]
        found += [item async for item in client.dispatches("r1")]
        return [*found, *[item async for item in client.sessions()]]

    task = asyncio.create_task(collected())
    peer = await daemon.accepted()
    for method in ("reminder.list", "reminder.history", "session.list"):
        request = await peer.answer({"items": [0], "next_cursor": "c"})
        assert (request["method"], request["params"].get("cursor")) == (method, None)
        request = await peer.answer({"items": [1]})
        assert (request["method"], request["params"].get("cursor")) == (method, "c")
    assert await task == [0, 1, 0, 1, 0, 1]


async def test_calls_run_side_by_side_and_answers_may_overtake_each_other(
    client: AsyncClient, daemon: Listener
) -> None:
    calls = [asyncio.create_task(client.call("m", {"n": n})) for n in range(3)]
    peer = await daemon.accepted()
    requests = [await peer.read() for _ in calls]
    for request in reversed(requests):
        peer.result(request, request["params"]["n"])
    assert await asyncio.gather(*calls) == [0, 1, 2]


async def test_no_more_calls_are_under_way_than_a_daemon_takes(
    client: AsyncClient, daemon: Listener
) -> None:
    calls = [asyncio.create_task(client.call("m")) for _ in range(MAX_WAITING + 1)]
    peer = await daemon.accepted()
    requests = [await peer.read() for _ in range(MAX_WAITING)]
    peer.result(requests[0], None)
    assert (await peer.read())["id"] == MAX_WAITING + 1
    await client.close()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_refusal_is_raised_as_what_it_is(client: AsyncClient, daemon: Listener) -> None:
    peer, task, request = await called(client, daemon)
    peer.error(request["id"], "reminder_not_found", "no such reminder")
    with pytest.raises(ReminderNotFound, match="no such reminder"):
        await task


async def test_a_cancelled_call_leaves_the_connection_in_order(
    client: AsyncClient, daemon: Listener
) -> None:
    peer, task, request = await called(client, daemon)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    peer.result(request, "late")
    other = asyncio.create_task(client.call("hello"))
    await peer.answer("mine")
    assert await other == "mine"


async def test_an_answer_that_comes_with_the_cancellation_harms_nothing(
    client: AsyncClient, daemon: Listener
) -> None:
    peer, task, request = await called(client, daemon)
    link = await client.connect()
    link._waiting[request["id"]].cancel()
    peer.result(request, "late")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await answered(client, peer) == "mine"


async def answered(client: AsyncClient, peer: AsyncPeer) -> Any:
    task = asyncio.create_task(client.call("hello"))
    await peer.answer("mine")
    return await task


async def test_silence_ends_a_call_and_not_the_connection(path: Path, daemon: Listener) -> None:
    async with AsyncClient(path, timeout=0.01) as client:
        peer, task, request = await called(client, daemon)
        with pytest.raises(NoAnswer, match=r"in time$"):
            await task
        peer.result(request, "late")
        (await client.connect())._timeout = None
        assert await answered(client, peer) == "mine"


async def test_a_lost_connection_ends_every_call_and_the_next_call_connects_again(
    client: AsyncClient, daemon: Listener
) -> None:
    peer, first, _ = await called(client, daemon)
    second = asyncio.create_task(client.call("reminder.delete"))
    await peer.read()
    await peer.close()
    with pytest.raises(ConnectionLost, match=r"before it answered$"):
        await first
    with pytest.raises(ConnectionLost, match="whether the call took effect is unknown"):
        await second
    _, third, _ = await called(client, daemon)
    third.cancel()


async def test_a_call_in_line_when_the_connection_is_lost_is_lost_too(
    client: AsyncClient, daemon: Listener
) -> None:
    peer, task, _ = await called(client, daemon)
    link = await client.connect()
    await peer.close()
    await link.lost.wait()
    link.send(b"into the void\n")
    with pytest.raises(ConnectionLost):
        await link.call("hello", {})
    with pytest.raises(ConnectionLost):
        await task


async def test_calls_that_start_together_share_one_connection(
    client: AsyncClient, daemon: Listener
) -> None:
    links = await asyncio.gather(*(client.connect() for _ in range(5)))
    assert len(set(links)) == 1


async def test_closing_ends_the_calls_that_wait(client: AsyncClient, daemon: Listener) -> None:
    peer, task, _ = await called(client, daemon)
    await client.close()
    with pytest.raises(ConnectionLost):
        await task
    assert await peer.ended()
    await client.close()


async def test_nobody_there_is_unreachable(path: Path) -> None:
    async with AsyncClient(path) as client:
        with pytest.raises(DaemonUnreachable, match="does not exist"):
            await client.call("hello")


async def test_a_full_queue_is_tried_again_until_the_time_is_over(path: Path) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            await asyncio.Event().wait()

    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(path))
        listener.listen(0)
        first.connect(str(path))
        with pytest.raises(DaemonUnreachable, match="queue is full"):
            await AsyncClient(path, timeout=0.01, pause=pause).call("hello")
    assert len(pauses) == 3


async def test_what_the_daemon_says_before_it_hangs_up_is_heard(
    client: AsyncClient, daemon: Listener
) -> None:
    task = asyncio.create_task(client.call("hello", {"much": "x" * (1 << 22)}))
    peer = await daemon.accepted()
    peer.error(None, "permission_denied", "join `scheduler`")
    await peer.close()  # with most of the request unread
    with pytest.raises(PermissionDenied, match="join"):
        await task


async def test_a_daemon_that_reads_no_more_ends_every_call() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.shutdown(socket.SHUT_RD)
    link = Link(near, lambda link, request: None, None)
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(ConnectionLost):
            await link.call("hello", {})
        await link.lost.wait()
    far.close()


@pytest.mark.parametrize("line", [b"HTTP/1.1 400 Bad Request\r\n", b"[]\n"])
async def test_something_else_on_the_socket_is_named_as_that(
    client: AsyncClient, daemon: Listener, line: bytes
) -> None:
    peer, task, _ = await called(client, daemon)
    peer.writer.write(line)
    with pytest.raises(ConnectionLost, match="does not speak this protocol"):
        await task
    assert await peer.ended()


async def test_notifications_and_requests_without_a_handler_change_nothing(
    client: AsyncClient, daemon: Listener
) -> None:
    peer, task, request = await called(client, daemon)
    peer.write({"jsonrpc": "2.0", "method": "reminder.changed", "params": {}})
    peer.write({"jsonrpc": "2.0", "id": "d1", "method": "session.followup", "params": {}})
    refusal = await peer.read()
    assert (refusal["id"], refusal["error"]["code"]) == ("d1", METHOD_NOT_FOUND)
    peer.result(request, 1)
    assert await task == 1


async def test_a_handler_answers_and_may_call_the_daemon_meanwhile(
    path: Path, daemon: Listener
) -> None:
    async def handler(params: dict[str, Any]) -> object:
        return {"listed": await asking.call("reminder.list"), **params}

    async with AsyncClient(path, handlers={"ask": handler}) as asking:
        await asking.connect()
        peer = await daemon.accepted()
        peer.write({"jsonrpc": "2.0", "id": 1, "method": "ask", "params": {"a": 1}})
        assert (await peer.answer([]))["method"] == "reminder.list"
        assert (await peer.read())["result"] == {"listed": [], "a": 1}


async def test_what_a_handler_raises_is_the_answer(
    path: Path, daemon: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(params: dict[str, Any]) -> object:
        if params:
            raise InvalidRule("not so", field="cron")
        raise KeyError("secret")

    async with AsyncClient(path, handlers={"ask": handler}) as client:
        await client.connect()
        peer = await daemon.accepted()
        peer.write({"jsonrpc": "2.0", "id": 1, "method": "ask", "params": {"a": 1}})
        refusal = (await peer.read())["error"]
        assert refusal["data"] == {"code": "invalid_rule", "field": "cron"}
        with caplog.at_level(logging.CRITICAL, "scheduler_daemon.client"):
            peer.write({"jsonrpc": "2.0", "id": 2, "method": "ask", "params": {}})
            refusal = (await peer.read())["error"]
        assert refusal["data"] == {"code": "internal_error"}
        assert refusal["message"] == "KeyError in the handler of ask"


async def test_closing_cancels_the_handlers_that_run(path: Path, daemon: Listener) -> None:
    ended = asyncio.Event()

    async def handler(params: dict[str, Any]) -> object:
        try:
            return await asking.call("hello")
        finally:
            ended.set()

    asking = AsyncClient(path, handlers={"ask": handler})
    await asking.connect()
    peer = await daemon.accepted()
    peer.write({"jsonrpc": "2.0", "id": 1, "method": "ask"})
    await peer.read()
    await asking.close()
    assert ended.is_set()
    assert await peer.ended()
