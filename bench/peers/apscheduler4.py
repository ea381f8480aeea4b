"""APScheduler 4, a pre-release: the synchronous Scheduler with the SQLAlchemy data store."""

from __future__ import annotations

import datetime as dt
import json
import sys
import threading
import time
from typing import Any

from apscheduler import CoalescePolicy, Scheduler
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from sqlalchemy import create_engine, event

_seen: list[tuple[float, float]] = []
_wanted = 0
_done = threading.Event()


def job(due: float) -> None:
    """What a job does here: note when it ran."""
    _seen.append((due, time.time()))
    if len(_seen) >= _wanted:
        _done.set()


def scheduler(folder: str) -> Scheduler:
    engine = create_engine(f"sqlite:///{folder}/apscheduler4.db")

    @event.listens_for(engine, "connect")  # type: ignore[untyped-decorator,unused-ignore]
    def settle(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    return Scheduler(SQLAlchemyDataStore(engine))


def create(folder: str, count: int) -> dict[str, float]:
    """Schedules per second, added one after another."""
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    with scheduler(folder) as running:
        start = time.perf_counter()
        for _ in range(count):
            running.add_schedule(job, DateTrigger(later), args=[0.0])
        seconds = time.perf_counter() - start
    return {"per_second": count / seconds}


def drain(folder: str, count: int) -> dict[str, float]:
    """Jobs per second of schedules that were overdue when it started; all of them recur."""
    global _wanted
    _wanted = count
    since = dt.datetime.now(dt.UTC) - dt.timedelta(hours=3)
    with scheduler(folder) as running:
        for _ in range(count):
            trigger = IntervalTrigger(hours=1, start_time=since)
            running.add_schedule(job, trigger, args=[0.0], coalesce=CoalescePolicy.latest)
        start = time.perf_counter()
        running.start_in_background()
        _done.wait(600)
        seconds = time.perf_counter() - start
        running.stop()
    return {"per_second": len(_seen) / seconds}


def lateness(folder: str, due: list[float]) -> dict[str, list[float]]:
    """Milliseconds from each instant to its job."""
    global _wanted
    _wanted = len(due)
    with scheduler(folder) as running:
        for at in due:
            when = dt.datetime.fromtimestamp(at, dt.UTC)
            running.add_schedule(job, DateTrigger(when), args=[at])
        running.start_in_background()
        _done.wait(max(due) - time.time() + 60)
        running.stop()
    return {"late_ms": [1000 * (seen - at) for at, seen in _seen]}


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(globals()[asked.pop("act")](**asked)))
