"""Copies of the file and their way back: whole, checked first, and nothing lost on the way."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_daemon.store.backup import IDS_LEFT_OUT, backup, restore
from scheduler_daemon.store.database import DatabaseHeld, DatabaseRefused, Lock, create_file
from scheduler_daemon.store.migrate import known, migrate
from tests.store.support import HOURLY, assert_counts_are_right, by_hand, made, opened

STAMP = "20260302T120000Z"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copies" / "copy.db"


@pytest.fixture
async def filled(path: Path, copy: Path) -> Path:
    """A file with two reminders, of which one was made after the copy was taken."""
    copy.parent.mkdir()
    async with opened(path) as store:
        await made(store, HOURLY, prompt="first")
        backup(path, copy, overwrite=False)
        await made(store, HOURLY, prompt="second")
    return path


def prompts(path: Path) -> list[str]:
    with by_hand(path) as conn:
        return [text for (text,) in conn.execute("SELECT prompt FROM reminders ORDER BY number")]


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_copy_is_whole_private_and_alone(filled: Path, copy: Path) -> None:
    assert prompts(copy) == ["first"]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert names(copy.parent) == ["copy.db"]
    assert_counts_are_right(copy)


def test_a_copy_overwrites_nothing_unless_told(filled: Path, copy: Path) -> None:
    copy.chmod(0o644)
    with pytest.raises(DatabaseRefused, match="is there already; it is replaced with --force"):
        backup(filled, copy, overwrite=False)
    assert prompts(copy) == ["first"]
    backup(filled, copy, overwrite=True)
    assert prompts(copy) == ["first", "second"]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_a_link_is_followed(filled: Path, copy: Path) -> None:
    link = copy.with_name("link.db")
    link.symlink_to(copy)
    backup(filled, link, overwrite=True)
    assert link.is_symlink()
    assert prompts(copy) == ["first", "second"]


def test_no_copy_goes_over_a_database_in_use(filled: Path, copy: Path) -> None:
    with pytest.raises(DatabaseRefused, match="is the database itself"):
        backup(filled, filled, overwrite=True)
    with closing(sqlite3.connect(copy)) as conn:
        conn.execute("UPDATE reminders SET prompt = 'x'")
        with pytest.raises(DatabaseRefused, match="is a database in use"):
            backup(filled, copy, overwrite=True)
        conn.rollback()


def test_no_copy_takes_the_place_of_what_is_no_file(filled: Path, tmp_path: Path) -> None:
    """Root would replace a device by it."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("folder", "pipe", "link"):
        for overwrite in (True, False):
            with pytest.raises(DatabaseRefused, match="is not a file, and a backup goes to one"):
                backup(filled, tmp_path / name, overwrite=overwrite)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_database_that_is_no_file_is_refused_before_anything_is_done(
    filled: Path, copy: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)
    os.mkfifo(folder / "pipe")
    folder.chmod(0o755)
    with pytest.raises(DatabaseRefused, match="is not a file"):
        restore(copy, folder / "pipe", STAMP)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert names(folder) == ["pipe"]


def test_what_cannot_be_copied_leaves_nothing(filled: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "b.db"
    with pytest.raises(DatabaseRefused, match="there is no database"):
        backup(tmp_path / "none.db", target, overwrite=False)
    with pytest.raises(DatabaseRefused, match="cannot write"):
        backup(filled, tmp_path / "none" / "b.db", overwrite=False)
    with pytest.raises(DatabaseRefused, match="cannot write in"):
        backup(filled, tmp_path / "none" / "b.db", overwrite=True)
    size = filled.stat().st_size
    with filled.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * 8192)
    with pytest.raises(DatabaseRefused, match=f"{filled} is damaged"):
        backup(filled, target, overwrite=False)
    assert names(tmp_path / "out") == []


def test_a_restored_file_is_the_copy_and_what_it_replaced_is_kept(filled: Path, copy: Path) -> None:
    filled.chmod(0o640)
    owner = (filled.stat().st_uid, filled.stat().st_gid)
    kept = restore(copy, filled, STAMP)
    assert kept == filled.with_name(f"scheduler.db.replaced-{STAMP}")
    assert (prompts(filled), prompts(kept)) == (["first"], ["first", "second"])
    assert stat.S_IMODE(filled.stat().st_mode) == 0o640
    assert (filled.stat().st_uid, filled.stat().st_gid) == owner
    assert names(filled.parent) == [
        *("copies", "scheduler.db", "scheduler.db.lock", kept.name, f"{kept.name}.mark"),
    ]
    assert_counts_are_right(filled)


async def test_ids_after_a_restore_are_above_all_that_were_given_out(
    filled: Path, copy: Path
) -> None:
    """Those after the copy too, as far as the replaced file knows them."""
    restore(copy, filled, STAMP)
    async with opened(filled) as store:
        assert (await made(store, HOURLY)).number == 2 + IDS_LEFT_OUT + 1


def test_what_a_killed_daemon_left_in_its_log_is_in_the_kept_file(
    filled: Path, copy: Path, tmp_path: Path
) -> None:
    lying = tmp_path / "lying"
    lying.mkdir()
    with closing(sqlite3.connect(filled)) as conn:
        conn.execute("UPDATE reminders SET prompt = 'last words'")
        conn.commit()
        for each in filled.parent.glob("scheduler.db*"):
            shutil.copy(each, lying)
    database = lying / "scheduler.db"
    assert database.with_name("scheduler.db-wal").stat().st_size
    kept = restore(copy, database, STAMP)
    assert kept is not None
    assert prompts(kept) == ["last words", "last words"]
    assert prompts(database) == ["first"]


def test_a_damaged_file_is_replaced_and_kept_as_it_is(filled: Path, copy: Path) -> None:
    data = bytearray(filled.read_bytes())
    data[16:18] = b"\xff\xff"  # no size that pages can have
    filled.write_bytes(data)
    kept = restore(copy, filled, STAMP)
    assert kept is not None
    assert prompts(filled) == ["first"]
    assert kept.read_bytes() == data


@pytest.mark.parametrize("how", ["text", "foreign"])
def test_what_is_no_database_of_ours_is_moved_aside_as_it_is(
    filled: Path, copy: Path, how: str
) -> None:
    """Its mode is not taken over: everybody's words come to lie there."""
    (good := copy.with_name("good.db")).write_bytes(copy.read_bytes())
    filled.with_name("scheduler.db.mark").unlink()
    spoilt(filled, how)
    filled.chmod(0o644)
    data = filled.read_bytes()
    kept = restore(good, filled, STAMP)
    assert kept is not None
    assert kept.read_bytes() == data
    assert prompts(filled) == ["first"]
    assert stat.S_IMODE(filled.stat().st_mode) == 0o600


def test_what_is_no_file_is_left_where_it_is(copy: Path, filled: Path) -> None:
    filled.unlink()
    filled.mkdir()
    with pytest.raises(DatabaseRefused, match=r"is not a file; .*; move it away, then run this"):
        restore(copy, filled, STAMP)
    assert filled.is_dir()


def test_somebody_who_looks_at_the_replaced_file_goes_on_looking_at_it(
    filled: Path, copy: Path
) -> None:
    """The log that he keeps open goes with it: the new file must not meet it."""
    with closing(sqlite3.connect(filled)) as conn:
        conn.execute("UPDATE reminders SET title = 'seen'")
        conn.commit()
        kept = restore(copy, filled, STAMP)
        assert kept is not None
        assert kept.with_name(f"{kept.name}-wal").exists()
        assert not filled.with_name("scheduler.db-wal").exists()
        assert conn.execute("SELECT DISTINCT title FROM reminders").fetchall() == [("seen",)]
    assert prompts(filled) == ["first"]


def test_without_second_names_the_replaced_file_is_copied(
    filled: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    kept = restore(copy, filled, STAMP)
    assert kept is not None
    assert prompts(kept) == ["first", "second"]


def test_a_second_restore_in_one_second_is_refused(filled: Path, copy: Path) -> None:
    restore(copy, filled, STAMP)
    with pytest.raises(DatabaseRefused, match=r"cannot replace .*: File exists"):
        restore(copy, filled, STAMP)
    assert prompts(filled) == ["first"]


def test_a_restore_to_where_nothing_was_makes_the_folder(
    filled: Path, copy: Path, tmp_path: Path
) -> None:
    database = tmp_path / "new" / "scheduler.db"
    assert restore(copy, database, STAMP) is None
    assert prompts(database) == ["first"]
    assert stat.S_IMODE(database.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(database.stat().st_mode) == 0o600


def test_while_a_daemon_holds_the_file_nothing_is_restored(filled: Path, copy: Path) -> None:
    lock = Lock(filled)
    try:
        with pytest.raises(DatabaseHeld) as refusal:
            restore(copy, filled, STAMP)
    finally:
        lock.release()
    assert f"process {os.getpid()}" in str(refusal.value)
    assert "systemctl --user stop scheduler-daemon.socket" in str(refusal.value)
    assert prompts(filled) == ["first", "second"]


def spoilt(copy: Path, how: str) -> None:
    match how:
        case "missing":
            copy.unlink()
        case "empty":
            copy.write_bytes(b"")
        case "text":
            copy.write_bytes(b"words " * 1000)
        case "foreign":
            copy.unlink()
            with by_hand(copy) as conn:
                conn.execute("CREATE TABLE t (a)")
        case "unused":
            copy.unlink()
            create_file(copy)
        case "newer":
            with by_hand(copy) as conn:
                conn.execute(f"PRAGMA user_version = {known()[-1].number + 1}")
        case "torn":
            copy.write_bytes(copy.read_bytes()[:20_000])
        case "page":
            data = bytearray(copy.read_bytes())
            data[40_960:45_056] = b"\xff" * 4096
            copy.write_bytes(data)
        case "byte":
            copy.write_bytes(copy.read_bytes().replace(b"s1", b"s9", 1))
        case "lacking":
            with by_hand(copy) as conn:
                conn.execute("DROP TABLE runs")
        case "index":
            with by_hand(copy) as conn:
                conn.execute("PRAGMA writable_schema = ON")
                conn.execute("DELETE FROM sqlite_master WHERE name = 'reminders'")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("missing", "is not a backup"),
        ("empty", "is not a backup"),
        ("text", "is not an SQLite database"),
        ("foreign", "is the database of another program"),
        ("unused", "holds nothing"),
        ("newer", "use a newer scheduler-daemon"),
        ("torn", "is damaged|cannot copy"),
        ("page", "is damaged"),
        ("byte", "is damaged: .*index"),
        ("lacking", "lacks .*table runs"),
        ("index", "is damaged"),
    ],
)
def test_what_is_no_good_copy_replaces_nothing(
    filled: Path, copy: Path, how: str, why: str
) -> None:
    spoilt(copy, how)
    with pytest.raises(DatabaseRefused, match=why):
        restore(copy, filled, STAMP)
    assert prompts(filled) == ["first", "second"]
    there = {"copies", "scheduler.db", "scheduler.db.lock", "scheduler.db.mark"}
    assert set(names(filled.parent)) <= there


def test_a_row_that_breaks_a_rule_is_no_damage(filled: Path, copy: Path) -> None:
    """The daemon sets such rows aside; their backup must not be refused for them."""
    with by_hand(copy) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute("UPDATE reminders SET context = '[1]'")
    restore(copy, filled, STAMP)
    assert prompts(filled) == ["first"]


def test_a_copy_of_an_older_schema_is_brought_up_by_the_next_start(
    filled: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old.db"
    create_file(old)
    migrate(old, "2026-01-01T00:00:00.000Z", known()[:1])
    restore(old, filled, STAMP)
    assert migrate(filled, "2026-03-02T12:00:00.000Z") == [each.name for each in known()[1:]]


def test_a_copy_is_read_where_nothing_can_be_made_beside_it(
    filled: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only medium: SQLite wants files beside one that was last written ahead."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    restore(copy, filled, STAMP)
    assert prompts(filled) == ["first"]


def test_root_gives_the_files_to_whoever_has_the_database(
    filled: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def chown(path: Path, uid: int, gid: int, *, follow_symlinks: bool) -> None:
        assert not follow_symlinks
        given.append((path.suffix, uid, gid))

    monkeypatch.setattr(os, "chown", chown)
    restore(copy, filled, STAMP)
    found = filled.stat()
    assert given == [
        (".lock", found.st_uid, found.st_gid),
        (".unfinished", found.st_uid, found.st_gid),
    ]


def test_a_log_that_a_lost_file_left_does_not_get_into_the_restored_one(
    filled: Path, copy: Path
) -> None:
    with by_hand(filled) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("UPDATE reminders SET prompt = 'from the old log'")
        filled.unlink()
        restore(copy, filled, STAMP)
    assert prompts(filled) == ["first"]
    assert not filled.with_name("scheduler.db-wal").exists()


@pytest.mark.parametrize("end", ["-wal", ".mark", ".lock"])
def test_no_copy_goes_over_what_belongs_to_a_database(filled: Path, end: str) -> None:
    beside = filled.with_name(f"{filled.name}{end}")
    beside.touch()
    with pytest.raises(DatabaseRefused, match="a database in use"):
        backup(filled, beside, overwrite=True)
