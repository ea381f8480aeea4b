"""Clients and a host that cost as little as can be: what is measured is the daemon.

They write frames made beforehand and look for a few bytes in what comes back.
"""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

Json = dict[str, Any]

PATIENCE = 300.0


def request(number: int, method: str, **params: object) -> bytes:
    """The frame of a request."""
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Line:
    """One connection on which lines are sent and awaited."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        self._rest = b""

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, frame: bytes) -> None:
        self.socket.sendall(frame)

    def lines(self) -> Iterator[bytes]:
        """What comes, line by line; ends with the connection."""
        while True:
            *whole, self._rest = self._rest.split(b"\n")
            yield from whole
            data = self.socket.recv(1 << 18)
            if not data:
                return
            self._rest += data

    def ask(self, frame: bytes) -> Json:
        """The result of a request; no other line may come meanwhile."""
        self.send(frame)
        answer = json.loads(next(self._one_line()))
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def _one_line(self) -> Iterator[bytes]:
        while b"\n" not in self._rest:
            data = self.socket.recv(1 << 18)
            if not data:
                raise ConnectionError("the daemon closed the connection")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        yield line


def flood(path: Path, frames: Sequence[Sequence[bytes]], deep: int) -> float:
    """Seconds until every frame of every client was answered, `deep` at once on each connection.

    AssertionError where one was refused.
    """
    with selectors.DefaultSelector() as selector:
        clients = [_Client(path, mine) for mine in frames]
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        start = perf_counter()
        for client in clients:
            client.send(deep)
        left = len(clients)
        while left:
            for key, _ in selector.select(PATIENCE):
                left -= key.data.read()
        seconds = perf_counter() - start
        for client in clients:
            client.socket.close()
    return seconds


class _Client:
    def __init__(self, path: Path, frames: Sequence[bytes]) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self._frames = frames
        self._sent = self._answered = 0

    def send(self, count: int) -> None:
        if self._sent < len(self._frames):
            self.socket.sendall(b"".join(self._frames[self._sent : self._sent + count]))
            self._sent = min(self._sent + count, len(self._frames))

    def read(self) -> int:
        """1 when this was the last answer, else 0."""
        data = self.socket.recv(1 << 18)
        assert data, "the daemon closed the connection"
        assert b'"error"' not in data, data
        answered = data.count(b"\n")
        self._answered += answered
        if self._answered == len(self._frames):
            return 1
        self.send(answered)
        return 0


class Host(Line):
    """A host of the Sessions named, or of all (`*`); `started` is when it asked for them."""

    def __init__(self, path: Path, sessions: list[str] | str) -> None:
        super().__init__(path)
        self.started = perf_counter()
        self.send(request(0, "host.attach", name="bench", sessions=sessions))

    def __enter__(self) -> Host:
        return self

    def followups(self) -> Iterator[bytes]:
        """Every follow-up's frame; each wants an answer."""
        for line in self.lines():
            if b'"session.followup"' in line[:200]:
                yield line
            else:
                assert b'"error"' not in line[:200], line

    def answer(self, line: bytes, status: bytes = b"admitted") -> None:
        """Answer the follow-up of a frame."""
        number = line[line.index(b'"id":') + 5 :].partition(b",")[0].strip()
        self.send(b'{"jsonrpc":"2.0","id":%b,"result":{"status":"%b"}}\n' % (number, status))


def occurrences(line: bytes) -> int:
    """How many reminders a follow-up's frame brings."""
    return line.count(b'"occurrence_id"')
