"""A named pipe beside a queue: it keeps a second host away, and lets others wake the one there is.

Whoever reads from it is the host (fifo(7)): nobody has to write down a process id that may be
another's by the time it is used.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path


class Bell:
    """The pipe at `path`, made when it is first held."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def hold(self) -> int | None:
        """Be the host until `release`: a descriptor that is readable once it rings.

        None where another process is the host.
        """
        if self._fd is not None:
            return self._fd
        with suppress(FileExistsError):
            os.mkfifo(self._path, 0o600)
        fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        self._fd = fd
        return fd

    def quiet(self) -> None:
        """Take off what has rung."""
        assert self._fd is not None
        with suppress(BlockingIOError):
            os.read(self._fd, 1 << 16)

    def ring(self) -> bool:
        """Wake the host; False where there is none."""
        return self._write(b"!")

    def is_held(self) -> bool:
        """Whether there is a host now."""
        return self._write(b"")

    def release(self) -> None:
        """Be the host no longer; nothing where it was not."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write(self, data: bytes) -> bool:
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):  # nobody reads; there never was a host
                return False
            raise
        try:
            with suppress(BlockingIOError):  # it has rung so often already
                os.write(fd, data)
        finally:
            os.close(fd)
        return True
