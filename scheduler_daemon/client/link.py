"""One connection under asyncio: many calls at once, and calls of the daemon coming back.

Plain sockets rather than asyncio's streams: a stream throws away what the daemon said before it
closed (why it refuses this user) when a write meets the closed end first.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from scheduler_daemon.client.finding import ConnectionLost, NoAnswer
from scheduler_daemon.client.params import CLOSED, FOREIGN, MAX_ANSWER_BYTES, SILENT, unanswered
from scheduler_daemon.errors import SchedulerError
from scheduler_daemon.wire.frames import Splitter, WireError, encode
from scheduler_daemon.wire.messages import (
    Error,
    Message,
    Request,
    RequestId,
    Result,
    error_from,
    parse,
    request,
)

Serve: TypeAlias = "Callable[[Link, Request], None]"

MAX_WAITING = 32
"""Calls sent and not answered; more wait in line. The daemon refuses them beyond 64 at once."""


class Link:
    """Owns `sock`, which must not block; `lost` is set once the connection has ended.

    `serve` is called with each request of the daemon and must not wait. `timeout` is how long a
    call waits for its answer, in seconds, None for ever.
    """

    def __init__(self, sock: socket.socket, serve: Serve, timeout: float | None) -> None:
        self.lost = asyncio.Event()
        self._socket = sock
        self._serve = serve
        self._timeout = timeout
        self._splitter = Splitter(MAX_ANSWER_BYTES)
        self._slots = asyncio.Semaphore(MAX_WAITING)
        self._waiting: dict[RequestId, asyncio.Future[Result | Error | None]] = {}
        self._last_id = 0
        self._failure: SchedulerError | ConnectionLost | None = None
        self._outbox = bytearray()
        self._filled = asyncio.Event()
        self._writing = asyncio.create_task(self._write())
        self._reading = asyncio.create_task(self._read())
        self._reading.add_done_callback(self._end)

    @property
    def open(self) -> bool:
        """Whether calls can still be answered."""
        return not self._reading.done()

    def send(self, frame: bytes) -> None:
        """Send one encoded message whole, in its turn; nothing happens once the link is lost."""
        if self.open:
            self._outbox += frame
            self._filled.set()

    async def call(self, method: str, params: Mapping[str, object]) -> Any:
        """Send a request and wait for its answer. Raises SchedulerError or ConnectionLost.

        A cancelled call may have taken effect; its late answer is passed over.
        """
        async with self._slots:
            answer = await self._answer(method, params)
        if answer is None:
            raise self._failure or ConnectionLost(unanswered(CLOSED, method))
        if isinstance(answer, Error):
            raise error_from(answer.error)
        return answer.value

    async def close(self) -> None:
        """End the connection; calls that wait raise ConnectionLost."""
        self._reading.cancel()
        await self.lost.wait()

    async def _answer(self, method: str, params: Mapping[str, object]) -> Result | Error | None:
        if not self.open:
            return None
        self._last_id += 1
        call_id = self._last_id
        self.send(encode(request(call_id, method, params)))
        self._waiting[call_id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._waiting[call_id]
        except TimeoutError:
            raise NoAnswer(unanswered(SILENT, method)) from None
        finally:
            del self._waiting[call_id]

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):  # a reset says no more than an end
            while data := await loop.sock_recv(self._socket, 1 << 16):
                if not self._take(data):
                    return

    def _take(self, data: bytes) -> bool:
        """Pass on what came. False when the connection is of no more use."""
        try:
            for line in self._splitter.feed(data):
                message = parse(line)
                if isinstance(message, Error) and message.id is None:
                    # It speaks of the connection: none of the calls will be answered.
                    self._failure = error_from(message.error)
                    return False
                self._pass_on(message)
        except WireError:
            self._failure = ConnectionLost(FOREIGN)
            return False
        return True

    def _pass_on(self, message: Message) -> None:
        if isinstance(message, Request):
            self._serve(self, message)
        elif isinstance(message, Result | Error) and message.id is not None:
            waiting = self._waiting.get(message.id)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while await self._filled.wait():
            self._filled.clear()
            frames, self._outbox = self._outbox, bytearray()
            try:
                await loop.sock_sendall(self._socket, frames)
            except OSError:
                # Reading on gives what the daemon said before it closed, then ends.
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RD)
                return

    def _end(self, _reading: asyncio.Task[None]) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)
        # The descriptor may only go when neither task waits on it any more.
        self._writing.cancel()
        self._writing.add_done_callback(self._release)

    def _release(self, _writing: asyncio.Task[None]) -> None:
        self._socket.close()
        self.lost.set()
