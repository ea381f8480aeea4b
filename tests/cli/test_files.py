"""Files that are written anew: whole or not at all, through links, into pipes as they are."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from scheduler_daemon.cli import files
from scheduler_daemon.cli.exits import FailedError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_mode_that_is_asked_for_or_that_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write(str(tmp_path / "a"), b"one")
        files.write(str(tmp_path / "b"), b"two", 0o644)
    finally:
        os.umask(before)
    assert ((tmp_path / "a").read_bytes(), mode(tmp_path / "a")) == (b"one", 0o640)
    assert ((tmp_path / "b").read_bytes(), mode(tmp_path / "b")) == (b"two", 0o644)


def test_a_reader_of_the_old_file_still_has_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        files.write(str(path), b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    files.write(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    files.write(str(pipe), b"new")
    reader.join(timeout=60)
    assert read == [b"new"]
    assert pipe.is_fifo()


def test_what_cannot_be_written_leaves_what_was_there_and_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(FailedError, match=r"cannot write .*folder: Is a directory"):
        files.write(str(tmp_path / "folder"), b"x")
    with pytest.raises(FailedError, match="No such file or directory"):
        files.write(str(tmp_path / "none" / "a"), b"x")
    with pytest.raises(FailedError, match="File name too long"):
        files.write(str(tmp_path / ("a" * 300)), b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_a_write_that_fails_midway_removes_what_stood_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FailedError, match="No space left on device"):
        files.write(str(tmp_path / "a"), b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("end", ["", "-wal", "-shm", ".mark", ".lock"])
def test_a_database_and_what_lies_beside_it_is_never_written_over(tmp_path: Path, end: str) -> None:
    database = tmp_path / "scheduler.db"
    database.write_bytes(b"SQLite format 3\0" + bytes(84))
    place = tmp_path / f"scheduler.db{end}"
    before = place.read_bytes() if place.exists() else None
    with pytest.raises(FailedError, match="choose another name"):
        files.write(str(place), b"x")
    assert (place.read_bytes() if place.exists() else None) == before
