"""An export is the whole file, an import the same file again; what is not understood is refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.backup import IDS_LEFT_OUT
from scheduler_daemon.store.carry import (
    HEADER,
    LONGEST_LINE,
    TABLES,
    VERSION,
    Imported,
    export,
    import_lines,
)
from scheduler_daemon.store.database import DatabaseHeld, DatabaseRefused, Lock
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


def bring_in(lines: list[bytes], database: Path, *, dry_run: bool = False) -> Imported:
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
            "VALUES ('r1@now-x', 1, 1000, 's1', ?)",
            (NOW,),
        )


def test_a_line_is_one_row_with_what_it_holds_by_name(filled: Path) -> None:
    header, *rows, end = [json.loads(line) for line in lines_of(filled)]
    assert header == {
        "format": "scheduler-daemon export",
        "version": VERSION,
        "schema": 3,
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
        conn.execute("DELETE FROM migrations WHERE number = 3")
        conn.execute("PRAGMA user_version = 2")
    with pytest.raises(DatabaseRefused, match="older schema"):
        list(export(path, NOW))


def changed(number: int, change: Callable[[Json], object]) -> Callable[[list[Json]], object]:
    return lambda rows: change(rows[number - 1])


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda rows: rows.clear(), "line 1: the end is missing"),
        (lambda rows: rows.pop(), "line 8: the end is missing"),
        (lambda rows: rows.append({}), "line 9: there is more after the end"),
        (lambda rows: rows.pop(2), "line 7: there should be"),
        (changed(1, lambda row: row.update(format="x")), "line 1: not the first line of"),
        (changed(1, lambda row: row.update(version=2)), "line 1: format version 2"),
        (changed(1, lambda row: row.update(more=2)), "line 1: more is not known"),
        (changed(1, lambda row: row.update(last_id="2")), "line 1: last_id is a number"),
        (changed(1, lambda row: row.update(facts=[])), "line 1: last_id is a number"),
        (changed(2, lambda row: row.update(words={})), "line 2: one of reminder"),
        (changed(2, lambda row: row.update(reminder=[])), "line 2: one of reminder"),
        (changed(2, lambda row: row["reminder"].update(color=1)), "line 2: color is not known"),
        (changed(2, lambda row: row["reminder"].update(paused=True)), "line 2: paused is neither"),
        (changed(2, lambda row: row["reminder"].update(number=2**70)), "line 2: what cannot be"),
        (changed(2, lambda row: row["reminder"].update(prompt="\ud800")), "line 2: what cannot be"),
        (changed(2, lambda row: row["reminder"].pop("prompt")), "line 2: NOT NULL"),
        (changed(2, lambda row: row["reminder"].update(interval_seconds=5)), "line 2: CHECK"),
        (changed(3, lambda row: row["reminder"].update(number=1)), "line 3: UNIQUE"),
        (
            changed(2, lambda row: row["reminder"].update(context={"cwd": 1})),
            "line 2: context: text is missing",
        ),
        (changed(5, lambda row: row["receipt"].update(outcome="lost")), "line 5: CHECK"),
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
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b" " * (4 * 1024 * 1024 + 1), "longer than"),
    ],
)
def test_a_line_is_a_json_object_of_bounded_length(tmp_path: Path, line: bytes, why: str) -> None:
    with pytest.raises(DatabaseRefused, match=f"line 1: {why}"):
        bring_in([line], tmp_path / "scheduler.db")


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
