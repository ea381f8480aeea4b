"""Looks at a file from outside, and mends in it what is safe; what is found in rows is elsewhere.

It works beside a running daemon as any other program with SQLite does: it looks in one snapshot and
writes in short transactions. A daemon that runs has to be told afterwards.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from scheduler_daemon.store.database import (
    LARGEST_LOG_BYTES,
    DatabaseRefused,
    address_to_read,
    examine,
    is_alone,
    is_locked,
    open_file,
    taken,
)
from scheduler_daemon.store.finding import FIX, Finding, fixable
from scheduler_daemon.store.findings import in_rows
from scheduler_daemon.store.migrate import differences, known, pending
from scheduler_daemon.store.row_mending import mend_rows
from scheduler_daemon.store.standing import is_log_broken, lost_frames
from scheduler_daemon.store.whole import damage

LITTLE_DISK_BYTES = 64 << 20

_BESIDE = ("", "-wal", "-shm", ".lock", ".mark")


def look(path: Path) -> list[Finding]:
    """Everything that is found, without a change.

    DatabaseRefused where nothing can be read, also while another program lets nobody.
    """
    examine(path)
    if not path.exists():
        raise DatabaseRefused(f"there is no database {path}")
    around = [*_around(path), *_lost(path)]
    try:
        with closing(open_file(address_to_read(path))) as conn:
            conn.execute("BEGIN")
            found = list(_of_the_file(conn))
            return around + (found or list(in_rows(conn)))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if is_locked(error):
            raise taken(path) from None
        return [*around, _damaged(str(error))]


def _of_the_file(conn: sqlite3.Connection) -> Iterator[Finding]:
    """Damage, and another schema; rows cannot be looked at beside either."""
    if found := damage(conn):
        yield _damaged("; ".join(found[:3]))
        return
    migrations = known()
    try:
        todo = pending(conn, migrations)
    except DatabaseRefused as error:
        yield Finding("schema", str(error), "put a copy in its place, or use the program it is of")
        return
    if todo:
        text = f"it has an older schema: {', '.join(each.name for each in todo)} are to come"
        yield Finding("schema", text, "start the daemon, or `scheduler-daemon migrate`")
        return
    for what in differences(conn, migrations):
        yield Finding("schema", what, "put a copy in its place (README, Where things are)")


def _damaged(text: str) -> Finding:
    return Finding(
        "damage",
        f"the file is damaged: {text}",
        "stop the daemon and `schedctl restore` a backup; without one, `sqlite3 FILE .recover` "
        "saves what can be read. Nothing is changed here",
    )


def _around(path: Path) -> Iterator[Finding]:
    """What the file system says."""
    yield from _rights_of_folder(path)
    for name in (path.with_name(f"{path.name}{end}") for end in _BESIDE):
        if name.exists():
            yield from _rights(name)
    log = path.with_name(f"{path.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > LARGEST_LOG_BYTES:
        yield Finding(
            "log",
            f"the log of writes {log} has {size >> 20} MiB: some program has been reading for long",
            f"end that program (`fuser {log}` names it); {FIX} then",
            fixable=True,
        )
    room = os.statvfs(path.parent)
    free = room.f_bavail * room.f_frsize
    if free < LITTLE_DISK_BYTES:
        yield Finding("disk", f"{free >> 20} MiB of disk are free", "make room")


def _lost(path: Path) -> Iterator[Finding]:
    """Seen once: whoever opens the file after a kill, with this or with `sqlite3`, ends the log."""
    broken = is_log_broken(path)
    pages = lost_frames(path, log_was_broken=broken) if holder(path) is None else 0
    if pages:
        yield Finding(
            "lost",
            f"the log of writes was damaged: {pages} pages that were written before the daemon was "
            "killed are gone",
            "compare with a backup; nothing else can bring them back",
        )


def _rights(path: Path) -> Iterator[Finding]:
    mode = path.stat().st_mode
    if mode & 0o077:
        text = f"{path} has the mode {stat.S_IMODE(mode):04o}, and everybody's words are in it"
        yield fixable("rights", text, "close it to others")


def _rights_of_folder(path: Path) -> Iterator[Finding]:
    """One that is not the database's alone is no matter of ours, unless others write in it."""
    mode = path.parent.stat().st_mode
    if is_alone(path):
        yield from _rights(path.parent)
    elif mode & 0o022:
        yield Finding(
            "rights",
            f"others may write in {path.parent} (mode {stat.S_IMODE(mode):04o}), beside "
            f"{path.name}, in which everybody's words are",
            "keep it in a folder that only its user writes in",
        )


def mend(path: Path, found: list[Finding], now: str) -> list[str]:
    """Do what is safe about what was found at the canonical instant `now`; gives what was done.

    DatabaseRefused, and then nothing was changed, where the file cannot be written or is damaged.
    """
    done = []
    if any(each.code in ("damage", "schema") for each in found):
        raise DatabaseRefused("what is wrong cannot be mended here, and nothing was changed")
    codes = {each.code for each in found if each.fixable}
    if "rights" in codes:
        done += _close_to_others(path)
    try:
        with closing(open_file(path)) as conn:
            conn.execute("BEGIN IMMEDIATE")
            done += mend_rows(conn, codes, now)
            conn.execute("COMMIT")
            if "log" in codes:
                (busy, *_) = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                done += [] if busy else ["the log of writes was emptied"]
    except sqlite3.Error as error:
        if is_locked(error):
            raise taken(path) from None
        raise DatabaseRefused(f"cannot write {path}: {error}") from None
    return done


def _close_to_others(path: Path) -> list[str]:
    done = []
    folder = [path.parent] if is_alone(path) else []
    for place in (*folder, *(path.with_name(f"{path.name}{end}") for end in _BESIDE)):
        try:
            mode = stat.S_IMODE(place.stat().st_mode)
            if mode & 0o077:
                place.chmod(mode & ~0o077)
                done.append(f"{place} was closed to others")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DatabaseRefused(f"cannot change the mode of {place}: {error.strerror}") from None
    return done


def holder(path: Path) -> int | None:
    """The process id of the daemon that holds the file, None where none does."""
    try:
        fd = os.open(f"{path}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(fd, 64, 0).decode(errors="replace").strip()
        return int(text) if text.isascii() and text.isdigit() else None
    finally:
        os.close(fd)
    return None
