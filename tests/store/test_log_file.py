"""What the log of writes and its index say of each other."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_daemon.store.log_file import (
    NO_PAGE,
    Log,
    indexed,
    is_another,
    is_broken,
    is_brought_over,
    last_page,
    said_by,
)
from scheduler_daemon.store.standing import LOG_CHANGED, Standing
from tests.store.support import lost, new_file


class Written:
    """A file with a change that is in its log only, while a connection has it open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log_path = path.with_name(f"{path.name}-wal")
        self.conn = sqlite3.connect(path, isolation_level=None)
        self.conn.execute("PRAGMA wal_autocheckpoint = 0")
        self.write()
        self.index = os.open(path.with_name(f"{path.name}-shm"), os.O_RDWR)
        self.log = os.open(self.log_path, os.O_RDWR)

    def write(self) -> None:
        self.conn.execute("INSERT OR REPLACE INTO meta VALUES ('x', hex(randomblob(2000)))")

    def close(self) -> None:
        os.close(self.index)
        os.close(self.log)
        self.conn.close()


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    made = Written(new_file(tmp_path))
    with closing(made):
        yield made


def test_a_log_that_goes_on_is_the_same(written: Written) -> None:
    before = indexed(written.index)
    assert before is not None
    assert not is_another(written.log, written.index, None)
    written.write()
    assert not is_another(written.log, written.index, before)


def test_a_log_that_is_shorter_than_its_index_says_is_another(written: Written) -> None:
    os.ftruncate(written.log, os.fstat(written.log).st_size - 1)
    assert is_another(written.log, written.index, None)


def test_a_log_that_was_longer_is_another(written: Written) -> None:
    now = indexed(written.index)
    assert now is not None
    assert is_another(written.log, written.index, Log(now.page_size, now.frames + 1, now.salts))
    assert not is_another(written.log, written.index, Log(now.page_size, now.frames + 1, b"others"))


def test_an_index_that_is_being_written_says_nothing(written: Written) -> None:
    os.pwrite(written.index, b"\xff" * 4, 60)
    assert indexed(written.index) is None
    assert not is_another(written.log, written.index, None)


@pytest.mark.parametrize("page_size", [512, 4096, 32768, 65536])
def test_what_an_index_says_is_noted_as_it_was(page_size: int) -> None:
    said = Log(page_size, 7, b"saltsalt")
    assert said_by(said.note()) == said
    assert said_by(said.note()[:-1]) is None
    assert said_by(bytes(len(said.note()))) is None


def test_an_empty_log_has_no_last_page(written: Written) -> None:
    assert last_page(written.log, Log(4096, 0, b"saltsalt")) == NO_PAGE


def test_what_changes_while_it_is_looked_at_is_looked_at_again_later(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.ftruncate(written.log, 0)
    said = iter([Log(4096, 5, b"12345678"), Log(4096, 6, b"12345678")])
    monkeypatch.setattr("scheduler_daemon.store.log_file.indexed", lambda _: next(said))
    assert not is_another(written.log, written.index, None)


def test_a_page_is_brought_over_once_the_file_has_it(written: Written) -> None:
    said = indexed(written.index)
    assert said is not None
    note = last_page(written.log, said)
    assert not is_brought_over(written.path, note)
    written.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert is_brought_over(written.path, note)
    assert is_brought_over(written.path, NO_PAGE)
    assert is_brought_over(written.path, b"")


def test_a_log_is_broken_when_its_beginning_is(written: Written, tmp_path: Path) -> None:
    assert not is_broken(written.log_path)
    assert not is_broken(tmp_path / "none")
    os.pwrite(written.log, b"\xee", 17)
    assert is_broken(written.log_path)
    os.ftruncate(written.log, 0)
    assert is_broken(written.log_path)


def test_what_was_noted_and_is_in_no_log_any_more_is_lost(written: Written) -> None:
    standing = Standing(written.path)
    with closing(standing):
        standing.note()
        os.ftruncate(written.log, 0)
        assert standing.wrong() == LOG_CHANGED
        standing.keep()
    assert lost(written.path) > 0
    Path(f"{written.path}.mark").write_bytes(b"")
    assert lost(written.path) == 0


def test_a_log_with_all_that_was_noted_has_lost_nothing(written: Written) -> None:
    with closing(Standing(written.path)) as standing:
        standing.note()
        assert standing.wrong() is None
    assert lost(written.path) == 0
