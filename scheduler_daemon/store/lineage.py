"""Whether the log of writes beside a file was written for that file.

SQLite brings a log over into any file of the right name, without an error: nothing in it says of
which it is. A copy that somebody puts in the place of a database whose daemon was killed would
become a mixture of both. So each run writes a number of its own into the header of the file, and
the mark beside it (standing.py) keeps what the header was when the log began. As long as there is
that log, the file has this header, or one that the log brought over.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HEADER_BYTES = 100

_LOG = struct.Struct(">8xI4x8s8x")
"""Page size and salts, from the header of a log (SQLite file format, 4.1)."""

_FRAME = struct.Struct(">I4x8s8x")
"""Page number and salts, from the header of a frame, which its page follows."""

_MARK = struct.Struct("=32x8s8s100s")
"""Salts as they are in the index (log_file.py), then an origin.

A version without origins writes the former alone: they are then of another log.
"""

MARK_BYTES = _MARK.size


class Origin(NamedTuple):
    """What the header of the file was when the log with these salts began."""

    salts: bytes
    header: bytes


def sign(conn: sqlite3.Connection) -> None:
    """Write a number of its own into the header of the file.

    It is the schema's, which another one makes others read the schema again.
    """
    conn.execute(f"PRAGMA schema_version = {secrets.randbits(31)}")


def noted(path: Path) -> Origin | None:
    """What was noted last in the mark beside the file at `path`, None where nothing was."""
    try:
        with path.with_name(f"{path.name}.mark").open("rb") as file:
            data = file.read(_MARK.size)
    except OSError:
        return None
    if len(data) < _MARK.size:
        return None
    salts, *origin = _MARK.unpack(data)
    return Origin(*origin) if salts == origin[0] else None


def is_foreign(header: bytes, log: int, origin: Origin) -> bool:
    """Whether the file with this header is not the one of the log that is open as `log`.

    False where the log is not the one whose origin is known.
    """
    if header == origin.header or _page_size(log, origin) is None:
        return False
    brought_over = any(found == header for found in _headers(log, origin))
    # A log that began anew meanwhile begins with its header.
    return not brought_over and _page_size(log, origin) is not None


def log_is_foreign(path: Path) -> bool:
    """Whether the log beside the file at `path` was written for another file."""
    origin = noted(path)
    if origin is None:
        return False
    try:
        with path.open("rb") as file, path.with_name(f"{path.name}-wal").open("rb") as log:
            return is_foreign(file.read(HEADER_BYTES), log.fileno(), origin)
    except OSError:  # without a log there is nothing to mix; what else is wrong is said elsewhere
        return False


def _page_size(log: int, origin: Origin) -> int | None:
    """The size of the pages in the log, None where it is another log."""
    head = os.pread(log, _LOG.size, 0)
    if len(head) < _LOG.size:
        return None
    page_size, salts = _LOG.unpack(head)
    return int(page_size) if salts == origin.salts else None


def _headers(log: int, origin: Origin) -> Iterator[bytes]:
    """Every header of the file that the log holds: each is the beginning of a first page."""
    page_size = _page_size(log, origin)
    at = _LOG.size
    while page_size and len(head := os.pread(log, _FRAME.size, at)) == _FRAME.size:
        page, salts = _FRAME.unpack(head)
        if page == 1 and salts == origin.salts:
            yield os.pread(log, HEADER_BYTES, at + _FRAME.size)
        at += _FRAME.size + page_size
