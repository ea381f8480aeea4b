"""One blocking connection that carries one call at a time."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Mapping

from scheduler_daemon.client.finding import ConnectionLost, NoAnswer
from scheduler_daemon.client.params import (
    CLOSED,
    ENDED,
    FOREIGN,
    MAX_ANSWER_BYTES,
    SILENT,
    unanswered,
)
from scheduler_daemon.wire.frames import METHOD_NOT_FOUND, Splitter, WireError, encode
from scheduler_daemon.wire.messages import Error, Message, Request, Result, error, parse, request


class Connection:
    """Owns `sock`, whose time-outs show as BlockingIOError; closes it when a call fails."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._splitter = Splitter(MAX_ANSWER_BYTES)
        self._lines: deque[bytes] = deque()
        self._last_id = 0

    def close(self) -> None:
        self._socket.close()

    def ended(self) -> bool:
        """Whether the daemon has closed it, as after a restart, or a failed call has."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def call(self, method: str, params: Mapping[str, object]) -> Result | Error:
        """Send one request and wait for its answer. Raises ConnectionLost."""
        answer = None
        try:
            answer = self._exchange(method, params)
        except WireError:
            raise ConnectionLost(FOREIGN) from None
        except BlockingIOError:
            raise NoAnswer(unanswered(SILENT, method)) from None
        except ConnectionError:
            raise ConnectionLost(unanswered(CLOSED, method)) from None
        finally:
            # Half a frame may have gone out, a late answer may come; an error without an id
            # speaks of the connection.
            if answer is None or answer.id is None:
                self.close()
        return answer

    def hear(self) -> Message:
        """Wait without end for the next message that nobody asked for. Raises ConnectionLost."""
        while True:
            try:
                return self._next()
            except BlockingIOError:
                continue
            except WireError:
                raise ConnectionLost(FOREIGN) from None
            except ConnectionError:
                raise ConnectionLost(ENDED) from None

    def _exchange(self, method: str, params: Mapping[str, object]) -> Result | Error:
        self._last_id += 1
        self._send(request(self._last_id, method, params))
        while True:
            message = self._next()
            if isinstance(message, Request):
                unknown = WireError(METHOD_NOT_FOUND, "this client takes no requests")
                self._send(error(message.id, unknown))
            elif isinstance(message, Result | Error) and message.id in (self._last_id, None):
                return message

    def _send(self, message: Mapping[str, object]) -> None:
        try:  # noqa: SIM105 - contextlib would cost the command line a millisecond
            self._socket.sendall(encode(message))
        except ConnectionError:
            pass  # it may have said why before it closed; reading tells

    def _next(self) -> Message:
        while not self._lines:
            self._lines.extend(self._splitter.feed(self._received()))
        return parse(self._lines.popleft())

    def _received(self) -> bytes:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        return data
