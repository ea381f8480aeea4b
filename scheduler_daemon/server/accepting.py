"""Takes connections off a listening socket, also again after descriptors ran out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from scheduler_daemon.clock import Clock, Handle

AT_ONCE = 16
"""Connections taken before what came on the others is looked at again."""

REST_SECONDS = 1.0
"""How long nothing is taken after the system refused to give a connection."""


class Acceptor:
    """Takes connections from `start` to `stop`, and hands each to `accepted`.

    `failed` hears why none could be taken (no descriptors left, accept(2)). Those who knock wait
    in the socket's queue meanwhile. asyncio's own server would try sixteen times in a row, with a
    traceback for each.
    """

    def __init__(
        self,
        sock: socket.socket,
        clock: Clock,
        accepted: Callable[[socket.socket], None],
        failed: Callable[[str], None],
    ) -> None:
        self._socket = sock
        self._clock = clock
        self._accepted = accepted
        self._failed = failed
        self._resting: Handle | None = None
        self._stopped = False

    def start(self) -> None:
        self._resting = None
        self._socket.setblocking(False)
        asyncio.get_running_loop().add_reader(self._socket, self._take)

    def stop(self) -> None:
        """Take nothing more, and close the socket."""
        if self._stopped:
            return
        self._stopped = True
        if self._resting is not None:
            self._resting.cancel()
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _take(self) -> None:
        for _ in range(AT_ONCE):
            try:
                sock, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error.strerror or str(error))
                return
            sock.setblocking(False)
            self._accepted(sock)

    def _rest(self, why: str) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._resting = self._clock.call_later(REST_SECONDS, self.start)
        self._failed(why)
