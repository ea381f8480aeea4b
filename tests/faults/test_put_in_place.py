"""Another file put by hand in the place of the database, while the log of the former lies there.

SQLite would mix the two without an error. No start may do that, and none may refuse a file whose
log is its own, wherever both were moved and whoever had them open.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_daemon.store.database import REMEDY
from tests.support.peer import Refused
from tests.support.process import DaemonProcess

MIXED = "would be mixed into it"


def make(daemon: DaemonProcess, *prompts: str) -> None:
    peer = daemon.peer()
    for prompt in prompts:
        peer.create("s1", prompt, after_seconds=100_000)


def prompts(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [each for (each,) in conn.execute("SELECT prompt FROM reminders ORDER BY number")]


def verb(daemon: DaemonProcess, *words: str) -> str:
    """What a verb that opens the file itself says."""
    done = daemon.schedctl(*words, "--database", str(daemon.database))
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    return {
        each.name: each.read_bytes()
        for each in folder.iterdir()
        if each.is_file() and each.suffix != ".lock"
    }


# --- other files


def a_backup(daemon: DaemonProcess, other: Path) -> None:
    verb(daemon, "backup", str(other))


def a_copy_from_a_stop(daemon: DaemonProcess, other: Path) -> None:
    daemon.stop()
    shutil.copy(daemon.database, other)
    daemon.start()
    make(daemon, "since the copy")
    daemon.restart()  # by a kill: what was in the log is in the file now


def a_backup_that_was_restored_before(daemon: DaemonProcess, other: Path) -> None:
    """Nothing but what the daemon does by itself has come to the file since."""
    verb(daemon, "backup", str(other))
    daemon.stop()
    verb(daemon, "restore", str(other))
    daemon.start()


def the_file_of_another_daemon(daemon: DaemonProcess, other: Path) -> None:
    second = DaemonProcess(
        daemon.folder, state=daemon.folder / "second", socket=daemon.folder / "second.sock"
    )
    try:
        second.start()
        make(second, "kept", "another's")
        second.stop()
        shutil.copy(second.database, other)
    finally:
        second.close()


OTHERS = [
    a_backup,
    a_copy_from_a_stop,
    a_backup_that_was_restored_before,
    the_file_of_another_daemon,
]


# --- and how they get into its place


def after_a_kill(daemon: DaemonProcess, other: Path) -> None:
    daemon.kill()
    shutil.copy(other, daemon.database)


def renamed_after_a_kill(daemon: DaemonProcess, other: Path) -> None:
    daemon.kill()
    os.replace(shutil.copy(other, other.with_name("copy")), daemon.database)  # noqa: PTH105


def renamed_before_a_stop(daemon: DaemonProcess, other: Path) -> None:
    os.replace(shutil.copy(other, other.with_name("copy")), daemon.database)  # noqa: PTH105
    daemon.stop()


CASES = [
    *((each, after_a_kill) for each in OTHERS),
    (a_backup, renamed_after_a_kill),
    (a_backup, renamed_before_a_stop),
]


@pytest.mark.parametrize(
    ("made_by", "how"), CASES, ids=["-".join(each.__name__ for each in case) for case in CASES]
)
def test_a_log_is_not_mixed_into_a_file_that_it_is_not_of(
    daemon: DaemonProcess,
    folder: Path,
    made_by: Callable[[DaemonProcess, Path], None],
    how: Callable[[DaemonProcess, Path], None],
) -> None:
    """Nobody opens it; it is used once it was restored, and the log stays for whoever wants it."""
    other = folder / "other.db"
    make(daemon, "kept")
    made_by(daemon, other)
    make(daemon, *("lost with the former file",) * 3)
    how(daemon, other)
    before = contents(daemon.state)
    assert before["scheduler.db"] == other.read_bytes()
    assert before["scheduler.db-wal"]
    refused = daemon.refused()
    assert MIXED in refused.stderr
    for words in (["doctor"], ["backup", str(folder / "b.db")], ["export", str(folder / "e")]):
        assert MIXED in verb(daemon, *words)
    assert contents(daemon.state) == before
    moved = daemon.database.rename(folder / "moved.db")
    expected = prompts(Path(shutil.copy(other, folder / "expected.db")))
    assert "restored" in verb(daemon, "restore", str(moved))
    daemon.start()
    assert prompts(daemon.database) == expected
    (log,) = daemon.state.glob("scheduler.db.lost-*-wal")
    assert log.read_bytes() == before["scheduler.db-wal"]


def test_a_backup_is_restored_over_a_file_that_does_not_fit_its_log(
    daemon: DaemonProcess, folder: Path
) -> None:
    """Both are kept, and not as if they belonged together."""
    other, third = folder / "other.db", folder / "third.db"
    make(daemon, "first")
    a_backup(daemon, other)
    make(daemon, "second")
    a_backup(daemon, third)
    make(daemon, "lost with the former file")
    after_a_kill(daemon, other)
    assert "restored" in verb(daemon, "restore", str(third))
    (kept,) = daemon.state.glob("scheduler.db.replaced-*Z")
    assert kept.read_bytes() == other.read_bytes()
    assert prompts(kept) == ["first"]
    assert list(daemon.state.glob("scheduler.db.lost-*-wal"))
    daemon.start()
    assert prompts(daemon.database) == ["first", "second"]


def test_nothing_is_acknowledged_once_the_file_is_overwritten(
    daemon: DaemonProcess, folder: Path
) -> None:
    """With a larger one, so that it is not cut off; it is noticed until the daemon is killed."""
    make(daemon, "kept")
    a_backup(daemon, folder / "other.db")
    make(daemon, "more")
    with closing(sqlite3.connect(folder / "other.db")) as conn, conn:
        conn.execute("CREATE TABLE large (x)")
        conn.execute("INSERT INTO large VALUES (zeroblob(400000))")
    before = daemon.database.read_bytes()
    daemon.database.write_bytes((folder / "other.db").read_bytes())
    for _ in range(3):
        with pytest.raises(Refused) as refused:
            make(daemon, "refused")
        assert refused.value.code == "persistence_failed"
    assert "overwritten" in daemon.logged("database_failed")["reason"]
    daemon.kill()
    assert MIXED in daemon.refused().stderr
    daemon.database.write_bytes(before)
    daemon.start()
    assert prompts(daemon.database) == ["kept", "more"]


# --- no false alarms


def moved(daemon: DaemonProcess) -> None:
    use(daemon, daemon.state.rename(daemon.folder / "elsewhere"))


def copied(daemon: DaemonProcess) -> None:
    """To another disk, say: neither the inodes nor the times stay."""
    use(daemon, Path(shutil.copytree(daemon.state, daemon.folder / "copy", copy_function=_copy)))


def _copy(source: str, target: str) -> None:
    Path(target).write_bytes(Path(source).read_bytes())


def use(daemon: DaemonProcess, state: Path) -> None:
    daemon.state = state
    daemon.flags["state_directory"] = state


def copied_without_the_mark(daemon: DaemonProcess) -> None:
    copied(daemon)
    daemon.database.with_name("scheduler.db.mark").unlink()


def looked_at(daemon: DaemonProcess) -> None:
    daemon.sql("SELECT count(*) FROM reminders")


def written_by_hand(daemon: DaemonProcess) -> None:
    """By somebody who died, too: the log and the file are not as the daemon left them."""
    code = (
        "import os, sqlite3, sys; conn = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "conn.execute('CREATE TABLE mine (x)');"
        "conn.execute('INSERT INTO mine VALUES (zeroblob(100000))');"
        "conn.execute('PRAGMA wal_checkpoint(PASSIVE)'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(daemon.database)], check=False)


def mark_of_an_older_version(daemon: DaemonProcess) -> None:
    """One that came after this one, too: it writes the beginning alone."""
    mark = daemon.database.with_name("scheduler.db.mark")
    data = bytearray(mark.read_bytes())
    data[32:40] = b"another."
    mark.write_bytes(data)
    make_again(daemon)
    mark.write_bytes(mark.read_bytes()[:40])


def mark_from_before_a_power_cut(daemon: DaemonProcess) -> None:
    mark = daemon.database.with_name("scheduler.db.mark")
    before = mark.read_bytes()
    make_again(daemon)
    mark.write_bytes(before)


def make_again(daemon: DaemonProcess) -> None:
    daemon.start()
    make(daemon, "more")
    daemon.kill()


def backed_up_and_looked_through(daemon: DaemonProcess) -> None:
    assert "scheduler.db" in verb(daemon, "backup", str(daemon.folder / "b.db"))
    assert "all is well" in verb(daemon, "doctor")


@pytest.mark.parametrize(
    "harmless",
    [
        moved,
        copied,
        copied_without_the_mark,
        looked_at,
        written_by_hand,
        mark_of_an_older_version,
        mark_from_before_a_power_cut,
        backed_up_and_looked_through,
    ],
    ids=lambda harmless: harmless.__name__,
)
def test_a_file_with_its_own_log_starts(
    daemon: DaemonProcess, harmless: Callable[[DaemonProcess], None]
) -> None:
    """The log was brought over and began anew meanwhile, more than once."""
    made = [f"{number} " + "x" * 9000 for number in range(120)]
    make(daemon, *made)
    daemon.kill()
    harmless(daemon)
    daemon.start()
    assert prompts(daemon.database)[: len(made)] == made
    make(daemon, "after")


def test_a_daemon_is_not_disturbed_by_others_that_bring_the_log_over(
    daemon: DaemonProcess,
) -> None:
    for how in ("PASSIVE", "FULL", "RESTART", "TRUNCATE") * 3:
        make(daemon, "x" * 9000, how)
        daemon.sql(f"PRAGMA wal_checkpoint({how})")
        daemon.sql("CREATE TABLE IF NOT EXISTS mine (x)")
        daemon.sql("INSERT INTO mine VALUES (zeroblob(9000))")
        daemon.sql(f"PRAGMA wal_checkpoint({how})")
        assert "last_persistence_error" not in daemon.peer().call("daemon.status")
    assert daemon.events("database_failed") == []


# --- what is no database at all


@pytest.mark.parametrize("data", [b"my notes\n" * 1000, b"SQLite format 3\0" + bytes(8000)])
def test_what_is_no_database_is_moved_aside_by_a_restore(
    daemon: DaemonProcess, folder: Path, data: bytes
) -> None:
    """The start that refuses it says so."""
    make(daemon, "kept")
    a_backup(daemon, folder / "b.db")
    daemon.stop()
    daemon.database.write_bytes(data)
    daemon.database.chmod(0o644)
    assert REMEDY in daemon.refused().stderr
    assert REMEDY in verb(daemon, "doctor")
    assert "restored" in verb(daemon, "restore", str(folder / "b.db"))
    (kept,) = daemon.state.glob("scheduler.db.replaced-*Z")
    assert kept.read_bytes() == data
    assert daemon.database.stat().st_mode & 0o777 == 0o600
    daemon.start()
    assert prompts(daemon.database) == ["kept"]
