"""A real disk of 2 MB (tmpfs in a namespace of its own) that is full: while creations are stored,
receipts written, the log brought over, the schema brought up to date.

Where no such disk can be mounted the writes of the same steps fail with ENOSPC (disk.c) instead;
each test prints which of the two it ran on.
"""

from __future__ import annotations

import errno
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from scheduler_daemon.store.database import create_file
from scheduler_daemon.store.migrate import known, migrate
from tests.acceptance.steps import make_soon
from tests.faults.disk import WRITE, Disk, after_a_crash, compiled, prompts_in
from tests.faults.test_disk_errors import check_truth, create, troubles
from tests.support.peer import SILENCE, Followup, Peer
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

SIZE = 2 << 20
BRING_OVER = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], timeout=60)
assert conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
"""
MOUNT = 'mount -t tmpfs -o size=2m,mode=700 none "$0" && exec "$@"'


def unshared() -> list[str] | None:
    """The command that runs another where it may mount; None where this machine has none."""
    unshare = shutil.which("unshare")
    command = [unshare or "", "--user", "--map-root-user", "--mount"]
    if unshare is None or subprocess.run([*command, "true"], check=False).returncode:
        return None
    return command


class SmallDisk:
    """The disk of a daemon, which `full` fills but for some bytes."""

    def __init__(self, daemon: DaemonProcess, disk: Disk | None) -> None:
        self._daemon = daemon
        self._disk = disk

    @property
    def database(self) -> Path:
        """The daemon's file as we see it."""
        if self._disk:
            return self._daemon.database
        return Path(f"/proc/{self._daemon.pid}/root{self._daemon.database}")

    @contextmanager
    def full(self, leave: int) -> Iterator[None]:
        if self._disk:
            with self._disk.fails(WRITE, error=errno.ENOSPC, after=leave // 2048):
                yield
            return
        self._filler.write_bytes(bytes(max(0, self._room() - leave)))
        try:
            yield
        finally:
            self._filler.unlink()

    @property
    def _filler(self) -> Path:
        return self.database.with_name("filler")

    def _room(self) -> int:
        return shutil.disk_usage(self.database.parent).free

    @property
    def log_size(self) -> int:
        return self.database.with_name("scheduler.db-wal").stat().st_size

    def free(self, size: int) -> None:
        """Give back so many bytes of a disk that is full."""
        with self._filler.open("r+b") as file:
            file.truncate(self._filler.stat().st_size - size)

    def take_the_log(self) -> None:
        """What a full disk has left for writes is the log's: somebody else takes that."""
        if self._disk:
            return
        command = ["nsenter", "--user", "--mount", "--preserve-credentials"]
        command += [f"--target={self._daemon.pid}", sys.executable, "-c", BRING_OVER]
        subprocess.run([*command, str(self._daemon.database)], check=True)
        with self._filler.open("ab") as file:
            file.write(bytes(self._room()))

    def found(self, folder: Path) -> set[str]:
        """The prompts that a restart would find now."""
        self._daemon.state, seen = self.database.parent, self._daemon.state
        try:
            return prompts_in(after_a_crash(self._daemon, folder))
        finally:
            self._daemon.state = seen


@pytest.fixture
def daemon(folder: Path) -> Iterator[DaemonProcess]:
    made = DaemonProcess(folder)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def small(daemon: DaemonProcess, folder: Path) -> SmallDisk:
    """The daemon runs on it."""
    command = unshared()
    if command is None:
        print("ran with writes that fail with ENOSPC: nothing can be mounted here")
        disk = Disk(compiled(folder), folder)
        daemon.environ |= disk.environ
        daemon.start()
        return SmallDisk(daemon, disk)
    print("ran on a tmpfs of 2 MB")
    daemon.state.mkdir()
    daemon.wrapper = [*command, "sh", "-c", MOUNT, str(daemon.state)]
    daemon.start()
    return SmallDisk(daemon, None)


def test_creations_on_a_full_disk_are_answered_truly_and_it_recovers(
    daemon: DaemonProcess, small: SmallDisk, folder: Path
) -> None:
    """Short and long ones, with room for none, for a part of one, for some; after each the file and
    its log are read as a restart would. The log is brought over meanwhile, or cannot be."""
    peer = daemon.peer()
    said: Counter[str] = Counter()
    told: dict[str, str] = {}
    for number, leave in enumerate((0, 4096, 12_000, 40_000, 120_000, 250_000)):
        with small.full(leave):
            for size in (10, 30_000, 10, 30_000, 30_000):
                prompt = f"{number} {len(told)} {'x' * size}"
                told[prompt] = create(peer, prompt)
                said[told[prompt]] += 1
            if said["persistence_failed"]:
                assert "last_persistence_error" in peer.call("daemon.status")
            found = small.found(folder)
            for prompt, outcome in told.items():
                check_truth(prompt, outcome, found)
        prompt = f"{number} afterwards"
        told[prompt] = create(peer, prompt)
        assert told[prompt] == "made"
        assert peer.call("daemon.status").get("last_persistence_error", {}).get("over", True)
    found = small.found(folder)
    for prompt, outcome in told.items():
        check_truth(prompt, outcome, found)
    print(dict(said), dict(troubles(daemon)))
    assert said["persistence_failed"] > 5


def until_refused(peer: Peer, size: int) -> int:
    """How many creations of so many characters there is room for."""
    made = 0
    while create(peer, "x" * size) == "made":
        made += 1
    return made


def test_room_that_is_freed_goes_to_reminders_and_not_to_the_log(
    daemon: DaemonProcess, small: SmallDisk
) -> None:
    """Nor is that of the log lost to them: it is brought over on a disk without a free byte."""
    if unshared() is None:
        pytest.skip("this machine does not let a user mount a file system in a namespace")
    peer = daemon.peer()
    for _ in range(20):
        assert create(peer, "small") == "made"
    before = small.log_size
    with small.full(0):
        made = until_refused(peer, 10_000)
        logs, files = [small.log_size], [small.database.stat().st_size]
        for _ in range(3):
            small.free(100_000)
            assert {create(peer, "small") for _ in range(30)} == {"made"}
            assert peer.call("daemon.status")["last_persistence_error"]["over"] is True
            until_refused(peer, 10_000)
            logs.append(small.log_size)
            files.append(small.database.stat().st_size)
    print(f"a log of {before} bytes became {made} reminders of 10,000 characters;")
    print(f"then, each time that 100,000 bytes were freed: logs {logs}, files {files}")
    assert made * 10_000 > before / 2
    assert max(logs) < 100_000
    assert files[-1] - files[0] > 200_000


def ten_followups(peer: Peer, host: Peer) -> list[Followup]:
    """Each of another Session, pushed and not answered yet."""
    host.reply = SILENCE
    sessions = [f"s{number}" for number in range(10)]
    host.attach(sessions, max_in_flight=10)
    for session in sessions:
        make_soon(peer, session, "once")
    return [host.next_followup(session) for session in sessions]


def test_receipts_on_a_full_disk_have_the_room_of_the_log(
    daemon: DaemonProcess, small: SmallDisk
) -> None:
    if unshared() is None:
        pytest.skip("this machine does not let a user mount a file system in a namespace")
    peer, host = daemon.peer(), daemon.peer()
    followups = ten_followups(peer, host)
    with small.full(0):
        for followup in followups:
            host.answer(followup)
        for followup in followups:
            daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])
    assert not daemon.events("receipt_not_written")


def test_receipts_on_a_full_disk_wait_for_room_and_nothing_is_pushed_again(
    daemon: DaemonProcess, small: SmallDisk
) -> None:
    peer, host = daemon.peer(), daemon.peer()
    followups = ten_followups(peer, host)
    sessions = [followup.session for followup in followups]
    with small.full(0):
        small.take_the_log()
        for followup in followups:
            host.answer(followup)
        daemon.logged("receipt_not_written")
        second = daemon.peer()
        second.attach(sessions)
        second.nothing_comes(2)
        shown = peer.call("daemon.status")
        waiting = [row["session_id"] for row in shown["retrying"] if row["why"] == "receipt"]
        assert shown["last_persistence_error"]["over"] is False
        assert waiting
    for followup in followups:
        daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])
    second.nothing_comes(0.2)
    history = [peer.call("reminder.history", session_id=name)["items"] for name in sessions]
    assert [[each["occurrence_id"] for each in items] for items in history] == [
        followup.occurrences for followup in followups
    ]
    assert len(host.followups) == 10
    lines = troubles(daemon)
    print(f"{len(waiting)} of 10 receipts waited; {dict(lines)}")
    assert max(lines.values()) <= 8


def old_database(path: Path) -> None:
    """A file of the first schema with a few hundred kB in it."""
    path.parent.mkdir()
    create_file(path)
    migrate(path, "2026-01-01T00:00:00.000Z", known()[:1])
    with closing(sqlite3.connect(path)) as conn, conn:
        for number in range(100):
            conn.execute("INSERT INTO meta VALUES (?, ?)", (f"m{number}", "x" * 4000))
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


STEPS = """
cp {old} {state}/scheduler.db && chmod 600 {state}/scheduler.db
room=$(df --output=avail -B1 {state} | tail -1)
head -c $((room - {leave})) /dev/zero > {state}/filler
"$@" > {out}/said 2>&1; echo $? > {out}/status
mkdir {out}/full {out}/after; cp {state}/scheduler.db* {out}/full
rm {state}/filler
"$@" > {out}/said-after 2>&1; echo $? > {out}/status-after
cp {state}/scheduler.db* {out}/after
"""


def schema_of(path: Path) -> tuple[int, int, str]:
    """The version, how many rows of ours there are, and whether the file is whole."""
    with closing(sqlite3.connect(path)) as conn:
        (version,) = conn.execute("PRAGMA user_version").fetchone()
        (rows,) = conn.execute("SELECT count(*) FROM meta WHERE name LIKE 'm%'").fetchone()
        (whole,) = conn.execute("PRAGMA integrity_check").fetchone()
        return version, rows, whole


@pytest.mark.parametrize("leave", [0, 100_000, 560_000, 640_000, 700_000, 1_000_000])
def test_a_migration_without_room_leaves_the_file_as_it_was_and_goes_on_later(
    daemon: DaemonProcess, folder: Path, leave: int
) -> None:
    """The copy finds no room, or the new schema beside it does not."""
    command = unshared()
    if command is None:
        pytest.skip("this machine does not let a user mount a file system in a namespace")
    print("ran on a tmpfs of 2 MB")
    old, out = folder / "old" / "scheduler.db", folder / "out"
    old_database(old)
    out.mkdir()
    daemon.state.mkdir()
    steps = STEPS.format(old=old, state=daemon.state, out=out, leave=leave)
    act = [sys.executable, "-P", "-m", "scheduler_daemon", "migrate"]
    act.append(f"--state-directory={daemon.state}")
    subprocess.run(
        [*command, "sh", "-c", MOUNT, str(daemon.state), "sh", "-c", steps, "sh", *act],
        env=daemon.environ,
        cwd=folder,
        check=True,
    )
    newest = known()[-1].number
    if (out / "status").read_text() == "1\n":
        assert (out / "said").read_text().startswith("scheduler-daemon: cannot ")
        assert schema_of(out / "full" / "scheduler.db") in [
            (version, 100, "ok") for version in range(1, newest)
        ]
        assert not list((out / "full").glob("*.copying*"))
    assert (out / "status-after").read_text() == "0\n", (out / "said-after").read_text()
    assert schema_of(out / "after" / "scheduler.db") == (newest, 100, "ok")
    copies = [schema_of(copy) for copy in (out / "after").glob("scheduler.db.schema*")]
    assert (1, 100, "ok") in copies
    full = schema_of(out / "full" / "scheduler.db")
    made = len(list((out / "full").glob("scheduler.db.schema*")))
    print(f"with {leave} bytes: schema {full[0]}, {made} copies; {(out / 'said').read_text()!r}")
