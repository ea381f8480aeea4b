"""How connections end: by the peer, by what it does not read, by what it sends, by the daemon."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.server import farewell
from scheduler_daemon.settings import MIB
from scheduler_daemon.wire.frames import MAX_FRAME_BYTES
from tests.support.inprocess import (
    DEADLINE_SECONDS,
    Blocked,
    Json,
    Peer,
    Running,
    line,
    refuses,
    request,
    running,
    until,
)

LISTS = [request(number, "reminder.list") for number in range(12)]


@contextmanager
def deaf(path: Path) -> Iterator[socket.socket]:
    """A peer that reads only what a test reads for it."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
        sock.setblocking(False)
        yield sock


def rest_of(sock: socket.socket) -> bytes:
    """Everything that the kernel holds for a peer whose connection has ended."""
    taken = b""
    try:
        while piece := sock.recv(MIB):
            taken += piece
    except ConnectionResetError:
        pass
    return taken


def worries(logs: Sequence[Mapping[str, object]]) -> list[object]:
    """What was logged as a warning or worse."""
    return [e.get("why", e["event"]) for e in logs if e["log_level"] not in ("debug", "info")]


async def fill(on: Running, reminders: int = 8) -> None:
    """Reminders whose list is nearly as long as a frame."""
    peer = await on.peer()
    for _ in range(reminders):
        await peer.create(prompt="\N{GRINNING FACE}" * 32_000)


async def one_left(on: Running) -> None:
    """Until only this new connection is open, as far as limits count them."""
    async with asyncio.timeout(30):
        while True:
            peer = await Peer.connect(on.path)
            peer.write(request(1, "hello"))
            frame = await peer.read()
            await peer.close()
            if "result" in frame:
                return


async def test_one_who_half_closes_still_gets_every_answer_and_then_the_end(peer: Peer) -> None:
    creates = [
        request(number, "reminder.create", session_id="s", prompt="p", after_seconds=60)
        for number in range(10)
    ]
    peer.write(*creates, *LISTS)
    peer.half_close()
    frames = await peer.read_until_end()
    assert len(frames) == 22
    assert all("result" in frame for frame in frames)


async def test_one_who_half_closes_without_a_word_is_let_go(peer: Peer) -> None:
    peer.half_close()
    assert await peer.read_until_end() == []


async def test_half_closing_ends_attachments_at_once(on: Running, peer: Peer) -> None:
    """The message in flight goes to the next in line, though answers are still to come."""
    other = await on.peer()
    await other.call("host.attach", name="next", sessions=["s"])
    await peer.call("host.attach", name="first", sessions=["s"])
    await other.create("s", after_seconds=60)
    on.clock.advance(60)
    await peer.followup()
    with Blocked(on.database):
        peer.write(request(1, "reminder.create", session_id="t", prompt="p", after_seconds=60))
        peer.half_close()
        again = await other.followup()
        assert again["params"]["attempt"] == 2
        hosts = (await other.call("daemon.status"))["hosts"]
        assert [host["name"] for host in hosts] == ["next"]
    assert [frame["id"] for frame in await peer.read_until_end()] == [1]


async def test_attaching_and_half_closing_at_once_attaches_nothing(on: Running, peer: Peer) -> None:
    peer.write(
        request(1, "reminder.list"),
        request(2, "host.attach", name="h", sessions=["s"]),
        request(3, "host.detach", sessions="*"),
    )
    peer.half_close()
    frames = await peer.read_until_end()
    assert [frame["result"] for frame in frames[1:]] == [{"sessions": []}] * 2
    assert (await (await on.peer()).call("daemon.status"))["hosts"] == []


async def test_an_admission_sent_before_half_closing_counts(on: Running, peer: Peer) -> None:
    await peer.call("host.attach", name="h", sessions=["s"])
    await peer.create("s", after_seconds=60)
    on.clock.advance(60)
    peer.admit(await peer.followup())
    peer.half_close()
    await peer.read_until_end()
    other = await on.peer()
    async with asyncio.timeout(DEADLINE_SECONDS):
        while (await other.call("reminder.get", id="r1"))["reminder"]["status"] == "active":
            pass


async def test_one_who_closes_while_it_is_answered_does_no_harm(folder: Path) -> None:
    async with running(folder, max_connections_per_uid=1) as on:
        with capture_logs() as logs:
            for _ in range(20):
                peer = await Peer.connect(on.path)
                peer.write(*LISTS, request(99, "host.attach", name="h", sessions=["s"]))
                await peer.close()
                await one_left(on)
        assert worries(logs) == []


async def test_a_connection_counts_until_nothing_of_it_is_carried_out_any_more(
    folder: Path,
) -> None:
    """Or one who connects again and again could have any number of requests carried out."""
    async with running(folder, max_connections_per_uid=1) as on:
        with Blocked(on.database), deaf(on.path) as sock:
            sock.send(line(request(1, "reminder.create", session_id="s", prompt="p", at="x")))
            sock.send(
                line(request(2, "reminder.create", session_id="s", prompt="p", after_seconds=9))
            )
            await asyncio.get_running_loop().sock_recv(sock, 1)  # both were begun
            sock.close()
            other = await on.peer()
            with pytest.raises(AssertionError, match="overloaded"):
                await other.call("hello")
        await one_left(on)


async def test_one_who_leaves_too_much_unread_is_dropped_and_holds_up_nobody(
    folder: Path,
) -> None:
    async with running(folder, max_write_buffer_bytes=MIB) as on:
        with deaf(on.path) as sock, capture_logs() as logs:
            flood = asyncio.create_task(send_all(sock, b"".join(map(line, LISTS)) * 2000))
            other = await on.peer()
            while not flood.done():
                await other.call("hello")
            assert isinstance(flood.exception(), ConnectionError)
            assert len(rest_of(sock)) < MIB
        assert worries(logs) == ["left too much unread"]


async def send_all(sock: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(sock, data)


async def test_one_who_reads_slower_than_answers_are_made_gets_them_all(folder: Path) -> None:
    """Twelve pages of nearly 1 MiB, where no more than 1 MiB is kept for a peer."""
    async with running(folder, max_write_buffer_bytes=MIB) as on:
        await fill(on)
        peer = await on.peer()
        peer.write(*LISTS)
        frames = [await peer.read() for _ in LISTS]
        assert {frame["id"] for frame in frames} == set(range(12))


async def stuck(on: Running) -> socket.socket:
    """A peer that has asked for more than the kernel holds, and has read nothing."""
    await fill(on)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(on.path))
    sock.setblocking(False)
    sock.send(line(LISTS[0]))
    before = on.clock.pending_calls
    await until(lambda: on.clock.pending_calls > before)
    return sock


async def test_one_who_takes_nothing_for_write_timeout_seconds_is_dropped(on: Running) -> None:
    with await stuck(on) as sock, capture_logs() as logs:
        on.clock.advance(29.9)
        assert logs == []
        on.clock.advance(0.1)
        assert worries(logs) == ["took nothing for too long"]
        await (await on.peer()).call("hello")
        assert len(rest_of(sock)) < 512 * 1024


async def test_one_who_takes_a_little_in_that_time_stays(on: Running) -> None:
    """Also when more is waiting for it at the end of the time than at its beginning."""
    with await stuck(on) as sock, capture_logs() as logs:
        for _ in range(3):
            assert sock.recv(70_000)
            sock.send(line(request(1, "no.such")))
            await (await on.peer()).call("hello")
            on.clock.advance(30)
        assert worries(logs) == []
        on.clock.advance(30)
        assert worries(logs) == ["took nothing for too long"]


async def test_one_who_half_closes_and_does_not_read_is_dropped_too(on: Running) -> None:
    with await stuck(on) as sock:
        sock.shutdown(socket.SHUT_WR)
        await (await on.peer()).call("hello")
        on.clock.advance(30)
        await (await on.peer()).call("hello")
        assert b"\n" not in rest_of(sock)


async def test_one_who_half_closes_and_reads_late_gets_all(on: Running) -> None:
    with await stuck(on) as sock:
        sock.shutdown(socket.SHUT_WR)
        peer = await Peer.over(sock)
        (frame,) = await peer.read_until_end()
        assert len(frame["result"]["items"]) == 8
        await peer.close()


def send_then_read(path: Path, data: bytes) -> list[bytes]:
    """What most clients do: they look at answers when they have sent everything."""
    with socket.socket(socket.AF_UNIX) as sock, sock.makefile("rb") as lines:
        sock.connect(str(path))
        sock.sendall(data)
        return list(lines)


async def test_one_who_goes_on_sending_after_a_frame_too_long_still_learns_of_it(
    on: Running,
) -> None:
    frame_and_more = b"[" * (6 * MAX_FRAME_BYTES)
    (refusal,) = await asyncio.to_thread(send_then_read, on.path, frame_and_more)
    assert b"at most 1048576 bytes" in refusal


async def test_one_who_never_ends_sending_is_cut_off(on: Running, peer: Peer) -> None:
    flood = b"[" * (farewell.MAX_TAKEN + 4 * MAX_FRAME_BYTES)
    with pytest.raises(ConnectionError):
        await asyncio.to_thread(send_then_read, on.path, flood)
    await peer.call("hello")


async def test_one_who_neither_reads_nor_ends_after_a_frame_too_long_is_cut_off_in_time(
    folder: Path,
) -> None:
    async with running(folder, max_connections_per_uid=1) as on:
        with deaf(on.path) as sock:
            asked = asyncio.create_task(send_all(sock, b"[" * (MAX_FRAME_BYTES + 1)))
            await asked
            await until(lambda: on.clock.pending_calls > 0)
            on.clock.advance(30)
            await one_left(on)


async def test_a_defect_answers_internal_error_and_the_connection_goes_on(
    on: Running, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the traceback, the answer nothing of it."""

    async def broken(*_: object) -> Json:
        raise ZeroDivisionError("/secret/path")

    monkeypatch.setattr("scheduler_daemon.service.Service.get", broken)
    with capture_logs() as logs:
        error = await peer.refused("reminder.get", id="r1")
    assert error["code"] == -32000
    assert error["data"] == {"code": "internal_error"}
    assert "/secret" not in error["message"]
    (entry,) = logs
    assert entry["event"] == "request_failed"
    assert entry["method"] == "reminder.get"
    assert entry["exc_info"]
    await peer.call("hello")


async def test_an_answer_that_is_no_json_is_a_defect_like_any_other(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> Json:
        return {"reminder": object()}

    monkeypatch.setattr("scheduler_daemon.service.Service.get", broken)
    assert (await peer.refused("reminder.get", id="r1"))["data"]["code"] == "internal_error"


async def test_what_was_asked_before_the_daemon_stops_is_answered(on: Running, peer: Peer) -> None:
    with Blocked(on.database):
        peer.write(request(1, "reminder.create", session_id="s", prompt="p", after_seconds=60))
        await (await on.peer()).call("hello")
        on.daemon.stop()
        await until(lambda: refuses(on.path))
    frames = await peer.read_until_end()
    assert [frame["result"]["created"] for frame in frames] == [True]
    await on.stop()
