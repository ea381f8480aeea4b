"""Files as they stand after a day without a host: a reminder of every kind that is due."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scheduler_daemon.model import Instant, OneShot
from scheduler_daemon.rules import first, parse_selector
from scheduler_daemon.store.rows import REMINDER_COLUMNS, decode_reminder
from scheduler_daemon.store.store import Draft
from scheduler_daemon.store.upkeep import counted_from
from tests.store.support import LIMITS, new_file, opened
from tests.support.clock import START as START

Json = dict[str, Any]

MADE = START - dt.timedelta(days=1)
"""When the seeds were made; at START each is due."""

KINDS: dict[str, Json] = {
    "after": {"after_seconds": 3600},
    "at": {"at": "2026-01-01T11:30:00Z"},
    "every": {"every_seconds": 3600},
    "daily": {"daily": {"time": "07:30", "time_zone": "America/New_York"}},
    "weekly": {"weekly": {"time": "12:45", "time_zone": "Europe/Berlin", "weekdays": [3, 4, 5]}},
    "cron": {"cron": {"expression": "20,50 * * * *", "time_zone": "Asia/Kolkata"}},
}
RECURRING = [kind for kind in KINDS if kind not in ("after", "at")]


def seed(state: Path, wanted: Iterable[tuple[str, str]], **more: Any) -> list[str]:
    """A new file with a reminder for each Session and kind, all made at MADE; their ids in order.

    `more` are members of the drafts.
    """
    state.mkdir(mode=0o700)
    path = new_file(state)
    return asyncio.run(_create(path, [_draft(*each, **more) for each in wanted]))


def _draft(session: str, kind: str, **more: Any) -> Draft:
    rule, target = parse_selector(KINDS[kind], MADE)
    return Draft(
        **{
            "owner_uid": os.getuid(),
            "session_id": session,
            "rule": rule,
            "target": target,
            "refusal": None,
            "title": None,
            "prompt": f"words of {kind} in {session}",
            "context": None,
            "key": None,
            "request_hash": "",
            **more,
        }
    )


async def _create(path: Path, drafts: list[Draft]) -> list[str]:
    async with opened(path) as store:
        made = [await store.create(draft, MADE, LIMITS) for draft in drafts]
    return [f"r{each.number}" for each in made]


def check_target(row: Json, now: Instant) -> None:
    """A reminder that is not overdue stands where its rule says, and one-shots have ended."""
    reminder = decode_reminder(tuple(row[name] for name in REMINDER_COLUMNS))
    if isinstance(reminder.rule, OneShot):
        assert reminder.status == "ended", reminder
    else:
        assert reminder.status == "active", reminder
        assert reminder.scheduled_at > now, reminder
        assert reminder.scheduled_at == first(reminder.rule, counted_from(reminder)), reminder
