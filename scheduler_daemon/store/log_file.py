"""Whether the log of writes is the one that its index speaks of.

SQLite reads on in a log that was cut off, emptied or replaced, without an error, and when it is
closed brings over into the file what it finds there. What is here reads bytes and locks nothing.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

HEAD_BYTES = 32
FRAME_HEAD_BYTES = 24

_COPY_BYTES = 48
"""The index begins with two copies of what it says (SQLite's WAL-index format, 2.1)."""

_INDEX = struct.Struct("=12x?xHI12x8s")
"""The beginning of a copy: whether it is in use, page size, frames and salts."""

INDEX_BYTES = _INDEX.size

_PAGE = struct.Struct(">III")
"""Number, size and checksum of a page; numbers begin with 1."""

NO_PAGE = bytes(_PAGE.size)


class Log(NamedTuple):
    """What the index says of its log: pages of `page_size` bytes in `frames` frames."""

    page_size: int
    frames: int
    salts: bytes

    def offset(self, frame: int) -> int:
        """Where a frame begins; they are counted from 0."""
        return HEAD_BYTES + frame * (FRAME_HEAD_BYTES + self.page_size)

    def note(self) -> bytes:
        """As the index has it, for `said_by`."""
        return _INDEX.pack(True, self.page_size & 0xFFFF or 1, self.frames, self.salts)


def said_by(data: bytes) -> Log | None:
    """What an index that begins like this says; None where it is cut short or not in use."""
    if len(data) < INDEX_BYTES:
        return None
    in_use, page_size, frames, salts = _INDEX.unpack_from(data)
    return Log(65536 if page_size == 1 else page_size, frames, salts) if in_use else None


def indexed(index: int) -> Log | None:
    """What the index, open as `index`, says; None while somebody writes it, or when it is empty."""
    data = os.pread(index, 2 * _COPY_BYTES, 0)
    one, other = data[:_COPY_BYTES], data[_COPY_BYTES:]
    return said_by(one) if one == other else None


def is_another(log: int, index: int, last: Log | None) -> bool:
    """Whether the log that is open as `log` lacks what its index says, or what `last` said."""
    said = indexed(index)
    if said is None:
        return False
    salts = os.pread(log, HEAD_BYTES, 0)[16:24]
    size = os.fstat(log).st_size
    if indexed(index) != said:
        return False  # another program writes at this moment; it is looked at again soon
    lacks = said.frames > 0 and (salts != said.salts or size < said.offset(said.frames))
    return lacks or (last is not None and said.salts == last.salts and said.frames < last.frames)


def last_page(log: int, said: Log) -> bytes:
    """A note of the page in the last frame, for `is_brought_over`."""
    if said.frames == 0:
        return NO_PAGE
    frame = os.pread(log, FRAME_HEAD_BYTES + said.page_size, said.offset(said.frames - 1))
    checksum = zlib.crc32(frame[FRAME_HEAD_BYTES:])
    return _PAGE.pack(int.from_bytes(frame[:4]), said.page_size, checksum)


def is_brought_over(path: Path, note: bytes) -> bool:
    """Whether the file at `path` has the page of which `last_page` made the note: then nothing of
    the log was needed. Where no page was noted it is taken to be so. OSError.
    """
    if len(note) < _PAGE.size or note[: _PAGE.size] == NO_PAGE:
        return True
    number, size, checksum = map(int, _PAGE.unpack_from(note))
    with path.open("rb") as file:
        file.seek((number - 1) * size)
        return zlib.crc32(file.read(size)) == checksum


def is_broken(path: Path) -> bool:
    """Whether the log at `path` is there and begins with nothing that SQLite takes. OSError."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError:
        return False
    return len(head) < HEAD_BYTES or _checksum(head[:24]) != head[24:]


def _checksum(head: bytes) -> bytes:
    """The sums that follow in a whole header (SQLite file format, 4.2)."""
    first = second = 0
    words = struct.unpack(">6I" if head[3] & 1 else "<6I", head)
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return struct.pack(">II", first, second)
