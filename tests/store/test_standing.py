"""What a process may notice of the files that it has open."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_daemon.store.standing import CUT_OFF, MOVED, Standing
from tests.store.support import by_hand, lost, new_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return new_file(tmp_path)


def opened_with_log(file: Path) -> Standing:
    Path(f"{file}-wal").touch()
    Path(f"{file}-shm").touch()
    return Standing(file)


def test_files_that_stay_as_they_are_stand(file: Path) -> None:
    standing = opened_with_log(file)
    try:
        assert standing.wrong() is None
        standing.note()
    finally:
        standing.close()


def test_a_file_that_is_not_there_does_not_stand(tmp_path: Path) -> None:
    standing = Standing(tmp_path / "none")
    try:
        assert standing.wrong() == MOVED
        assert standing._is_cut_off()
        assert not standing._is_log_another()
        standing.note()
        standing.keep()
    finally:
        standing.close()


@pytest.mark.parametrize("size", [0, 10, 4096])
def test_a_file_that_shrank_below_what_it_says_is_cut_off(file: Path, size: int) -> None:
    standing = opened_with_log(file)
    try:
        with file.open("r+b") as raw:
            raw.truncate(size)
        assert standing.wrong() == CUT_OFF
    finally:
        standing.close()


def test_a_file_that_shrank_to_what_its_header_says_stands(file: Path) -> None:
    with by_hand(file) as conn:
        conn.execute("CREATE TABLE big (x)")
        conn.execute("INSERT INTO big VALUES (zeroblob(400000))")
        conn.execute("PRAGMA journal_mode = DELETE")
    standing = opened_with_log(file)
    try:
        with by_hand(file) as conn:
            conn.execute("DROP TABLE big")
            conn.execute("VACUUM")
        assert standing.wrong() is None
    finally:
        standing.close()


def test_what_cannot_be_asked_for_lost_writes_has_lost_none(tmp_path: Path) -> None:
    assert lost(tmp_path / "none") == 0
