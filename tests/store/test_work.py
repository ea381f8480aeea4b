"""Every statement seeks by an index and takes no more steps in a big file than in a small one.

The big file has 100,000 reminders; SCHEDULER_DAEMON_TEST_ROWS=1000000 makes it a million.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.rules import instant_text, parse_instant_text
from scheduler_daemon.store.database import connect
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import RULE_COLUMNS
from tests.store.support import OWNER, T0, later, new_file

ROWS = int(os.environ.get("SCHEDULER_DAEMON_TEST_ROWS", "100000"))

GROWS = {"overdue_of_owner", "overdue_of_session", "runs_of_owner"}
"""What counts visits what it counts: the status page alone asks for it."""

OF_A_SESSION = {
    "forget_dispatches",
    "forget_reminders",
    "forget_words",
    "keys_gone",
    "runs_of_session",
    "transfer",
}
"""What is about a whole Session grows with that one and not with the file."""

LISTS_OWNERS = {"owners_active", "all_owners"}
"""Lists of owners, which read the table of owners: one row for each uid."""

# A tenth of all reminders are in the Session "huge", the others in Sessions of a hundred. Targets
# lie on 48 hours around T0, so that many are equal; of ten reminders eight are active, one has
# ended and one is set aside. Reminder 1 has as many receipts as retention leaves. Of the recurring
# ones every 50th was kept beyond its end; every tenth reminder was asked for by hand, and every
# tenth delay was corrected for a clock that was behind.
_FILL = """
INSERT INTO reminders (owner_uid, session_id, kind, delay_seconds, local_time, time_zone, prompt,
  scheduled_at, after_at, computed_at, created_at, status, ended_at, ended_reason, former_status,
  set_aside_reason, until_at)
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :rows),
  mixed AS (SELECT i, i * 2654435761 % 4294967296 AS h FROM n)
SELECT :owner, iif(h / 8 % 10 = 0, 'huge', 's' || (i / 111)),
  iif(i % 2, 'after', 'daily'), iif(i % 2, 60, NULL),
  iif(i % 2, NULL, '09:00:00.000'), iif(i % 2, NULL, 'UTC'), 'x',
  strftime('%Y-%m-%dT%H:%M:%S.000Z', :start, (h % 48) || ' hours'),
  :now, iif(i % 20 = 5, '2006-01-01T00:00:00.000Z', :now), :now,
  CASE h / 64 % 10 WHEN 4 THEN 'ended' WHEN 9 THEN 'set_aside' ELSE 'active' END,
  iif(h / 64 % 10 = 4, :now, NULL), iif(h / 64 % 10 = 4, 'count', NULL),
  iif(h / 64 % 10 = 9, 'active', NULL), iif(h / 64 % 10 = 9, 'rule: because', NULL),
  iif(i % 100 = 2, '2026-01-01T00:00:00.000Z', NULL)
FROM mixed
"""
_FILL_RECEIPTS = """
INSERT INTO dispatches (occurrence_id, followup_id, reminder_number, owner_uid, session_id,
  occurrence_at, decided_at, admitted_at, host, outcome, words_revision)
SELECT 'o' || number, 'f', iif(number <= 200, 1, number), owner_uid,
  iif(number <= 200, 'huge', session_id), :now, :now, :now, 'h',
  'admitted', 1
FROM reminders WHERE number <= 200 OR number % 5 = 0
"""
_FILL_KEYS = """
INSERT INTO idempotency_keys (
  owner_uid, session_id, key, request_hash, reminder_number, created_at, asked_of, gone_at)
SELECT owner_uid, session_id, 'k' || number, 'h', number, :now, number, iif(number % 2, NULL, :now)
FROM reminders WHERE number = 1 OR number % 5 = 0
"""
_FILL_WORDS = """
INSERT INTO past_words (reminder_number, words_revision, prompt)
SELECT DISTINCT reminder_number, 2, 'y' FROM dispatches
"""
_FILL_RUNS = """
INSERT INTO runs (occurrence_id, reminder_number, owner_uid, session_id, due_at)
SELECT 'run' || number, number, owner_uid, session_id,
  iif(number = 1, strftime('%Y-%m-%dT%H:%M:%S.000Z', :now, '1 hours'), :now)
FROM reminders WHERE number % 10 = 1 AND status = 'active'
"""
_FILL_CORRECTIONS = """
INSERT INTO corrections (reminder_number, from_at)
SELECT number, :now FROM reminders WHERE number % 5 = 1
"""


def filled(folder: Path, rows: int) -> sqlite3.Connection:
    conn = connect(new_file(folder), read_only=False)
    values = {
        "rows": rows,
        "owner": OWNER,
        "now": instant_text(T0),
        "start": instant_text(later(-24 * 3600))[:19],
    }
    conn.execute("BEGIN")
    fills = (_FILL, _FILL_RECEIPTS, _FILL_KEYS, _FILL_WORDS, _FILL_RUNS, _FILL_CORRECTIONS)
    for statement in fills:
        conn.execute(statement, values)
    conn.execute("COMMIT")
    return conn


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    conn = filled(tmp_path_factory.mktemp("small"), 2000)
    yield conn
    conn.close()


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    conn = filled(tmp_path_factory.mktemp("big"), ROWS)
    yield conn
    conn.close()


def steps(conn: sqlite3.Connection, name: str, values: dict[str, Any]) -> int:
    """How many instructions of SQLite's machine a statement takes."""
    taken = 0

    def step() -> int:
        nonlocal taken
        taken += 1
        return 0

    conn.execute("BEGIN")
    conn.set_progress_handler(step, 1)
    try:
        conn.execute(QUERIES[name], values).fetchall()
    finally:
        conn.set_progress_handler(None, 1)
        conn.rollback()
    return taken


NOW = instant_text(T0)

VALUES: dict[str, Any] = {
    "owner": OWNER,
    "session": "huge",
    "number": 1,  # a daily reminder in "huge" that has receipts and a key
    "words": 2,  # of which no receipt of it is
    "now": NOW,
    "after": NOW,
    "after_target": instant_text(later(-6 * 3600)),  # which hundreds share
    "after_number": 500,
    "before": 10**9,
    "count": 10,
    "status": "active",
    "key": "k1",
    "request_hash": "h",
    "occurrence_at": NOW,
    "decided_at": NOW,
    "admitted_at": NOW,
    "limit_at": instant_text(later(-1)),
    "asked_of": 1,
    "paused": 0,
    "recurring": 1,
    "after_session": "s1",
    "after_owner": 0,
    "history_limit": instant_text(later(1)),
    "ended_limit": instant_text(later(1)),
    "keep": 150,
    "newest": 100,
    # what is written
    **dict.fromkeys(RULE_COLUMNS),
    "kind": "daily",
    "local_time": "10:00:00.000",
    "time_zone": "UTC",
    "owner_uid": OWNER,
    "session_id": "huge",
    "title": "New",
    "prompt": "New",
    "context": None,
    "scheduled_at": NOW,
    "after_at": NOW,
    "computed_at": NOW,
    "last_occurrence_at": NOW,
    "created_at": NOW,
    "generation": 1,
    "revision": 2,
    "timing_revision": 1,
    "words_revision": 2,
    "occurrence_id": "new",
    "followup_id": "f",
    "host": "h",
    "message_id": None,
    "outcome": "admitted",
    "snoozed_from": 1,
    "until_at": None,
    "max_occurrences": 7,
    "expires_after_seconds": 60,
    "skips_after_at": NOW,
    "skips_to_at": instant_text(later(1)),
    "due_at": instant_text(later(-1)),
    "more": 1,
    "to_session": "other",
    "next_at": instant_text(later(1)),
    "next_after": NOW,
    "ended_at": None,
    "ended_reason": None,
    "reason": "delivered",
    "name": "zone_data",
    "value": "2026a",
}
OTHER_VALUES: dict[str, dict[str, Any]] = {
    "insert_key": {"key": "new"},
    "sessions_due": {"after_target": "", "after_session": ""},
    "keep_sent_words": {"words_revision": 7},
    "corrected_until": {"limit_at": NOW},
    "keep_corrected": {"limit_at": NOW},
    "remember_correction": {"from_at": instant_text(later(3600))},
    "drop_corrections": {"limit_at": NOW},
    "drop_run": {"occurrence_id": "run1"},
    "run_id_taken": {"occurrence_id": "run1"},
    "advance_reminder": {"skips_to_at": None},
    "end_reminder": {"skips_to_at": None, "ended_at": NOW},
    "end_by_count": {"ended_at": NOW},
    "still_due": {"skips_to_at": None},
    **{name: {"session": "s5"} for name in OF_A_SESSION},
}


def values_for(name: str, conn: sqlite3.Connection) -> dict[str, Any]:
    (target,) = conn.execute("SELECT scheduled_at FROM reminders WHERE number = 1").fetchone()
    moves = {"target": later_text(target) if name == "retarget" else target, "former": target}
    return VALUES | moves | OTHER_VALUES.get(name, {})


def later_text(target: str) -> str:
    return instant_text(later(3600, parse_instant_text(target)))


@pytest.fixture(params=["as it is", "analyzed"], scope="module")
def both(
    request: pytest.FixtureRequest, small: sqlite3.Connection, big: sqlite3.Connection
) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
    """A person may run ANALYZE; the plans stay."""
    if request.param == "analyzed":
        for conn in (small, big):
            conn.execute("ANALYZE")
            conn.execute("ANALYZE sqlite_schema")  # read it again
    yield small, big
    for conn in (small, big):
        conn.execute("DROP TABLE IF EXISTS sqlite_stat1")
        conn.execute("ANALYZE sqlite_schema")


def touches(conn: sqlite3.Connection, name: str, values: dict[str, Any]) -> int:
    """How many rows a statement gives, or writes where it gives none."""
    conn.execute("BEGIN")
    try:
        before = conn.total_changes
        rows = len(conn.execute(QUERIES[name], values).fetchall())
        return rows or conn.total_changes - before
    finally:
        conn.rollback()


@pytest.mark.parametrize("name", sorted(set(QUERIES) - GROWS))
def test_a_statement_takes_no_more_steps_in_a_big_file(
    both: tuple[sqlite3.Connection, sqlite3.Connection], name: str
) -> None:
    """Every statement, the triggers that it sets off included."""
    small, big = both
    values = values_for(name, small)
    assert values == values_for(name, big)
    assert touches(small, name, values) == touches(big, name, values)
    if name not in {"meta_value", "drop_meta"}:
        assert touches(small, name, values) > 0
    few, many = steps(small, name, values), steps(big, name, values)
    assert many <= 1.3 * few + 20  # in which order equals are merged is not the same in both


@pytest.mark.parametrize("name", sorted(GROWS))
def test_what_counts_for_the_status_says_that_it_grows(
    both: tuple[sqlite3.Connection, sqlite3.Connection], name: str
) -> None:
    small, big = both
    assert "grows with" in purpose(name)
    assert "for status only" in purpose(name)
    assert steps(big, name, values_for(name, big)) > 2 * steps(small, name, values_for(name, small))


@pytest.mark.parametrize("name", sorted(OF_A_SESSION))
def test_what_is_about_a_whole_session_grows_with_it_and_says_so(
    small: sqlite3.Connection, name: str
) -> None:
    values = values_for(name, small)
    assert "grows with" in purpose(name)
    assert steps(small, name, values | {"session": "huge"}) > 1.3 * steps(small, name, values)


def purpose(name: str) -> str:
    return QUERIES[name].splitlines()[0]


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_statement_has_a_purpose_and_uses_an_index(
    both: tuple[sqlite3.Connection, sqlite3.Connection], name: str
) -> None:
    _, big = both
    assert re.fullmatch(r"-- [A-Z].*\.", purpose(name))
    plan = big.execute(f"EXPLAIN QUERY PLAN {QUERIES[name]}", values_for(name, big)).fetchall()
    lines = [line for *_, line in plan]
    scans = [line for line in lines if line.startswith("SCAN") and line != "SCAN CONSTANT ROW"]
    if name in LISTS_OWNERS:
        assert [line.split()[:2] for line in scans] == [["SCAN", "owners"]]
        assert "grows with the uids" in purpose(name)
    elif name == "beyond_end":  # the index holds nothing but what is asked for
        assert scans == ["SCAN reminders USING INDEX reminders_beyond_end"]
    else:
        assert scans == []
    # After ANALYZE the receipts of one reminder, which are few, may be sorted.
    assert name == "decided_at" or not any("TEMP B-TREE" in line for line in lines)
    for line in lines:
        if line.startswith("SEARCH") and "(subquery" not in line:
            assert re.search(r"USING (COVERING )?(INDEX|INTEGER PRIMARY KEY|PRIMARY KEY)", line)
