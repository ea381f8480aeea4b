"""What the store's tests share: a migrated file, drafts, follow-ups, and counts from scratch."""

from __future__ import annotations

import asyncio
import datetime as dt
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from scheduler_daemon.delivery.plan import occurrence
from scheduler_daemon.errors import SchedulerError
from scheduler_daemon.model import After, At, Cron, Daily, Every, FollowUp, Instant, Reminder, Rule
from scheduler_daemon.rules import first, instant_text
from scheduler_daemon.store.database import create_file
from scheduler_daemon.store.migrate import migrate
from scheduler_daemon.store.standing import is_log_broken, lost_frames
from scheduler_daemon.store.store import Draft, Limits, Store

T0 = dt.datetime(2026, 3, 2, 12, 0, tzinfo=dt.UTC)
LIMITS = Limits(per_session=1000, per_owner=100_000)
OWNER = 1000

DAILY = Daily(dt.time(9), "America/New_York")
HOURLY = Every(3600, T0)
CRON = Cron("0 9 * * *", "Europe/Berlin")

instants = st.integers(0, 315_537_897_599_999).map(
    lambda n: dt.datetime(1, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=n)
)
"""Every instant there is."""


def later(seconds: float, since: Instant = T0) -> Instant:
    return since + dt.timedelta(seconds=seconds)


def at(seconds: float) -> At:
    return At(later(seconds))


class Ticks:
    """The writer's monotonic clock: stands still, and says when it was read."""

    def __init__(self) -> None:
        self.now = 0.0
        self.read = asyncio.Event()

    def __call__(self) -> float:
        self.read.set()
        return self.now

    async def next_read(self) -> None:
        self.read.clear()
        async with asyncio.timeout(30):
            await self.read.wait()


def new_file(folder: Path) -> Path:
    """A file of the newest schema."""
    path = folder / "scheduler.db"
    create_file(path)
    migrate(path, instant_text(T0))
    return path


@asynccontextmanager
async def opened(path: Path, ticks: Ticks | None = None) -> AsyncIterator[Store]:
    """The store of a file; what fails in it is no part of these tests."""
    store = await Store.open(
        path, monotonic=ticks or Ticks(), wait_seconds=10.0, failed=lambda text: None
    )
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def taken_by_another(path: Path) -> Iterator[None]:
    """Another program lets nobody else even read the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("PRAGMA locking_mode = EXCLUSIVE")
        (version,) = conn.execute("PRAGMA user_version").fetchone()
        conn.execute(f"PRAGMA user_version = {version}")
        yield


def lost(path: Path) -> int:
    """What the next start would call lost."""
    return lost_frames(path, log_was_broken=is_log_broken(path))


@contextmanager
def by_hand(path: Path) -> Iterator[sqlite3.Connection]:
    """The file as a person opens it, each statement a transaction of its own."""
    conn = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        yield conn
    finally:
        conn.close()


def draft(
    rule: Rule,
    *,
    now: Instant = T0,
    owner: int = OWNER,
    session: str = "s1",
    title: str | None = None,
    prompt: str = "Check the build",
    context: dict[str, str] | None = None,
    key: str | None = None,
    request_hash: str = "hash",
    refusal: SchedulerError | None = None,
    **more: Any,
) -> Draft:
    """A creation at `now`; with a refusal, one whose time was refused; `more` are its ends."""
    return Draft(
        owner_uid=owner,
        session_id=session,
        rule=rule,
        target=None if refusal else first(rule, now),
        refusal=refusal,
        title=title,
        prompt=prompt,
        context=context,
        key=key,
        request_hash=request_hash,
        **more,
    )


async def made(store: Store, rule: Rule, *, now: Instant = T0, **more: Any) -> Reminder:
    """A reminder that was just created."""
    created = await store.create(draft(rule, now=now, **more), now, LIMITS)
    assert created.reminder is not None
    return created.reminder


async def found(store: Store, number: int) -> Reminder:
    """The reminder as it is stored."""
    row = await store.reader.get(number, None, None)
    assert isinstance(row, tuple), row
    return row[0]


def followup(
    reminders: Iterable[Reminder], now: Instant, followup_id: str = "f1", session: str = "s1"
) -> FollowUp:
    """A follow-up of due reminders, decided at `now`."""
    occurrences = tuple(occurrence(reminder, now, trusted=True) for reminder in reminders)
    batch = not isinstance(occurrences[0].reminder.rule, After | At)
    owner = occurrences[0].reminder.owner_uid
    return FollowUp(followup_id, owner, session, batch, now, occurrences)


_COUNTS = """
SELECT owner_uid, {session}
       sum(status = 'active'), sum(status = 'active' AND paused = 1), sum(status = 'ended'),
       sum(status = 'set_aside')
FROM reminders GROUP BY owner_uid {group} ORDER BY owner_uid {group}
"""
_TARGETS = """
SELECT owner_uid, session_id, min(at) FROM (
  SELECT owner_uid, session_id, scheduled_at AS at FROM reminders
  WHERE status = 'active' AND paused = 0
  UNION ALL
  SELECT e.owner_uid, e.session_id, e.due_at FROM runs AS e, reminders AS r
  WHERE r.number = e.reminder_number AND r.status <> 'set_aside')
GROUP BY owner_uid, session_id ORDER BY owner_uid, session_id
"""


def assert_counts_are_right(path: Path) -> None:
    """The tables of Sessions and owners say what counting the reminders says."""
    with by_hand(path) as conn:
        assert_counted(conn)


def assert_counted(conn: sqlite3.Connection) -> None:
    kept = conn.execute(
        "SELECT owner_uid, session_id, active, paused, ended, set_aside FROM sessions "
        "ORDER BY owner_uid, session_id"
    ).fetchall()
    counted = conn.execute(_COUNTS.format(session="session_id,", group=", session_id"))
    assert kept == counted.fetchall()
    targets = conn.execute(
        "SELECT owner_uid, session_id, next_target_at FROM sessions "
        "WHERE next_target_at IS NOT NULL ORDER BY owner_uid, session_id"
    ).fetchall()
    assert targets == conn.execute(_TARGETS).fetchall()
    owners = conn.execute(
        "SELECT owner_uid, active, paused, ended, set_aside FROM owners "
        "WHERE active + ended + set_aside > 0"
    ).fetchall()
    assert owners == conn.execute(_COUNTS.format(session="", group="")).fetchall()
