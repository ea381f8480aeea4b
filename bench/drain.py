"""Everything overdue after downtime, into one host that admits at once, until it is on disk."""

from __future__ import annotations

import datetime as dt
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from time import perf_counter

from bench.daemon import ROOMY, Daemon
from bench.fill import Many, fill, now, recurring
from bench.peers import running as peers
from bench.report import Bound, progress
from bench.setting import Setting
from bench.wire import Host, occurrences
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.database import settle

SPREAD, LUMPED, BARE = "ours, many Sessions", "ours, one Session", "bare UPDATE and INSERT"
FIRST = "first message after attaching"
TOGETHER = 640
"""Rows in a commit of the bare run: 64 messages of 10 reminders, as the daemon commits them."""


def drained(path: Path, socket: Path, count: int) -> tuple[float, float]:
    """Seconds until the first message, and until the receipts of `count` are all on disk."""
    with Host(socket, "*") as host:
        seen, first = 0, 0.0
        for frame in host.followups():
            first = first or perf_counter() - host.started
            seen += occurrences(frame)
            host.answer(frame)
            if seen >= count:
                break
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as conn:
            while _receipts(conn) < count:
                time.sleep(0.002)
        return first, perf_counter() - host.started


def _receipts(conn: sqlite3.Connection) -> int:
    (found,) = conn.execute("SELECT coalesce(max(number), 0) FROM dispatches").fetchone()
    return int(found)


def many_sessions(setting: Setting) -> None:
    """10 reminders in each of 10,000 Sessions, of all kinds that recur, overdue for three days."""
    sessions = setting.size(10_000, 10)
    for run in range(setting.runs):
        progress(f"drain, run {run + 1} of {setting.runs}")
        with setting.place() as folder:
            _make(folder, sessions, 10 * sessions)
            bare = folder / "bare.db"
            shutil.copy(folder / "scheduler.db", bare)
            with Daemon(folder, *ROOMY) as daemon:
                first, seconds = drained(daemon.database, daemon.socket, 10 * sessions)
            setting.report.add(FIRST, 1000 * first, "ms")
            setting.report.add(SPREAD, 10 * sessions / seconds, "records/s")
            setting.report.add(BARE, _bare(bare, min(10 * sessions, 50_000)), "records/s")
        for peer in peers.PEERS:
            with setting.place() as folder:
                found = peers.ask(peer, folder, "drain", count=setting.size(2000, 10))
            if found is not None:
                setting.report.add(peer.name, found["per_second"], "jobs/s")
    setting.report.aim(FIRST, Bound(at_most=50))
    setting.report.aim(SPREAD, Bound(at_least=8000))
    setting.report.compare(BARE, SPREAD, Bound(at_most=4))
    for peer in peers.PEERS:
        setting.report.compare(SPREAD, peer.name, Bound(at_least=10))


def one_session(setting: Setting) -> None:
    """10,000 reminders in one Session, beside as many in 1,000 Sessions."""
    count = setting.size(10_000, 10)
    for run in range(setting.runs):
        progress(f"drain-one-session, run {run + 1} of {setting.runs}")
        for name, sessions in ((LUMPED, 1), (SPREAD, max(1, count // 10))):
            with setting.place() as folder:
                _make(folder, sessions, count)
                with Daemon(folder, *ROOMY) as daemon:
                    _, seconds = drained(daemon.database, daemon.socket, count)
            setting.report.add(name, 1e6 * seconds / count, "µs a record")
    setting.report.compare(LUMPED, SPREAD, Bound(at_most=1.3))


def _make(folder: Path, sessions: int, count: int) -> None:
    samples = recurring(now() - dt.timedelta(days=3))
    fill(folder / "scheduler.db", Many("session", sessions, count, samples))


def _bare(path: Path, count: int) -> float:
    """Rows per second: a receipt and an advanced target for each, in the same schema."""
    then, at = instant_text(now() + dt.timedelta(days=1)), instant_text(now())
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        settle(conn)
        rows = conn.execute(
            "SELECT number, owner_uid, session_id, scheduled_at FROM reminders"
            " ORDER BY session_id, number LIMIT ?",
            (count,),
        ).fetchall()
        start = perf_counter()
        for begin in range(0, len(rows), TOGETHER):
            conn.execute("BEGIN IMMEDIATE")
            for number, owner, session, target in rows[begin : begin + TOGETHER]:
                receipt = (f"r{number}@{target}", number, owner, session, target, at, at)
                conn.execute(_RECEIPT, receipt)
                conn.execute(_MOVED, (then, at, at, target, number))
            conn.execute("COMMIT")
        return len(rows) / (perf_counter() - start)


_RECEIPT = """
INSERT INTO dispatches (occurrence_id, followup_id, reminder_number, owner_uid, session_id,
  occurrence_at, decided_at, admitted_at, host, outcome, words_revision)
VALUES (?, 'f0123456789abcdef', ?, ?, ?, ?, ?, ?, 'bench', 'admitted', 1)"""
_MOVED = """
UPDATE reminders SET scheduled_at = ?, after_at = ?, computed_at = ?, last_occurrence_at = ?,
  dispatch_count = dispatch_count + 1 WHERE number = ?"""
