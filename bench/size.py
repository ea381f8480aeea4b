"""Bytes on disk for each reminder and each receipt, and bytes written to make one."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from pathlib import Path

from bench.creates import CLIENTS, DEEP, creation
from bench.daemon import ROOMY, Daemon
from bench.drain import drained
from bench.fill import Many, fill, now, recurring
from bench.report import progress
from bench.setting import Setting
from bench.wire import flood


def run(setting: Setting) -> None:
    """Everything through the daemon"""
    for number in range(setting.runs):
        progress(f"size, run {number + 1} of {setting.runs}")
        _creations(setting)
        _receipts(setting)


def _creations(setting: Setting) -> None:
    for name, clients, deep in (("64 clients", CLIENTS, DEEP), ("one client", 1, 1)):
        each = setting.size(10_000 if clients > 1 else 1000) // clients or 1
        with setting.place() as folder:
            with Daemon(folder, *ROOMY) as daemon:
                empty, before = _bytes(daemon.database), daemon.used()
                frames = [
                    [creation(n, f"s-{client}-{n % 20}") for n in range(each)]
                    for client in range(clients)
                ]
                flood(daemon.socket, frames, deep)
                written = daemon.used().written_bytes - before.written_bytes
            per_creation = written / (clients * each)
            setting.report.add(f"written for a creation, {name}", per_creation, "bytes")
            if clients > 1:
                grown = _bytes(daemon.database) - empty
                setting.report.add("a reminder on disk", grown / (clients * each), "bytes")


def _receipts(setting: Setting) -> None:
    count = setting.size(10_000, 10)
    with setting.place() as folder:
        samples = recurring(now() - dt.timedelta(days=3))
        fill(folder / "scheduler.db", Many("session", max(1, count // 10), count, samples))
        with Daemon(folder, *ROOMY) as daemon:
            before = _bytes(daemon.database)
            drained(daemon.database, daemon.socket, count)
        setting.report.add("a receipt on disk", (_bytes(daemon.database) - before) / count, "bytes")


def _bytes(path: Path) -> int:
    """What the pages in use take once the log is brought over."""
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA wal_checkpoint(PASSIVE)")
        (pages,) = conn.execute("PRAGMA page_count").fetchone()
        (free,) = conn.execute("PRAGMA freelist_count").fetchone()
        (size,) = conn.execute("PRAGMA page_size").fetchone()
        return int((pages - free) * size)
