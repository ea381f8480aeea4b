"""Which socket is taken, and what is said when none answers."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_daemon.client import DaemonUnreachable, finding
from scheduler_daemon.client.finding import answering, candidates, connect

SYSTEM = "/run/scheduler-daemon/scheduler.sock"


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch, short_path: Path) -> None:
    monkeypatch.delenv("SCHEDULER_DAEMON_SOCKET", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("HOME", str(short_path))
    # The places of whoever runs the tests, and of the machine, must not matter.
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)


@pytest.fixture
def listener(short_path: Path) -> Iterator[socket.socket]:
    """Somebody who listens in the last of the user's three places."""
    yield from _listening(short_path / ".local/state/scheduler-daemon")


@pytest.fixture
def runtime_listener(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Somebody who listens in the first of them."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_path / "runtime"))
    yield from _listening(short_path / "runtime/scheduler-daemon")


def _listening(folder: Path) -> Iterator[socket.socket]:
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(folder / "scheduler.sock"))
        sock.listen()
        yield sock


def test_the_places_are_the_user_s_own_first_and_the_system_s_last(
    monkeypatch: pytest.MonkeyPatch, short_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/xdg")
    assert candidates() == [
        "/xdg/scheduler-daemon/scheduler.sock",
        "/run/user/4000000/scheduler-daemon/scheduler.sock",
        f"{short_path}/.local/state/scheduler-daemon/scheduler.sock",
        SYSTEM,
    ]


@pytest.mark.parametrize("runtime", ["", "relative", "/run/user/4000000", "/run/user/4000000/"])
def test_a_place_is_tried_once_and_a_relative_one_never(
    monkeypatch: pytest.MonkeyPatch, runtime: str
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    assert len(candidates()) == 3
    assert candidates()[-1] == SYSTEM


def test_a_socket_that_is_named_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULER_DAEMON_SOCKET", "/from/environment")
    assert candidates() == ["/from/environment"]
    assert candidates(Path("/given")) == ["/given"]


def test_an_empty_environment_variable_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEDULER_DAEMON_SOCKET", "")
    assert candidates()[-1] == SYSTEM


def test_the_first_that_exists_is_taken(
    listener: socket.socket, runtime_listener: socket.socket
) -> None:
    with connect(None, None) as sock:
        assert sock.getpeername() == runtime_listener.getsockname()
    runtime_path = Path(runtime_listener.getsockname())
    runtime_path.unlink()
    with connect(None, 5.0) as sock:
        assert sock.getpeername() == listener.getsockname()


def test_one_that_exists_and_does_not_answer_is_not_passed_over(
    listener: socket.socket, runtime_listener: socket.socket
) -> None:
    """Else a reminder would land in another daemon while one's own restarts."""
    runtime_listener.close()
    with pytest.raises(DaemonUnreachable, match=r"runtime/.*nobody listens on it\)\. Start") as it:
        connect(None, 5.0)
    assert len(it.value.tried) == 1


def test_nobody_at_all_says_where_it_looked_and_what_to_do() -> None:
    if Path(SYSTEM).exists():
        pytest.skip("this machine runs a daemon")
    with pytest.raises(DaemonUnreachable, match="scheduler-daemon run") as caught:
        connect(None, 5.0)
    assert caught.value.tried == tuple(candidates())
    for path in candidates():
        assert f"{path} (does not exist)" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/" + "x" * 200, "no socket can"), ("/\ud800", "no socket can"), ("/dev/null/x", "exist")],
)
def test_a_path_that_can_be_no_socket_is_unreachable_too(path: str, reason: str) -> None:
    with pytest.raises(DaemonUnreachable, match=reason):
        connect(path, 5.0)


def test_a_regular_file_is_unreachable(path: Path) -> None:
    path.touch()
    with pytest.raises(DaemonUnreachable, match="nobody listens"):
        connect(path, 5.0)


def test_a_queue_that_stays_full_ends_the_wait(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen(0)
        with connect(path, 0):
            for timeout in (0.0, 0.001):
                with pytest.raises(BlockingIOError):
                    connect(path, timeout)


def test_every_daemon_that_answers_is_named(
    listener: socket.socket, runtime_listener: socket.socket
) -> None:
    both = [runtime_listener.getsockname(), listener.getsockname()]
    assert answering()[:2] == both
    assert answering(both[1]) == both[1:]
    runtime_listener.close()
    assert answering()[:1] == both[1:]


def test_a_place_too_long_for_a_socket_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, listener: socket.socket
) -> None:
    """No daemon can listen there, so the one that does is still to be found."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "x" * 200)
    with connect(None, 5.0) as sock:
        assert sock.getpeername() == listener.getsockname()


def test_a_socket_closed_to_this_user_does_not_ask_for_a_second_daemon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deny(path: str, timeout: float | None) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(finding, "_connected", deny)
    with pytest.raises(DaemonUnreachable, match="this user may not open it") as caught:
        connect("/closed", 5.0)
    assert "scheduler-daemon run" not in str(caught.value)
