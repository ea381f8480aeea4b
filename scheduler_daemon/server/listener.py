"""Accepts peers, and gives each that may come in a connection; where it listens is not here."""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from scheduler_daemon.clock import Clock
from scheduler_daemon.desk import Caller
from scheduler_daemon.errors import Overloaded, PermissionDenied, SchedulerError
from scheduler_daemon.log import get_logger
from scheduler_daemon.server.accepting import Acceptor
from scheduler_daemon.server.address import BACKLOG
from scheduler_daemon.server.allowance import Allowance
from scheduler_daemon.server.connection import Connection
from scheduler_daemon.server.farewell import Farewell
from scheduler_daemon.server.peers import Door, PeerCredentials, credentials
from scheduler_daemon.wire import messages
from scheduler_daemon.wire.encoding import encode

FAREWELLS = 32
FAREWELL_SECONDS = 2.0
"""So many peers that were refused get so long to read why; more are cut off at once."""

SPARE_DESCRIPTORS = 128
"""Kept for the files of the daemon, for farewells and for those just accepted."""

log = get_logger(__name__)


class Listener:
    """Accepts peers until it is closed.

    `connect` makes the connection of an admitted caller; it is given what all of the user's share
    and a callback for its end. `max_held_per_uid` bounds in bytes what one user's connections make
    the daemon hold. `failed` hears why nobody could be accepted.
    """

    def __init__(
        self,
        sock: socket.socket,
        door: Door,
        clock: Clock,
        *,
        max_connections_per_uid: int,
        max_held_per_uid: int,
        connect: Callable[[Caller, Allowance, Callable[[Connection], None]], Connection],
        denied_hint: str,
        failed: Callable[[str], None],
    ) -> None:
        self._socket = sock
        self._acceptor = Acceptor(sock, clock, self._take, failed)
        self._door = door
        self._clock = clock
        self._max_per_uid = max_connections_per_uid
        self._max_held_per_uid = max_held_per_uid
        self._connect = connect
        self._denied_hint = denied_hint
        self._coming: set[asyncio.Task[Any]] = set()
        self._connections: set[Connection] = set()
        self._farewells: set[Farewell] = set()
        self._per_uid: Counter[int] = Counter()
        self._allowances: dict[int, Allowance] = {}
        self._empty = asyncio.Event()
        self._told: set[int] = set()
        self._full = False

    async def start(self) -> None:
        self._socket.listen(BACKLOG)  # one that was handed over may have had a shorter queue
        self._acceptor.start()

    def _take(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        coming = loop.create_task(loop.connect_accepted_socket(lambda: _Gate(self), sock))
        self._coming.add(coming)
        coming.add_done_callback(self._coming.discard)

    def change(
        self, door: Door, *, max_connections_per_uid: int, max_held_per_uid: int, denied_hint: str
    ) -> None:
        """Judge who comes from now on by these, and what a user may hold from now on."""
        self._door = door
        self._max_per_uid = max_connections_per_uid
        self._max_held_per_uid = max_held_per_uid
        for allowance in self._allowances.values():
            allowance.max_bytes = max_held_per_uid
        self._denied_hint = denied_hint

    def close(self) -> None:
        """Accept nobody any more."""
        self._acceptor.stop()

    async def end_connections(self, seconds: float) -> None:
        """Answer what was asked, at most so long, and close every connection."""
        for farewell in self._farewells:
            farewell.abort()
        for connection in list(self._connections):
            connection.end()
        try:
            async with asyncio.timeout(seconds):
                await self._all_gone()
        except TimeoutError:
            for connection in self._connections:
                connection.abort()
            await self._all_gone()

    async def _all_gone(self) -> None:
        while self._connections:
            self._empty.clear()
            await self._empty.wait()

    def admit(self, peer: PeerCredentials, transport: asyncio.Transport) -> None:
        """Give a peer its connection, or say why it has none."""
        refusal = self._refusal(peer)
        if refusal is not None:
            self._say_no(refusal, transport)
            return
        caller = Caller(peer.uid, self._door.is_admin(peer.uid))
        allowance = self._allowances.setdefault(peer.uid, Allowance(self._max_held_per_uid))
        connection = self._connect(caller, allowance, self._ended)
        self._connections.add(connection)
        self._per_uid[peer.uid] += 1
        transport.set_protocol(connection)
        connection.connection_made(transport)

    def _refusal(self, peer: PeerCredentials) -> SchedulerError | None:
        if not self._door.admits(peer):
            if peer.uid not in self._told:  # one line for each, not one for each attempt
                self._told.add(peer.uid)
                log.warning("peer_refused", uid=peer.uid, pid=peer.pid)
            return PermissionDenied(self._denied_hint)
        own = self._per_uid[peer.uid]
        if own >= self._max_per_uid:
            return Overloaded(f"this user has {self._max_per_uid} connections open; close some")
        if own >= share(own, len(self._connections), most_connections()):
            if not self._full:
                self._full = True
                log.warning("connections_exhausted", open=len(self._connections), uid=peer.uid)
            return Overloaded("the daemon has no more connections for this user; try again later")
        return None

    def _say_no(self, refusal: SchedulerError, transport: asyncio.Transport) -> None:
        words = encode(messages.error(None, refusal))
        farewell = Farewell(
            words, self._clock, FAREWELL_SECONDS, lambda: self._farewells.discard(farewell)
        )
        self._farewells.add(farewell)
        transport.set_protocol(farewell)
        farewell.connection_made(transport)
        if len(self._farewells) > FAREWELLS:
            transport.close()

    def _ended(self, connection: Connection) -> None:
        self._connections.discard(connection)
        uid = connection.caller.uid
        self._per_uid[uid] -= 1
        if not self._per_uid[uid]:
            del self._per_uid[uid], self._allowances[uid]
        self._empty.set()
        self._full = False


def most_connections() -> int:
    """How many connections this process has descriptors for, getrlimit(2)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, soft - SPARE_DESCRIPTORS) if soft != resource.RLIM_INFINITY else sys.maxsize


def share(own: int, connections: int, most: int) -> int:
    """How many connections a user may have that has `own` of those that there are.

    Half of what others left, so that something is left for whoever comes next; one as long as
    there is any.
    """
    left = most - (connections - own)
    return min(left, max(1, left // 2))


class _Gate(asyncio.Protocol):
    """Looks at who connected before anything is read."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._listener.admit(credentials(transport.get_extra_info("socket")), transport)
