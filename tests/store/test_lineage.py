"""Of which file a log is: what the header tells, and when nobody can say."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_daemon.store import lineage
from scheduler_daemon.store.database import NotOurs, connect, examine
from scheduler_daemon.store.lineage import is_foreign, log_is_foreign, noted
from scheduler_daemon.store.standing import OVERWRITTEN, Standing


class Written:
    """A file with a log, as a daemon leaves them when it is killed, and one of another run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path.with_name(f"{path.name}-wal")
        self.mark = path.with_name(f"{path.name}.mark")
        self.conn = connect(path, read_only=False)
        self.standing = Standing(path)
        self.write("first")

    def write(self, name: str) -> None:
        self.conn.execute("BEGIN IMMEDIATE")
        self.conn.execute("INSERT INTO meta VALUES (?, zeroblob(9000) || '')", (name,))
        assert self.standing.wrong() is None
        self.standing.prepare(self.conn)
        self.conn.execute("COMMIT")
        assert self.standing.wrong() is None
        self.standing.note()

    def bring_over(self, how: str) -> None:
        assert self.conn.execute(f"PRAGMA wal_checkpoint({how})").fetchone()[0] == 0
        assert self.standing.wrong() is None

    def put_another(self) -> None:
        """In the place of the file: the number of another run is in its header."""
        data = bytearray(self.path.read_bytes())
        data[40:44] = b"\x12\x34\x56\x78"
        self.path.write_bytes(data)


@pytest.fixture
def written(path: Path) -> Iterator[Written]:
    made = Written(path)
    yield made
    made.conn.close()
    made.standing.close()


@pytest.mark.parametrize("how", ["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
def test_a_log_is_of_its_file_however_it_was_brought_over(written: Written, how: str) -> None:
    for number in range(3):
        assert not log_is_foreign(written.path)
        written.bring_over(how)
        assert not log_is_foreign(written.path)
        written.write(f"more {number}")
    examine(written.path)


def test_a_log_is_of_its_file_while_it_is_brought_over(written: Written) -> None:
    """Page by page: the header is the former's, or already the new one."""
    before = written.path.read_bytes()
    written.write("large")
    written.bring_over("PASSIVE")
    after = written.path.read_bytes()
    assert before[:100] != after[:100]
    written.path.write_bytes(after[:4096] + before[4096:])
    assert not log_is_foreign(written.path)
    written.path.write_bytes(before)
    assert not log_is_foreign(written.path)


def test_another_file_is_refused_and_told_under_the_one_who_has_it_open(written: Written) -> None:
    before = written.path.read_bytes()
    written.put_another()
    assert log_is_foreign(written.path)
    with pytest.raises(NotOurs, match="would be mixed into it; nothing was changed"):
        examine(written.path)
    assert written.standing.wrong() == OVERWRITTEN
    written.path.write_bytes(before)
    examine(written.path)
    assert written.standing.wrong() is None


def test_the_former_state_of_the_same_file_is_another_file(written: Written) -> None:
    before = written.path.read_bytes()
    written.bring_over("RESTART")
    written.write("more")
    written.path.write_bytes(before)
    assert log_is_foreign(written.path)


def test_of_a_log_that_is_not_the_one_that_was_noted_nothing_can_be_said(written: Written) -> None:
    written.put_another()
    data = bytearray(written.log.read_bytes())
    data[16:24] = b"\xff" * 8
    written.log.write_bytes(data)
    assert not log_is_foreign(written.path)


@pytest.mark.parametrize("size", [0, 31])
def test_a_log_that_has_nothing_in_it_is_of_nobody(written: Written, size: int) -> None:
    written.put_another()
    os.truncate(written.log, size)
    assert not log_is_foreign(written.path)


@pytest.mark.parametrize("size", [32, 40, 32 + 24, 32 + 24 + 4096 + 7])
def test_a_log_that_was_cut_off_is_still_of_its_file(written: Written, size: int) -> None:
    log = written.log.read_bytes()
    os.truncate(written.log, size)
    assert not log_is_foreign(written.path)
    written.put_another()
    assert log_is_foreign(written.path)
    written.log.write_bytes(log)


@pytest.mark.parametrize("gone", ["log", "mark"])
def test_without_a_log_or_a_mark_there_is_nothing_to_say(written: Written, gone: str) -> None:
    shutil.copytree(written.path.parent, copy := written.path.parent / "copy")
    written.put_another()
    shutil.copy(written.path, copy)
    assert log_is_foreign(copy / "scheduler.db")
    getattr(written, gone).rename(copy / "gone")
    (copy / getattr(written, gone).name).unlink()
    assert not log_is_foreign(copy / "scheduler.db")


def test_the_mark_of_an_older_version_says_nothing_of_the_file(written: Written) -> None:
    """Nor what is left behind it of ours."""
    data = bytearray(written.mark.read_bytes())
    assert noted(written.path) is not None
    data[32:40] = b"another."
    written.mark.write_bytes(data)
    assert noted(written.path) is None
    os.truncate(written.mark, 40)
    assert noted(written.path) is None


def test_a_log_that_begins_anew_while_it_is_looked_through_is_no_proof(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = noted(written.path)
    assert origin is not None

    def begins_anew(*_: object) -> list[bytes]:
        written.bring_over("TRUNCATE")
        return []

    monkeypatch.setattr(lineage, "_headers", begins_anew)
    with written.log.open("rb") as log:
        assert is_foreign(bytes(100), log.fileno(), origin) is False


def test_each_run_signs_the_file_once_with_a_number_of_its_own(written: Written) -> None:
    def number() -> int:
        (found,) = written.conn.execute("PRAGMA schema_version").fetchone()
        return int(found)

    first = number()
    written.write("more")
    assert number() == first
    written.standing.close()
    written.standing = Standing(written.path)
    written.write("next run")
    assert number() != first


def test_what_changes_nothing_is_not_signed(path: Path) -> None:
    with closing(connect(path, read_only=False)) as conn:
        standing = Standing(path)
        before = conn.execute("PRAGMA schema_version").fetchone()
        conn.execute("BEGIN IMMEDIATE")
        standing.prepare(conn)
        conn.execute("COMMIT")
        standing.close()
        assert conn.execute("PRAGMA schema_version").fetchone() == before
