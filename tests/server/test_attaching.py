"""A connection that is a host: what it may attach, and what it is sent when."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.hosts import lines
from scheduler_daemon.settings import MIB
from tests.support.inprocess import Json, Peer, Running, request, running


async def overdue(on: Running, peer: Peer, *sessions: str) -> None:
    for session in sessions:
        await peer.create(session, after_seconds=60)
    on.clock.advance(60)


async def test_the_attach_is_answered_before_any_followup(on: Running, peer: Peer) -> None:
    await overdue(on, peer, *"abcdefgh")
    for sessions in (list("abcd"), "*"):
        host = await on.peer()
        host.write(request(1, "host.attach", name="h", sessions=sessions))
        frames = [await host.read() for _ in range(5)]
        assert "result" in frames[0]
        assert {frame["method"] for frame in frames[1:]} == {"session.followup"}
        await host.close()


async def test_attach_and_detach_give_the_sessions_as_now_attached(peer: Peer) -> None:
    async def attached(method: str, sessions: object, **more: object) -> object:
        return (await peer.call(method, sessions=sessions, **more))["sessions"]

    assert await attached("host.attach", ["b", "a", "b"], name="h") == ["a", "b"]
    assert await attached("host.attach", ["c"], name="h") == ["a", "b", "c"]
    assert await attached("host.detach", ["a", "x"]) == ["b", "c"]
    assert await attached("host.attach", "*", name="h") == "*"
    assert await attached("host.detach", "*") == []
    assert await attached("host.attach", [], name="h") == []


async def test_one_who_attached_nothing_may_detach(peer: Peer) -> None:
    assert await peer.call("host.detach", sessions=["s"]) == {"sessions": []}


async def test_the_log_names_a_host_as_it_attaches(peer: Peer) -> None:
    with capture_logs() as logs:
        await peer.call("host.attach", name="one", sessions=["s"])
        await peer.call("host.attach", name="one", sessions=["s"])  # nothing new: no second line
        await peer.call("host.attach", name="two", sessions="*")
    told = [line["host"] for line in logs if line["event"] == "host_attached"]
    assert told == ["one", "two"]


async def shown(peer: Peer) -> Json:
    (host,) = (await peer.call("daemon.status"))["hosts"]
    return {name: host[name] for name in ("name", "max_in_flight")}


async def test_the_last_name_and_number_of_a_host_count(peer: Peer) -> None:
    await peer.call("host.attach", name="one", sessions=["s"], max_in_flight=3)
    assert await shown(peer) == {"name": "one", "max_in_flight": 3}
    await peer.call("host.attach", name="two", sessions=["t"])
    assert await shown(peer) == {"name": "two", "max_in_flight": 3}


async def test_the_names_of_one_connection_must_fit_a_frame(on: Running, peer: Peer) -> None:
    """Or the answer would not; what was attached before stays, and nothing is changed."""
    names = [f"{number:04}" + "\N{GRINNING FACE}" * 196 for number in range(1600)]
    for first in (0, 400, 800):
        await peer.call("host.attach", name="h", sessions=names[first : first + 400])
    error = await peer.refused("host.attach", name="new", sessions=names[1200:])
    assert error["data"] == {"code": "limit_reached", "field": "sessions"}
    assert await shown(peer) == {"name": "h", "max_in_flight": 16}


async def test_one_connection_names_only_so_many_sessions(on: Running, peer: Peer) -> None:
    names = [str(number) for number in range(2000)]
    assert len((await peer.call("host.attach", name="h", sessions=names))["sessions"]) == 2000
    await peer.call("host.attach", name="h", sessions=names[:10])  # again: no more than before
    error = await peer.refused("host.attach", name="new", sessions=["one"])
    assert error["data"] == {"code": "limit_reached", "field": "sessions"}
    error = await peer.refused("host.attach", name="new", sessions=[*names, "one"])
    assert error["data"] == {"code": "invalid_request", "field": "sessions"}
    assert await shown(peer) == {"name": "h", "max_in_flight": 16}
    assert (await peer.call("host.attach", name="h", sessions="*"))["sessions"] == "*"


async def test_all_connections_of_a_user_name_only_so_many_sessions(
    on: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_NAMES_OF_OWNER", 10)
    one, other = await on.peer(), await on.peer()
    await one.call("host.attach", name="h", sessions=[f"a{number}" for number in range(6)])
    names = [f"b{number}" for number in range(5)]
    error = await other.refused("host.attach", name="h", sessions=names)
    assert error["data"] == {"code": "limit_reached", "field": "sessions"}
    assert len((await other.call("host.attach", name="h", sessions=names[:4]))["sessions"]) == 4
    await one.call("host.detach", sessions=["a0", "a1", "none"])
    assert len((await other.call("host.attach", name="h", sessions=names))["sessions"]) == 5
    await one.close()
    more = [f"c{number}" for number in range(5)]
    while "error" in await other.ask("host.attach", name="h", sessions=more):
        pass


async def test_a_followup_goes_out_and_its_admission_comes_in(on: Running, peer: Peer) -> None:
    await peer.call("host.attach", name="h", sessions=["s"])
    await overdue(on, peer, "s")
    followup = await peer.followup()
    assert followup["id"] == followup["params"]["followup_id"]
    peer.admit(followup)
    while not (await peer.call("reminder.history", id="r1"))["items"]:
        pass


async def test_a_host_that_reads_slower_than_messages_are_made_gets_them_all(
    folder: Path,
) -> None:
    """Six messages of nearly 1 MiB and a page, where no more than 2 MiB are kept for a peer."""
    async with running(folder, max_write_buffer_bytes=2 * MIB) as on:
        maker = await on.peer()
        for session in "abcdef":
            for _ in range(4):
                await maker.create(session, "\N{GRINNING FACE}" * 32_000, every_seconds=300)
        on.clock.advance(300)
        host = await on.peer()
        host.write(request(1, "host.attach", name="h", sessions="*"), request(2, "reminder.list"))
        sessions: list[str] = []
        while len(sessions) < 6:
            frame = await host.read()
            if "method" in frame:
                sessions.append(frame["params"]["session_id"])
        assert sorted(sessions) == list("abcdef")  # all are in flight: none is answered


async def test_requests_go_on_while_messages_are_prepared(on: Running, peer: Peer) -> None:
    """However many: what waits for room is started when there is some."""
    sessions = [str(number) for number in range(40)]
    await overdue(on, peer, *sessions)
    host = await on.peer()
    host.write(request(0, "host.attach", name="h", sessions="*", max_in_flight=100))
    host.write(*(request(number, "reminder.list", limit=1) for number in range(1, 30)))
    frames = [await host.read() for _ in range(70)]
    assert sum("method" in frame for frame in frames) == 40


async def test_an_error_answer_means_not_admitted(on: Running, peer: Peer) -> None:
    await peer.call("host.attach", name="h", sessions=["s"])
    await overdue(on, peer, "s")
    followup = await peer.followup()
    peer.write(
        {"jsonrpc": "2.0", "id": followup["id"], "error": {"code": -32601, "message": "what?"}}
    )
    while (waiting := (await peer.call("reminder.get", id="r1"))["reminder"]["waiting_for"])[
        "why"
    ] == "in_flight":
        pass
    assert waiting["why"] == "refused"
    assert "what?" in waiting["last_error"]


async def test_closing_ends_attachments(on: Running, peer: Peer) -> None:
    host = await on.peer()
    await host.call("host.attach", name="h", sessions=["s"])
    assert (await peer.call("daemon.status"))["hosts"]
    await host.close()
    async with asyncio.timeout(30):
        while (await peer.call("daemon.status"))["hosts"]:
            pass


async def test_a_host_speaks_for_sessions_of_its_own_uid_only(on: Running, peer: Peer) -> None:
    """`owner_uid` is no member of any method of hosts, not even for admins."""
    for method in ("host.attach", "host.detach"):
        error = await peer.refused(method, sessions=["s"], owner_uid=0)
        assert error["data"] == {"code": "invalid_request", "field": "owner_uid"}
