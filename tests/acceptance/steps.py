"""What a tester does with sqlite3 and reads from it: time that has passed, receipts, the rest."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from tests.support.peer import Peer, Refused
from tests.support.process import DaemonProcess

Json = dict[str, Any]

LONG = bool(os.environ.get("ACCEPTANCE_LONG"))
"""Whether to take as long as the promises say (a minute of reading, of idleness)."""

_SHIFTED = "strftime('%Y-%m-%dT%H:%M:%fZ', {}, ?1)"


def let_pass(daemon: DaemonProcess, interval: str, where: str = "true") -> None:
    """Move reminders back in time as SQLite says it ('-1 days'); the daemon must not run.

    The interval must be a multiple of the distance of their occurrences.
    """
    columns = ("scheduled_at", "after_at", "computed_at")
    moves = ", ".join(f"{name} = {_SHIFTED.format(name)}" for name in columns)
    daemon.sql(f"UPDATE reminders SET {moves} WHERE {where}", interval)


@contextmanager
def transaction(daemon: DaemonProcess, kind: str) -> Iterator[None]:
    """A transaction of another program on the file: `IMMEDIATE` writes, `DEFERRED` reads."""
    with closing(sqlite3.connect(daemon.database, isolation_level=None)) as conn:
        conn.execute(f"BEGIN {kind}")
        conn.execute("SELECT count(*) FROM reminders").fetchall()
        if kind == "IMMEDIATE":
            conn.execute("UPDATE reminders SET prompt = 'not committed'")
        yield
        conn.execute("ROLLBACK")


def receipts(daemon: DaemonProcess, session: str) -> list[str]:
    """The occurrence ids dispatched in a Session, in the order written."""
    found = daemon.sql(
        "SELECT occurrence_id FROM dispatches WHERE session_id = ? ORDER BY number", session
    )
    return [each for (each,) in found]


def overdue(daemon: DaemonProcess) -> list[str]:
    """What the view of that name shows: reminders that should have been sent by now."""
    return [each for (each,) in daemon.sql("SELECT id FROM overdue")]


def ago(hours: int) -> dt.datetime:
    """A whole minute that was so many hours ago, UTC."""
    return dt.datetime.now(dt.UTC).replace(second=0, microsecond=0) - dt.timedelta(hours=hours)


def in_seconds(seconds: float) -> str:
    """An instant ahead, as `at` takes it."""
    instant = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def make_soon(peer: Peer, session: str, prompt: str, **more: object) -> str:
    """Make a one-shot that is due in a moment, however slow the machine is; its id."""
    seconds = 0.1
    while True:
        try:
            made: str = peer.create(session, prompt, at=in_seconds(seconds), **more)["id"]
        except Refused as refusal:
            if refusal.code != "not_future":
                raise
            seconds *= 2
        else:
            return made


def recurring(daily_at: dt.datetime) -> list[Json]:
    """A selector of each recurring kind; all but `every` are due each day at this minute, UTC."""
    time = daily_at.strftime("%H:%M")
    return [
        {"every_seconds": 86_400},
        {"daily": {"time": time, "time_zone": "UTC"}},
        {"weekly": {"time": time, "time_zone": "UTC", "weekdays": [1, 2, 3, 4, 5, 6, 7]}},
        {"cron": {"expression": f"{daily_at.minute} {daily_at.hour} * * *", "time_zone": "UTC"}},
        {"every_seconds": 300},
    ]
