"""Whole copies of the file: taken while a daemon runs, and put in its place while none does."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from scheduler_daemon.store.columns import LARGEST
from scheduler_daemon.store.database import (
    DatabaseHeld,
    DatabaseRefused,
    Lock,
    NotOurs,
    address_to_read,
    copy_into,
    examine,
    is_locked,
    make_private,
    open_file,
    taken,
)
from scheduler_daemon.store.lineage import log_is_foreign, sign
from scheduler_daemon.store.putting_right import IDS_LEFT_OUT as IDS_LEFT_OUT
from scheduler_daemon.store.putting_right import last_numbers, put_last_number
from scheduler_daemon.store.whole import UNREADABLE, check

_HOW_TO_STOP = (
    "stop it first, and what starts it again: `systemctl --user stop scheduler-daemon.socket "
    "scheduler-daemon.service` where units run it (without --user for one of the machine), "
    "else `kill` that process"
)

_BESIDE = ("-wal", "-shm", "-journal")


def backup(database: Path, target: Path, *, overwrite: bool) -> None:
    """Write a consistent copy of `database` to `target`, for its owner alone (0600).

    Changes that others make meanwhile are wholly in it or not at all. DatabaseRefused.
    """
    examine(database)
    if not database.exists():
        raise DatabaseRefused(f"there is no database {database}")
    place = Path(os.path.realpath(target))
    if place.exists() and place.samefile(database):
        raise DatabaseRefused(f"{place} is the database itself; choose another name")
    with _reserved(place, overwrite=overwrite), unfinished(place) as copying:
        _copy(database, copying)
        check(copying, database)
        copying.rename(place)
    _sync(place.parent)


def restore(source: Path, database: Path, stamp: str) -> Path | None:
    """Put a copy of `source`, a backup, in the place of `database`; gives where that is kept.

    None where there was none. No daemon may run; `stamp` names what is replaced. Ids of what is
    made from then on lie far above all that are known. DatabaseRefused.
    """
    examine(source, remedy="")
    if not source.is_file() or not source.stat().st_size:
        raise DatabaseRefused(f"{source} is not a backup: it is missing or empty")
    with held(database) as ours, unfinished(database) as copying:
        _copy(source, copying)
        check(copying, source)
        return install(copying, database, stamp, ours=ours)


@contextmanager
def held(database: Path) -> Iterator[bool]:
    """Hold the database as a daemon would, so that none starts; gives whether it may be opened.

    DatabaseRefused, also where there is something else than a file.
    """
    ours = _is_ours(database)
    make_private(database, for_its_owner=os.geteuid() == 0)
    try:
        lock = Lock(database)
    except DatabaseHeld as error:
        raise DatabaseHeld(f"{error}; {_HOW_TO_STOP}") from None
    try:
        _give(Path(f"{database}.lock"), _owner(database))
        if database.exists():
            lock.hold_file(database)
        yield ours
    finally:
        lock.release()


def _is_ours(database: Path) -> bool:
    try:
        examine(database)
    except NotOurs:
        return False
    except DatabaseRefused as error:
        raise DatabaseRefused(f"{error}; move it away, then run this again") from None
    return True


def install(copying: Path, database: Path, stamp: str, *, ours: bool = True) -> Path | None:
    """Put a checked file in the place of a database that is held; gives where that one is kept.

    What is not `ours` is kept as it is: it is not opened, and neither its mode nor its owner count.
    """
    # What was made since the copy, or in what is replaced, may be remembered.
    last = _last_id(database) if ours else 0
    raise_ids(copying, max(_last_id(copying), last) + IDS_LEFT_OUT)
    kept = None
    try:
        if database.exists():
            if ours:
                copying.chmod(database.stat().st_mode & 0o777)
                _empty_log(database)
            kept = _keep(database, stamp)
        _move_beside(database, stamp)
        _give(copying, _owner(database if ours else database.parent))
        _sync(copying)
        copying.rename(database)
        _sync(database.parent)
    except OSError as error:
        raise DatabaseRefused(f"cannot replace {database}: {error.strerror}") from None
    return kept


def raise_ids(path: Path, last: int) -> None:
    """Let ids go on above `last`, in a file that can be told from what it was copied from."""
    with closing(open_file(path)) as conn:
        conn.execute("BEGIN IMMEDIATE")
        put_last_number(conn, min(last, LARGEST))
        sign(conn)
        conn.execute("COMMIT")


def _last_id(path: Path) -> int:
    """The highest id that was ever given out; 0 where the file cannot tell."""
    if not path.exists():
        return 0
    try:
        with closing(open_file(path)) as conn:
            given_out, spoken_of = last_numbers(conn)
            return max(given_out or 0, spoken_of)
    except UNREADABLE as error:
        if is_locked(error):
            raise taken(path) from None
        return 0  # it is replaced because it is damaged


def _copy(source: Path, target: Path) -> None:
    try:
        with (
            closing(open_file(address_to_read(source))) as reading,
            closing(sqlite3.connect(target)) as writing,
        ):
            copy_into(reading, writing)
        _sync(target)
    except sqlite3.Error as error:
        if is_locked(error):
            raise taken(source) from None
        raise DatabaseRefused(f"cannot copy {source}: {error}") from None


@contextmanager
def _reserved(place: Path, *, overwrite: bool) -> Iterator[None]:
    """Keep the name of a file that is to be made; what is there stays where it fails."""
    made = False
    try:
        if place.exists() and not place.is_file():
            raise DatabaseRefused(f"{place} is not a file, and a backup goes to one")
        if place.with_name(f"{place.name}-wal").exists() or _belongs_to_another(place):
            raise DatabaseRefused(f"{place} is a database in use; choose another name")
        if not overwrite:
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            made = True
        yield
        made = False
    except FileExistsError:
        raise DatabaseRefused(f"{place} is there already; it is replaced with --force") from None
    except OSError as error:
        raise DatabaseRefused(f"cannot write {place}: {error.strerror}") from None
    finally:
        if made:
            place.unlink()


def _belongs_to_another(place: Path) -> bool:
    """Whether it is a log, a lock or a mark that lies beside a database."""
    ends = (*_BESIDE, ".mark", ".lock")
    return any(
        place.name.endswith(end) and place.with_name(place.name.removesuffix(end)).exists()
        for end in ends
    )


@contextmanager
def unfinished(place: Path) -> Iterator[Path]:
    """An empty file beside `place`, for its owner alone, which goes when it was not renamed."""
    path = place.with_name(f"{place.name}.{os.getpid()}.unfinished")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise DatabaseRefused(f"cannot write in {place.parent}: {error.strerror}") from None
    try:
        yield path
    finally:
        for name in (path, *(path.with_name(f"{path.name}{end}") for end in _BESIDE)):
            name.unlink(missing_ok=True)


def _empty_log(database: Path) -> None:
    """Bring what the log holds into the file, where that can be done."""
    with suppress(*UNREADABLE), closing(open_file(database)) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _keep(database: Path, stamp: str) -> Path:
    """Give the database a second name."""
    kept = database.with_name(f"{database.name}.replaced-{stamp}")
    try:
        os.link(database, kept)
    except PermissionError:  # a file system without second names
        shutil.copy2(database, kept)
    return kept


def _move_beside(database: Path, stamp: str) -> None:
    """Take away the log of the file that was here, also of one that is gone.

    SQLite would play it into the new file, which would then be another one or none. Beside what is
    kept it lies only where it is of that.
    """
    foreign = log_is_foreign(database) or not database.exists()
    name = f"{database.name}.{'lost' if foreign else 'replaced'}-{stamp}"
    for end in (*_BESIDE, ".mark"):
        beside = database.with_name(f"{database.name}{end}")
        if beside.exists():
            beside.rename(database.with_name(f"{name}{end}"))


def _owner(database: Path) -> os.stat_result:
    """Whose the database is, or will be: its folder's where it is not there."""
    return (database if database.exists() else database.parent).stat()


def _give(path: Path, owner: os.stat_result) -> None:
    """Let the daemon's user have what root made for it."""
    if os.geteuid() == 0:
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
