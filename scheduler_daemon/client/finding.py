"""Where the daemon's socket is, how to connect to it, and what is raised when nobody is there."""

from __future__ import annotations

import errno
import os
import socket
from array import array
from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

SocketPath: TypeAlias = "str | os.PathLike[str]"

_LONGEST = 1e9  # seconds, which the kernel's struct timeval holds wherever this runs
_NOT_HERE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENAMETOOLONG, errno.ELOOP, None}
)
_REASONS = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "does not exist",
    errno.EACCES: "this user may not open it",
    errno.ECONNREFUSED: "nobody listens on it",
}


class DaemonUnreachable(ConnectionError):
    """No daemon answers. `tried` holds the sockets that were tried, in order."""

    def __init__(self, message: str, tried: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.tried = tuple(tried)


class ConnectionLost(DaemonUnreachable):
    """The connection ended before the answer came: it is unknown whether the call took effect.

    Listing tells. A creation with an idempotency key can simply be repeated. The next call
    connects again.
    """


class NoAnswer(ConnectionLost, TimeoutError):
    """The daemon was silent for as long as the client waits: the same is unknown."""


def candidates(where: SocketPath | None = None) -> list[str]:
    """The sockets to try, in order, each once.

    `where`, else SCHEDULER_DAEMON_SOCKET, stands alone. Without them: the user's own daemon in
    its three places, then the system's. An XDG_RUNTIME_DIR that is not absolute is ignored (XDG
    Base Directory Specification).
    """
    named = os.fspath(where) if where is not None else os.environ.get("SCHEDULER_DAEMON_SOCKET")
    if named:
        return [named]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    # pathlib would cost the command line several milliseconds.
    home = os.path.expanduser("~")  # noqa: PTH111
    folders = [
        *([runtime] if runtime.startswith("/") else []),
        f"/run/user/{os.getuid()}",
        f"{home}/.local/state",
        "/run",
    ]
    paths = [f"{folder}/scheduler-daemon/scheduler.sock" for folder in folders]
    distinct: dict[str, str] = {}
    for path in paths:
        distinct.setdefault(os.path.realpath(path), path)
    return list(distinct.values())


def connect(where: SocketPath | None, timeout: float | None) -> socket.socket:
    """A blocking socket connected to the first of the candidates that exists.

    A place that this user may not look into, or whose path no socket can have, counts as one
    where none exists. Connecting (to a daemon whose queue is full), sending and receiving raise
    BlockingIOError after `timeout` seconds; None waits for ever, 0 gives a socket that never
    waits. Raises DaemonUnreachable.
    """
    failures: list[tuple[str, str]] = []
    for path in candidates(where):
        try:
            return _connected(path, timeout)
        except BlockingIOError:
            raise
        except (OSError, ValueError) as error:
            # Python refuses a path that is too long by itself, without a code.
            code = error.errno if isinstance(error, OSError) else None
            failures.append((path, _REASONS.get(code or 0, "no socket can have this path")))
            if code not in _NOT_HERE:
                break
    raise DaemonUnreachable(_unreachable(failures), [path for path, _ in failures])


def _unreachable(failures: Sequence[tuple[str, str]]) -> str:
    """What was tried, and what helps: a second daemon does not where one is closed to this user."""
    tried = "; ".join(f"{path} ({reason})" for path, reason in failures)
    closed = any(reason == _REASONS[errno.EACCES] for _, reason in failures)
    advice = (
        "Ask its owner to let this user in" if closed else "Start one with `scheduler-daemon run`"
    )
    return (
        f"no daemon answers. Tried: {tried}. {advice}, or say where its socket is with --socket or"
        " SCHEDULER_DAEMON_SOCKET."
    )


def _connected(path: str, timeout: float | None) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if timeout == 0:
            sock.setblocking(False)
        elif timeout is not None:
            # Not settimeout(): with it, connect(2) to a full queue fails at once with EAGAIN.
            seconds, fraction = divmod(min(timeout, _LONGEST), 1)
            # Of a struct timeval only zero means for ever.
            limit = array("l", (int(seconds), max(1, int(fraction * 1_000_000))))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


def answering(where: SocketPath | None = None) -> list[str]:
    """The candidates on which somebody listens, in order: more than one is worth a warning."""
    found = []
    for path in candidates(where):
        try:
            _connected(path, 1.0).close()
        except (OSError, ValueError):
            continue
        found.append(path)
    return found
