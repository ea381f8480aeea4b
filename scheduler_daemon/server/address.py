"""The path of the listening socket: taken so that nothing of others is harmed, and given back."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scheduler_daemon.ways import make, weak_spot

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

    @property
    def is_own(self) -> bool:
        """Whether the path was made here, not handed over."""
        return self._made is not None

    def release(self) -> None:
        """Close the socket, and remove the path unless somebody has replaced it since."""
        with suppress(OSError):  # the folder may be read-only or gone by now
            if self._made is not None and _identity(self.path) == self._made:
                self.path.unlink()
        self.socket.close()


def bind(path: Path, *, others: bool = False, group: int | None = None) -> Address:
    """Listen at `path`, mode 0600 from the first instant; a stale socket is replaced.

    With `group` its members may connect too (0660 and that group), with `others` everybody (0666):
    the daemon asks the kernel who came and refuses those that are not allowed, in words. A folder
    that is made is 0700, or 0711 for them. At no instant is more open than in the end.
    Only called while the database's lock is held. Raises SocketRefused, also when somebody
    answers there: that daemon has another database.
    """
    try:
        make(path.parent, 0o700 if group is None and not others else 0o711)
        _check_folder(path.parent)
        with _alone_in(path.parent):
            _remove_stale(path)
            return Address(_listen(path, 0o666 if others else 0o600, group), path)
    except (FileExistsError, NotADirectoryError):
        raise SocketRefused(f"cannot listen at {path}: that is not inside a folder") from None
    except OSError as error:
        # Python's own refusal of a path that is too long has no number.
        raise SocketRefused(f"cannot listen at {path}: {error.strerror or error}") from None


def keeps_out(adopted: socket.socket, *, others: bool, group: int | None) -> str | None:
    """What a socket made by somebody else wants, to let in those whom `bind` would; else None."""
    try:
        found = Path(adopted.getsockname()).stat()
    except OSError:  # nobody finds it any more
        return None
    if found.st_mode & stat.S_IWOTH or not (others or group is not None):
        return None
    if others:
        return "SocketMode=0666 in its unit"
    if found.st_mode & stat.S_IWGRP and found.st_gid == group:
        return None
    return f"SocketMode=0660 and SocketGroup={group} in its unit"


def _check_folder(folder: Path) -> None:
    """Refuse a folder in which others could put a socket of theirs in the place of ours."""
    weak = weak_spot(folder, os.geteuid())
    if weak is not None:
        raise SocketRefused(
            f"{weak}: another socket could be put in the place of this one; choose a folder that "
            "only this user or root may write, and no link of others to it"
        )


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


def _listen(path: Path, mode: int, group: int | None) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o777 & ~mode)
    try:
        sock.bind(str(path))
        if group is not None:
            _open_to(path, group)
        sock.listen(BACKLOG)
    except (OSError, SocketRefused):
        sock.close()
        raise
    finally:
        os.umask(before)
    return sock


def _open_to(path: Path, group: int) -> None:
    """Let the members of a group connect; nobody listens yet."""
    try:
        os.chown(path, -1, group, follow_symlinks=False)
        path.chmod(0o660)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise SocketRefused(
            f"cannot give {path} to the group {group}: {error.strerror}; this user must be in it, "
            "or name the users in allowed_uids"
        ) from None


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
