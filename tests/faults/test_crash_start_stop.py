"""The crash matrix of starting, stopping and migrating, with a reminder of every kind there."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.database import create_file
from scheduler_daemon.store.migrate import known, migrate, statements
from tests.faults.lives import TestBuild, occurrences
from tests.faults.seeds import KINDS, MADE, check_target, seed
from tests.support.peer import SILENCE

pytestmark = pytest.mark.acceptance

FIRST = known()[:1]
LATER = known()[1:]

STARTING = [
    *("file_made", "after_lock", "before_mark", "after_open", "before_commit.note_zone_data"),
    *("after_commit.note_zone_data", "after_bind", "before_ready"),
]
STOPPING = ["listener_closed", "stopping", "before_close", "after_close"]
MIGRATING = [
    *("copying:1", "copying:9", "copied", "after_copy"),
    *("before_commit.migration", "after_commit.migration"),
]


def all_kinds() -> list[tuple[str, str]]:
    return [(f"s {kind}", kind) for kind in KINDS]


def check_once_each(build: TestBuild, ids: list[str], came: list[str]) -> None:
    """Everything that was due came once, and every reminder stands where it should."""
    assert sorted({each.split("@")[0] for each in came}) == ids
    assert len(came) == len(ids)
    assert [row["id"] for row in build.table("reminders")] == ids
    for row in build.table("reminders"):
        check_target(row, build.now)
    assert sorted(row["occurrence_id"] for row in build.table("dispatches")) == sorted(came)


@pytest.mark.parametrize("point", STARTING)
def test_killed_while_it_starts_it_starts_again_and_nothing_is_lost(
    build: TestBuild, point: str
) -> None:
    ids = seed(build.state, all_kinds())
    untouched = build.facts()
    build.crash_at = point
    build.begin()
    build.crashed()
    assert build.facts() == untouched
    build.crash_at = ""
    came = occurrences(build.start().healed())
    assert build.stop() == 0
    check_once_each(build, ids, came)


@pytest.mark.parametrize(
    "point",
    [
        *("file_made", "before_commit.migration", "after_commit.migration"),
        *(f"migration_statement:{n}" for n in (1, 5, 20, 40)),
    ],
)
def test_killed_while_it_makes_its_file_it_makes_it_whole_the_next_time(
    build: TestBuild, point: str
) -> None:
    build.crash_at = point
    build.begin()
    build.crashed()
    build.crash_at = ""
    made = build.start().peer().create("s", "words", after_seconds=60)
    assert build.turn("advance", 60)
    assert [each.split("@")[0] for each in occurrences(build.healed())] == [made["id"]]
    build.stop()
    assert build.sql("PRAGMA user_version") == [(known()[-1].number,)]
    assert not list(build.state.glob("*.copying*"))


@pytest.mark.parametrize("point", STOPPING)
def test_killed_while_it_stops_what_was_answered_is_written_and_what_was_not_comes_again(
    build: TestBuild, point: str
) -> None:
    ids = seed(build.state, all_kinds())
    silent = [f"s {kind}" for kind in list(KINDS)[::2]] if "close" not in point[-5:] else []
    build.crash_at = point
    host = build.start().peer()
    host.script = dict.fromkeys(silent, SILENCE)
    host.attach("*")
    build.until(lambda: len(host.followups) == len(ids))
    build.until(lambda: len(build.table("dispatches")) == len(ids) - len(silent))
    build.signal(signal.SIGTERM)
    build.crashed()
    written = [row["occurrence_id"] for row in build.table("dispatches")]
    assert len(written) == len(ids) - len(silent)
    build.crash_at = ""
    came = occurrences(build.start().healed())
    build.stop()
    assert sorted(came) == sorted(set(occurrences(host)) - set(written))
    check_once_each(build, ids, written + came)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_killed_between_a_commit_and_its_mark_nothing_is_called_lost(
    build: TestBuild, end: signal.Signals
) -> None:
    """Not by the next life, which writes nothing, and not by the one after it."""
    build.crash_at = "before_mark:5"
    build.begin()
    build.logged("daemon_started")
    with suppress(ConnectionError):
        for number in range(5):
            build.peer().create("s", f"{number}", after_seconds=600)
    build.crashed()
    build.crash_at = ""
    made = build.table("reminders")
    for _ in range(3):
        build.start()
        build.kill() if end == signal.SIGKILL else build.stop()
    assert build.table("reminders") == made
    assert build.events("writes_lost") == []


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_the_receipt_of_an_admission_that_it_waited_for_when_stopping(
    build: TestBuild, kind: str, side: str
) -> None:
    ids = seed(build.state, [("s", kind)])
    build.flags["stop_timeout_seconds"] = 60  # in which the answer must come
    build.crash_at = f"{side}_commit.receipt"
    host = build.start().peer()
    host.reply = SILENCE
    host.attach("*")
    pushed = host.next_followup()
    build.signal(signal.SIGTERM)
    build.logged("stop_requested")
    host.answer(pushed)
    build.crashed()
    build.crash_at = ""
    came = occurrences(build.start().healed())
    build.stop()
    assert came == (pushed.occurrences if side == "before" else [])
    check_once_each(build, ids, pushed.occurrences)


# --- migrations


def seed_first_schema(state: Path) -> list[str]:
    """A file of the first schema with a reminder of every kind, due at START; their ids."""
    newest = state.with_name("newest")
    ids = seed(newest, all_kinds())
    state.mkdir(mode=0o700)
    path = state / "scheduler.db"
    create_file(path)
    migrate(path, instant_text(MADE), FIRST)
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("ATTACH ? AS newest", (str(newest / "scheduler.db"),))
        columns = ", ".join(row[1] for row in conn.execute("PRAGMA main.table_info(reminders)"))
        conn.execute(
            f"INSERT INTO main.reminders ({columns}) SELECT {columns} FROM newest.reminders"
        )
    return ids


def version_and_rows(path: Path) -> tuple[int, list[Any]]:
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (version,) = conn.execute("PRAGMA user_version").fetchone()
        return version, conn.execute(
            "SELECT id, session_id, prompt, scheduled_at, status FROM reminders"
        ).fetchall()


def statement_points() -> list[str]:
    """The first statement of each later migration, one in its midst and its last."""
    points, before = [], 0
    for each in LATER:
        count = len(list(statements(each.sql)))
        points += [f"migration_statement:{before + n}" for n in (1, count // 2 + 1, count)]
        before += count
    return list(dict.fromkeys(points))


@pytest.mark.parametrize("point", MIGRATING + statement_points())
def test_killed_while_a_file_changes_its_schema_it_has_the_old_one_or_the_new_one_and_every_row(
    build: TestBuild, point: str
) -> None:
    ids = seed_first_schema(build.state)
    old = version_and_rows(build.database)
    build.crash_at = point
    build.begin()
    build.crashed()
    version, rows = version_and_rows(build.database)
    assert rows == old[1]
    assert version == (LATER[-1].number if point == "after_commit.migration" else 1)
    build.crash_at = ""
    came = occurrences(build.start().healed())
    build.stop()
    check_once_each(build, ids, came)
    copies = sorted(build.state.glob("*.schema*Z"))
    assert copies
    assert version_and_rows(copies[0]) == old
    assert not list(build.state.glob("*.copying*"))
