"""Files that another program reads while we write them anew: it sees the old one or the new one."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from scheduler_daemon.cli.exits import FailedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def write(path: str, data: bytes, mode: int | None = None) -> None:
    """Put `data` in the place of what `path` holds, with `mode` or, where None, as the umask says.

    A link is followed. What is no regular file (a pipe, a terminal) is written to as it is.
    Raises FailedError, and leaves what was there.
    """
    _write(path, (data,), mode)


def write_lines(path: str, lines: Iterable[str], mode: int) -> None:
    """As `write`, with lines that need not be in memory at once."""
    _write(path, (f"{line}\n".encode() for line in lines), mode)


def _write(path: str, parts: Iterable[bytes], mode: int | None) -> None:
    try:
        place = os.path.realpath(path)
        if _is_of_a_database(place):
            raise FailedError(f"{path} is a database or belongs to one; choose another name")
        if _is_special(place):
            with open(place, "wb") as file:  # noqa: PTH123 - names are text throughout here
                file.writelines(parts)
        else:
            _replace(place, parts, mode)
    except OSError as error:
        raise FailedError(f"cannot write {path}: {error.strerror}") from None


def _is_of_a_database(place: str) -> bool:
    """Whether a file must not be replaced by anything: what every user's words are in."""
    for end in ("-wal", "-shm", "-journal", ".mark", ".lock", ""):
        if not place.endswith(end):
            continue
        base = place.removesuffix(end)
        if os.path.isfile(base):  # noqa: PTH113
            with open(base, "rb") as file:  # noqa: PTH123
                if file.read(16) == b"SQLite format 3\0":
                    return True
    return False


def _is_special(place: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(place).st_mode)  # noqa: PTH116
    except FileNotFoundError:
        return False


def _replace(place: str, parts: Iterable[bytes], mode: int | None) -> None:
    beside = f"{place}.{os.getpid()}.tmp"
    try:
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(beside, how, 0o666 if mode is None else 0o600), "wb") as file:  # noqa: PTH123
            if mode not in (None, 0o600):
                os.fchmod(file.fileno(), mode)
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, place)  # noqa: PTH104
    except BaseException:
        with suppress(OSError):  # where it was never made, that is what is raised
            os.unlink(beside)  # noqa: PTH108
        raise
