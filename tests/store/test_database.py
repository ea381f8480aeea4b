"""Opening the file: only ours, for us alone, by one process; what is not ours is left as it is."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_daemon.store.database import (
    APPLICATION_ID,
    DatabaseRefused,
    Lock,
    connect,
    create_file,
    examine,
    is_alone,
    make_private,
)
from scheduler_daemon.store.migrate import migrate
from scheduler_daemon.store.store import Store
from tests.store.support import Ticks, by_hand, new_file, opened
from tests.support.inprocess import needs_root

NOW = "2026-03-02T12:00:00.000Z"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


# --- whose file it is


def text_file(path: Path) -> None:
    path.write_text("this is no database, however long it is\n" * 100)


def short_file(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def other_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE theirs (a)")


def other_program_that_writes_ahead(path: Path) -> None:
    """All that it holds is in its log, as a kill leaves it."""
    with tempfile.TemporaryDirectory() as elsewhere:
        origin = Path(elsewhere) / "origin"
        with closing(sqlite3.connect(origin, isolation_level=None)) as conn:
            conn.execute("PRAGMA journal_mode = WAL")
            conn.execute("CREATE TABLE theirs (a)")
            path.write_bytes(origin.read_bytes())
            log = origin.with_name("origin-wal").read_bytes()
    path.with_name(f"{path.name}-wal").write_bytes(log)


def marked_by_another(path: Path) -> None:
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA application_id = 252006673")  # Fossil's


@pytest.mark.parametrize(
    "make",
    [text_file, short_file, other_program, other_program_that_writes_ahead, marked_by_another],
)
def test_a_file_that_is_not_ours_is_refused_and_nothing_is_touched(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "scheduler.db"
    make(path)
    before = contents(tmp_path)
    with pytest.raises(DatabaseRefused, match="it was left as it is"):
        examine(path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_at_all_is_refused_without_waiting_for_it(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "scheduler.db"
    make(path)
    with pytest.raises(DatabaseRefused, match="is not a file"):
        examine(path)


def test_no_file_an_empty_one_and_ours_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.db"
    examine(path)
    path.touch()
    examine(path)
    new_file(tmp_path)
    examine(path)


def test_ours_is_known_from_its_first_page_on(tmp_path: Path) -> None:
    """A start that is cut short right after it still finds its own file."""
    path = tmp_path / "scheduler.db"
    create_file(path)
    examine(path)
    assert migrate(path, NOW) != []
    assert path.read_bytes()[68:72] == APPLICATION_ID.to_bytes(4, "big")


def test_ours_that_was_cut_off_is_refused_and_not_made_worse(tmp_path: Path) -> None:
    path = new_file(tmp_path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    before = contents(tmp_path)
    examine(path)
    with pytest.raises(DatabaseRefused, match="malformed"):
        migrate(path, NOW)
    assert contents(tmp_path) == before


def test_a_journal_that_a_kill_left_is_played_back(tmp_path: Path) -> None:
    """A restored copy need not write ahead yet, and may be killed while it is turned."""
    with closing(sqlite3.connect(new_file(tmp_path), isolation_level=None)) as conn:
        conn.execute("PRAGMA journal_mode = DELETE")
        conn.execute("INSERT INTO meta VALUES ('fact', 'before')")
        conn.execute("PRAGMA cache_size = 1")  # what is not committed reaches the file as well
        conn.execute("BEGIN")
        conn.execute("UPDATE meta SET value = 'after'")
        conn.execute("CREATE TABLE much AS SELECT hex(zeroblob(500000)) AS a")
        killed = tmp_path / "killed"
        killed.mkdir()
        for name in ("scheduler.db", "scheduler.db-journal"):
            shutil.copy(tmp_path / name, killed)
    path = killed / "scheduler.db"
    examine(path)
    assert migrate(path, NOW) == []
    with by_hand(path) as conn:
        assert conn.execute("SELECT value FROM meta").fetchall() == [("before",)]


# --- where it may be


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder of a user who is not root, and that user until the test ends."""
    folder = Path(tempfile.mkdtemp())
    was = os.geteuid()
    if was == 0:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        os.seteuid(was)
        subprocess.run(["rm", "-rf", folder], check=True)


def test_a_folder_that_may_not_be_written_is_refused(unprivileged: Path) -> None:
    unprivileged.chmod(0o500)
    path = unprivileged / "scheduler.db"
    for act in (Lock, create_file):
        with pytest.raises(DatabaseRefused, match="Permission denied"):
            act(path)
    with pytest.raises(DatabaseRefused, match="cannot make the state directory"):
        make_private(unprivileged / "deeper" / "scheduler.db")
    assert list(unprivileged.iterdir()) == []


def test_a_folder_that_may_not_be_looked_into_is_refused(unprivileged: Path) -> None:
    path = unprivileged / "scheduler.db"
    path.touch()
    unprivileged.chmod(0o000)
    for act in (examine, Lock, create_file):
        with pytest.raises(DatabaseRefused, match="Permission denied"):
            act(path)


def test_a_file_that_may_not_be_read_is_refused(unprivileged: Path) -> None:
    path = unprivileged / "scheduler.db"
    path.touch(0o000)
    for act in (examine, create_file):
        with pytest.raises(DatabaseRefused, match="Permission denied"):
            act(path)


def test_a_file_that_may_only_be_read_is_refused(unprivileged: Path) -> None:
    path = unprivileged / "scheduler.db"
    create_file(path)
    path.chmod(0o400)
    before = contents(unprivileged)
    with pytest.raises(DatabaseRefused, match="Permission denied"):
        create_file(path)
    assert contents(unprivileged) == before


def test_a_path_through_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "scheduler.db"
    for act in (make_private, examine, Lock, create_file):
        with pytest.raises(DatabaseRefused):
            act(path)


def test_a_new_file_that_sqlite_cannot_write_is_refused(tmp_path: Path) -> None:
    """Where its journal has to be, there is a folder."""
    path = tmp_path / "scheduler.db"
    path.touch()
    path.with_name("scheduler.db-journal").mkdir()
    with pytest.raises(DatabaseRefused, match="cannot write the database"):
        create_file(path)


# --- for whom it is


def test_folder_and_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "scheduler" / "scheduler.db"
    make_private(path)
    make_private(path)  # again: it is there
    assert mode(path.parent) == 0o700
    lock = Lock(path)
    new_file(path.parent)
    with closing(connect(path, read_only=False)) as conn:
        conn.execute("INSERT INTO meta VALUES ('a', 'b')")
        assert {each.name: mode(each) for each in path.parent.iterdir()} == dict.fromkeys(
            ["scheduler.db", "scheduler.db-wal", "scheduler.db-shm", "scheduler.db.lock"], 0o600
        )
    lock.release()


def test_a_folder_of_what_all_commands_keep_is_still_for_its_owner_alone(tmp_path: Path) -> None:
    for name in ("host-exec.db", "host-exec.db-wal", "host-exec.db.host", "setup"):
        (tmp_path / name).touch()
    tmp_path.chmod(0o755)
    make_private(tmp_path / "scheduler.db")
    assert mode(tmp_path) == 0o700
    (tmp_path / "other").touch()
    tmp_path.chmod(0o755)
    make_private(tmp_path / "scheduler.db")
    assert mode(tmp_path) == 0o755


def test_a_file_that_others_could_read_is_closed_to_them(path: Path) -> None:
    path.chmod(0o644)
    create_file(path)
    assert mode(path) == 0o600


@pytest.mark.parametrize("found", [0o755, 0o777, 0o770])
def test_a_folder_of_this_user_that_was_there_is_made_private(tmp_path: Path, found: int) -> None:
    tmp_path.chmod(found)
    make_private(tmp_path / "scheduler.db")
    assert mode(tmp_path) == 0o700


def test_a_folder_that_holds_other_things_keeps_its_mode(tmp_path: Path) -> None:
    """Whoever names a file in /srv or at home does not mean to close those."""
    path = tmp_path / "scheduler.db"
    create_file(path)
    (tmp_path / "other").touch()
    tmp_path.chmod(0o755)
    make_private(path)
    assert mode(tmp_path) == 0o755
    tmp_path.chmod(0o775)
    with pytest.raises(DatabaseRefused, match="others may write in the state directory"):
        make_private(path)


def test_a_folder_that_everybody_writes_in_is_refused_and_keeps_its_mode(tmp_path: Path) -> None:
    """/tmp is one: a file in it is safe, a folder of everybody's must stay open."""
    tmp_path.chmod(0o1777)
    with pytest.raises(DatabaseRefused, match="others may write in the state directory"):
        make_private(tmp_path / "scheduler.db")
    assert mode(tmp_path) == 0o1777
    tmp_path.chmod(0o1755)
    make_private(tmp_path / "scheduler.db")
    assert mode(tmp_path) == 0o1755


@needs_root
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    tmp_path.chmod(0o700)
    with pytest.raises(DatabaseRefused, match="is that of uid 65534; choose one that is this"):
        make_private(tmp_path / "scheduler.db")


@needs_root
def test_a_file_of_another_user_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.db"
    path.touch(0o644)
    os.chown(path, 65534, 65534)
    with pytest.raises(DatabaseRefused, match="belongs to uid 65534, who could change it under"):
        create_file(path)
    assert mode(path) == 0o644


def test_a_folder_that_may_not_be_looked_into_holds_other_things(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may look into all, so the refusal of the kernel is put in."""

    def refuse(_: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert not is_alone(tmp_path / "scheduler.db")


# --- who holds it


def test_a_second_process_is_refused_with_the_pid_of_the_first(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from scheduler_daemon.store.database import Lock\n"
        "lock = Lock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DatabaseRefused, match=rf"is held by .* \(process {holder.pid}\)"):
            Lock(path)
        holder.kill()
        holder.wait()
    Lock(path).release()  # a kill leaves nothing behind


def test_a_lock_is_released_once_and_held_by_one(path: Path) -> None:
    lock = Lock(path)
    with pytest.raises(DatabaseRefused, match=f"process {os.getpid()}"):
        Lock(path)
    lock.release()
    Lock(path).release()


def test_a_holder_that_did_not_say_who_it_is_is_refused_all_the_same(path: Path) -> None:
    lock = Lock(path)
    path.with_name("scheduler.db.lock").write_bytes(b"")
    with pytest.raises(DatabaseRefused, match="process unknown"):
        Lock(path)
    lock.release()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_lock_that_is_no_file_is_refused_and_left_as_it_is(
    path: Path, make: Callable[[Path], None]
) -> None:
    make(path.with_name("scheduler.db.lock"))
    with pytest.raises(DatabaseRefused, match=r"\.lock is not a file; it was left as it is"):
        Lock(path)


def test_another_name_of_the_same_file_is_refused(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "scheduler.db"
    other.parent.mkdir()
    other.hardlink_to(path)
    first, second = Lock(path), Lock(other)
    first.hold_file(path)
    with pytest.raises(DatabaseRefused, match="scheduler-daemon under another name"):
        second.hold_file(other)
    first.release()
    second.release()


# --- how it is opened


@pytest.mark.parametrize("read_only", [False, True])
def test_every_commit_reaches_the_disk_and_nothing_is_implicit(path: Path, read_only: bool) -> None:
    with closing(connect(path, read_only=read_only)) as conn:
        settings = ["journal_mode", "synchronous", "foreign_keys", "busy_timeout", "query_only"]
        found = [conn.execute(f"PRAGMA {name}").fetchone()[0] for name in settings]
        assert found == ["wal", 2, 1, 100, int(read_only)]
        assert conn.isolation_level is None


def test_a_file_that_cannot_be_written_ahead_is_refused() -> None:
    """As on a network file system; a database in memory cannot either."""
    with pytest.raises(DatabaseRefused, match="cannot hold a write-ahead log"):
        connect(Path(":memory:"), read_only=False)


async def test_a_store_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "scheduler.db"
    with pytest.raises(DatabaseRefused, match="unable to open"):
        await Store.open(path, monotonic=Ticks(), wait_seconds=1, failed=print)


async def test_a_store_opens_while_somebody_reads_and_somebody_holds_the_lock(path: Path) -> None:
    with by_hand(path) as reader, by_hand(path) as holder:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM reminders").fetchall()
        holder.execute("BEGIN IMMEDIATE")
        async with opened(path) as store:
            assert await store.reader.owners() == []
        holder.execute("ROLLBACK")
