"""Who is at the other end of a socket, as the kernel says, and whether that user may connect."""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

_SO_PEERGROUPS = 59  # asm-generic/socket.h; Python has no name for it
_PYTHON_TAKES = 1024  # bytes, in socket.getsockopt
_MAX_GROUPS = 65536  # NGROUPS_MAX of Linux


class PeerCredentials(NamedTuple):
    """Of the process that connected, at that moment; unix(7)."""

    pid: int
    uid: int
    gids: frozenset[int]


def credentials(sock: socket.socket) -> PeerCredentials:
    """The peer's credentials: SO_PEERCRED, and SO_PEERGROUPS for its supplementary groups."""
    pid, uid, gid = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return PeerCredentials(pid, uid, frozenset((gid, *_groups(sock))))


def _groups(sock: socket.socket) -> tuple[int, ...]:
    try:
        raw = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _PYTHON_TAKES)
    except OSError as error:
        if error.errno != errno.ERANGE:  # a kernel without it (before 4.13, gVisor): no groups
            return ()
        raw = _many_groups(sock)
    return struct.unpack(f"{len(raw) // 4}I", raw)


def _many_groups(sock: socket.socket) -> bytes:
    """As getsockopt(2) gives them where Python's own buffer is too small; none where it fails."""
    buffer = ctypes.create_string_buffer(4 * _MAX_GROUPS)
    size = ctypes.c_uint(len(buffer))
    libc = ctypes.CDLL(None)
    where = (sock.fileno(), socket.SOL_SOCKET, _SO_PEERGROUPS)
    failed = libc.getsockopt(*where, buffer, ctypes.byref(size))
    return b"" if failed else buffer.raw[: size.value]


class Door:
    """Who may come in: the daemon's user, root, and the users and groups that were allowed."""

    def __init__(self, own_uid: int, uids: Iterable[int], gids: Iterable[int]) -> None:
        self._admins = {own_uid, 0}
        self._uids = self._admins | set(uids)
        self._gids = frozenset(gids)

    def admits(self, peer: PeerCredentials) -> bool:
        return peer.uid in self._uids or bool(peer.gids & self._gids)

    def is_admin(self, uid: int) -> bool:
        """Whether the user may act for other owners."""
        return uid in self._admins
