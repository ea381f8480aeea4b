"""What is sent to an opencode server, and what its answers mean."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.exec_host import keeper, opencode
from scheduler_daemon.exec_host.runs import Order, Report, Runs

TEXT = 'say "hello"\n$(x) \u202e'


class Server:
    """Answers with `status`, or hangs up where it is None, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status: int | None = 204
        self.asked: list[tuple[str, str | None, Any]] = []
        self.url = ""


@pytest.fixture
def server() -> Iterator[Server]:
    seen = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.asked.append((self.path, self.headers["authorization"], json.loads(body)))
            if seen.status is not None:
                self.send_response(seen.status)
                self.send_header("content-length", "4")
                self.end_headers()
                self.wfile.write(b"said")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's
            """Say nothing."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    seen.url = f"http://127.0.0.1:{listener.server_port}"
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
    thread.start()
    yield seen
    listener.shutdown()
    thread.join()
    listener.server_close()


def test_the_session_gets_the_text_as_it_is_in_its_directory(server: Server) -> None:
    assert opencode.send(server.url, "ses_1", "/a b/ä", TEXT) == Report("done")
    (path, authorization, body) = server.asked[0]
    assert path == "/session/ses_1/prompt_async?directory=/a%20b/%C3%A4"
    assert body == {"parts": [{"type": "text", "text": TEXT}]}
    assert authorization is None


@pytest.mark.parametrize(("user", "shown"), [(None, "opencode"), ("ana", "ana")])
def test_the_password_is_that_of_opencodes_own_variables(
    server: Server, monkeypatch: pytest.MonkeyPatch, user: str | None, shown: str
) -> None:
    monkeypatch.setenv("OPENCODE_SERVER_PASSWORD", "sesame")
    if user is not None:
        monkeypatch.setenv("OPENCODE_SERVER_USERNAME", user)
    opencode.send(server.url + "/", "ses_1", "/", TEXT)
    word = base64.b64encode(f"{shown}:sesame".encode()).decode()
    assert server.asked[0][1] == f"Basic {word}"


@pytest.mark.parametrize(
    ("status", "outcome"), [(200, "done"), (404, "unknown"), (401, "failed"), (500, "failed")]
)
def test_what_the_answer_means(server: Server, status: int, outcome: str) -> None:
    server.status = status
    report = opencode.send(server.url, "ses_1", "/", TEXT)
    assert report is not None
    assert report.outcome == outcome
    if outcome != "done":
        assert report.reason == f"{server.url} answered {status} said"


def test_a_server_that_takes_it_and_says_nothing_leaves_it_uncertain(server: Server) -> None:
    server.status = None
    report = opencode.send(server.url, "ses_1", "/", TEXT)
    assert report is not None
    assert report.outcome == "uncertain"
    assert len(server.asked) == 1


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def attempt(tmp_path: Path, url: str) -> Report:
    """An attempt with a server, and a command that would leave a file."""
    order = Order(
        session="ses_1",
        directory=str(tmp_path),
        allowed=[str(tmp_path)],
        timeout=60,
        command=["touch", str(tmp_path / "ran")],
        busy=[],
        unknown=[],
        when_busy=[],
        server=url,
    )
    run = Runs(tmp_path / "runs").of("f1", 1)
    os.close(run.prepare(order, {}, TEXT))
    return keeper.carry_out(run)


def test_a_server_that_listens_makes_the_command_needless(server: Server, tmp_path: Path) -> None:
    assert attempt(tmp_path, server.url) == Report("done")
    assert not (tmp_path / "ran").exists()
    assert len(server.asked) == 1


def test_where_no_server_listens_the_command_does_it(tmp_path: Path) -> None:
    assert attempt(tmp_path, f"http://127.0.0.1:{free_port()}") == Report("done")
    assert (tmp_path / "ran").exists()
