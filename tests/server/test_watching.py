"""A connection that watches: what it hears, until when, and what becomes of one that lags."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.server import watch
from scheduler_daemon.server.watch import PeerWatcher
from scheduler_daemon.settings import MIB
from scheduler_daemon.watching import Watch, Watchers
from tests.support.inprocess import (
    Blocked,
    Json,
    Peer,
    Running,
    line,
    needs_root,
    request,
    running,
    until,
)

ME = os.getuid()
ADA, BEN = 54_321, 54_322
LONG: Any = {"prompt": "x" * 200_000}


def watchers_of(on: Running) -> Watchers:
    return on.daemon.parts.watchers


def tell(on: Running, *numbers: int, owner: int = ME, session: str = "s", long: Any = None) -> None:
    for number in numbers:
        watchers_of(on).tell(owner, session, f"r{number}", "updated", long)


async def heard(peer: Peer, count: int) -> list[object]:
    """The ids of the next changes, None for a `watch.lagged`."""
    return [id_of(await peer.followup()) for _ in range(count)]


def id_of(frame: Json) -> object:
    assert frame["method"] == ("reminder.changed" if frame["params"] else "watch.lagged")
    return frame["params"].get("id")


# --- what is heard, and until when


async def test_a_watch_is_answered_and_then_hears_what_changes(on: Running, peer: Peer) -> None:
    tell(on, 1)
    peer.write(request(1, "daemon.watch"))
    await until(lambda: watchers_of(on).anybody)
    tell(on, 2)
    assert await peer.read() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert await heard(peer, 1) == ["r2"]


async def test_watches_of_one_connection_add_up_and_each_change_comes_once(
    on: Running, peer: Peer
) -> None:
    for session in ({"session_id": "s"}, {"session_id": "t"}, {"session_id": "s"}):
        assert await peer.call("daemon.watch", **session) == {}
    tell(on, 1, session="s")
    tell(on, 2, session="u")
    await peer.call("daemon.watch")
    tell(on, 3, session="t")
    tell(on, 4, session="u")
    assert await heard(peer, 3) == ["r1", "r3", "r4"]


async def test_a_watch_begins_after_what_was_written_before_it_and_before_what_comes_after(
    on: Running, peer: Peer
) -> None:
    creation = {"session_id": "s", "prompt": "p", "after_seconds": 60}
    with Blocked(on.database):
        peer.write(
            request(1, "reminder.create", **creation),
            request(2, "daemon.watch"),
            request(3, "reminder.create", **creation),
        )
        await (await on.peer()).call("hello")
        assert not watchers_of(on).anybody
    answers = [frame for frame in [await peer.read() for _ in range(3)] if "id" in frame]
    assert [frame["id"] for frame in answers[:2]] == [1, 2]


async def test_half_closing_ends_a_watch_though_answers_are_still_to_come(
    on: Running, peer: Peer
) -> None:
    await peer.call("daemon.watch")
    with Blocked(on.database):
        peer.write(request(1, "reminder.delete", id="r1"))
        peer.half_close()
        await until(lambda: not watchers_of(on).anybody)
        tell(on, 1)
    assert [frame["id"] for frame in await peer.read_until_end()] == [1]


async def test_watching_and_half_closing_at_once_watches_nothing(on: Running, peer: Peer) -> None:
    with Blocked(on.database):
        peer.write(request(1, "reminder.delete", id="r1"), request(2, "daemon.watch"))
        peer.half_close()
        await (await on.peer()).call("hello")
    assert [frame["id"] for frame in await peer.read_until_end()] == [1, 2]
    assert not watchers_of(on).anybody


async def test_a_watch_ends_with_its_connection(on: Running, peer: Peer) -> None:
    await peer.call("daemon.watch")
    await peer.close()
    await until(lambda: not watchers_of(on).anybody)
    tell(on, 1)


async def test_a_daemon_that_stops_ends_every_watch(on: Running, peer: Peer) -> None:
    await peer.call("daemon.watch")
    await on.stop()
    assert await peer.read_until_end() == []
    assert not watchers_of(on).anybody


async def test_a_connection_has_only_so_many_watches_and_those_it_has_go_on(
    on: Running, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MOST_WATCHES", 2)
    await peer.call("daemon.watch", session_id="s")
    await peer.call("daemon.watch", session_id="t")
    refused = await peer.refused("daemon.watch", session_id="u")
    assert refused["data"] == {"code": "limit_reached"}
    assert "2 watches" in refused["message"]
    await peer.call("daemon.watch", session_id="s")
    tell(on, 1)
    assert await heard(peer, 1) == ["r1"]


# --- by whom


async def test_nobody_hears_of_the_reminders_of_another(on: Running, peer: Peer) -> None:
    await peer.call("daemon.watch")
    tell(on, 1, owner=BEN)
    tell(on, 2)
    assert await heard(peer, 1) == ["r2"]


@needs_root
async def test_only_an_admin_may_watch_others_and_that_is_logged(folder: Path) -> None:
    async with running(folder, allowed_uids=(ADA, BEN)) as on:
        ada, root, star = await on.peer_as(ADA), await on.peer(), await on.peer()
        with capture_logs() as logs:
            for owner in (BEN, "*"):
                refused = await ada.refused("daemon.watch", owner_uid=owner)
                assert refused["data"] == {"code": "permission_denied", "field": "owner_uid"}
            await ada.call("daemon.watch", owner_uid=ADA)
            assert logs == []
            await root.call("daemon.watch", owner_uid=BEN)
            await star.call("daemon.watch", owner_uid="*", session_id="s")
        one, everybody = logs
        assert (one["event"], one["owner_uid"], one["by_uid"]) == ("owner_named", BEN, 0)
        assert (everybody["owner_uid"], everybody["session_id"]) == ("*", "s")
        tell(on, 1, owner=BEN)
        tell(on, 2, owner=ADA, session="t")
        tell(on, 3, owner=ADA)
        tell(on, 4, owner=BEN, session="t")
        assert await heard(ada, 2) == ["r2", "r3"]
        assert await heard(root, 2) == ["r1", "r4"]
        assert await heard(star, 2) == ["r1", "r3"]


# --- one that lags


@asynccontextmanager
async def deaf(on: Running, *frames: Json) -> AsyncIterator[socket.socket]:
    """A peer that watches, and from then on reads only what a test reads for it."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(on.path))
        sock.setblocking(False)
        asked = [*frames, request(1, "daemon.watch")]
        sock.send(b"".join(map(line, asked)))
        for _ in asked:
            while await asyncio.get_running_loop().sock_recv(sock, 1) != b"\n":
                pass
        yield sock


def first_watcher(on: Running) -> PeerWatcher:
    watcher = next(iter(watchers_of(on)._by_watch[Watch(ME, None)]))
    assert isinstance(watcher, PeerWatcher)
    return watcher


async def until_heard(peer: Peer, last: object) -> list[object]:
    """The ids of the next changes up to this one, None for a `watch.lagged`."""
    ids = await heard(peer, 1)
    while ids[-1] != last:
        ids += await heard(peer, 1)
    return ids


async def test_one_that_never_reads_harms_nobody_and_then_hears_that_it_lagged(
    on: Running,
) -> None:
    async with deaf(on) as sock:
        other = await on.peer()
        await other.call("daemon.watch")
        told = [f"r{number}" for number in range(1, 10_001)]
        for first in range(1, 10_001, 100):
            tell(on, *range(first, first + 100))
            assert await heard(other, 100) == told[first - 1 : first + 99]
        assert first_watcher(on).waiting_bytes <= MIB
        peer = await Peer.over(sock)
        before = await until_heard(peer, None)
        tell(on, 10_001)
        after = await until_heard(peer, "r10001")
        assert before[:-1] == told[: len(before) - 1] != told
        assert after[:-1] == told[10_000 - len(after) + 1 :]
        await peer.close()


async def test_one_that_lags_again_hears_so_again(on: Running) -> None:
    """Once for each gap, however many changes were left out of it."""
    async with deaf(on) as sock:
        peer = await Peer.over(sock)
        for _ in range(2):
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]  # reads too
            tell(on, *range(30), long=LONG)
            peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await until_heard(peer, None)
            tell(on, 30)
            assert None not in await until_heard(peer, "r30")
        await peer.close()


async def test_one_that_lags_is_dropped_as_every_peer_that_takes_nothing(on: Running) -> None:
    async with deaf(on):
        tell(on, *range(100), long=LONG)
        with capture_logs() as logs:
            on.clock.advance(29.9)
            assert logs == []
            on.clock.advance(0.1)
            assert [entry["why"] for entry in logs] == ["took nothing for too long"]
        tell(on, 100)  # its connection is closing and not yet gone
        await until(lambda: not watchers_of(on).anybody)


async def test_answers_have_all_their_room_beside_changes_that_wait(folder: Path) -> None:
    """Twelve pages of nearly 1 MiB, where no more than 1 MiB is kept for a peer."""
    async with running(folder, max_write_buffer_bytes=MIB) as on:
        maker = await on.peer()
        for _ in range(8):
            await maker.create(prompt="\N{GRINNING FACE}" * 32_000)
        lists = [request(f"l{number}", "reminder.list") for number in range(12)]
        async with deaf(on) as sock:
            tell(on, *range(30), long=LONG)
            sock.send(b"".join(map(line, lists)))
            for _ in range(20):
                await maker.call("reminder.list", limit=1)
                tell(on, 1, long=LONG)
            peer = await Peer.over(sock)
            answers: set[object] = set()
            while len(answers) < 12:
                frame = await peer.read()
                if "id" in frame:
                    answers.add(frame["id"])
                    assert len(frame["result"]["items"]) == 8
            await peer.close()


async def test_a_host_that_watches_and_lags_still_gets_its_followups(on: Running) -> None:
    """And before the changes that wait for it."""
    maker = await on.peer()
    await maker.create("s", "work", after_seconds=20)
    attach = request(0, "host.attach", name="h", sessions=["s"])
    async with deaf(on, attach) as sock:
        tell(on, *range(100), long=LONG)
        on.clock.advance(20)
        while not (await maker.call("daemon.status"))["hosts"][0]["in_flight"]:
            pass
        peer = await Peer.over(sock)
        while (frame := await peer.read()).get("method") != "session.followup":
            assert frame["params"]
        peer.admit(frame)
        while (await maker.call("reminder.get", id="r1"))["reminder"]["status"] == "active":
            pass
        await peer.close()


# --- the watcher by itself


class Gate:
    """A peer that takes frames while it is open."""

    def __init__(self) -> None:
        self.open = True
        self.taken: list[bytes] = []

    def offer(self, frame: bytes) -> bool:
        if self.open:
            self.taken.append(frame)
        return self.open


def watcher(gate: Gate, max_bytes: int = 30) -> PeerWatcher:
    return PeerWatcher(Watchers(), max_bytes=max_bytes, offer=gate.offer, waits=lambda: None)


def test_what_waits_goes_in_its_order_and_before_what_comes_later() -> None:
    gate = Gate()
    watching = watcher(gate)
    gate.open = False
    watching.hear(b"1")
    watching.hear(b"2")
    gate.open = True
    watching.hear(b"3")
    watching.go_on()
    assert gate.taken == [b"1", b"2", b"3"]


def test_so_many_bytes_may_wait_and_one_more_is_a_lag() -> None:
    gate = Gate()
    for last, left in ((b"2", [b"1" * 29, b"2"]), (b"22", [watch.LAGGED])):
        gate.open, gate.taken = False, []
        watching = watcher(gate)
        watching.hear(b"1" * 29)
        watching.hear(last)
        gate.open = True
        watching.go_on()
        assert gate.taken == left


def test_changes_after_a_lag_wait_behind_it() -> None:
    gate = Gate()
    watching = watcher(gate, max_bytes=len(watch.LAGGED) + 5)
    gate.open = False
    watching.hear(b"1" * 1000)
    watching.hear(b"2")
    gate.open = True
    watching.go_on()
    assert gate.taken == [watch.LAGGED, b"2"]


def test_what_waits_is_forgotten_when_the_watch_ends() -> None:
    gate = Gate()
    watching = watcher(gate)
    gate.open = False
    watching.hear(b"1")
    watching.end()
    gate.open = True
    watching.go_on()
    assert gate.taken == []
