"""What a tester does with sqlite3 and reads from it: time that has passed, receipts, the rest."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.support.peer import Followup, Peer, Refused
from tests.support.process import DaemonProcess

Json = dict[str, Any]

LONG = bool(os.environ.get("ACCEPTANCE_LONG"))
"""Whether to take as long as the promises say (a minute of reading, of idleness)."""

CALL_SECONDS = 0.1
"""What a call takes, see answer_seconds."""

STALL_SECONDS = 1.0
"""What no call takes, whatever the disk of a busy machine does: hosts and locks hold longer."""

_SHIFTED = "strftime('%Y-%m-%dT%H:%M:%fZ', {}, ?1)"


def let_pass(daemon: DaemonProcess, interval: str, where: str = "true") -> None:
    """Move reminders back in time as SQLite says it ('-1 days').

    The interval must be a multiple of the distance of their occurrences. The daemon does not run,
    or no host is attached to their Sessions yet: it keeps nothing of such in memory.
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


def overdue(daemon: DaemonProcess, session: str = "%") -> list[str]:
    """What the view of that name shows: reminders that should have been sent by now."""
    found = daemon.sql("SELECT id FROM overdue WHERE session_id LIKE ?", session)
    return [each for (each,) in found]


def make_due(daemon: DaemonProcess, session: str, kind: str, **words: str) -> str:
    """A reminder that is due now or in a moment: a `one-shot`, or recurring, a `batch`; its id."""
    words = {"prompt": "words"} | words
    peer = daemon.peer()
    if kind == "one-shot":
        return make_soon(peer, session, **words)
    made: str = peer.create(session, every_seconds=3600, **words)["id"]
    let_pass(daemon, "-1 hours", f"id = '{made}'")
    return made


def wait_for_receipt(daemon: DaemonProcess, followup: Followup) -> None:
    """Until the daemon says that the follow-up's receipts are in the file."""
    daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])


def wait_for_refusal(daemon: DaemonProcess, followup: Followup, outcome: str) -> None:
    """Until the daemon says that the follow-up came to nothing, and how."""
    named = {"followup_id": followup.params["followup_id"]}
    daemon.logged("followup_not_admitted", outcome=outcome, **named)


def answer_seconds(daemon: DaemonProcess, act: Callable[[], object]) -> float:
    """How long a call of the daemon takes, without the time that both waited for a processor.

    A busy machine lets everybody wait; a daemon that waits for a host or for a lock waits longer.
    """
    waited, start = _waited_for_processor(daemon), time.monotonic()
    act()
    end = time.monotonic()
    return end - start - (_waited_for_processor(daemon) - waited)


def check_quick(seconds: list[float]) -> None:
    """Nine calls of ten take less than CALL_SECONDS, and none stalls."""
    ordered = sorted(seconds)
    assert ordered[len(ordered) * 9 // 10] < CALL_SECONDS, ordered
    assert ordered[-1] < STALL_SECONDS, ordered


def _waited_for_processor(daemon: DaemonProcess) -> float:
    """Seconds that all threads of the daemon and of this process did so; schedstat of proc(5)."""
    tasks = [
        task for pid in (daemon.pid, os.getpid()) for task in Path(f"/proc/{pid}/task").iterdir()
    ]
    try:
        return sum(int((task / "schedstat").read_text().split()[1]) for task in tasks) / 1e9
    except FileNotFoundError:  # a kernel without it, or a thread that ended meanwhile
        return 0.0


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
