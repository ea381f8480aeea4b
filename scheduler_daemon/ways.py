"""Who could put something else in the place of a folder: the way to it, judged step by step."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

_LINKS = 40
"""As many links as the kernel follows on one way, path_resolution(7)."""


def weak_spot(folder: Path, uid: int, *, itself: bool = True) -> str | None:
    """Who, beside root and `uid`, could replace what a path names, as in `/a is that of uid 7`.

    None where nobody could. Judged are all folders and links on the way to `folder`, and that too
    (`itself`). What lies in a sticky folder is only its owner's to replace, but in the last one
    whoever comes first has the name. Raises OSError where there is no way.
    """
    *above, last = _steps(folder)
    for step in above:
        found = step.lstat()
        kept = found.st_mode & stat.S_ISVTX or stat.S_ISLNK(found.st_mode)
        if weak := _foreign(step, found, uid) or (None if kept else _open(step, found, uid)):
            return weak
    found = last.lstat()
    return (_foreign(last, found, uid) or _open(last, found, uid)) if itself else None


def make(folder: Path, mode: int) -> None:
    """Make a folder where it is missing, and those above it, which others may not write in.

    One that is there keeps its mode. Raises OSError.
    """
    if folder.is_dir():
        return
    before = os.umask(0o022)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    finally:
        os.umask(before)
    folder.chmod(mode)


def _foreign(step: Path, found: os.stat_result, uid: int) -> str | None:
    if found.st_uid in (0, uid) or _is_outside_root(found.st_uid):
        return None
    return f"{step} is that of uid {found.st_uid}"


def _open(step: Path, found: os.stat_result, uid: int) -> str | None:
    if found.st_mode & stat.S_IWOTH:
        return f"{step} is writable for everybody"
    if found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid, uid):
        return f"{step} is writable for a group"
    return None


def _is_private(gid: int, uid: int) -> bool:
    """Whether a group is root's, or the one that many systems make for each user alone."""
    if gid == 0:
        return True
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    alone = set(group.gr_mem) <= {user.pw_name}
    return gid == user.pw_gid and group.gr_name == user.pw_name and alone


def _is_outside_root(uid: int) -> bool:
    """Whether this is how root of the machine looks from a namespace without it.

    user_namespaces(7): who is not mapped has the overflow uid, as then all system folders have.
    """
    if uid != int(Path("/proc/sys/kernel/overflowuid").read_bytes()):
        return False
    rows = Path("/proc/self/uid_map").read_bytes().splitlines()
    return not any(row.split()[0] == b"0" for row in rows)


def _steps(path: Path) -> Iterator[Path]:
    """Each folder and link that the kernel goes through, the folder at the end last."""
    here, links = Path("/"), 0
    left = [*reversed(Path(os.path.abspath(path)).parts[1:])]  # noqa: PTH100  resolve() follows links
    while left:
        yield here
        here /= left.pop()
        if here.is_symlink() and links < _LINKS:
            yield here
            links += 1
            target = here.readlink()
            here = Path(os.path.normpath(here.parent / target))
            left += reversed(here.parts[1:])
            here = Path("/")
    yield here
