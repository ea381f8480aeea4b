"""What a line may be, and what comes back for one that is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.wire.frames import MAX_FRAME_BYTES
from tests.support.inprocess import Peer, Running, line, request, running

HELLO = request(1, "hello")


def padded(size: int, request_id: int = 1) -> bytes:
    """A good request whose line has exactly so many bytes before its newline."""
    text = json.dumps(request(request_id, "hello"))
    return (text + " " * (size - len(text))).encode() + b"\n"


@pytest.mark.parametrize(
    ("text", "request_id", "code"),
    [
        ("{", None, -32700),
        ("hello", None, -32700),
        ('{"jsonrpc": "2.0", "id": 7, "method": "hello", "params": {"x": NaN}}', 7, -32700),
        ('{"jsonrpc": "2.0", "id": 7, "method": "hello", "params": {"x": 1e999}}', 7, -32600),
        ('{"jsonrpc": "2.0", "id": 7, "id": 7, "method": "hello"}', 7, -32600),
        ('{"jsonrpc": "2.0", "id": 9007199254740992, "method": "hello"}', None, -32600),
        (json.dumps([HELLO]), None, -32600),
        ("[]", None, -32600),
        ("null", None, -32600),
        ('{"id": 7, "method": "hello"}', 7, -32600),
        ('{"jsonrpc": "1.0", "id": 7, "method": "hello"}', 7, -32600),
        ('{"jsonrpc": "2.0", "id": 7}', 7, -32600),
        ('{"jsonrpc": "2.0", "id": 7, "method": 7}', 7, -32600),
        ('{"jsonrpc": "2.0", "id": 1.5, "method": "hello"}', None, -32600),
        ('{"jsonrpc": "2.0", "id": null, "method": "hello"}', None, -32600),
        ('{"jsonrpc": "2.0", "id": true, "method": "hello"}', None, -32600),
        ('{"jsonrpc": "2.0", "id": 7, "method": "reminder.postpone"}', 7, -32601),
        ('{"jsonrpc": "2.0", "id": 7, "method": "session.ready"}', 7, -32601),
        ('{"jsonrpc": "2.0", "id": 7, "method": "session.followup"}', 7, -32601),
        ('{"jsonrpc": "2.0", "id": 7, "method": "hello", "params": []}', 7, -32602),
        ('{"jsonrpc": "2.0", "id": 7, "method": "hello", "params": null}', 7, -32602),
        ('{"jsonrpc": "2.0", "id": 7, "method": "hello", "params": {"x": 1}}', 7, -32000),
    ],
)
async def test_a_line_that_is_no_good_request_is_refused_and_the_connection_goes_on(
    peer: Peer, text: str, request_id: Any, code: int
) -> None:
    peer.write(text.encode() + b"\n")
    frame = await peer.read()
    assert frame["id"] == request_id
    assert frame["error"]["code"] == code
    assert frame["error"]["data"]["code"] == "invalid_request"
    assert (await peer.call("hello"))["protocol"] == 1


async def test_a_line_that_is_not_utf_8_is_no_json(peer: Peer) -> None:
    peer.write(b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}\n')
    assert (await peer.read())["error"]["code"] == -32700
    await peer.call("hello")


async def test_blank_lines_are_passed_over(peer: Peer) -> None:
    peer.write(b"\n \t\r\n\n")
    await peer.call("hello")


async def test_an_id_comes_back_as_it_was_sent(peer: Peer) -> None:
    for request_id in (0, -5, 2**53 - 1, "", "ä\U0001f600", "7", "\ud800"):
        peer.write(request(request_id, "hello"))
        assert (await peer.read())["id"] == request_id


async def test_a_request_without_an_id_is_not_carried_out(peer: Peer) -> None:
    """Nor is it answered, whatever its method."""
    create = request(1, "reminder.create", session_id="s", prompt="p", after_seconds=60)
    del create["id"]
    peer.write(create, {"jsonrpc": "2.0", "method": "no.such"}, {"jsonrpc": "2.0", "method": "x"})
    assert await peer.call("reminder.list") == {"items": []}


@pytest.mark.parametrize(
    "frame",
    [
        {"jsonrpc": "2.0", "method": "session.ready", "params": {"session_id": "s"}},
        {"jsonrpc": "2.0", "id": 1, "result": {"status": "admitted"}},
        {"jsonrpc": "2.0", "id": "f00", "error": {"code": -1, "message": "no"}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "no"}},
    ],
)
async def test_answers_and_notifications_of_one_who_is_no_host_are_ignored(
    peer: Peer, frame: object
) -> None:
    peer.write(frame)
    await peer.call("hello")


async def test_answers_to_nothing_and_wrong_notifications_of_a_host_are_ignored(
    peer: Peer,
) -> None:
    await peer.call("host.attach", name="h", sessions=["s"])
    peer.write(
        {"jsonrpc": "2.0", "id": 1, "result": {"status": "admitted"}},
        {"jsonrpc": "2.0", "id": None, "error": {}},
        {"jsonrpc": "2.0", "id": "f00", "error": "no object"},
        {"jsonrpc": "2.0", "method": "session.ready", "params": {"session": "s"}},
        {"jsonrpc": "2.0", "method": "session.ready", "params": {"session_id": 1}},
        {"jsonrpc": "2.0", "method": "session.ready"},
        {"jsonrpc": "2.0", "method": "session.hello", "params": {}},
    )
    await peer.call("hello")


@pytest.mark.parametrize(
    "frame",
    [
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}},
        {"jsonrpc": "2.0", "result": {}},
        {"jsonrpc": "2.0", "error": {}},
        {"id": 1, "result": {}},
    ],
)
async def test_a_broken_answer_is_refused_without_an_id(peer: Peer, frame: object) -> None:
    """Ids of answers are the daemon's own: the peer would take it for one of its requests."""
    peer.write(frame)
    refusal = await peer.read()
    assert refusal["id"] is None
    assert refusal["error"]["code"] == -32600


async def test_a_frame_may_come_in_single_bytes(peer: Peer) -> None:
    for byte in line(HELLO):
        peer.write(bytes([byte]))
        await peer.writer.drain()
    assert (await peer.read())["id"] == 1


async def test_a_frame_of_exactly_the_limit_is_taken(peer: Peer) -> None:
    peer.write(padded(MAX_FRAME_BYTES))
    assert (await peer.read())["result"]["protocol"] == 1
    await peer.call("hello")


async def test_one_byte_more_gives_an_error_and_the_end(peer: Peer) -> None:
    peer.write(padded(MAX_FRAME_BYTES + 1))
    (frame,) = await peer.read_until_end()
    assert frame["id"] is None
    assert frame["error"]["code"] == -32600
    assert frame["error"]["data"] == {"code": "invalid_request"}
    assert str(MAX_FRAME_BYTES) in frame["error"]["message"]


async def test_what_came_complete_before_a_frame_too_long_is_still_answered(peer: Peer) -> None:
    """In the same bytes, and with the error after it; what comes later is not looked at."""
    create = request(1, "reminder.create", session_id="s", prompt="p", after_seconds=60)
    peer.write(create, request(2, "reminder.list"), padded(MAX_FRAME_BYTES + 1), HELLO)
    frames = await peer.read_until_end()
    assert [frame["id"] for frame in frames] == [1, 2, None]
    assert len(frames[1]["result"]["items"]) == 1


async def test_a_frame_is_too_long_before_its_newline_has_come(peer: Peer) -> None:
    peer.write(b"[" * (MAX_FRAME_BYTES + 1))
    (frame,) = await peer.read_until_end()
    assert frame["error"]["code"] == -32600


async def test_max_frame_bytes_can_be_set_higher(folder: Path) -> None:
    async with running(folder, max_frame_bytes=MAX_FRAME_BYTES + 100) as on:
        peer = await on.peer()
        peer.write(padded(MAX_FRAME_BYTES + 100))
        assert "result" in await peer.read()
        peer.write(padded(MAX_FRAME_BYTES + 101))
        assert len(await peer.read_until_end()) == 1


async def test_no_frame_of_the_daemon_is_longer_either(peer: Peer) -> None:
    """An id may be nearly as long as a frame; the answer with it is not sent, another one is."""
    for number in range(4):
        await peer.create(prompt="x" * 30_000, title=f"{number}")
    peer.write(request("i" * (MAX_FRAME_BYTES - 200), "reminder.list"))
    frame = await peer.read()
    assert frame["id"] is None
    assert "shorten the id" in frame["error"]["message"]
    await peer.call("hello")


async def test_a_long_id_of_an_unknown_method_is_answered_in_a_frame(peer: Peer) -> None:
    peer.write(request("i" * (MAX_FRAME_BYTES - 70), "no.such"))
    assert "shorten the id" in (await peer.read())["error"]["message"]


async def test_pages_are_cut_to_fit_a_frame(peer: Peer) -> None:
    for number in range(12):
        await peer.create(prompt="\N{GRINNING FACE}" * 32_000, title=f"{number}")
    peer.write(request(1, "reminder.list"))
    text = await peer.reader.readline()
    assert len(text) <= MAX_FRAME_BYTES + 1
    page = json.loads(text)["result"]
    titles = [item["title"] for item in page["items"]]
    while "next_cursor" in page:
        page = await peer.call("reminder.list", cursor=page["next_cursor"])
        titles += [item["title"] for item in page["items"]]
    assert titles == [f"{number}" for number in range(12)]


async def test_a_last_line_without_a_newline_is_not_carried_out_and_is_told_of(
    on: Running, peer: Peer
) -> None:
    """It may be the half of something else."""
    create = request(1, "reminder.create", session_id="s", prompt="p", after_seconds=60)
    peer.write(HELLO, line(create).rstrip(b"\n"))
    peer.half_close()
    frames = await peer.read_until_end()
    assert sorted(str(frame["id"]) for frame in frames) == ["1", "None"]
    (refusal,) = (frame["error"] for frame in frames if frame["id"] is None)
    assert "newline" in refusal["message"]
    assert await (await on.peer()).call("reminder.list") == {"items": []}
