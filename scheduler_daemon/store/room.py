"""A full disk: the file has the room of what is acknowledged, and the log gives back its own.

What is written goes to the log first and from there into the file (a checkpoint). Where the file
has its room already, bringing it over needs no more of the disk: it can be done on a full one, and
what the log took is there for the next reminders.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import suppress
from typing import Literal

FULL = "the database or its disk is full"


class DiskFull(Exception):
    """There is no room; nothing of the transaction was stored."""


def is_full(error: Exception) -> bool:
    """Whether SQLite found no room: on the disk, or within a limit of its own."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def reserve(conn: sqlite3.Connection, file: int) -> None:
    """Let the file, open as `file`, have the room of what the open transaction makes of it.

    SQLite takes a file that is longer than its header says as it is. Raises DiskFull.
    """
    (pages,) = conn.execute("PRAGMA page_count").fetchone()
    (page_size,) = conn.execute("PRAGMA page_size").fetchone()
    has = os.fstat(file).st_size
    lacks = pages * page_size - has
    if lacks <= 0:
        return
    try:
        os.posix_fallocate(file, has, lacks)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(FULL) from error
        # Elsewhere than on a full disk the log finds its room when it is brought over.


def make_room(conn: sqlite3.Connection, how: Literal["RESTART", "TRUNCATE"]) -> bool:
    """Whether the log could be brought over, and is written from its beginning again.

    RESTART lets it keep its room, so that whoever fills the disk does not get it; TRUNCATE gives
    it to the file. Not while somebody reads in it for long.
    """
    with suppress(sqlite3.Error):
        (busy, *_) = conn.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
        return not busy
    return False
