"""The daemon's end of a real Unix socket, played by a test line by line."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

DEADLINE = 10.0
"""Seconds after which a test that hangs fails."""


class Peer:
    """One accepted connection, blocking."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._file = sock.makefile("rb")

    def read(self) -> Any:
        """The next message, None at the end."""
        line = self._file.readline()
        return json.loads(line) if line else None

    def write(self, message: object) -> None:
        self.sock.sendall(json.dumps(message).encode() + b"\n")

    def answer(self, value: object) -> Any:
        """Read a request, answer it, and return it."""
        request = self.read()
        self.write({"jsonrpc": "2.0", "id": request["id"], "result": value})
        return request

    def refuse(self, code: str, message: str, **data: object) -> Any:
        """Read a request, refuse it, and return it."""
        request = self.read()
        body = {"code": -32000, "message": message, "data": {"code": code, **data}}
        self.write({"jsonrpc": "2.0", "id": request["id"], "error": body})
        return request

    def close(self) -> None:
        self._file.close()
        self.sock.close()


@contextmanager
def scripted(path: Path, *scripts: Callable[[Peer], object]) -> Iterator[None]:
    """Listens on `path`; each script plays one connection. Ends when all have been played."""
    failures: list[BaseException] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(8)
    listener.settimeout(DEADLINE)

    def play() -> None:
        try:
            for script in scripts:
                sock, _ = listener.accept()
                sock.settimeout(DEADLINE)
                peer = Peer(sock)
                try:
                    script(peer)
                finally:
                    peer.close()
        except BaseException as error:  # noqa: BLE001 - raised again by the test
            failures.append(error)

    thread = threading.Thread(target=play)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        listener.close()
        path.unlink()
    if failures:
        raise failures[0]


class AsyncPeer:
    """One accepted connection under asyncio."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read(self) -> Any:
        """The next message, None at the end."""
        async with asyncio.timeout(DEADLINE):
            line = await self.reader.readline()
        return json.loads(line) if line else None

    def write(self, message: object) -> None:
        self.writer.write(json.dumps(message).encode() + b"\n")

    def result(self, request: Any, value: object) -> None:
        self.write({"jsonrpc": "2.0", "id": request["id"], "result": value})

    def error(self, request_id: object, code: str, message: str = "no") -> None:
        body = {"code": -32000, "message": message, "data": {"code": code}}
        self.write({"jsonrpc": "2.0", "id": request_id, "error": body})

    async def answer(self, value: object) -> Any:
        """Read a request, answer it, and return it."""
        request = await self.read()
        self.result(request, value)
        return request

    async def ended(self) -> bool:
        """Whether the other side closes, whatever it says before."""
        async with asyncio.timeout(DEADLINE):
            await self.reader.read()
        return True

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):  # the other side was first
            await self.writer.wait_closed()


class Listener:
    """A listening socket; `accepted` gives the connections in their order."""

    def __init__(self) -> None:
        self._peers: asyncio.Queue[AsyncPeer] = asyncio.Queue()
        self._all: list[AsyncPeer] = []

    async def came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = AsyncPeer(reader, writer)
        self._all.append(peer)
        self._peers.put_nowait(peer)

    async def accepted(self) -> AsyncPeer:
        async with asyncio.timeout(DEADLINE):
            return await self._peers.get()

    async def close(self) -> None:
        for peer in self._all:
            await peer.close()


@asynccontextmanager
async def listening(path: Path) -> AsyncIterator[Listener]:
    """Listens on `path` until left, then closes every connection and removes the path."""
    listener = Listener()
    server = await asyncio.start_unix_server(listener.came, path, limit=1 << 21)
    try:
        yield listener
    finally:
        server.close()
        await listener.close()
        path.unlink(missing_ok=True)
