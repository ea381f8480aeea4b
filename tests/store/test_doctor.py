"""What doctor finds in a file, what it mends, and that it finds nothing afterwards."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_daemon.model import After, Reminder
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.database import DatabaseRefused, DatabaseTaken, Lock, create_file
from scheduler_daemon.store.doctor import holder, look, mend
from scheduler_daemon.store.finding import Finding
from scheduler_daemon.store.mending import set_aside
from scheduler_daemon.store.migrate import known, migrate
from scheduler_daemon.store.putting_right import IDS_LEFT_OUT
from scheduler_daemon.store.rows import BadRow
from scheduler_daemon.store.store import Store, Which
from tests.store.support import (
    CRON,
    DAILY,
    HOURLY,
    OWNER,
    T0,
    at,
    by_hand,
    followup,
    later,
    made,
    opened,
    taken_by_another,
)

NOW = instant_text(T0)


@pytest.fixture
async def kept(path: Path) -> list[Reminder]:
    """r1 after, r2 at, r3 every, r4 daily, r5 cron, r6 an ended one with its receipt; closed."""
    async with opened(path) as store:
        found = [await made(store, rule) for rule in (After(60), at(60), HOURLY, DAILY, CRON)]
        sent = await made(store, After(1), key="k6")
        await store.record(followup([sent], later(2)), later(2), "host", "m1")
    path.parent.chmod(0o700)
    path.chmod(0o600)
    return found


@pytest.fixture
def hand(path: Path, kept: list[Reminder]) -> Iterator[sqlite3.Connection]:
    with by_hand(path) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        yield conn


def problems(path: Path) -> list[Finding]:
    return [each for each in look(path) if each.kind == "problem"]


def test_it_finds_nothing_in_a_file_in_order(path: Path, kept: list[Reminder]) -> None:
    before = sorted(path.parent.iterdir()), path.read_bytes()
    assert look(path) == []
    assert (sorted(path.parent.iterdir()), path.read_bytes()) == before


RUN = "INSERT INTO runs VALUES (1, '{}', {}, 1000, '{}', '{}')"

MENDED = {
    "UPDATE sessions SET active = 9, next_target_at = NULL": "counts",
    "DELETE FROM sessions": "counts",
    "DELETE FROM owners": "counts",
    "UPDATE owners SET ended = 7": "counts",
    "INSERT INTO sessions (owner_uid, session_id, active) VALUES (7, 'x', 1)": "counts",
    "UPDATE reminders SET scheduled_at = 'soon' WHERE number = 3": "unreadable",
    "UPDATE reminders SET scheduled_at = 'soon' WHERE number = 1": "unreadable",
    "UPDATE reminders SET status = 'bogus' WHERE number = 3": "unreadable",
    "UPDATE reminders SET status = '' WHERE number = 6": "unreadable",
    "UPDATE reminders SET status = 'bogus', scheduled_at = 'soon' WHERE number = 3": "unreadable",
    "UPDATE reminders SET former_status = 'ended' WHERE number = 3": "unreadable",
    "UPDATE reminders SET set_aside_reason = 'why' WHERE number = 6": "unreadable",
    "UPDATE reminders SET status = 'set_aside' WHERE number = 3": "set_aside",
    "UPDATE reminders SET status = 'set_aside', scheduled_at = '' WHERE number = 3": "set_aside",
    f"UPDATE reminders SET last_occurrence_at = '9999{NOW[4:]}' WHERE number = 4": (
        "last_occurrence"
    ),
    RUN.format("r99@now-" + NOW, 99, "s1", NOW): "runs",
    RUN.format("r4@now-" + NOW, 4, "s2", NOW): "runs",
    RUN.format("r4@now-" + NOW, 4, "s1", "soon"): "runs",
    RUN.format("x", 4, "s1", NOW): "runs",
    RUN.format("x", 99, "s2", "soon"): "runs",
    RUN.format("x", 4, "s2", "9999-12-31T23:59:59.999Z"): "runs",
    RUN.format("r5@now-" + NOW, 4, "s1", NOW): "runs",
    "UPDATE idempotency_keys SET reminder_number = 5000": "keys",
    "UPDATE idempotency_keys SET created_at = 'soon'": "keys",
    "UPDATE idempotency_keys SET created_at = '2026-02-30T00:00:00.000Z', gone_at = 'x'": "keys",
    f"UPDATE idempotency_keys SET gone_at = '{NOW}'": "keys",
    "UPDATE idempotency_keys SET reminder_number = 6000, created_at = '', gone_at = ''": "keys",
    "INSERT INTO past_words VALUES (5, 3, NULL, 'x')": "past_words",
    "UPDATE sqlite_sequence SET seq = 2": "numbers",
    "UPDATE sqlite_sequence SET seq = 'many'": "numbers",
    "UPDATE sqlite_sequence SET seq = NULL": "numbers",
    "UPDATE sqlite_sequence SET seq = -1": "numbers",
    f"UPDATE sqlite_sequence SET seq = {2**63 - 1}": "numbers",
    "DELETE FROM sqlite_sequence": "numbers",
    "INSERT INTO sqlite_sequence VALUES ('reminders', 70)": "numbers",
}


@pytest.mark.parametrize("edit", MENDED)
def test_what_it_can_mend_it_mends_and_finds_nothing_afterwards(
    path: Path, hand: sqlite3.Connection, edit: str
) -> None:
    hand.execute(edit)
    found = problems(path)
    assert MENDED[edit] in {each.code for each in found}
    assert all(each.fixable and each.mend for each in found)
    assert mend(path, found, NOW)
    assert look(path) == []


UNREADABLE = "CAST(x'ff' AS TEXT)"
TOO_LARGE = 2**53

EXPLAINED = {
    "dispatches": [
        *("occurrence_id = 'x'", "occurrence_id = 'r7@2026-03-02T12:00:01.000Z'"),
        *("occurrence_id = 'r6@2026-03-02T12:00:02.000Z'", f"occurrence_id = {UNREADABLE}"),
        *("followup_id = printf('%.*c', 300, 'f')", "session_id = ''", "owner_uid = -1"),
        *(f"reminder_number = {TOO_LARGE}", "reminder_number = 0", f"number = {2**63 - 1}"),
        *("occurrence_at = 'then'", "decided_at = ''", "admitted_at = '2026'", "outcome = 'lost'"),
        *("host = NULL", "host = ''", f"host = {UNREADABLE}", "message_id = 'a' || char(10)"),
        f"words_revision = {TOO_LARGE}",
    ],
    "idempotency_keys": [
        *("owner_uid = 4294967296", f"session_id = {UNREADABLE}", "session_id = '*'"),
        *("key = ''", f"key = {UNREADABLE}", "request_hash = ''", f"asked_of = {TOO_LARGE}"),
        *("occurrence_id = 'r6@2026-03-02T12:00:01.000Z'", "occurrence_id = ''"),
    ],
    "past_words": ["title = ''", "prompt = ''", f"prompt = {UNREADABLE}"],
}


@pytest.mark.parametrize(
    ("table", "edit"), [(table, edit) for table, edits in EXPLAINED.items() for edit in edits]
)
def test_what_only_somebody_can_decide_is_explained_and_stays(
    path: Path, hand: sqlite3.Connection, table: str, edit: str
) -> None:
    hand.execute("UPDATE reminders SET prompt = 'other' WHERE number = 6")
    hand.execute(f"UPDATE {table} SET {edit}")
    mend(path, look(path), NOW)
    found = problems(path)
    assert found
    assert not any(each.fixable for each in found)
    assert all(table in each.mend for each in found)
    assert all(len(each.text) < 700 for each in found)
    assert "\udcff" not in "".join(each.text for each in found)


@pytest.mark.parametrize("number", [2**63 - 1, -7])
async def test_a_number_of_which_no_id_is_made_is_told_and_others_are_again(
    path: Path, hand: sqlite3.Connection, number: int
) -> None:
    """After the largest that there is SQLite gives out no other."""
    hand.execute(
        "INSERT INTO reminders (number, owner_uid, session_id, kind, prompt, delay_seconds, "
        "scheduled_at, after_at, computed_at, created_at) SELECT ?, owner_uid, session_id, kind, "
        "prompt, delay_seconds, scheduled_at, after_at, computed_at, created_at "
        "FROM reminders WHERE number = 1",
        (number,),
    )
    mend(path, problems(path), NOW)
    (found,) = problems(path)
    assert f"delete {number} from the table of reminders" in found.mend
    hand.execute("DELETE FROM reminders WHERE number = ?", (number,))
    assert look(path) == []
    async with opened(path) as store:
        assert (await made(store, DAILY)).number in (7, 6 + IDS_LEFT_OUT + 1)


async def test_a_row_that_was_mended_by_hand_is_put_back(
    path: Path, hand: sqlite3.Connection
) -> None:
    hand.execute("UPDATE reminders SET time_zone = 'Mars/Olympus' WHERE number = 4")
    set_aside(hand, [BadRow(4, "rule: A time zone is …"), BadRow(6, "title: bad")])
    found = {each.text.partition(" ")[0]: each for each in problems(path)}
    assert not found["r4"].fixable
    assert "schedctl delete r4" in found["r4"].mend
    assert found["r6"].fixable  # it is in order
    assert mend(path, list(found.values()), NOW) == ["r6 was put back"]
    (left,) = problems(path)
    assert "Mars/Olympus" in left.text
    hand.execute("UPDATE reminders SET time_zone = 'Europe/Berlin' WHERE number = 4")
    assert mend(path, problems(path), NOW) == ["r4 was put back"]
    assert problems(path) == []
    async with opened(path) as store:
        assert isinstance(await store.reader.get(4, OWNER, None), tuple)


def test_a_target_is_computed_only_where_it_cannot_be_read(
    path: Path, hand: sqlite3.Connection, kept: list[Reminder]
) -> None:
    hand.execute("UPDATE reminders SET scheduled_at = '2026-03-09' WHERE number = 5")
    hand.execute("UPDATE reminders SET scheduled_at = '2026-03-09' WHERE number = 2")
    hand.execute("UPDATE reminders SET scheduled_at = '2026-03-09T00:00:00.000Z' WHERE number = 4")
    done = mend(path, problems(path), NOW)
    target = instant_text(kept[4].scheduled_at)
    assert done == ["r2 was set aside", f"r5 has the target {target} from its rule"]
    moved, aside = look(path)[::-1]
    assert (aside.code, aside.kind, moved.code, moved.kind) == (
        "set_aside",
        "problem",
        "target",
        "note",
    )
    assert "r4 has the target 2026-03-09T00:00:00.000Z" in moved.text


def test_what_it_cannot_mend_it_names_and_leaves(path: Path, hand: sqlite3.Connection) -> None:
    hand.execute("UPDATE dispatches SET admitted_at = 'then'")
    (found,) = look(path)
    assert (found.code, found.fixable) == ("receipts", False)
    assert mend(path, [found], NOW) == []
    assert look(path) == [found]


async def test_it_looks_and_mends_while_a_daemon_has_the_file(path: Path, store: Store) -> None:
    reminder = await made(store, DAILY)
    with by_hand(path) as conn:
        conn.execute("DELETE FROM sessions")
    found = problems(path)
    assert {each.code for each in found} >= {"counts"}
    mend(path, found, NOW)
    assert await store.reader.targets([(OWNER, "s1")]) == {(OWNER, "s1"): reminder.scheduled_at}
    await store.delete(Which(1, OWNER, None), T0)


def test_files_that_others_may_read_are_closed(path: Path, kept: list[Reminder]) -> None:
    path.chmod(0o644)
    path.parent.chmod(0o755)
    found = look(path)
    assert [each.code for each in found] == ["rights", "rights"]
    mend(path, found, NOW)
    assert look(path) == []


def test_a_file_whose_mode_may_not_be_changed_is_named(
    path: Path, kept: list[Reminder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may change any, so the refusal of the kernel is put in."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    path.chmod(0o644)
    found = look(path)
    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(DatabaseRefused, match=f"the mode of {path}: Operation not permitted"):
        mend(path, found, NOW)


def test_a_file_that_another_program_keeps_for_itself_is_neither_looked_at_nor_mended(
    path: Path, kept: list[Reminder]
) -> None:
    path.chmod(0o644)
    found = look(path)
    with taken_by_another(path):
        with pytest.raises(DatabaseTaken):
            look(path)
        with pytest.raises(DatabaseTaken):
            mend(path, found, NOW)


def test_an_index_that_is_no_index_any_more_is_damage_and_nothing_is_mended(
    path: Path, kept: list[Reminder]
) -> None:
    with by_hand(path) as conn:
        (page,) = conn.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'dispatches_by_admission'"
        ).fetchone()
        (size,) = conn.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    found = look(path)
    assert [each.code for each in found] == ["damage"]
    with pytest.raises(DatabaseRefused, match="nothing was changed"):
        mend(path, found, NOW)


def test_what_cannot_be_written_is_told_and_is_no_lock(
    path: Path, kept: list[Reminder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr("scheduler_daemon.store.doctor.mend_rows", fail)
    with pytest.raises(DatabaseRefused, match=f"cannot write {path}: disk I/O error"):
        mend(path, [], NOW)


@pytest.mark.parametrize("found", [0o755, 0o1777, 0o770])
def test_the_folder_of_other_things_is_left_as_it_is(
    path: Path, kept: list[Reminder], found: int
) -> None:
    (path.parent / "notes").touch()
    path.parent.chmod(found)
    path.chmod(0o644)
    mend(path, look(path), NOW)
    assert stat.S_IMODE(path.parent.stat().st_mode) == found
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    left = [(each.code, each.fixable) for each in look(path)]
    assert left == ([("rights", False)] if found & 0o022 else [])


def test_a_log_of_writes_that_grew_is_named_and_emptied(
    path: Path, kept: list[Reminder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_daemon.store.doctor.LARGEST_LOG_BYTES", 1000)
    with by_hand(path) as reader, by_hand(path) as writer:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM reminders").fetchone()
        writer.execute("UPDATE reminders SET prompt = 'other'")
        path.with_name("scheduler.db-wal").chmod(0o600)
        path.with_name("scheduler.db-shm").chmod(0o600)
        (found,) = look(path)
        assert (found.code, found.fixable) == ("log", True)
        assert mend(path, [found], NOW) == []
        reader.execute("ROLLBACK")
        assert mend(path, [found], NOW) == ["the log of writes was emptied"]
        assert look(path) == []


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'reminders'",
        "DELETE FROM sqlite_schema WHERE name = 'reminders_deleted'",
    ],
)
def test_a_schema_that_was_changed_by_hand_is_named_and_nothing_is_mended(
    path: Path, hand: sqlite3.Connection, edit: str
) -> None:
    hand.execute("PRAGMA writable_schema = ON")
    hand.execute(edit)
    found = look(path)
    assert [each.code for each in found] == ["schema"]
    with pytest.raises(DatabaseRefused, match="nothing was changed"):
        mend(path, found, NOW)


@pytest.mark.parametrize("edit", ["PRAGMA user_version = 99", "DELETE FROM migrations"])
def test_another_schema_is_named(path: Path, hand: sqlite3.Connection, edit: str) -> None:
    hand.execute(edit)
    assert [each.code for each in look(path)] == ["schema"]


@pytest.mark.parametrize("page", [3, 9, 20])
def test_a_damaged_page_is_named_and_nothing_is_written(
    path: Path, kept: list[Reminder], page: int
) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * page)
        file.write(os.urandom(4096))
    before = path.read_bytes()
    found = look(path)
    assert [each.code for each in found] == ["damage"]
    with pytest.raises(DatabaseRefused, match="nothing was changed"):
        mend(path, found, NOW)
    assert path.read_bytes() == before


def test_a_file_that_is_missing_or_not_ours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatabaseRefused, match="there is no database"):
        look(tmp_path / "none.db")
    (tmp_path / "notes").write_text("my notes\n" * 100)
    with pytest.raises(DatabaseRefused, match="not an SQLite database"):
        look(tmp_path / "notes")


def test_it_knows_which_daemon_holds_the_file(path: Path) -> None:
    assert holder(path) is None
    lock = Lock(path)
    assert holder(path) == os.getpid()
    lock.release()
    assert holder(path) is None


def test_a_newer_schema_little_disk_and_lost_writes_are_told(
    path: Path, kept: list[Reminder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_daemon.store.doctor.LITTLE_DISK_BYTES", 1 << 62)
    monkeypatch.setattr("scheduler_daemon.store.doctor.lost_frames", lambda *_, **__: 7)
    with by_hand(path) as conn:
        conn.execute("PRAGMA user_version = 99")
    assert {"schema", "disk", "lost"} <= {each.code for each in look(path)}


def test_a_damaged_page_is_told_and_nothing_else_is_looked_at(
    path: Path, kept: list[Reminder]
) -> None:
    size = path.stat().st_size
    with path.open("r+b") as raw:
        raw.seek(size - 4096)
        raw.write(b"\xff" * 4096)
    assert "damage" in {each.code for each in look(path)}


def test_an_older_schema_is_told_and_rows_are_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.db"
    create_file(path)
    migrate(path, NOW, known()[:1])
    assert [each.code for each in look(path) if each.kind == "problem"][-1:] == ["schema"]


def test_what_sqlite_finds_damaged_is_told(path: Path, kept: list[Reminder]) -> None:
    with by_hand(path) as conn:
        conn.execute("PRAGMA writable_schema = ON")
        conn.execute(
            "UPDATE sqlite_schema SET rootpage = "
            "(SELECT rootpage FROM sqlite_schema WHERE name = 'reminders_of_owner') "
            "WHERE name = 'reminders_by_target'"
        )
    assert "damage" in {each.code for each in look(path)}
