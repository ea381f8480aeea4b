"""The end of a connection that the daemon closes while its peer may still be sending."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from scheduler_daemon.clock import Clock, Handle

MAX_TAKEN = 16 << 20
"""Bytes that are taken from a peer after the last words, before it is cut off."""


class Farewell(asyncio.Protocol):
    """Says the last words and closes when the peer has closed, at the latest after `seconds`.

    Until then it throws away what comes: closed with bytes unread, a Unix socket is reset, and
    most clients then never look at what was said last.
    """

    def __init__(
        self, words: bytes, clock: Clock, seconds: float, ended: Callable[[], None]
    ) -> None:
        self._words = words
        self._clock = clock
        self._seconds = seconds
        self._ended = ended
        self._taken = 0
        self._transport: asyncio.Transport
        self._timer: Handle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = self._clock.call_later(self._seconds, transport.abort)
        transport.write(self._words)
        transport.write_eof()
        transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._taken += len(data)
        if self._taken > MAX_TAKEN:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's face
        self._timer.cancel()
        self._ended()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()
