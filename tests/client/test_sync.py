"""The client for plain programs, over a real socket whose other end the test plays."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.client import Client, ConnectionLost, DaemonUnreachable, NoAnswer
from scheduler_daemon.errors import NotFuture, PermissionDenied, ReminderNotFound
from scheduler_daemon.wire.frames import INVALID_REQUEST, METHOD_NOT_FOUND, WireError
from tests.client.methods import METHODS
from tests.client.scripted import Peer, scripted
from tests.support.fresh import unmeasured


@pytest.mark.parametrize(("call", "method", "params"), METHODS)
def test_a_method_sends_what_was_given_and_returns_the_result_unchanged(
    path: Path, call: Callable[[Client], object], method: str, params: dict[str, object]
) -> None:
    def script(peer: Peer) -> None:
        request = peer.answer({"anything": [1]})
        assert request == {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}

    with scripted(path, script), Client(path) as client:
        assert call(client) == {"anything": [1]}


def pages(peer: Peer, method: str, filters: dict[str, object]) -> None:
    """Three pages, the second of them empty."""
    cursors: list[dict[str, object]] = [{}, {"cursor": "c1"}, {"cursor": "c2"}]
    for cursor, page in zip(
        cursors,
        [
            {"items": [1, 2], "next_cursor": "c1"},
            {"items": [], "next_cursor": "c2"},
            {"items": [3]},
        ],
        strict=True,
    ):
        request = peer.answer(page)
        assert (request["method"], request["params"]) == (method, filters | cursor)


FILTERS: dict[str, Any] = {
    "state": "paused",
    "kind": "daily",
    "due_before": "2027-01-01T00:00:00Z",
    "text": "build",
}


def test_what_gives_all_goes_on_to_the_page_without_a_cursor(path: Path) -> None:
    def script(peer: Peer) -> None:
        pages(peer, "reminder.list", {"session_id": "s1", "status": "ended"})
        pages(peer, "reminder.list", FILTERS)
        pages(peer, "reminder.history", {"session_id": "s1"})
        pages(peer, "session.list", {"owner_uid": "*"})

    with scripted(path, script), Client(path) as client:
        found: list[Any] = list(client.reminders("s1", status="ended"))
        assert found == [1, 2, 3]
        found = list(client.reminders(**FILTERS))
        assert found == [1, 2, 3]
        found = list(client.dispatches(session_id="s1"))
        assert found == [1, 2, 3]
        found = list(client.sessions(owner_uid="*"))
        assert found == [1, 2, 3]


def test_a_refusal_is_raised_as_what_it_is_and_the_connection_goes_on(path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.refuse("not_future", "too early", field="at", now="2026-08-07T01:00:00.000Z")
        peer.refuse("reminder_not_found", "no such reminder")

    with scripted(path, script), Client(path) as client:
        with pytest.raises(NotFuture, match="too early") as caught:
            client.create("s1", "p", at="2020-01-01T00:00:00Z")
        assert caught.value.field == "at"
        assert caught.value.data == {"now": "2026-08-07T01:00:00.000Z"}
        with pytest.raises(ReminderNotFound):
            client.get("r1")


def test_notifications_and_answers_to_nothing_are_passed_over(path: Path) -> None:
    def script(peer: Peer) -> None:
        request = peer.read()
        peer.write({"jsonrpc": "2.0", "method": "reminder.changed", "params": {}})
        peer.write({"jsonrpc": "2.0", "id": 99, "result": "not this"})
        peer.write({"jsonrpc": "2.0", "id": request["id"], "result": "this", "unknown": 1})

    with scripted(path, script), Client(path) as client:
        assert client.call("hello") == "this"


def test_a_request_of_the_daemon_is_answered_that_there_is_no_such_method(path: Path) -> None:
    def script(peer: Peer) -> None:
        request = peer.read()
        peer.write({"jsonrpc": "2.0", "id": "d1", "method": "session.followup"})
        refusal = peer.read()
        assert (refusal["id"], refusal["error"]["code"]) == ("d1", METHOD_NOT_FOUND)
        peer.write({"jsonrpc": "2.0", "id": request["id"], "result": 1})

    with scripted(path, script), Client(path) as client:
        assert client.call("hello") == 1


def test_nobody_there_is_unreachable_and_nothing_happened(path: Path) -> None:
    with pytest.raises(DaemonUnreachable) as caught:
        Client(path).status()
    assert not isinstance(caught.value, ConnectionLost)


def test_a_connection_that_ends_before_the_answer_is_lost_and_the_next_call_connects_again(
    path: Path,
) -> None:
    with scripted(path, Peer.read, lambda peer: peer.answer(1)), Client(path) as client:
        with pytest.raises(ConnectionLost, match="whether the call took effect is unknown"):
            client.call("reminder.delete")
        assert client.call("hello") == 1


def test_a_lost_call_that_only_reads_has_no_effect_to_doubt(path: Path) -> None:
    with (
        scripted(path, Peer.read),
        Client(path) as client,
        pytest.raises(ConnectionLost, match=r"before it answered$"),
    ):
        client.call("reminder.list")


def test_a_connection_reset_with_the_answer_unsent_is_lost(path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.sock.recv(10)  # closing with bytes unread resets

    with scripted(path, script), Client(path) as client, pytest.raises(ConnectionLost):
        client.call("hello", {"much": "x" * 1000})


def test_a_daemon_that_restarted_between_two_calls_is_not_noticed(path: Path) -> None:
    with scripted(path, lambda peer: peer.answer(1)), Client(path) as client:
        assert client.call("hello") == 1
    with scripted(path, lambda peer: peer.answer(2)), client:
        assert client.call("hello") == 2


def test_an_open_connection_is_used_again(path: Path) -> None:
    def script(peer: Peer) -> None:
        assert [peer.answer(n)["id"] for n in (1, 2)] == [1, 2]

    with scripted(path, script), Client(path) as client:
        assert [client.call("hello"), client.call("hello")] == [1, 2]


def test_silence_ends_a_call_and_its_late_answer_reaches_no_other(path: Path) -> None:
    def silent(peer: Peer) -> None:
        peer.read()
        assert peer.read() is None  # the client hangs up, so that nothing late can come

    with (
        scripted(path, silent, lambda peer: peer.answer("fresh")),
        Client(path, timeout=0.01) as client,
    ):
        with pytest.raises(NoAnswer, match=r"in time$") as caught:
            client.call("hello")
        assert isinstance(caught.value, TimeoutError)
        client.close()
        client._timeout = None
        assert client.call("hello") == "fresh"


def test_a_daemon_that_reads_nothing_ends_a_call_too(path: Path) -> None:
    def script(peer: Peer) -> None:
        waited.wait(10)

    waited = threading.Event()
    with scripted(path, script), Client(path, timeout=0.01) as client:
        with pytest.raises(NoAnswer):
            client.call("hello", {"much": "x" * (1 << 22)})
        waited.set()


def test_a_daemon_whose_queue_is_full_takes_no_call(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(path))
        listener.listen(0)
        first.connect(str(path))
        with pytest.raises(DaemonUnreachable, match="queue is full"):
            Client(path, timeout=0.001).status()


def test_what_the_daemon_says_before_it_hangs_up_is_heard(path: Path) -> None:
    """A peer that may not connect gets one frame, id null, and is closed without being read."""

    def script(peer: Peer) -> None:
        body = {
            "code": -32000,
            "message": "join `scheduler`",
            "data": {"code": "permission_denied"},
        }
        peer.write({"jsonrpc": "2.0", "id": None, "error": body})

    with scripted(path, script), Client(path) as client:
        with pytest.raises(PermissionDenied, match="join"):
            client.call("hello", {"much": "x" * (1 << 22)})
        assert client._connection is not None
        assert client._connection.ended()


def test_a_frame_that_is_too_long_for_the_daemon_is_refused_by_it(path: Path) -> None:
    def script(peer: Peer) -> None:
        peer.sock.recv(1 << 16)
        body = {"code": INVALID_REQUEST, "message": "too long", "data": {"code": "invalid_request"}}
        peer.write({"jsonrpc": "2.0", "id": None, "error": body})

    with (
        scripted(path, script),
        Client(path) as client,
        pytest.raises(WireError, match="too long"),
    ):
        client.call("hello", {"much": "x" * (1 << 22)})


@pytest.mark.parametrize("line", [b"SSH-2.0-OpenSSH_9.2\n", b'{"jsonrpc":"2.0","id":1}\n', b"[]\n"])
def test_something_else_on_the_socket_is_named_as_that(path: Path, line: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.read()
        peer.sock.sendall(line)

    with (
        scripted(path, script),
        Client(path) as client,
        pytest.raises(ConnectionLost, match="does not speak this protocol"),
    ):
        client.call("hello")


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_is_more_than_nothing(timeout: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Client(timeout=timeout)


@pytest.mark.parametrize("timeout", [None, 1e300, float("inf")])
def test_a_call_may_wait_for_ever(path: Path, timeout: float | None) -> None:
    with scripted(path, lambda peer: peer.answer(1)), Client(path, timeout=timeout) as client:
        assert client.call("hello") == 1


def test_what_is_no_json_is_not_sent(path: Path) -> None:
    def script(peer: Peer) -> None:
        assert peer.read() is None

    with (
        scripted(path, script),
        Client(path) as client,
        pytest.raises(ValueError, match="JSON"),
    ):
        client.call("hello", {"n": float("nan")})


def test_importing_the_client_imports_nothing_heavy() -> None:
    code = "import sys; from scheduler_daemon.client import Client; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=unmeasured()
    )
    heavy = {"asyncio", "pydantic", "structlog", "aiosqlite", "dataclasses", "inspect", "pathlib"}
    heavy |= {"logging", "threading", "scheduler_daemon.wire.shapes", "scheduler_daemon.wire.calls"}
    assert not heavy & set(run.stdout.split())


def test_the_rest_of_the_package_is_imported_when_asked_for() -> None:
    import scheduler_daemon.client as package

    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    missing: Any = "missing"
    with pytest.raises(AttributeError, match="missing"):
        getattr(package, missing)
