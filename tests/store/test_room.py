"""The room that the file has before its pages are brought over from the log."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_daemon.store.database import connect
from scheduler_daemon.store.room import DiskFull, make_room, reserve
from tests.store.support import by_hand


@pytest.fixture
def conn(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction that makes the file larger."""
    with closing(connect(path, read_only=False)) as opened:
        opened.execute("CREATE TABLE large (x)")
        opened.execute("BEGIN IMMEDIATE")
        opened.execute("INSERT INTO large VALUES (zeroblob(100000))")
        yield opened


@pytest.fixture
def file(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


def test_the_file_has_the_room_before_the_commit_and_is_none_the_longer_for_it(
    path: Path, conn: sqlite3.Connection, file: int
) -> None:
    before = path.stat().st_size
    reserve(conn, file)
    reserved = path.stat().st_size
    reserve(conn, file)
    assert before + 100_000 <= reserved == path.stat().st_size
    conn.execute("COMMIT")
    assert make_room(conn, "TRUNCATE")
    assert path.stat().st_size == reserved
    assert not Path(f"{path}-wal").stat().st_size
    assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_room_that_was_not_used_is_given_back_when_the_log_is_brought_over(
    path: Path, conn: sqlite3.Connection, file: int
) -> None:
    reserve(conn, file)
    reserved = path.stat().st_size
    conn.execute("ROLLBACK")
    conn.execute("INSERT INTO large VALUES (1)")
    assert make_room(conn, "RESTART")
    assert path.stat().st_size < reserved - 90_000
    assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_where_there_is_no_room_nothing_is_written(
    conn: sqlite3.Connection, file: int, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", _refusing(code))
    with pytest.raises(DiskFull):
        reserve(conn, file)


def test_a_file_system_that_cannot_reserve_is_no_full_one(
    conn: sqlite3.Connection, file: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", _refusing(errno.EOPNOTSUPP))
    reserve(conn, file)


def _refusing(code: int) -> object:
    def refuse(*_: int) -> None:
        raise OSError(code, os.strerror(code))

    return refuse


def test_the_log_is_not_written_anew_while_somebody_reads_in_it(
    path: Path, conn: sqlite3.Connection
) -> None:
    conn.execute("COMMIT")
    with by_hand(path) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT x FROM large").fetchall()
        assert not make_room(conn, "RESTART")
    assert make_room(conn, "RESTART")


def test_a_log_that_cannot_be_brought_over_gives_no_room(conn: sqlite3.Connection) -> None:
    conn.close()
    assert not make_room(conn, "TRUNCATE")
