"""A daemon of a few lines on a real Unix socket: it answers as a test says, and remembers."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from scheduler_daemon.errors import SchedulerError
from scheduler_daemon.wire.frames import encode
from scheduler_daemon.wire.messages import Error, Request, Result, error, parse, request, result

Answer: TypeAlias = Callable[[dict[str, Any]], object]


class ScriptedDaemon:
    """`answers` maps a method to what it answers, from the params; a SchedulerError refuses.

    A ConnectionAbortedError there closes the connection without an answer.
    `calls` are the requests so far. After `host.attach` each of `followups` is pushed, what the
    host answers goes to `admissions`, its errors to `refusals`, and once all are admitted the
    connection is closed. After `daemon.watch` the notifications of `changes` are sent and the
    connection is closed, unless the watch `goes_on`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, Answer] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.followups: list[dict[str, object]] = []
        self.admissions: list[object] = []
        self.refusals: list[object] = []
        self.changes: list[dict[str, object]] = []
        self.goes_on = False

    def params_of(self, method: str) -> list[dict[str, Any]]:
        return [params for called, params in self.calls if called == method]

    def answer(self, message: Request) -> dict[str, object]:
        self.calls.append((message.method, message.params))
        try:
            return result(message.id, self.answers[message.method](message.params))
        except SchedulerError as refusal:
            return error(message.id, refusal)


@contextmanager
def serve(path: Path) -> Iterator[ScriptedDaemon]:
    """A ScriptedDaemon that listens on `path`."""
    daemon = ScriptedDaemon(path)

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                message = parse(line)
                if isinstance(message, Error):
                    daemon.refusals.append(message.error)
                if isinstance(message, Result):
                    daemon.admissions.append(message.value)
                    if len(daemon.admissions) == len(daemon.followups):
                        return
                if not isinstance(message, Request):
                    continue
                try:
                    answer = daemon.answer(message)
                except ConnectionAbortedError:
                    return
                self.wfile.write(encode(answer))
                if message.method == "daemon.watch" and "result" in answer:
                    self.wfile.write(b"".join(map(encode, daemon.changes)))
                    if not daemon.goes_on:
                        return
                if message.method == "host.attach" and "result" in answer:
                    for number, followup in enumerate(daemon.followups):
                        push = request(f"push-{number}", "session.followup", followup)
                        self.wfile.write(encode(push))

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

    path.parent.mkdir(parents=True, exist_ok=True)
    with Server(str(path), Connection) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield daemon
        finally:
            server.shutdown()
            thread.join()
