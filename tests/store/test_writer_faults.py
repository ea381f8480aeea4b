"""What SQLite, the disk or a hand does to the file: each caller of a group hears what is true."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.errors import LimitReached, PersistenceFailed, PersistenceUncertain
from scheduler_daemon.store.database import connect
from scheduler_daemon.store.room import FULL
from scheduler_daemon.store.standing import CUT_OFF, MOVED
from scheduler_daemon.store.writer import FAILED, UNCERTAIN
from tests.store.support import by_hand
from tests.store.writing import Act, Bench, InterruptedFromOutside, bench, raising, write


@pytest.fixture
async def writing(path: Path) -> AsyncIterator[Bench]:
    async with bench(path) as the_bench:
        yield the_bench


def names(conn: sqlite3.Connection) -> list[str]:
    return [name for (name,) in conn.execute("SELECT name FROM written")]


def refused_if_stored(name: str) -> Act:
    """An act that a rule refuses once `name` is there, as a limit does."""

    def act(conn: sqlite3.Connection) -> None:
        if name in names(conn):
            raise LimitReached("enough")

    return act


# --- the whole transaction is given up under one act


async def test_an_interrupted_act_is_tried_alone_and_so_are_the_others(writing: Bench) -> None:
    """SQLite rolls the whole transaction back: what ran before it must not be forgotten."""
    act = InterruptedFromOutside("b", times=1)
    assert await writing.together(write("a"), act, write("c")) == ["a", "b", "c"]
    assert writing.transactions == 1 + 3
    assert writing.stored() == ["a", "b", "c"]
    assert writing.failures == ["interrupted"]


async def test_an_act_that_is_always_interrupted_fails_and_the_others_are_stored(
    writing: Bench,
) -> None:
    act = InterruptedFromOutside("b", times=2)
    given = await writing.together(write("a"), act, write("c"), refused_if_stored("c"))
    assert (given[0], given[2]) == ("a", "c")
    assert isinstance(given[1], PersistenceFailed)
    assert str(given[1]) == FAILED
    assert isinstance(given[3], LimitReached)
    assert writing.stored() == ["a", "c"]


async def test_an_interrupted_question_gives_nothing_up_but_its_own_act(writing: Bench) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    act = InterruptedFromOutside("b", times=1, statement=endless)
    given = await writing.together(write("a"), act, write("c"))
    assert (given[0], given[2]) == ("a", "c")
    assert isinstance(given[1], PersistenceFailed)
    assert writing.transactions == 1


@pytest.mark.parametrize("statement", ["SAVEPOINT act", "ROLLBACK TO act", "RELEASE act"])
async def test_an_interrupt_of_the_writers_own_statements_harms_nobody(
    writing: Bench, statement: str
) -> None:
    writing.on[statement] = writing.conn.interrupt
    given = await writing.together(write("a"), raising(ValueError("no")), write("c"))
    stored = [name for name in given if isinstance(name, str)]
    assert isinstance(given[1], ValueError)
    assert given[2] == "c"
    assert stored == writing.stored()
    assert given[0] == "a" or isinstance(given[0], PersistenceFailed)


async def test_a_transaction_that_cannot_begin_fails_for_its_whole_group(writing: Bench) -> None:
    writing.on["BEGIN IMMEDIATE"] = writing.conn.interrupt
    given = await writing.together(write("a"), write("b"))
    assert [type(error) for error in given] == [PersistenceFailed] * 2
    assert given[0] is not given[1]
    assert writing.failures == ["interrupted"]
    assert writing.stored() == []
    assert await writing.writer.run(write("a")) == "a"


async def test_a_full_disk_fails_what_does_not_fit_and_nothing_else(writing: Bench) -> None:
    def fill(conn: sqlite3.Connection) -> None:
        conn.execute("INSERT INTO written VALUES (hex(zeroblob(100000)))")

    def little_room(conn: sqlite3.Connection) -> None:
        (pages,) = conn.execute("PRAGMA page_count").fetchone()
        conn.execute(f"PRAGMA max_page_count = {pages + 5}")

    await writing.database.run(little_room)
    given = await writing.together(write("a"), fill, write("b"), fill, write("c"))
    assert [given[0], given[2], given[4]] == ["a", "b", "c"]
    assert [type(given[1]), type(given[3])] == [PersistenceFailed] * 2
    assert given[1] is not given[3]
    assert writing.stored() == ["a", "b", "c"]
    assert writing.failures == [FULL, FULL]
    # Of what finds no room each is tried again with that of the log, and with all of that.
    assert writing.transactions == 3 + (1 + 3 + 1 + 3 + 1)


# --- the commit fails


async def test_an_interrupted_commit_stored_nothing_and_that_is_certain(writing: Bench) -> None:
    writing.on["COMMIT"] = writing.conn.interrupt
    given = await writing.together(write("a"), write("b"))
    assert [str(error) for error in given] == [FAILED, FAILED]
    assert [type(error) for error in given] == [PersistenceFailed] * 2
    assert given[0] is not given[1]
    assert writing.stored() == []
    assert await writing.together(write("a")) == ["a"]


async def test_a_refusal_that_may_rest_on_what_was_not_stored_is_not_given(
    writing: Bench,
) -> None:
    """The limit was reached by an act that is not stored: that answer would be false."""
    writing.on["COMMIT"] = writing.conn.interrupt
    given = await writing.together(write("a"), refused_if_stored("a"))
    assert [type(error) for error in given] == [PersistenceFailed] * 2
    assert await writing.together(refused_if_stored("a")) == [None]


@contextmanager
def no_byte_more_in(path: Path) -> Iterator[None]:
    """Every write beyond the end of a file fails as a broken disk's does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_after_an_error_of_the_disk_in_the_commit_it_is_not_known(writing: Bench) -> None:
    """Its last frame may have reached the log, where a restart would find it."""
    with no_byte_more_in(writing.path.with_name("scheduler.db-wal")):
        given = await writing.together(write("a"), raising(LimitReached("enough")), write("b"))
    assert [type(error) for error in given] == [
        PersistenceUncertain,
        PersistenceFailed,
        PersistenceUncertain,
    ]
    assert str(given[0]) == UNCERTAIN
    assert given[0] is not given[2]
    assert writing.failures == ["disk I/O error"]
    assert await writing.together(write("a")) == ["a"]
    assert writing.stored() == ["a"]


class _FullAtCommit(sqlite3.Connection):
    """A connection whose first `times` commits meet a full disk, as SQLite reports it."""

    times = 0

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql != "COMMIT" or not self.times:
            return super().execute(sql, *values)
        self.times -= 1
        super().execute("ROLLBACK")  # which SQLite does by itself then
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error


def full_at_commit(monkeypatch: pytest.MonkeyPatch, times: int) -> Callable[[Path], Any]:
    """Opens such a connection. No disk can be filled here between a statement and its commit."""
    original = sqlite3.connect

    def connection(path: Path) -> sqlite3.Connection:
        with monkeypatch.context() as patch:
            patch.setattr(
                sqlite3, "connect", lambda *a, **k: original(*a, factory=_FullAtCommit, **k)
            )
            conn = connect(path, read_only=False)
        assert isinstance(conn, _FullAtCommit)
        conn.times = times
        return conn

    return connection


@pytest.mark.parametrize("times", [1, 2])
async def test_a_commit_that_the_full_disk_refused_finds_the_room_of_the_log(
    path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    async with bench(path, full_at_commit(monkeypatch, times)) as writing:
        assert await writing.together(write("a"), write("b")) == ["a", "b"]
        assert writing.stored() == ["a", "b"]
        assert writing.failures == []
        assert writing.transactions == 1 + times


async def test_a_commit_that_the_full_disk_refused_stored_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit together is tried alone, and each hears what is true of it."""
    async with bench(path, full_at_commit(monkeypatch, 3 + 3)) as writing:
        given = await writing.together(write("a"), write("b"))
        assert isinstance(given[0], PersistenceFailed)
        assert given[1] == "b"
        assert writing.stored() == ["b"]
        assert writing.failures == [FULL]


async def test_while_somebody_reads_a_full_disk_is_not_tried_in_vain(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log cannot be brought over then: what else is in it would be lost to the reader."""
    async with bench(path, full_at_commit(monkeypatch, 0)) as writing:
        assert await writing.together(write("a")) == ["a"]
        with by_hand(path) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT name FROM written").fetchall() == [("a",)]
            assert await writing.together(write("b")) == ["b"]
            assert isinstance(writing.conn, _FullAtCommit)
            writing.conn.times = 10
            given = await writing.together(write("c"))
        assert isinstance(given[0], PersistenceFailed)
        assert writing.conn.times == 9


# --- the file is not there any more


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("other"))
    path.with_name("other").rename(path)


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("harm", [cut, empty])
async def test_nothing_is_acknowledged_once_the_file_is_cut_off(
    writing: Bench, harm: Callable[[Path], None]
) -> None:
    with by_hand(writing.path) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    harm(writing.path)
    given = await writing.together(write("a"))
    assert [type(error) for error in given] == [PersistenceFailed]
    assert any(said in writing.failures[-1] for said in (CUT_OFF, "malformed", "not a database"))


@pytest.mark.parametrize("harm", [delete, replace, delete_log])
async def test_nothing_is_acknowledged_once_the_file_is_deleted_or_replaced(
    writing: Bench, harm: Callable[[Path], None]
) -> None:
    """SQLite itself writes on into what nobody can open any more."""
    assert await writing.together(write("before")) == ["before"]
    harm(writing.path)
    given = await writing.together(write("a"), raising(LimitReached("enough")))
    assert [type(error) for error in given] == [PersistenceFailed] * 2
    assert writing.failures == [MOVED]
    assert await writing.database.run(names) == ["before"]


async def test_a_file_replaced_during_the_commit_makes_it_uncertain(writing: Bench) -> None:
    writing.on["COMMIT"] = lambda: replace(writing.path)
    given = await writing.together(write("a"), write("b"))
    assert [type(error) for error in given] == [PersistenceUncertain] * 2
    assert given[0] is not given[1]
    assert writing.failures == [MOVED]


# --- defects


async def test_a_defect_of_the_writer_leaves_nobody_waiting_and_nothing_half_done(
    writing: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waited hears that it is not known; what the defect left open is not committed."""

    def broken(*args: object) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(writing.writer, "_finish", broken)
        given = await writing.together(write("a"), write("b"))
    assert [type(error) for error in given] == [PersistenceUncertain] * 2
    assert given[0] is not given[1]
    assert writing.failures == ["RuntimeError('a defect')"]
    assert await writing.together(write("c")) == ["c"]
    assert writing.stored() == ["c"]


async def test_a_connection_that_was_closed_fails_every_write(path: Path) -> None:
    async with bench(path) as writing:
        await writing.database.run(lambda conn: conn.close())
        given = await writing.together(write("a"), write("b"))
    assert [type(error) for error in given] == [PersistenceFailed] * 2
