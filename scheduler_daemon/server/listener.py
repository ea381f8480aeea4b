"""The listening socket: binding or adopting it, and one connection for each admitted peer."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scheduler_daemon.errors import Overloaded, PermissionDenied, SchedulerError
from scheduler_daemon.log import get_logger
from scheduler_daemon.server.connection import Connection
from scheduler_daemon.server.peers import Door, PeerCredentials, credentials
from scheduler_daemon.service import Caller
from scheduler_daemon.wire import messages
from scheduler_daemon.wire.frames import encode

BACKLOG = 1024

log = get_logger(__name__)


class SocketRefused(Exception):
    """The socket's path cannot be used; the message is one plain line for a person."""


def bind(path: Path) -> socket.socket:
    """Listen at `path`, mode 0600 from the first instant; a stale socket is replaced.

    Only called while the database's lock is held. Raises SocketRefused, also when somebody
    answers there: that daemon has another database.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_stale(path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    except OSError as error:
        raise SocketRefused(f"cannot use the socket {path}: {error.strerror}") from None
    before = os.umask(0o177)
    try:
        sock.bind(str(path))
    except OSError as error:
        sock.close()
        raise SocketRefused(f"cannot listen at {path}: {error.strerror}") from None
    finally:
        os.umask(before)
    sock.listen(BACKLOG)
    return sock


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketRefused(f"{path} is there and is no socket; it was left as it is")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError:  # it exists and does something, if slowly
            pass
    raise SocketRefused(f"another daemon listens at {path}; stop it, or choose another socket")


class Listener:
    """Accepts peers until it is closed.

    `connect` makes the connection of an admitted caller; it is given a callback for its end.
    """

    def __init__(
        self,
        sock: socket.socket,
        path: Path | None,
        door: Door,
        *,
        max_connections_per_uid: int,
        connect: Callable[[Caller, Callable[[Connection], None]], Connection],
        denied_hint: str,
    ) -> None:
        self._socket = sock
        self._path = path
        self._made = None if path is None else _identity(path)
        self._door = door
        self._max_per_uid = max_connections_per_uid
        self._connect = connect
        self._denied_hint = denied_hint
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._per_uid: Counter[int] = Counter()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        # Python 3.13 would remove the path by itself, also one that is not ours to remove.
        keep: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        self._server = await loop.create_unix_server(
            lambda: _Gate(self), sock=self._socket, backlog=BACKLOG, **keep
        )

    async def close(self) -> None:
        """Accept nobody any more, and remove the path if it was made here and is still ours."""
        # A path that somebody replaced since names another file than the one made here.
        if self._path is not None and _identity(self._path) == self._made:
            self._path.unlink(missing_ok=True)
        if self._server is not None:
            self._server.close()

    def end_connections(self) -> None:
        """Close every connection at once."""
        for connection in list(self._connections):
            connection.abort()

    def admit(self, peer: PeerCredentials) -> Connection | SchedulerError:
        """The connection for a peer, or why it may not have one."""
        if not self._door.admits(peer):
            log.warning("peer_refused", uid=peer.uid, pid=peer.pid)
            return PermissionDenied(self._denied_hint)
        if self._per_uid[peer.uid] >= self._max_per_uid:
            return Overloaded(f"this user has {self._max_per_uid} connections open; close some")
        caller = Caller(peer.uid, self._door.is_admin(peer.uid))
        connection = self._connect(caller, self._ended)
        self._connections.add(connection)
        self._per_uid[peer.uid] += 1
        return connection

    def _ended(self, connection: Connection) -> None:
        self._connections.discard(connection)
        uid = connection.caller.uid
        self._per_uid[uid] -= 1
        if not self._per_uid[uid]:
            del self._per_uid[uid]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _Gate(asyncio.Protocol):
    """Looks at who connected before anything is read, then hands over or says why not."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        decision = self._listener.admit(credentials(transport.get_extra_info("socket")))
        if isinstance(decision, SchedulerError):
            transport.write(encode(messages.error(None, decision)))
            transport.close()
            return
        transport.set_protocol(decision)
        decision.connection_made(transport)
