"""How many connections there may be, and what the one too many is told."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.server import listener
from tests.support.inprocess import Json, Peer, Running, needs_root, request, running

ADA = 54_321


async def refusal_of(peer: Peer) -> Json:
    """The one frame that one too many gets."""
    peer.write(request(1, "hello"))
    (frame,) = await peer.read_until_end()
    await peer.close()
    assert frame["id"] is None
    assert frame["error"]["code"] == -32000
    assert frame["error"]["data"] == {"code": "overloaded"}
    body: Json = frame["error"]
    return body


async def test_one_connection_too_many_of_a_user_is_told_so_and_the_others_go_on(
    folder: Path,
) -> None:
    async with running(folder, max_connections_per_uid=3) as on:
        peers = [await on.peer() for _ in range(3)]
        for peer in peers:
            await peer.call("hello")
        assert "has 3 connections open" in (await refusal_of(await on.peer()))["message"]
        for peer in peers:
            await peer.call("hello")
        await peers[0].close()
        while "error" in await (await on.peer()).ask("hello"):
            pass


@needs_root
async def test_one_user_with_all_its_connections_shuts_out_no_other(folder: Path) -> None:
    async with running(folder, max_connections_per_uid=1, allowed_uids=(ADA,)) as on:
        (first, second) = await on.peers_as(2, ADA)
        await first.call("hello")
        await refusal_of(second)
        await (await on.peer()).call("hello")


async def test_beyond_what_the_process_has_descriptors_for_one_is_told_so(
    on: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "most_connections", lambda: 4)
    peers = [await on.peer() for _ in range(2)]
    for peer in peers:
        await peer.call("hello")
    with capture_logs() as logs:
        for _ in range(3):
            assert "try again later" in (await refusal_of(await on.peer()))["message"]
    assert [entry["event"] for entry in logs] == ["connections_exhausted"]
    await peers.pop().close()
    while "error" in await (await on.peer()).ask("hello"):
        pass


def test_the_number_of_connections_leaves_descriptors_for_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for soft, most in ((1024, 1024 - 128), (64, 1), (resource.RLIM_INFINITY, sys.maxsize)):
        monkeypatch.setattr("resource.getrlimit", lambda _, soft=soft: (soft, soft))
        assert listener.most_connections() == most


async def test_many_who_come_at_once_are_all_served(on: Running) -> None:
    peers = [await on.peer() for _ in range(100)]
    for peer in peers:
        peer.write(request(1, "hello"))
    for peer in peers:
        assert "result" in await peer.read()


async def test_the_daemon_ends_while_a_refused_peer_lingers(folder: Path) -> None:
    async with running(folder, max_connections_per_uid=1) as on:
        await (await on.peer()).call("hello")
        lingering = await on.peer()
        await lingering.read()
        await on.stop()
        assert await lingering.read_until_end() == []
