"""What requests wait for while retention removes 200,000 old receipts from the same file."""

from __future__ import annotations

import asyncio
import datetime as dt
import sqlite3
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.setting import Setting
from scheduler_daemon.clock import SystemClock
from scheduler_daemon.model import After
from scheduler_daemon.retention import Retention
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.database import create_file
from scheduler_daemon.store.migrate import migrate
from scheduler_daemon.store.retention import Keep
from scheduler_daemon.store.store import Draft, Limits, Store

RECEIPTS = 200_000
ENDED = 20_000

_REMINDERS = """
INSERT INTO reminders (number, owner_uid, session_id, kind, delay_seconds, prompt, scheduled_at,
  after_at, computed_at, created_at, status, ended_at, ended_reason)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :ended)
SELECT 30000 + i, 1000, 's' || (i % 500), 'after', 60, 'Check the build', :then,
  :then, :then, :then, 'ended', :then, 'delivered'
FROM n
"""
_RECEIPTS = """
INSERT INTO dispatches (occurrence_id, followup_id, reminder_number, owner_uid, session_id,
  occurrence_at, decided_at, admitted_at, host, outcome, words_revision)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :receipts)
SELECT 'o' || i, 'f', i % 50000 + 1, 1000, 's' || (i % 500), :then, :then, :then, 'h', 'admitted', 1
FROM n
"""
_WORDS = """
INSERT INTO past_words SELECT DISTINCT reminder_number, 1, NULL, 'Check the build' FROM dispatches
WHERE reminder_number <= 30000
"""


class _Trusted(SystemClock):
    """The real clock, as it is when the process has run for long."""

    def steady(self) -> float:
        return 1e9


def run(setting: Setting) -> None:
    """Measure creations alone, and beside retention until it has removed all that is old."""
    for _ in range(setting.runs):
        _run(setting)


def _run(setting: Setting) -> None:
    receipts, ended = setting.size(RECEIPTS), setting.size(ENDED)
    with setting.place() as folder:
        path = folder / "scheduler.db"
        clock = _Trusted()
        create_file(path)
        migrate(path, instant_text(clock.now()))
        with closing(sqlite3.connect(path)) as conn, conn:
            then = instant_text(clock.now() - dt.timedelta(days=40))
            values = {"then": then, "ended": ended, "receipts": receipts}
            for statement in (_REMINDERS, _RECEIPTS, _WORDS):
                conn.execute(statement, values)
        try:
            asyncio.run(_measure(setting, path, clock))
        finally:
            clock.close()


async def _measure(setting: Setting, path: Path, clock: SystemClock) -> None:
    store = await Store.open(path, monotonic=clock.monotonic, wait_seconds=10, failed=print)
    try:
        alone = [await _create(store, clock) for _ in range(setting.size(3000, 10))]
        retention = Retention(clock, store, Keep(30, 200, 30), lambda _: None)
        start = perf_counter()
        retention.look()
        task = retention._task  # noqa: SLF001 - nobody else has to wait for its end
        assert task is not None
        beside = []
        while not task.done():
            beside.append(await _create(store, clock))
        seconds = perf_counter() - start
    finally:
        await store.close()
    setting.report.add("receipts removed", setting.size(RECEIPTS) / seconds, "rows/s")
    for name, found in (("alone", alone), ("beside it", beside)):
        late = sorted(found)
        setting.report.add(f"a creation {name}: p50", median(late), "ms")
        setting.report.add(f"a creation {name}: p99", late[len(late) * 99 // 100], "ms")


async def _create(store: Store, clock: SystemClock) -> float:
    """Milliseconds until a creation was on disk."""
    now = clock.now()
    target = now + dt.timedelta(days=1)
    draft = Draft(1000, "mine", After(86_400), target, None, None, "words", None, None, "hash")
    start = perf_counter()
    await store.create(draft, now, Limits(10**9, 10**9))
    return (perf_counter() - start) * 1000
