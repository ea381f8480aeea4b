"""Watching through both clients, over a real socket whose other end the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.client import (
    AsyncChanges,
    AsyncClient,
    Client,
    ConnectionLost,
    DaemonUnreachable,
    Lagged,
    NoAnswer,
)
from scheduler_daemon.errors import InternalError, Overloaded, PermissionDenied
from scheduler_daemon.wire.frames import METHOD_NOT_FOUND
from tests.client.scripted import AsyncPeer, Listener, Peer, listening, scripted

WATCH = {"jsonrpc": "2.0", "id": 1, "method": "daemon.watch", "params": {"session_id": "s"}}
FOREIGN = "does not speak this protocol"


def event(number: int) -> Any:
    return {"id": f"r{number}", "owner_uid": 0, "session_id": "s", "change": "created"}


def notification(method: str, params: object) -> Any:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def changed(number: int) -> Any:
    return notification("reminder.changed", event(number))


LAGGED = notification("watch.lagged", {})
NOT_CHANGES = (
    notification("of.a.newer.version", {}),
    {"jsonrpc": "2.0", "id": "q", "method": "of.a.newer.version"},
    {"jsonrpc": "2.0", "id": 77, "result": "late"},
    {"jsonrpc": "2.0", "id": 78, "error": {"code": 1, "message": "late"}},
)
OVERLOADED = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32000, "message": "too many", "data": {"code": "overloaded"}},
}


# --- the client for plain programs


def test_a_watch_gives_the_changes_in_their_order_and_nothing_else(path: Path) -> None:
    def script(peer: Peer) -> None:
        assert peer.answer({}) == WATCH
        for message in (changed(1), *NOT_CHANGES, LAGGED, changed(2)):
            peer.write(message)

    with scripted(path, script), Client(path).watch("s") as changes:
        assert next(changes) == event(1)
        assert isinstance(next(changes), Lagged)
        assert next(changes) == event(2)


def test_an_admin_names_the_owner_that_it_watches(path: Path) -> None:
    def script(peer: Peer) -> None:
        assert peer.answer({})["params"] == {"owner_uid": "*"}

    with scripted(path, script):
        Client(path).watch(owner_uid="*").close()


def test_calls_go_on_beside_a_watch(path: Path) -> None:
    def watched(peer: Peer) -> None:
        peer.answer({})
        peer.write(changed(1))

    def asked(peer: Peer) -> None:
        peer.answer("hello")

    with (
        scripted(path, watched, asked),
        Client(path) as client,
        client.watch() as changes,
    ):
        assert client.call("hello") == "hello"
        assert next(changes) == event(1)


def test_silence_for_longer_than_a_call_bears_is_no_failure_of_a_watch(path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.answer({})
        peer.sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            peer.sock.recv(1)
        peer.write(changed(1))

    with scripted(path, script), Client(path, timeout=0.01).watch() as changes:
        assert next(changes) == event(1)


def test_a_watch_that_is_refused_says_why(path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.refuse("permission_denied", "not yours")

    with scripted(path, script), pytest.raises(PermissionDenied, match="not yours"):
        Client(path).watch()


def test_a_connection_that_ends_is_lost_and_the_watch_with_it(path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.answer({})
        peer.write(changed(1))

    with scripted(path, script):
        changes = Client(path).watch()
        assert next(changes) == event(1)
        with pytest.raises(ConnectionLost, match=r"closed the connection$"):
            next(changes)
    assert list(changes) == []


def test_an_error_about_the_connection_is_raised_as_what_it_is(path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.answer({})
        peer.write(OVERLOADED)

    with scripted(path, script), pytest.raises(Overloaded):
        next(Client(path).watch())


def test_what_is_no_message_ends_the_watch(path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.answer({})
        peer.sock.sendall(b"pong\n")

    with scripted(path, script), pytest.raises(ConnectionLost, match=FOREIGN):
        next(Client(path).watch())


def test_a_closed_watch_has_no_more_changes(path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.answer({})
        assert peer.read() is None

    with scripted(path, script):
        with Client(path).watch() as changes:
            pass
        assert list(changes) == []
        changes.close()


def test_nobody_to_watch_is_unreachable(path: Path) -> None:
    with pytest.raises(DaemonUnreachable):
        Client(path).watch()


# --- the client for asyncio


@pytest.fixture
async def daemon(path: Path) -> AsyncIterator[Listener]:
    async with listening(path) as listener:
        yield listener


async def watching(path: Path, daemon: Listener) -> tuple[AsyncPeer, Any]:
    task = asyncio.create_task(AsyncClient(path).watch("s"))
    peer = await daemon.accepted()
    assert await peer.answer({}) == WATCH
    return peer, await task


async def test_under_asyncio_a_watch_gives_the_same(path: Path, daemon: Listener) -> None:
    peer, changes = await watching(path, daemon)
    for message in (changed(1), *NOT_CHANGES, LAGGED, changed(2)):
        peer.write(message)
    async with changes:
        assert await anext(changes) == event(1)
        assert isinstance(await anext(changes), Lagged)
        assert await anext(changes) == event(2)
    assert [change async for change in changes] == []
    assert await peer.ended()


async def test_a_cancelled_wait_loses_no_change(path: Path, daemon: Listener) -> None:
    peer, changes = await watching(path, daemon)
    async with changes:
        waiting = asyncio.create_task(anext(changes))
        await asyncio.sleep(0)
        peer.write(changed(1))
        while not waiting.done():  # in every moment from nothing to all
            waiting.cancel()
            await asyncio.sleep(0)
        assert waiting.cancelled()
        assert await anext(changes) == event(1)


async def test_a_wake_up_with_nothing_to_read_is_waited_out(path: Path, daemon: Listener) -> None:
    peer, changes = await watching(path, daemon)
    async with changes:
        waiting = asyncio.create_task(anext(changes))
        await asyncio.sleep(0)
        changes._wake()
        changes._wake()
        await asyncio.sleep(0)
        peer.write(changed(1))
        assert await waiting == event(1)


async def test_who_waits_for_a_change_while_the_watch_is_closed_finds_that_there_is_none(
    path: Path, daemon: Listener
) -> None:
    peer, changes = await watching(path, daemon)

    async def collect() -> list[Any]:
        return [change async for change in changes]

    waiting = asyncio.create_task(collect())
    await asyncio.sleep(0)
    await changes.close()
    assert await waiting == []
    assert await peer.ended()
    await changes.close()


async def test_under_asyncio_a_connection_that_ends_is_lost(path: Path, daemon: Listener) -> None:
    peer, changes = await watching(path, daemon)
    await peer.close()
    with pytest.raises(ConnectionLost, match=r"closed the connection$"):
        await anext(changes)
    assert [change async for change in changes] == []


async def test_under_asyncio_a_reset_is_an_end(path: Path, daemon: Listener) -> None:
    peer, changes = await watching(path, daemon)
    changes._socket.send(b"not read")
    await asyncio.sleep(0)
    peer.writer.transport.abort()
    with pytest.raises(ConnectionLost):
        await anext(changes)


async def test_under_asyncio_a_refusal_is_raised_as_what_it_is(
    path: Path, daemon: Listener
) -> None:
    task = asyncio.create_task(AsyncClient(path).watch())
    peer = await daemon.accepted()
    peer.error((await peer.read())["id"], "permission_denied")
    with pytest.raises(PermissionDenied):
        await task
    assert await peer.ended()


async def test_an_older_daemon_says_that_there_is_no_such_method(
    path: Path, daemon: Listener
) -> None:
    task = asyncio.create_task(AsyncClient(path).watch())
    peer = await daemon.accepted()
    request = await peer.read()
    error = {"code": METHOD_NOT_FOUND, "message": "no such method"}
    peer.write({"jsonrpc": "2.0", "id": request["id"], "error": error})
    with pytest.raises(Exception, match="no such method") as caught:
        await task
    assert not isinstance(caught.value, ConnectionLost | InternalError)


async def test_under_asyncio_an_error_about_the_connection_is_raised_as_what_it_is(
    path: Path, daemon: Listener
) -> None:
    peer, changes = await watching(path, daemon)
    peer.write(OVERLOADED)
    with pytest.raises(Overloaded):
        await anext(changes)


async def test_under_asyncio_what_is_no_message_ends_the_watch(
    path: Path, daemon: Listener
) -> None:
    peer, changes = await watching(path, daemon)
    peer.writer.write(b"pong\n")
    with pytest.raises(ConnectionLost, match=FOREIGN):
        await anext(changes)


async def test_a_daemon_that_does_not_answer_in_time_is_given_up(
    path: Path, daemon: Listener
) -> None:
    with pytest.raises(NoAnswer, match="did not answer in time"):
        await AsyncClient(path, timeout=0.01).watch()
    assert await (await daemon.accepted()).ended()


async def test_what_comes_before_the_answer_is_passed_over(path: Path, daemon: Listener) -> None:
    task = asyncio.create_task(AsyncClient(path).watch())
    peer = await daemon.accepted()
    peer.write(NOT_CHANGES[0])
    await peer.answer({})
    await (await task).close()


async def test_a_daemon_that_closes_at_once_may_have_said_why(path: Path, daemon: Listener) -> None:
    client = AsyncClient(path)
    sock = await client._connected()
    peer = await daemon.accepted()
    peer.write(OVERLOADED)
    await peer.close()
    with pytest.raises(Overloaded):
        await AsyncChanges(sock, None).begin({})
