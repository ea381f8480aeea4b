"""APScheduler 3: a BackgroundScheduler with the SQLAlchemy job store, as its user guide has it."""

from __future__ import annotations

import datetime as dt
import json
import sys
import threading
import time
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import create_engine, event

_seen: list[tuple[float, float]] = []
_wanted = 0
_done = threading.Event()


def job(due: float) -> None:
    """What a job does here: note when it ran."""
    _seen.append((due, time.time()))
    if len(_seen) >= _wanted:
        _done.set()


def scheduler(folder: str) -> BackgroundScheduler:
    engine = create_engine(f"sqlite:///{folder}/apscheduler3.db")

    @event.listens_for(engine, "connect")  # type: ignore[untyped-decorator,unused-ignore]
    def settle(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    return BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(engine=engine)},
        executors={"default": ThreadPoolExecutor(20)},
        job_defaults={"coalesce": True, "misfire_grace_time": None},
        timezone=dt.UTC,
    )


def create(folder: str, count: int) -> dict[str, float]:
    """Jobs per second, added one after another: its store has one lock."""
    running = scheduler(folder)
    running.start()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    start = time.perf_counter()
    for _ in range(count):
        running.add_job(job, "date", run_date=later, args=[0.0])
    seconds = time.perf_counter() - start
    running.shutdown()
    return {"per_second": count / seconds}


def drain(folder: str, count: int) -> dict[str, float]:
    """Jobs per second that were overdue when it started; all of them recur."""
    global _wanted
    _wanted = count
    running = scheduler(folder)
    running.start(paused=True)
    since = dt.datetime.now(dt.UTC) - dt.timedelta(hours=3)
    for _ in range(count):
        running.add_job(job, "interval", hours=1, next_run_time=since, args=[0.0])
    start = time.perf_counter()
    running.resume()
    _done.wait(600)
    seconds = time.perf_counter() - start
    running.shutdown()
    return {"per_second": len(_seen) / seconds}


def lateness(folder: str, due: list[float]) -> dict[str, list[float]]:
    """Milliseconds from each instant to its job."""
    global _wanted
    _wanted = len(due)
    running = scheduler(folder)
    running.start()
    for at in due:
        when = dt.datetime.fromtimestamp(at, dt.UTC)
        running.add_job(job, "date", run_date=when, args=[at])
    _done.wait(max(due) - time.time() + 60)
    running.shutdown()
    return {"late_ms": [1000 * (seen - at) for at, seen in _seen]}


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(globals()[asked.pop("act")](**asked)))
