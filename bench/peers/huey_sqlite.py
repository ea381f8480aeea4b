"""huey on SQLite with `fsync=True` (it keeps a WAL), its consumer with threads for workers."""

from __future__ import annotations

import datetime as dt
import json
import sys
import threading
import time

from huey import SqliteHuey

asked = json.loads(sys.argv[1])
huey = SqliteHuey(filename=f"{asked['folder']}/huey.db", fsync=True, utc=True, results=False)

_seen: list[tuple[float, float]] = []
_wanted = 0
_done = threading.Event()


@huey.task()  # type: ignore[untyped-decorator,unused-ignore]
def task(due: float) -> None:
    """What a task does here: note when it ran."""
    _seen.append((due, time.time()))
    if len(_seen) >= _wanted:
        _done.set()


def create(count: int) -> dict[str, float]:
    """Tasks per second, scheduled one after another."""
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    start = time.perf_counter()
    for _ in range(count):
        task.schedule(args=(0.0,), eta=later)
    return {"per_second": count / (time.perf_counter() - start)}


def drain(count: int) -> dict[str, float]:
    """Tasks per second that were overdue when its consumer started. None of them recurs."""
    global _wanted
    _wanted = count
    since = dt.datetime.now(dt.UTC) - dt.timedelta(hours=3)
    for _ in range(count):
        task.schedule(args=(0.0,), eta=since)
    start = time.perf_counter()
    consumer = huey.create_consumer(workers=4, worker_type="thread", periodic=False)
    consumer.start()
    _done.wait(600)
    seconds = time.perf_counter() - start
    consumer.stop(graceful=False)
    return {"per_second": len(_seen) / seconds}


def lateness(due: list[float]) -> dict[str, list[float]]:
    """Milliseconds from each instant to its task."""
    global _wanted
    _wanted = len(due)
    for at in due:
        task.schedule(args=(at,), eta=dt.datetime.fromtimestamp(at, dt.UTC))
    consumer = huey.create_consumer(workers=4, worker_type="thread", periodic=False)
    consumer.start()
    _done.wait(max(due) - time.time() + 60)
    consumer.stop(graceful=False)
    return {"late_ms": [1000 * (seen - at) for at, seen in _seen]}


if __name__ == "__main__":
    del asked["folder"]
    print(json.dumps(globals()[asked.pop("act")](**asked)))
