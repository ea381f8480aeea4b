"""The reader of changes under asyncio. It reads only when asked, so that a daemon sees it lag."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from scheduler_daemon.client.finding import ConnectionLost, NoAnswer
from scheduler_daemon.client.params import ENDED, FOREIGN, MAX_ANSWER_BYTES, SILENT
from scheduler_daemon.client.watch import change_in
from scheduler_daemon.errors import SchedulerError
from scheduler_daemon.wire.frames import Splitter, WireError, encode
from scheduler_daemon.wire.messages import Error, Message, Result, error_from, parse, request

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from scheduler_daemon.client.watch import Change

T = TypeVar("T")


class AsyncChanges:
    """As Changes, for one event loop. A cancelled wait for the next change loses nothing.

    Owns `sock`, which must not block. `timeout` is how long to wait for the beginning, in
    seconds, None for ever.
    """

    def __init__(self, sock: socket.socket, timeout: float | None) -> None:
        self._socket = sock
        self._timeout = timeout
        self._splitter = Splitter(MAX_ANSWER_BYTES)
        self._messages: deque[Message] = deque()
        self._readable: asyncio.Future[None] | None = None
        self._closed = False

    async def begin(self, params: Mapping[str, object]) -> Self:
        """Ask for the changes; closed where that fails. Raises SchedulerError, ConnectionLost."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._ask(params)
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                raise NoAnswer(SILENT) from None
            raise
        return self

    async def _ask(self, params: Mapping[str, object]) -> None:
        with suppress(ConnectionError):  # it may have said why before it closed; reading tells
            self._socket.send(encode(request(1, "daemon.watch", params)))
        await self._first(_answer_in)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        change: Change | None = await self._first(change_in)
        if change is None:
            raise StopAsyncIteration
        return change

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the watch; who waits for its next change finds that there is none."""
        self._closed = True
        if self._readable is None:
            self._socket.close()
        else:
            self._wake()  # the descriptor may only go when nobody waits on it any more

    async def _first(self, wanted: Callable[[Message], T | None]) -> T | None:
        """What `wanted` first finds in a message; None once this is closed."""
        try:
            while not self._closed:
                while self._messages:
                    found = wanted(self._messages.popleft())
                    if found is not None:
                        return found
                await self._fill()
        except (SchedulerError, ConnectionLost):
            await self.close()
            raise
        return None

    async def _fill(self) -> None:
        """Take what has come, or wait until something has."""
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            await self._wait()
            return
        except ConnectionError:
            data = b""
        if not data:
            raise ConnectionLost(ENDED)
        try:
            self._messages.extend(map(parse, self._splitter.feed(data)))
        except WireError:
            raise ConnectionLost(FOREIGN) from None

    async def _wait(self) -> None:
        # Not sock_recv(): a cancellation in the wrong moment would lose what it has taken.
        loop = asyncio.get_running_loop()
        self._readable = loop.create_future()
        loop.add_reader(self._socket, self._wake)
        try:
            await self._readable
        finally:
            loop.remove_reader(self._socket)
            self._readable = None
            if self._closed:
                self._socket.close()

    def _wake(self) -> None:
        if self._readable is not None and not self._readable.done():
            self._readable.set_result(None)


def _answer_in(message: Message) -> Result | None:
    """The answer that a message is. Raises the SchedulerError of a refusal."""
    if isinstance(message, Error):
        raise error_from(message.error)
    return message if isinstance(message, Result) else None
