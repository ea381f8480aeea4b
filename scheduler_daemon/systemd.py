"""What systemd hands to a service and hears from it: sockets, readiness, the watchdog, the journal.

By hand, since all of it is a few datagrams and numbers: sd_listen_fds(3), sd_notify(3),
sd_watchdog_enabled(3), sd-daemon(3). Nothing here waits, and nothing fails where no systemd is.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

FIRST_FD = 3
"""Where descriptors that are handed over begin, sd_listen_fds(3)."""

MICROSECOND = 1e-6

PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""The journal's number of each level of the log; syslog(3)."""


class SocketsRefused(Exception):
    """What was handed over cannot be listened on; the message is one plain line for a person."""


def adopted_socket(environ: Mapping[str, str], pid: int) -> socket.socket | None:
    """The listening socket that systemd handed to process `pid`, None where it handed none.

    Raises SocketsRefused for several, and for one that is no listening Unix stream socket.
    """
    count = _number(environ.get("LISTEN_FDS", ""))
    if environ.get("LISTEN_PID") != str(pid) or not count:
        return None
    if count > 1:
        raise SocketsRefused(
            f"systemd handed over {count} sockets, and the daemon listens on one: "
            "the socket unit must have a single ListenStream="
        )
    try:
        sock = socket.socket(fileno=FIRST_FD)
    except OSError:
        raise SocketsRefused("systemd handed over something that is no socket") from None
    sock.set_inheritable(False)
    if not _is_listening(sock):
        raise SocketsRefused(
            "systemd handed over a socket that does not listen as a Unix stream socket: "
            "the socket unit must say ListenStream= with a path, and Accept=no"
        )
    return sock


def turn_away(sock: socket.socket, words: bytes) -> None:
    """Say `words` to everybody who waits on a listening socket, and leave them.

    Otherwise systemd starts the service for them again, and again.
    """
    sock.setblocking(False)
    with suppress(OSError):  # nobody waits any more
        while True:
            peer, _ = sock.accept()
            with peer, suppress(OSError):
                peer.setblocking(False)
                peer.sendall(words)
                while peer.recv(1 << 16):  # what it asked: unread it would cost it the words
                    pass


def _is_listening(sock: socket.socket) -> bool:
    return (
        sock.family == socket.AF_UNIX
        and sock.type == socket.SOCK_STREAM
        and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    )


class Manager:
    """The service manager, told what goes on. Where there is none, nothing happens."""

    def __init__(self, environ: Mapping[str, str], pid: int) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._watchdog = _watchdog_seconds(environ, pid)

    @property
    def listens(self) -> bool:
        """Whether there is anybody to tell."""
        return self._address.startswith(("/", "@"))

    @property
    def watchdog_seconds(self) -> float | None:
        """How long the manager waits for `alive` before it ends the process, None for ever."""
        return self._watchdog if self.listens else None

    def ready(self) -> None:
        """Everybody is served from now on, also when a reload is over."""
        self._tell("READY=1")

    def reloading(self, monotonic: float) -> None:
        """Settings are read again; `monotonic` seconds are those of CLOCK_MONOTONIC."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={round(monotonic / MICROSECOND)}")

    def stopping(self, seconds: float) -> None:
        """No more is taken on; what is under way may take so long, whatever TimeoutStopSec= is."""
        self._tell(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={round(seconds / MICROSECOND)}")

    def alive(self) -> None:
        """The loop has come round."""
        self._tell("WATCHDOG=1")

    def status(self, text: str) -> None:
        """One line for whoever asks `systemctl status`."""
        self._tell("STATUS=" + text.replace("\n", " "))

    def _tell(self, state: str) -> None:
        if not self.listens:
            return
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
            try:
                sock.sendto(state.encode(), address)
            except OSError:
                return  # a manager that went, or has too much to read, must not harm the service


def journal_reads(fd: int, environ: Mapping[str, str]) -> bool:
    """Whether what is written to `fd` goes to the journal: $JOURNAL_STREAM, systemd.exec(5)."""
    try:
        found = os.fstat(fd)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def with_priority(level: str, text: str) -> str:
    """Text for the journal, which takes each line for an entry: all of this level."""
    return "\n".join(f"<{PRIORITIES[level]}>{line}" for line in text.split("\n"))


def _watchdog_seconds(environ: Mapping[str, str], pid: int) -> float | None:
    microseconds = _number(environ.get("WATCHDOG_USEC", ""))
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid) or not microseconds:
        return None
    return microseconds * MICROSECOND


def _number(text: str) -> int:
    """A number as systemd writes it, 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() else 0
