"""An export is the whole file, an import the same file again; what is not understood is refused."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from scheduler_daemon.rules import instant_text
from scheduler_daemon.store import form
from scheduler_daemon.store.backup import IDS_LEFT_OUT
from scheduler_daemon.store.carry import Imported, export, import_lines
from scheduler_daemon.store.database import DatabaseHeld, DatabaseRefused, Lock, open_file
from scheduler_daemon.store.doctor import look
from scheduler_daemon.store.form import HEADER, LONGEST_LINE, TABLES, VERSION
from scheduler_daemon.store.migrate import known
from scheduler_daemon.store.store import Store
from tests.store.support import (
    DAILY,
    HOURLY,
    LIMITS,
    T0,
    assert_counts_are_right,
    by_hand,
    draft,
    followup,
    later,
    made,
    new_file,
    opened,
)
from tests.store.test_machine import StoreMachine

NOW = instant_text(T0)
STAMP = "20260302T120000Z"

Json = dict[str, Any]


def bring_in(lines: Iterable[bytes], database: Path, *, dry_run: bool = False) -> Imported:
    return import_lines(lines, database, NOW, STAMP, dry_run=dry_run)


def lines_of(path: Path) -> list[bytes]:
    return [f"{line}\n".encode() for line in export(path, NOW)]


def contents(path: Path) -> Json:
    """Everything that the daemon knows by the file, in its order; the numbers of receipts aside."""
    statements = {
        kind: f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"
        for kind, (table, order, columns) in TABLES.items()
    }
    statements["sessions"] = "SELECT * FROM sessions ORDER BY owner_uid, session_id"
    statements["meta"] = "SELECT * FROM meta ORDER BY name"
    with by_hand(path) as conn:
        return {name: conn.execute(text).fetchall() for name, text in statements.items()}


def last_id(path: Path) -> int:
    with by_hand(path) as conn:
        found = conn.execute("SELECT seq FROM sqlite_sequence WHERE name = 'reminders'").fetchone()
    return int(found[0]) if found else 0


class Carried(StoreMachine):
    """Whatever the store was made to hold, it comes out of an export as it went in."""

    def teardown(self) -> None:
        try:
            other = self.path.with_name("other.db")
            bring_in(lines_of(self.path), other)
            assert contents(other) == contents(self.path)
            assert last_id(other) == last_id(self.path) + IDS_LEFT_OUT
            assert lines_of(other)[1:] == lines_of(self.path)[1:]
            assert_counts_are_right(other)
        finally:
            super().teardown()


TestCarried = Carried.TestCase
TestCarried.settings = settings(max_examples=10, stateful_step_count=25, deadline=None)


@pytest.fixture
async def filled(path: Path) -> Path:
    """A file with one of everything."""
    async with opened(path) as store:
        await fill(store, path)
    return path


async def fill(store: Store, path: Path) -> None:
    reminder = await made(store, HOURLY, title="Line\u2028break", context={"cwd": "/ü"}, key="k")
    await store.record(followup([reminder], later(3600)), later(3600), "host", "m1")
    bad = await made(store, DAILY, prompt="second")
    with by_hand(path) as conn:
        conn.execute("UPDATE reminders SET prompt = 'other words' WHERE number = 1")
        conn.execute(
            "UPDATE reminders SET status = 'set_aside', former_status = 'active', "
            "set_aside_reason = 'rule: because' WHERE number = ?",
            (bad.number,),
        )
        conn.execute(
            "INSERT INTO runs (occurrence_id, reminder_number, owner_uid, session_id, due_at) "
            "VALUES ('r1@now-' || ?1, 1, 1000, 's1', ?1)",
            (NOW,),
        )


def test_a_line_is_one_row_with_what_it_holds_by_name(filled: Path) -> None:
    header, *rows, end = [json.loads(line) for line in lines_of(filled)]
    assert header == {
        "format": "scheduler-daemon export",
        "version": VERSION,
        "schema": known()[-1].number,
        "exported_at": NOW,
        "last_id": 2,
        "facts": {},
    }
    assert [next(iter(row)) for row in rows] == [
        *("reminder", "reminder", "words", "receipt", "key", "run")
    ]
    assert end == {"end": {"reminder": 2, "words": 1, "receipt": 1, "key": 1, "run": 1}}
    assert rows[0]["reminder"]["context"] == {"cwd": "/ü"}
    assert "time_zone" not in rows[0]["reminder"]


def test_bytes_that_are_no_utf8_are_replaced(filled: Path) -> None:
    with by_hand(filled) as conn:
        conn.execute("UPDATE reminders SET prompt = CAST(X'ff41' AS TEXT) WHERE number = 2")
    assert any(b"\xef\xbf\xbdA" in line for line in lines_of(filled))


def test_a_dry_run_says_the_same_and_leaves_nothing(filled: Path, tmp_path: Path) -> None:
    other = tmp_path / "new" / "scheduler.db"
    done = bring_in(lines_of(filled), other, dry_run=True)
    assert done == ({"reminder": 2, "words": 1, "receipt": 1, "key": 1, "run": 1}, None)
    assert not other.parent.exists()
    assert bring_in(lines_of(filled), other) == done


def test_an_import_goes_into_what_holds_nothing(filled: Path, tmp_path: Path) -> None:
    lines, before = lines_of(filled), contents(filled)
    for dry_run in (True, False):
        with pytest.raises(DatabaseRefused, match="is not empty"):
            bring_in(lines, filled, dry_run=dry_run)
    assert contents(filled) == before
    (tmp_path / "empty").mkdir()
    empty = new_file(tmp_path / "empty")
    assert bring_in(lines, empty).kept == empty.with_name(f"scheduler.db.replaced-{STAMP}")
    assert contents(empty) == before


def test_an_import_is_refused_while_a_daemon_holds_the_file(filled: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    empty = new_file(tmp_path / "empty")
    lock = Lock(empty)
    try:
        for dry_run in (True, False):
            with pytest.raises(DatabaseHeld, match=r"stop it first.*scheduler-daemon\.socket"):
                bring_in(lines_of(filled), empty, dry_run=dry_run)
    finally:
        lock.release()


def test_an_export_is_of_this_schema(tmp_path: Path) -> None:
    with pytest.raises(DatabaseRefused, match="there is no database"):
        list(export(tmp_path / "none.db", NOW))
    path = new_file(tmp_path)
    with by_hand(path) as conn:
        conn.execute("DELETE FROM migrations WHERE number > 2")
        conn.execute("PRAGMA user_version = 2")
    with pytest.raises(DatabaseRefused, match="older schema"):
        list(export(path, NOW))


def changed(number: int, change: Callable[[Json], object]) -> Callable[[list[Json]], object]:
    return lambda rows: change(rows[number - 1])


def with_(number: int, /, **members: Any) -> Callable[[list[Json]], object]:
    """A line that has other members; of a row, the row."""
    return lambda rows: _row(rows[number - 1]).update(members)


def without(number: int, member: str) -> Callable[[list[Json]], object]:
    return lambda rows: _row(rows[number - 1]).pop(member)


def _row(line: Json) -> Json:
    (row,) = line.values() if len(line) == 1 else (line,)
    return row


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda rows: rows.clear(), "line 1: the file is empty"),
        (lambda rows: rows.pop(), "line 8: the end is missing"),
        (lambda rows: rows.append({}), "line 9: there is more after the end"),
        (lambda rows: rows.pop(2), "line 7: there should be"),
        (
            lambda rows: rows.insert(2, rows.pop(5)),
            "line 4: reminder comes before key; their order",
        ),
        (with_(1, format="x"), "line 1: an export begins with"),
        (with_(1, version=2), "line 1: version 2 of the form; this"),
        (with_(1, version=True), "line 1: version True of the form"),
        (with_(1, more=2), "line 1: 'more' is no member of it"),
        (with_(1, schema="3"), "line 1: schema: a whole number is miss"),
        (with_(1, exported_at="now"), "line 1: exported_at: "),
        (without(1, "exported_at"), "line 1: exported_at: text is missing"),
        (with_(1, last_id="2"), "line 1: last_id: a whole number is"),
        (with_(1, last_id=-1), "line 1: last_id: -1 is less than 0"),
        (with_(1, last_id=2**63 - 1), r"line 1: last_id: 9\d+ is more than"),
        (with_(1, last_id=1), "line 3: number: 2 is not from 1 to 1, the"),
        (with_(1, facts=[]), "line 1: facts: an object of text is"),
        (with_(1, facts={"a": 1}), "line 1: facts: text is missing"),
        (changed(2, lambda row: row.update(words={})), "line 2: one of reminder"),
        (changed(2, lambda row: row.update(reminder=[])), "line 2: one of reminder"),
        (with_(2, color=1), "line 2: 'color' is no member"),
        (with_(2, paused=True), "line 2: paused: True is not"),
        (with_(2, paused="0"), "line 2: paused: '0' is not a"),
        (with_(2, prompt=5), "line 2: prompt: 5 is not text"),
        (with_(2, title=None), "line 2: title: None is not"),
        (with_(2, number=2**70), r"line 2: \d+… is a number la"),
        (with_(2, number=0), "line 2: number: 0 is not from 1"),
        (without(2, "number"), "line 2: number: None is not from"),
        (with_(2, owner_uid=2**32), "line 2: owner_uid: 4294"),
        (with_(2, owner_uid=-1), "line 2: owner_uid: -1 is"),
        (with_(2, prompt="\ud800"), "line 2: what cannot be"),
        (with_(2, prompt="\0"), "line 2: prompt: holds a NUL"),
        (without(2, "prompt"), "line 2: prompt is missing"),
        (with_(2, interval_seconds=5), "line 2: rule: 5 is"),
        (with_(2, status="gone"), "line 2: status: 'gone' is"),
        (with_(2, scheduled_at="2026-03-09"), "line 2: scheduled_at: not a canonical instant"),
        (with_(3, number=1), "line 3: an earlier line has the"),
        (without(3, "former_status"), "line 3: former_status: None"),
        (without(3, "set_aside_reason"), "line 3: set_aside_reason: text is missing"),
        (with_(2, context={"cwd": 1}), "line 2: context: text is missing"),
        (without(4, "prompt"), "line 4: prompt: text is missing"),
        (with_(5, outcome="lost"), "line 5: outcome: 'lost'"),
        (with_(5, occurrence_id="x"), "line 5: occurrence_id: "),
        (with_(5, reminder_number=3), "line 5: reminder_numbe"),
        (with_(5, reminder_number=2), "line 5: occurrence_id: "),
        (without(5, "host"), "line 5: host: text is missing"),
        (with_(6, created_at="2026"), "line 6: created_at: "),
        (with_(6, session_id="*"), "line 6: session_id: '\\*'"),
        (with_(7, due_at="soon"), "line 7: due_at: "),
        (with_(7, session_id="s2"), "line 7: its Session has no r1"),
        (without(8, "run"), "line 8: there should be"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_line_and_nothing_is_made(
    filled: Path, tmp_path: Path, spoil: Callable[[list[Json]], object], why: str
) -> None:
    rows = [json.loads(line) for line in lines_of(filled)]
    spoil(rows)
    other = tmp_path / "other" / "scheduler.db"
    with pytest.raises(DatabaseRefused, match=f"^{why}.*nothing was imported$"):
        bring_in([json.dumps(row).encode() for row in rows], other)
    assert [each.name for each in other.parent.iterdir()] == ["scheduler.db.lock"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "it is not whole: the file was cut off"),
        (b"{\n", "not JSON at character 3: Expecting property name"),
        (b"{'a': 1}\n", "not JSON at character 2: Expecting property name"),
        (b"\r\n", "it is empty"),
        (b"\xef\xbb\xbf{}\n", "it begins with a byte order mark"),
        ("{}\n".encode("utf-16"), "byte 1 is not UTF-8"),
        (b'{"a": "\xff"}\n', "byte 8 is not UTF-8"),
        (b'{"a": "\0"}\n', "not JSON at character 8: Invalid control character"),
        (b'{"a": 1e3}\n', "1e3 is not written as a whole number"),
        (b'{"a": 3.0}\n', "3.0 is not written as a whole number"),
        (b'{"a": NaN}\n', "NaN is not JSON"),
        (b'{"a": -Infinity}\n', "-Infinity is not JSON"),
        (b'{"a": ' + b"9" * 100_000 + b"}\n", r"9{19}… is a number larger"),
        (b'{"a": {"b": 1, "b": 1}}\n', "'b' is there twice"),
        (b"[" * 100_000, "arrays or objects nest too deep"),
        (b"[]", "a line is one JSON object"),
        (b"SQLite format 3\0...", "this is a database, not an export; `schedctl restore` takes"),
        (b" " * (4 * 1024 * 1024 + 1), "longer than"),
    ],
)
def test_a_line_is_a_json_object_of_bounded_length(tmp_path: Path, line: bytes, why: str) -> None:
    with pytest.raises(DatabaseRefused, match=f"^line 1: {why}"):
        bring_in([line], tmp_path / "scheduler.db")


def test_a_full_disk_is_told_and_is_no_fault_of_a_line(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(path: Path) -> sqlite3.Connection:
        conn = open_file(path)
        conn.execute("PRAGMA max_page_count = 1")  # as many as there are
        return conn

    lines, large = lines_of(filled), "x" * 30_000
    header, *rows = [json.loads(line) for line in lines]
    rows[0]["reminder"]["prompt"] = large
    lines = [json.dumps(line).encode() for line in (header, *rows)]
    other = tmp_path / "other.db"
    monkeypatch.setattr("scheduler_daemon.store.carry.open_file", small)
    with pytest.raises(DatabaseRefused, match=r"^cannot write .*: database or disk is full; noth"):
        bring_in(lines, other)
    assert not other.exists()


def test_no_more_of_a_line_is_read_than_one_may_have(filled: Path, tmp_path: Path) -> None:
    lines = lines_of(filled)
    file = io.BytesIO(b"".join(lines))
    assert list(form.lines_of(file)) == lines
    huge = io.BytesIO(lines[0] + b"x" * (3 * LONGEST_LINE))
    with pytest.raises(DatabaseRefused, match="line 2: longer than 4194304 bytes"):
        bring_in(form.lines_of(huge), tmp_path / "other.db")
    assert huge.tell() == len(lines[0]) + LONGEST_LINE + 1


def test_lines_may_end_as_another_system_ends_them(filled: Path, tmp_path: Path) -> None:
    lines = [line.replace(b"\n", b"\r\n") for line in lines_of(filled)]
    bring_in(lines, tmp_path / "other.db")
    assert contents(tmp_path / "other.db") == contents(filled)


SET_ASIDE = [
    "scheduled_at = 'soon'",
    "context = 'no JSON'",
    "context = '{\"a\": NaN}'",
    "context = '[7]'",
    "kind = 'yearly', owner_uid = owner_uid",
    "prompt = ''",
    f"generation = {2**63 - 1}, dispatch_count = {-(2**63)}",
    "session_id = '*'",
    "delay_seconds = 7",
]


@pytest.mark.parametrize("edit", SET_ASIDE)
async def test_a_row_that_is_set_aside_comes_back_as_it_is(
    filled: Path, tmp_path: Path, edit: str
) -> None:
    """Whatever is wrong with it, all others can be carried elsewhere."""
    with by_hand(filled) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute(f"UPDATE reminders SET {edit} WHERE number = 2")
    bring_in(lines_of(filled), tmp_path / "other.db")
    assert contents(tmp_path / "other.db") == contents(filled)


def test_a_reminder_that_the_daemon_has_not_met_is_exported_as_it_would_leave_it(
    filled: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    with by_hand(filled) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute("UPDATE reminders SET interval_seconds = 5 WHERE number = 1")
    bring_in(lines_of(filled), other)
    with by_hand(other) as conn:
        found = conn.execute(
            "SELECT status, former_status, set_aside_reason, interval_seconds FROM reminders"
        ).fetchone()
    assert found == ("set_aside", "active", "rule: 5 is less than 300", 5)
    assert {each.code for each in look(other)} == {"set_aside"}


REFUSED = [
    ("UPDATE dispatches SET host = ''", "receipt of reminder_number 1: host: is empty"),
    ("UPDATE idempotency_keys SET created_at = 'x'", "key of reminder_number 1: created_at: "),
    ("UPDATE past_words SET title = ''", "words of reminder_number 1: title: is empty"),
    ("UPDATE runs SET occurrence_id = 'x'", "run of reminder_number 1: occurrence_id: 'x' is no"),
    ("UPDATE runs SET session_id = 's2'", "run of reminder_number 1: its Session has no such"),
    ("UPDATE reminders SET number = -1 WHERE number = 2", "reminder of number -1: no id is made"),
]


@pytest.mark.parametrize(("edit", "why"), REFUSED)
def test_what_no_import_would_take_is_refused_by_the_export(
    filled: Path, edit: str, why: str
) -> None:
    with by_hand(filled) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute("DROP TRIGGER reminders_moved")
        conn.execute(edit)
    with pytest.raises(DatabaseRefused, match=f"cannot export the {why}.*`schedctl doctor` says"):
        lines_of(filled)


@pytest.mark.parametrize("edit", ["context = x'00'", "generation = 1.5"])
def test_a_value_that_json_has_no_whole_number_or_text_for_is_refused(
    filled: Path, edit: str
) -> None:
    with by_hand(filled) as conn:
        conn.execute("PRAGMA writable_schema = ON")
        conn.execute("UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')')")
    with by_hand(filled) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute(f"UPDATE reminders SET {edit}")
    with pytest.raises(DatabaseRefused, match=" is neither text nor a whole number"):
        lines_of(filled)


def test_a_row_that_no_line_can_hold_is_named_by_the_export(filled: Path) -> None:
    with by_hand(filled) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute("UPDATE reminders SET prompt = printf('%.*c', 5000000, 'x') WHERE number = 2")
    with pytest.raises(DatabaseRefused, match="reminder of number 2: it has more than the 4 MiB"):
        lines_of(filled)


@pytest.mark.parametrize("seq", ["'x'", "NULL", "-5", str(2**63 - 1), "1"])
def test_ids_go_on_above_all_that_are_known_whatever_the_file_says(
    filled: Path, tmp_path: Path, seq: str
) -> None:
    with by_hand(filled) as conn:
        conn.execute(f"UPDATE sqlite_sequence SET seq = {seq}")
    lines = lines_of(filled)
    assert json.loads(lines[0])["last_id"] == 2
    bring_in(lines, tmp_path / "other.db")
    assert last_id(tmp_path / "other.db") == 2 + IDS_LEFT_OUT


async def test_an_id_that_was_given_out_is_not_given_out_again(
    filled: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    bring_in(lines_of(filled), other)
    async with opened(other) as store:
        reminder = await made(store, HOURLY)
        again = await store.create(draft(HOURLY, key="k"), T0, LIMITS)
    assert reminder.number == 2 + IDS_LEFT_OUT + 1
    assert (again.number, again.created) == (1, False)


def test_an_export_is_one_moment_of_the_file(filled: Path) -> None:
    """What is written while it is read is not in it."""
    before = lines_of(filled)
    lines = export(filled, NOW)
    begun = [f"{next(lines)}\n".encode() for _ in range(2)]
    with closing(sqlite3.connect(filled)) as conn, conn:
        conn.execute("DELETE FROM reminders")
        conn.execute("DELETE FROM dispatches")
    assert begun + [f"{line}\n".encode() for line in lines] == before


def test_a_damaged_file_is_neither_exported_nor_imported_into(filled: Path, tmp_path: Path) -> None:
    lines = lines_of(filled)
    data = bytearray(filled.read_bytes())
    data[16:18] = b"\xff\xff"  # no size that pages can have
    filled.write_bytes(data)
    with pytest.raises(DatabaseRefused, match="cannot read the database"):
        list(export(filled, NOW))
    with pytest.raises(DatabaseRefused, match="cannot read the database"):
        bring_in(lines, filled)
    assert filled.read_bytes() == data


def test_the_page_of_the_form_names_all_that_a_line_may_hold() -> None:
    text = (Path(__file__).parents[2] / "docs" / "export.md").read_text("utf-8")
    named = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    assert named == {*HEADER, *TABLES}
    assert f"Version {VERSION} of the form" in text
    assert f"{LONGEST_LINE // 1024**2} MiB" in text
