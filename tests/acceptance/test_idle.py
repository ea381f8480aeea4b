"""What does not happen: a daemon with nothing due does not wake, and does not grow."""

from __future__ import annotations

import re
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.acceptance.conftest import NewDaemon
from tests.acceptance.steps import LONG
from tests.support.peer import DEADLINE_SECONDS, Peer
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

IDLE_SECONDS = 60.0 if LONG else 10.0


class Activity(NamedTuple):
    """Of one thread so far: how often it gave up or lost the processor, and its ticks on it."""

    voluntary: int
    involuntary: int
    ticks: int


def activity(pid: int) -> dict[str, Activity]:
    """Every thread's, by its id; proc(5)."""
    threads = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = _fields(task / "status")
        ticks = (task / "stat").read_text().rpartition(")")[2].split()[11:13]
        threads[task.name] = Activity(
            status["voluntary_ctxt_switches"],
            status["nonvoluntary_ctxt_switches"],
            sum(map(int, ticks)),
        )
    return threads


def _fields(path: Path) -> dict[str, int]:
    """The lines of a status file that hold a number, or one of kilobytes."""
    found = re.findall(r"^(\w+):\s+(\d+)(?: kB)?$", path.read_text(), re.MULTILINE)
    return {name: int(number) for name, number in found}


def settled(daemon: DaemonProcess) -> dict[str, Activity]:
    """The activity once half a second has passed without any."""
    end = time.monotonic() + DEADLINE_SECONDS
    before = activity(daemon.pid)
    while time.monotonic() < end:
        time.sleep(0.5)
        now = activity(daemon.pid)
        if now == before:
            return now
        before = now
    raise AssertionError(f"it does not come to rest: {before}")


def make_future_reminders(peer: Peer, count: int) -> None:
    """Of every kind, in Sessions of 100, none due within a day of making it."""
    selectors: list[dict[str, Any]] = [
        {"after_seconds": 100_000},
        {"every_seconds": 100_000},
        {"weekly": {"time": "12:00", "time_zone": "UTC", "weekdays": [_in_three_days()]}},
    ]
    waiting: deque[Future[Any]] = deque()
    for number in range(count):
        params = selectors[number % len(selectors)]
        session = f"s{number // 100}"
        create = peer.begin("reminder.create", session_id=session, prompt="later", **params)
        waiting.append(create)
        if len(waiting) == 64:  # as many as may wait on one connection
            waiting.popleft().result(DEADLINE_SECONDS)
    for create in waiting:
        create.result(DEADLINE_SECONDS)


def _in_three_days() -> int:
    return (time.gmtime().tm_wday + 3) % 7 + 1


def test_with_a_thousand_future_reminders_no_thread_of_it_wakes(daemon: DaemonProcess) -> None:
    """Hosts are attached, by name and for all, and connections are open."""
    named, every = daemon.peer(), daemon.peer()
    make_future_reminders(named, 1000)
    named.attach([f"s{number}" for number in range(5)])
    every.attach("*")
    before = settled(daemon)
    time.sleep(IDLE_SECONDS)
    assert activity(daemon.pid) == before

    named.call("daemon.status")
    assert activity(daemon.pid) != before  # the counters do count
    assert named.followups == every.followups == []


def resident_kb(daemon: DaemonProcess) -> int:
    """What stays in memory after a start, a host for all, and some requests."""
    peer = daemon.start().peer()
    peer.attach("*")
    for session in ("s0", "s3", "s9"):
        peer.call("reminder.list", session_id=session, order="target")
        made = peer.create(session, "one more", after_seconds=100_000)["id"]
        peer.call("reminder.delete", id=made)
    peer.call("reminder.list", status="all")
    assert peer.call("daemon.status")["counts"]["overdue"] == 0
    settled(daemon)
    return _fields(Path(f"/proc/{daemon.pid}/status"))["VmRSS"]


COLUMNS = """owner_uid, kind, delay_seconds, interval_seconds, anchor_at, local_time, weekdays,
  time_zone, prompt, scheduled_at, after_at, computed_at, created_at"""


def test_it_is_as_small_with_a_hundred_thousand_reminders_as_with_a_thousand(
    new_daemon: NewDaemon,
) -> None:
    daemon = new_daemon({"max_active_per_owner": 1_000_000})
    make_future_reminders(daemon.start().peer(), 1000)
    daemon.stop()
    few = resident_kb(daemon)
    daemon.stop()
    daemon.sql(
        f"""WITH RECURSIVE copies (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies LIMIT 99)
        INSERT INTO reminders (session_id, {COLUMNS})
        SELECT session_id || '-' || n, {COLUMNS} FROM reminders, copies"""
    )
    assert daemon.sql("SELECT count(*) FROM reminders") == [(100_000,)]
    many = resident_kb(daemon)
    assert abs(many - few) < few * 0.1
