"""A file that another program holds is said to be held: never damaged, and never without end."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_daemon.cli import exits
from scheduler_daemon.cli.main import main
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.backup import backup, restore
from scheduler_daemon.store.carry import export, import_lines
from scheduler_daemon.store.database import DatabaseTaken, is_taken
from scheduler_daemon.store.doctor import look, mend
from scheduler_daemon.store.finding import fixable
from scheduler_daemon.store.migrate import known, migrate
from tests.store.support import T0, by_hand, new_file, taken_by_another

NOW = instant_text(T0)
STAMP = "20260302T120000Z"


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_daemon.store.database.OPEN_SECONDS", 0.05)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A copy of the file, made while nobody held it."""
    copy = tmp_path / "copies" / "whole.db"
    copy.parent.mkdir()
    backup(new_file(tmp_path), copy, overwrite=False)
    return copy


@pytest.fixture
def taken(whole: Path, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "scheduler.db"
    with taken_by_another(path):
        yield path


LOOKED = [fixable("counts", "a count is wrong", "count anew")]

ACTS: dict[str, Callable[[Path, Path], object]] = {
    "doctor": lambda path, _: look(path),
    "doctor --fix": lambda path, _: mend(path, LOOKED, NOW),
    "backup": lambda path, whole: backup(path, whole.with_name("b.db"), overwrite=False),
    "restore over it": lambda path, whole: restore(whole, path, STAMP),
    "restore of it": lambda path, whole: restore(path, whole.with_name("other.db"), STAMP),
    "export": lambda path, _: list(export(path, NOW)),
    "import": lambda path, _: import_lines([], path, NOW, STAMP, dry_run=False),
    "migrate": lambda path, _: migrate(path, NOW),
}


@pytest.mark.parametrize("what", ACTS)
def test_whoever_needs_a_file_that_another_program_holds_says_so_and_ends(
    taken: Path, whole: Path, what: str
) -> None:
    beside = sorted(each.name for each in whole.parent.iterdir())
    with pytest.raises(DatabaseTaken, match=f"another program holds the database {taken} "):
        ACTS[what](taken, whole)
    left = {each.name for each in whole.parent.iterdir()} - {"other.db.lock"}
    assert sorted(left) == beside


def test_doctor_tells_a_held_file_from_a_faulty_one_by_its_exit_status(
    taken: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--database", str(taken)]) == exits.UNREACHABLE
    said = capsys.readouterr()
    assert "another program holds the database" in said.err
    assert f"`fuser {taken}` names it" in said.err
    assert "damaged" not in said.out + said.err


def test_a_copy_before_a_migration_does_not_wait_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = new_file(tmp_path)
    with by_hand(path) as conn:
        conn.execute("DELETE FROM migrations WHERE number = (SELECT max(number) FROM migrations)")
        conn.execute(f"PRAGMA user_version = {len(known()) - 1}")
    with taken_by_another(path), pytest.raises(DatabaseTaken):
        migrate(path, NOW)


def test_asking_whether_a_file_is_held_leaves_its_log_as_it_lies_there(tmp_path: Path) -> None:
    """What a killed daemon left is looked at after this."""
    path = new_file(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("CREATE TABLE more (n)")
        killed = tmp_path / "killed"
        killed.mkdir()
        for end in ("", "-wal"):
            (killed / f"k.db{end}").write_bytes(path.with_name(f"{path.name}{end}").read_bytes())
    log = killed / "k.db-wal"
    before = log.read_bytes()
    assert before
    assert not is_taken(killed / "k.db")
    assert log.read_bytes() == before


def test_what_cannot_be_read_for_another_reason_is_not_held(tmp_path: Path) -> None:
    assert not is_taken(tmp_path / "none.db")
    (tmp_path / "noise").write_bytes(os.urandom(5000))
    assert not is_taken(tmp_path / "noise")
