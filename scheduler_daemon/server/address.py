"""The path of the listening socket: taken so that nothing of others is harmed, and given back."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BACKLOG = 1024
"""Peers that wait to be accepted, listen(2)."""


class SocketRefused(Exception):
    """The socket's path cannot be used; the message is one plain line for a person."""


class Address:
    """A listening socket, and its path when that was made here and is to go at the end.

    One that was handed over stays where it is: who listens there next gets what waits.
    """

    def __init__(self, sock: socket.socket, made: Path | None = None) -> None:
        self.socket = sock
        self.path = Path(sock.getsockname())
        self._made = made and _identity(made)

    def release(self) -> None:
        """Close the socket, and remove the path unless somebody has replaced it since."""
        with suppress(OSError):  # the folder may be read-only or gone by now
            if self._made is not None and _identity(self.path) == self._made:
                self.path.unlink()
        self.socket.close()


def bind(path: Path, *, others: bool) -> Address:
    """Listen at `path`, mode 0600 from the first instant; a stale socket is replaced.

    With `others` everybody may connect (0666, in a folder made 0711): the daemon asks the kernel
    who came and refuses those that are not allowed, in words.
    Only called while the database's lock is held. Raises SocketRefused, also when somebody
    answers there: that daemon has another database.
    """
    try:
        _make_folder(path.parent, 0o711 if others else 0o700)
        with _alone_in(path.parent):
            _remove_stale(path)
            return Address(_listen(path, 0o666 if others else 0o600), path)
    except (FileExistsError, NotADirectoryError):
        raise SocketRefused(f"cannot listen at {path}: that is not inside a folder") from None
    except OSError as error:
        # Python's own refusal of a path that is too long has no number.
        raise SocketRefused(f"cannot listen at {path}: {error.strerror or error}") from None


def _make_folder(folder: Path, mode: int) -> None:
    """Make the folder where it is missing; one that is there keeps its mode."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(mode)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Two that find the same stale socket must not remove each other's new one."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise SocketRefused(
            f"another program holds {folder}, where the socket is to be; try again"
        ) from None
    finally:
        os.close(fd)


def _listen(path: Path, mode: int) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o777 & ~mode)
    try:
        sock.bind(str(path))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(before)
    return sock


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketRefused(f"{path} is there and is no socket; it was left as it is")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a full queue is an answer too
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except FileNotFoundError:
            return
        except BlockingIOError:
            pass
        except OSError as error:  # another user's, or of another type
            raise SocketRefused(
                f"{path} is a socket that cannot be asked who listens there: {error.strerror}; "
                "it was left as it is"
            ) from None
    raise SocketRefused(f"another daemon listens at {path}; stop it, or choose another socket")


def _identity(path: Path) -> tuple[int, int]:
    """Which file a path names; a bound socket keeps its inode, so no other can have it."""
    found = path.lstat()
    return found.st_dev, found.st_ino
