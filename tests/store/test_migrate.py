"""Migrations: each once and whole, never on what is newer or other, and with a way back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import scheduler_daemon
from scheduler_daemon.store import migrate as module
from scheduler_daemon.store.database import DatabaseRefused, Lock, create_file, examine
from scheduler_daemon.store.migrate import (
    COPIES_KEPT,
    Migration,
    folder,
    known,
    migrate,
    statements,
)
from tests.store.support import by_hand

NOW = "2026-03-02T12:00:00.000Z"

FIRST = Migration(1, "0001_first", "CREATE TABLE one (a);\nINSERT INTO one VALUES (1);\n")
SECOND = Migration(2, "0002_second", "ALTER TABLE one ADD COLUMN b;\nUPDATE one SET b = 2;\n")
BROKEN = Migration(3, "0003_broken", "DELETE FROM one;\nCREATE TABLE one (a);\n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.db"
    create_file(path)
    return path


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with by_hand(path) as conn:
        return conn.execute(query).fetchall()


def test_a_new_file_gets_every_migration_and_a_record_of_each(path: Path) -> None:
    assert migrate(path, NOW, [FIRST, SECOND]) == ["0001_first", "0002_second"]
    assert rows(path, "SELECT a, b FROM one") == [(1, 2)]
    assert rows(path, "PRAGMA user_version") == [(2,)]
    assert rows(path, "SELECT * FROM migrations") == [
        (1, "0001_first", FIRST.checksum, NOW),
        (2, "0002_second", SECOND.checksum, NOW),
    ]
    assert list(path.parent.glob("*.schema*")) == []  # there was nothing to copy


def test_a_second_time_nothing_is_done_and_nothing_is_changed(path: Path) -> None:
    migrate(path, NOW, [FIRST])
    before = path.read_bytes()
    assert migrate(path, NOW, [FIRST]) == []
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["scheduler.db"]


def test_a_file_that_lacks_a_part_of_its_schema_is_refused_and_one_that_has_more_is_not(
    path: Path,
) -> None:
    migrate(path, NOW)
    with by_hand(path) as conn:
        conn.execute("CREATE VIEW mine AS SELECT id FROM reminders")
    assert migrate(path, NOW) == []
    with by_hand(path) as conn:
        conn.execute("DROP VIEW history")
        conn.execute("DROP TABLE past_words")
    with pytest.raises(DatabaseRefused, match=r"lacks .*table past_words, view history"):
        migrate(path, NOW)


def test_an_older_file_gets_what_it_lacks(path: Path) -> None:
    migrate(path, NOW, [FIRST])
    assert migrate(path, NOW, [FIRST, SECOND]) == ["0002_second"]
    assert rows(path, "SELECT a, b FROM one") == [(1, 2)]


def refused(path: Path, migrations: list[Migration], match: str) -> None:
    """It is refused, and neither the file nor its folder is changed by a byte."""
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    with pytest.raises(DatabaseRefused, match=match):
        migrate(path, NOW, migrations)
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before


def test_a_newer_file_is_refused_and_left_untouched(path: Path) -> None:
    migrate(path, NOW, [FIRST, SECOND])
    refused(path, [FIRST], "has schema 2, this program knows up to 1")


def test_a_file_of_another_history_is_refused_and_left_untouched(path: Path) -> None:
    migrate(path, NOW, [FIRST, SECOND])
    changed = Migration(1, "0001_first", FIRST.sql + "-- a changed mind\n")
    refused(path, [changed, SECOND], "by other migrations")
    refused(path, [SECOND], "by other migrations")


@pytest.mark.parametrize(
    "edit",
    [
        "PRAGMA user_version = 1",
        "DELETE FROM migrations WHERE number = 1",
        "DELETE FROM migrations",
        "DROP TABLE migrations",
        "INSERT INTO migrations VALUES (3, 'x', 'y', 'z')",
    ],
)
def test_a_record_that_does_not_fit_its_schema_is_refused(path: Path, edit: str) -> None:
    migrate(path, NOW, [FIRST, SECOND])
    with by_hand(path) as conn:
        conn.execute(edit)
    refused(path, [FIRST, SECOND], "by other migrations")


def test_a_migration_that_fails_half_way_leaves_the_file_as_it_was(path: Path) -> None:
    migrate(path, NOW, [FIRST, SECOND])
    before = path.read_bytes()
    with pytest.raises(DatabaseRefused, match="table one already exists"):
        migrate(path, NOW, [FIRST, SECOND, BROKEN])
    assert path.read_bytes() == before
    assert rows(path, "SELECT a, b FROM one") == [(1, 2)]
    assert migrate(path, NOW, [FIRST, SECOND]) == []


def test_one_that_fails_takes_those_before_it_with_it(path: Path) -> None:
    """Else a start that is tried again would push the copy of the old schema out."""
    migrate(path, NOW, [FIRST])
    before = path.read_bytes()
    for _ in range(COPIES_KEPT + 2):
        with pytest.raises(DatabaseRefused):
            migrate(path, NOW, [FIRST, SECOND, BROKEN])
    assert path.read_bytes() == before
    assert rows(path, "PRAGMA user_version") == [(1,)]
    copies = [each.name for each in path.parent.glob("*.schema*Z")]
    assert copies
    assert all(".schema1-" in name for name in copies)


def test_a_missing_file_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(DatabaseRefused, match="unable to open"):
        migrate(tmp_path / "absent" / "scheduler.db", NOW)


# --- the copy beside it


def test_before_an_existing_file_changes_a_copy_of_it_is_made(path: Path) -> None:
    migrate(path, NOW, [FIRST])
    migrate(path, "2026-04-05T06:07:08.999Z", [FIRST, SECOND])
    copy = path.with_name("scheduler.db.schema1-20260405T060708Z")
    assert sorted(each.name for each in path.parent.iterdir()) == ["scheduler.db", copy.name]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert rows(copy, "SELECT * FROM one") == [(1,)]
    examine(copy)
    assert migrate(copy, NOW, [FIRST]) == []  # the older program runs with it


def test_a_copy_holds_what_was_only_in_the_log(path: Path) -> None:
    migrate(path, NOW, [FIRST])
    with by_hand(path) as conn:
        conn.execute("INSERT INTO one VALUES (7)")
        migrate(path, NOW, [FIRST, SECOND])
    (copy,) = path.parent.glob("*.schema1-*")
    assert rows(copy, "SELECT a FROM one") == [(1,), (7,)]


def test_the_three_newest_copies_stay(path: Path) -> None:
    """Of any schema; and nothing that is not a copy of this file goes."""
    migrate(path, NOW, [FIRST])
    others = ["other.db.schema1-20200101T000000Z", "scheduler.db.schema-notes"]
    for name in others:
        path.with_name(name).touch()
    steps = [FIRST]
    for number in range(2, 7):
        steps.append(Migration(number, f"000{number}_x", f"CREATE TABLE t{number} (a)"))
        migrate(path, f"2026-0{8 - number}-01T00:00:00.000Z", steps)
    copies = {each.name for each in path.parent.glob("*schema*")} - set(others)
    assert copies == {
        "scheduler.db.schema1-20260601T000000Z",
        "scheduler.db.schema2-20260501T000000Z",
        "scheduler.db.schema3-20260401T000000Z",
    }
    assert all(path.with_name(name).exists() for name in others)


def test_a_copy_that_cannot_be_made_stops_the_migration(path: Path) -> None:
    migrate(path, NOW, [FIRST])
    path.with_name("scheduler.db.copying").mkdir()
    with pytest.raises(DatabaseRefused, match="cannot copy the database"):
        migrate(path, NOW, [FIRST, SECOND])
    assert rows(path, "PRAGMA user_version") == [(1,)]


def test_a_copy_that_fails_on_its_way_leaves_no_half_of_it(path: Path) -> None:
    migrate(path, NOW, [FIRST])
    path.with_name("scheduler.db.copying").touch()  # left by a kill
    path.with_name("scheduler.db.copying-journal").mkdir()
    with pytest.raises(DatabaseRefused, match="cannot bring the database"):
        migrate(path, NOW, [FIRST, SECOND])
    assert not path.with_name("scheduler.db.copying").exists()
    assert rows(path, "PRAGMA user_version") == [(1,)]


# --- the statements of a script

TRIGGER = """CREATE TRIGGER t AFTER INSERT ON one BEGIN -- two; at once
  INSERT INTO two VALUES (';');
  DELETE FROM two WHERE a = '; --';
END;"""


def test_a_script_is_cut_at_its_statements_and_nowhere_else() -> None:
    script = (
        f"-- a; comment\nCREATE TABLE one (a); CREATE TABLE two (a -- b;\n);\n{TRIGGER}\n-- end"
    )
    found = [each.strip() for each in statements(script)]
    assert found == [
        "-- a; comment\nCREATE TABLE one (a)",
        "CREATE TABLE two (a -- b;\n)",
        TRIGGER.removesuffix(";"),
        "-- end;",
    ]
    with closing(sqlite3.connect(":memory:")) as conn:
        for each in statements(script):
            conn.execute(each)
        conn.execute("INSERT INTO one VALUES (1)")
        assert conn.execute("SELECT * FROM two").fetchall() == [(";",)]


def test_a_last_statement_without_its_semicolon_is_carried_out(path: Path) -> None:
    migrate(path, NOW, [Migration(1, "0001_x", "CREATE TABLE one (a);\nCREATE TABLE two (a)")])
    assert rows(path, "SELECT * FROM two") == []


@pytest.mark.parametrize(
    "sql", ["CREATE TRIGGER t AFTER INSERT ON one BEGIN SELECT 1;", "SELECT 'x;", "nonsense;"]
)
def test_a_statement_that_is_not_whole_is_refused(path: Path, sql: str) -> None:
    with pytest.raises(DatabaseRefused):
        migrate(path, NOW, [Migration(1, "0001_x", f"CREATE TABLE one (a);\n{sql}")])
    assert rows(path, "SELECT * FROM sqlite_master") == []


# --- the files


def test_the_migrations_are_numbered_from_one_without_a_gap() -> None:
    migrations = known()
    assert [each.number for each in migrations] == list(range(1, len(migrations) + 1))
    assert migrations[0].name == "0001_initial"


def test_an_installation_without_migrations_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatabaseRefused, match="lacks its migrations"):
        known(tmp_path)


def test_the_end_of_a_line_is_no_part_of_a_checksum(tmp_path: Path) -> None:
    """A checkout may write others."""
    for name, text in (
        ("0001_a.sql", b"SELECT 1;\nSELECT 2;\n"),
        ("0002_b.sql", b"SELECT 1;\r\nSELECT 2;\r\n"),
    ):
        (tmp_path / name).write_bytes(text)
    one, two = known(tmp_path)
    assert one.checksum == two.checksum


def test_an_install_finds_them_in_the_package_and_a_checkout_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Path(scheduler_daemon.__file__).parent
    assert folder() in (package / "migrations", package.parent / "migrations")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "package" / "store" / "migrate.py"))
    assert folder() == tmp_path / "migrations"
    (tmp_path / "package" / "migrations").mkdir(parents=True)
    assert folder() == tmp_path / "package" / "migrations"


def test_the_schema_is_the_daemons_and_a_lock_is_no_hindrance(path: Path) -> None:
    lock = Lock(path)
    assert migrate(path, NOW) == [each.name for each in known()]
    lock.release()
    tables = {name for (name,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables >= {"reminders", "dispatches", "sessions", "owners", "idempotency_keys"}
    columns = [row[1] for row in rows(path, "PRAGMA table_xinfo(reminders)")]
    named = "id owner_uid session_id kind title prompt scheduled_at after_at computed_at status"
    assert set(columns) >= {*named.split(), "revision", "created_at"}
