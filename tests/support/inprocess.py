"""A daemon inside the test's own event loop, and peers that speak to it byte by byte."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest

from scheduler_daemon.clock import Clock
from scheduler_daemon.daemon import Daemon
from scheduler_daemon.rules import SELECTORS
from scheduler_daemon.settings import Settings
from tests.support.clock import ManualClock

DEADLINE_SECONDS = 60.0
"""How long anything that must come is waited for: machines may be slow."""

Json = dict[str, Any]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")

_CONNECT_AS = """
import json, os, socket, sys
folder, name, uid, gid, groups, count = json.loads(sys.argv[1])
os.chdir(folder)  # while the folders above it may be walked through
os.setgroups(groups); os.setgid(gid); os.setuid(uid)
peers = [socket.socket(socket.AF_UNIX) for _ in range(count)]
for peer in peers:
    peer.connect(name)
socket.send_fds(socket.socket(fileno=int(sys.argv[2])), [b"x"], [p.fileno() for p in peers])
"""


class Peer:
    """One connection. What the daemon asks while an answer is awaited is kept in `requests`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.requests: list[Json] = []
        self._last_id = 0

    @classmethod
    async def over(cls, sock: socket.socket) -> Self:
        """A peer at the end of a connected socket."""
        return cls(*await asyncio.open_unix_connection(sock=sock, limit=1 << 26))

    @classmethod
    async def connect(cls, path: Path) -> Self:
        return cls(*await asyncio.open_unix_connection(path, limit=1 << 26))

    def write(self, *frames: object) -> None:
        """Send frames in one go; bytes as they are, anything else as a JSON line."""
        self.writer.write(b"".join(f if isinstance(f, bytes) else line(f) for f in frames))

    async def read(self) -> Json:
        """The next frame; EOFError when the daemon has closed."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            text = await self.reader.readline()
        if not text:
            raise EOFError
        frame: Json = json.loads(text)
        return frame

    async def read_until_end(self) -> list[Json]:
        """Every frame that still comes before the daemon closes."""
        frames = []
        with suppress(EOFError):
            while True:
                frames.append(await self.read())
        return frames

    async def answer_to(self, request_id: object) -> Json:
        """The answer with this id, or the error that speaks of the connection.

        Other answers that come before it are lost.
        """
        while True:
            frame = await self.read()
            if "method" in frame:
                self.requests.append(frame)
            elif frame["id"] in (request_id, None):
                return frame

    async def ask(self, method: str, **params: object) -> Json:
        """Send a request and wait for its answer, the whole frame."""
        self._last_id += 1
        request_id = f"q{self._last_id}"
        self.write(request(request_id, method, **params))
        return await self.answer_to(request_id)

    async def call(self, method: str, **params: object) -> Json:
        """The result of a request that must not be refused."""
        frame = await self.ask(method, **params)
        assert "result" in frame, frame
        result: Json = frame["result"]
        return result

    async def refused(self, method: str, **params: object) -> Json:
        """The error object of a request that must be refused."""
        frame = await self.ask(method, **params)
        assert "error" in frame, frame
        body: Json = frame["error"]
        return body

    async def create(self, session: str = "s", prompt: str = "p", **more: object) -> Json:
        """Make a reminder, due in an hour where nothing else is said."""
        if not more.keys() & set(SELECTORS):
            more["after_seconds"] = 3600
        made = await self.call("reminder.create", session_id=session, prompt=prompt, **more)
        reminder: Json = made["reminder"]
        return reminder

    async def followup(self) -> Json:
        """The daemon's next request."""
        return self.requests.pop(0) if self.requests else await self.read()

    def admit(self, followup: Json) -> None:
        self.write({"jsonrpc": "2.0", "id": followup["id"], "result": {"status": "admitted"}})

    def half_close(self) -> None:
        self.writer.write_eof()

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):  # the daemon was first
            await self.writer.wait_closed()


class Running:
    """A daemon that runs, and what belongs to it."""

    def __init__(self, daemon: Daemon, clock: Any, settings: Settings) -> None:
        self.daemon = daemon
        self.clock = clock
        self.settings = settings
        self.peers: list[Peer] = []
        self.task: asyncio.Task[None]

    @property
    def path(self) -> Path:
        return self.settings.socket

    @property
    def database(self) -> Path:
        return self.settings.state_directory / "scheduler.db"

    async def peer(self) -> Peer:
        """A new connection of this process's user, closed at the end."""
        self.peers.append(await Peer.connect(self.path))
        return self.peers[-1]

    async def peer_as(self, uid: int, *gids: int) -> Peer:
        """A connection of another user, whose first gid is its primary group."""
        (peer,) = await self.peers_as(1, uid, *gids)
        return peer

    async def peers_as(self, count: int, uid: int, *gids: int) -> list[Peer]:
        """As many connections of another user.

        The socket's own rights are opened for it: who may come in is the daemon's to say.
        """
        self.path.parent.chmod(0o755)
        self.path.chmod(0o666)
        socks = await asyncio.to_thread(connected_as, self.path, uid, *gids, count=count)
        peers = [await Peer.over(sock) for sock in socks]
        self.peers += peers
        return peers

    async def stop(self) -> None:
        self.daemon.stop()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self.task


@asynccontextmanager
async def running(
    folder: Path, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Running]:
    """A daemon on files in `folder`, ready, and stopped at the end."""
    values = {"state_directory": folder / "state", "socket": folder / "run" / "s.sock"}
    effective = Settings(**(values | settings))
    clock = clock or ManualClock()
    on = Running(Daemon(effective, clock), clock, effective)
    on.task = asyncio.create_task(on.daemon.run())
    ready = asyncio.create_task(on.daemon.ready.wait())
    await asyncio.wait({on.task, ready}, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    try:
        if on.task.done():
            on.task.result()
        yield on
    finally:
        for peer in on.peers:
            await peer.close()
        await on.stop()


class Blocked:
    """Holds the write lock of a database until left, as another program may."""

    def __init__(self, database: Path) -> None:
        self._conn = sqlite3.connect(database, isolation_level=None)

    def __enter__(self) -> None:
        self._conn.execute("BEGIN IMMEDIATE")

    def __exit__(self, *_: object) -> None:
        self._conn.execute("ROLLBACK")
        self._conn.close()


def connected_as(path: Path, uid: int, *gids: int, count: int = 1) -> list[socket.socket]:
    """Sockets that a process of another user connected: the kernel keeps who that was."""
    ours, theirs = socket.socketpair()
    gid, *groups = gids or (uid,)
    what = json.dumps([str(path.parent), path.name, uid, gid, groups, count])
    with ours, theirs:
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", _CONNECT_AS, what, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            check=True,
        )
        _, fds, _, _ = socket.recv_fds(ours, 1, count)
    return [socket.socket(fileno=fd) for fd in fds]


def refuses(path: Path) -> bool:
    """Whether nobody accepts connections there any more."""
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(str(path)) != 0


def line(frame: object) -> bytes:
    return json.dumps(frame).encode() + b"\n"


def request(request_id: object, method: str, **params: object) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds that no event tells of."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not holds():
            await asyncio.sleep(0.001)
