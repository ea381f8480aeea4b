"""The directory that a command runs in: opened first, judged by what was opened."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


class FolderRefused(Exception):
    """Nothing is run in it; the message says why."""


def opened(directory: str, allowed: Iterable[str]) -> int:
    """A descriptor of the directory, which is this user's and lies in or below one of `allowed`.

    Symbolic links on the way are followed before anything is judged, and none can be put there
    afterwards: whoever goes by way of the descriptor comes to what was looked at.
    """
    if not directory.startswith("/") or "\0" in directory:
        raise FolderRefused(f"the directory {directory!r} is not an absolute path")
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise FolderRefused(f"the directory {directory}: {error.strerror}") from None
    try:
        _judge(directory, fd, allowed)
    except BaseException:
        os.close(fd)
        raise
    return fd


def way_to(fd: int) -> str:
    """A path that leads to what the descriptor has open, for this process and its children."""
    return f"/proc/self/fd/{fd}"


def _judge(directory: str, fd: int, allowed: Iterable[str]) -> None:
    owner = os.fstat(fd).st_uid
    if owner != os.geteuid():
        raise FolderRefused(f"the directory {directory} belongs to uid {owner}")
    real = Path(way_to(fd)).readlink()
    if not any(real.is_relative_to(os.path.realpath(each)) for each in allowed):
        below = ", ".join(allowed)
        raise FolderRefused(f"the directory {directory} is not below {below} (--allow-dir)")
