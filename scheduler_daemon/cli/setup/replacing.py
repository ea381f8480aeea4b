"""Read a file of somebody else, and put another in its place in one step."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from scheduler_daemon.cli.exits import FailedError


def read(path: Path) -> bytes | None:
    """What the file holds, None where there is none. Raises FailedError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FailedError(f"{path} is no regular file; nothing was changed")
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FailedError(f"cannot read {path}: {error.strerror}; nothing was changed") from None


def replace(path: Path, before: bytes | None, after: bytes | None) -> bool:
    """Let `path`, which held `before`, hold `after`; None: no file.

    False, and nothing done, where it does not hold `before` any more. Mode and owner stay. Folders
    are made. `path` is no link. Raises FailedError.
    """
    try:
        if after is None:
            return _removed(path, before)
        path.parent.mkdir(parents=True, exist_ok=True)
        return _replaced(path, before, after)
    except OSError as error:
        raise FailedError(f"cannot write {path}: {error.strerror}") from None


def missing_folders(path: Path) -> list[Path]:
    """The folders that `replace` would make for a file, the innermost first."""
    return [folder for folder in path.parents if not folder.exists()]


def _removed(path: Path, before: bytes | None) -> bool:
    if read(path) != before:
        return False
    path.unlink(missing_ok=True)
    return True


def _replaced(path: Path, before: bytes | None, after: bytes) -> bool:
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(beside, how, 0o600), "wb") as file:  # noqa: PTH123
            _like(path, file.fileno())
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        if read(path) != before:
            return False
        beside.rename(path)
        return True
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()


def _like(path: Path, descriptor: int) -> None:
    """Give a new file mode and owner of the one that it replaces. Raises OSError."""
    try:
        like = path.stat()
    except FileNotFoundError:
        return
    if not os.access(path, os.W_OK):
        raise PermissionError(0, "it may not be written to")
    os.fchown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
