"""A file of the first schema with everything in it comes to the newest with nothing changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.acts import paused
from scheduler_daemon.model import Reminder
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.database import create_file
from scheduler_daemon.store.migrate import known, migrate
from scheduler_daemon.store.store import Which
from tests.store.support import (
    HOURLY,
    LIMITS,
    OWNER,
    T0,
    assert_counts_are_right,
    by_hand,
    draft,
    followup,
    found,
    later,
    made,
    opened,
)

NOW = instant_text(T0)
TABLES = ["reminders", "dispatches", "past_words", "idempotency_keys", "sessions", "owners"]
VIEWS = ["history", "upcoming", "overdue"]

# Six in s1: one of each kind; beside them one that ended, one set aside, and another owner's.
_REMINDERS = f"""
INSERT INTO reminders (owner_uid, session_id, kind, delay_seconds, interval_seconds, anchor_at,
  local_time, weekdays, cron_expression, time_zone, title, prompt, context, scheduled_at, after_at,
  computed_at, last_occurrence_at, generation, status, ended_at, ended_reason, former_status,
  set_aside_reason, created_at)
SELECT owner, session, kind, delay, interval, iif(kind = 'every', '{NOW}', NULL),
  iif(kind IN ('daily', 'weekly'), '09:00:00.000', NULL), iif(kind = 'weekly', '1,5', NULL),
  iif(kind = 'cron', '0 9 * * *', NULL), iif(kind IN ('daily', 'weekly', 'cron'), 'UTC', NULL),
  title, 'Prompt ' || kind, iif(title IS NULL, NULL, '{{"folder": "/srv"}}'), target,
  '{NOW}', '{NOW}', iif(kind = 'every', '{NOW}', NULL), kind = 'daily', status,
  iif(status = 'ended', '{NOW}', NULL), iif(status = 'ended', 'delivered', NULL),
  iif(status = 'set_aside', 'active', NULL), iif(status = 'set_aside', 'rule: why', NULL), '{NOW}'
FROM (
  SELECT 1000 AS owner, 's1' AS session, 'after' AS kind, 60 AS delay, NULL AS interval,
    'Title' AS title, '2026-03-02T12:01:00.000Z' AS target, 'active' AS status
  UNION ALL SELECT 1000, 's1', 'at', NULL, NULL, NULL, '2026-03-02T12:01:00.000Z', 'active'
  UNION ALL SELECT 1000, 's1', 'every', NULL, 3600, NULL, '2026-03-02T13:00:00.000Z', 'active'
  UNION ALL SELECT 1000, 's1', 'daily', NULL, NULL, 'Nine', '2026-03-03T09:00:00.000Z', 'active'
  UNION ALL SELECT 1000, 's1', 'weekly', NULL, NULL, NULL, '2026-03-06T09:00:00.000Z', 'active'
  UNION ALL SELECT 1000, 's1', 'cron', NULL, NULL, NULL, '2026-03-03T09:00:00.000Z', 'active'
  UNION ALL SELECT 1000, 's2', 'after', 9, NULL, NULL, '2026-03-01T09:00:00.000Z', 'ended'
  UNION ALL SELECT 1000, 's2', 'daily', NULL, NULL, NULL, '2026-03-03T09:00:00.000Z', 'set_aside'
  UNION ALL SELECT 1001, 's1', 'every', NULL, 300, NULL, '2026-03-02T12:05:00.000Z', 'active')
"""
_RECEIPTS = f"""
INSERT INTO dispatches (occurrence_id, followup_id, reminder_number, owner_uid, session_id,
  occurrence_at, decided_at, admitted_at, host, message_id, outcome, words_revision)
VALUES ('r3@{NOW}', 'f1', 3, 1000, 's1', '{NOW}', '{NOW}', '{NOW}', 'host', 'm1', 'admitted', 1),
  ('r7@{NOW}', 'f2', 7, 1000, 's2', '{NOW}', '{NOW}', '{NOW}', 'host', NULL, 'admitted', 1),
  ('r99@{NOW}', 'f3', 99, 1000, 's1', '{NOW}', '{NOW}', '{NOW}', 'host', NULL, 'admitted', 2)
"""
_REST = [
    "UPDATE reminders SET prompt = 'Other words' WHERE number = 3",
    "INSERT INTO past_words VALUES (99, 2, 'Gone', 'Of one that is gone')",
    f"INSERT INTO idempotency_keys VALUES (1000, 's1', 'k1', 'hash', 3, '{NOW}', NULL)",
    f"INSERT INTO idempotency_keys VALUES (1000, 's1', 'k2', 'hash', 99, '{NOW}', '{NOW}')",
    "INSERT INTO meta VALUES ('zone_data', '2026a')",
]


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.db"
    create_file(path)
    assert migrate(path, NOW, known()[:1]) == ["0001_initial"]
    with by_hand(path) as conn:
        for statement in (_REMINDERS, _RECEIPTS, *_REST):
            conn.execute(statement)
    return path


def contents(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of the tables and views, by the names of its columns."""
    with by_hand(path) as conn:
        found = {}
        for name in (*TABLES, *VIEWS, "meta"):
            cursor = conn.execute(f"SELECT * FROM {name}")
            names = [column[0] for column in cursor.description]
            found[name] = [dict(zip(names, row, strict=True)) for row in cursor]
        return found


def test_every_row_count_and_view_stays_as_it_was(old_file: Path) -> None:
    before = contents(old_file)
    assert all(before[name] for name in (*TABLES, "history", "meta"))
    assert migrate(old_file, NOW) == [each.name for each in known()[1:]]
    after = contents(old_file)
    for name, rows in before.items():
        for old, new in zip(rows, after[name], strict=True):
            added = {column: value for column, value in new.items() if column not in old}
            if "dispatch_count" in added:
                sent = [each["reminder_number"] for each in before["dispatches"]]
                assert added.pop("dispatch_count") == sent.count(new["number"])
            assert {column: new[column] for column in old} == old
            assert set(added.values()) <= {None, 0}
    assert_counts_are_right(old_file)
    with by_hand(old_file) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_what_is_due_keeps_its_order_and_everything_reads_and_moves(old_file: Path) -> None:
    migrate(old_file, NOW)
    async with opened(old_file) as store:
        due = await store.reader.due((OWNER, "s1"), later(10**6), 10, 10)
        assert [each.number for each in due.one_shots.reminders] == [1, 2]
        assert [each.number for each in due.recurring.reminders] == [3, 4, 6, 5]
        assert (due.one_shots.bad, due.recurring.bad, due.runs) == ([], [], [])
        for each in (*due.one_shots.reminders, *due.recurring.reminders):
            sent = int(each.number == 3)  # its receipt of before counts
            assert limits_of(each) == (False, None, None, None, sent, None, None)
        now = later(10**6)
        await store.record(followup(due.recurring.reminders, now), now, "host", None)
        await store.change(Which(1, OWNER, None), paused)
        await store.run_now(Which(2, OWNER, None), None, T0, LIMITS)
        assert (await store.transfer(OWNER, "s1", "s3", LIMITS)) == [f"r{n}" for n in range(1, 7)]
        receipts, _ = await store.reader.history(OWNER, None, "s1", 2**62, 10)
        assert {each.reminder_id: each.prompt for each in receipts[4:]} == {
            "r99": "Of one that is gone",
            "r3": "Prompt every",
        }
        assert (await found(store, 3)).prompt == "Other words"
        assert (await made(store, HOURLY)).number == 10
        for key, number in (("k1", 3), ("k2", 99)):
            again = await store.create(draft(HOURLY, key=key), T0, LIMITS)
            assert (again.number, again.created) == (number, False)
    assert_counts_are_right(old_file)


def limits_of(each: Reminder) -> tuple[object, ...]:
    return (
        each.paused,
        each.snoozed_from,
        each.until,
        each.max_occurrences,
        each.dispatch_count,
        each.expires_after_seconds,
        each.skips,
    )
