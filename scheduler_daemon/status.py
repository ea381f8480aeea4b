"""How the daemon is, as one caller may see it: its own reminders, hosts and Sessions."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterable
from heapq import nsmallest
from pathlib import Path

from scheduler_daemon import __version__
from scheduler_daemon.clock import Clock
from scheduler_daemon.desk import Caller
from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.hosts.host import Host
from scheduler_daemon.model import Instant, Key
from scheduler_daemon.rules import instant_text, zone_data_version
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.sessions import SILENT, SessionState, message_in
from scheduler_daemon.store.store import Store
from scheduler_daemon.views import later
from scheduler_daemon.wire import shapes
from scheduler_daemon.wire.messages import PROTOCOL

SHOWN = 100
"""Hosts and Sessions that are listed at most."""


class StatusBoard:
    """Gathers what `daemon.status` shows.

    `restart_wanted_for` are the settings that changed and cannot while the daemon runs.
    """

    def __init__(
        self, clock: Clock, store: Store, scheduler: Scheduler, database: Path, schema: int
    ) -> None:
        self._clock = clock
        self._store = store
        self._reader = store.reader
        self._scheduler = scheduler
        self._database = database
        self._schema = schema
        self._started_at = clock.now()
        self.restart_wanted_for: list[str] = []
        self._fault: tuple[str, str, int] | None = None
        self._accept_failed_at: str | None = None

    def persistence_failed(self, at: Instant, code: str) -> None:
        """Note the newest failure of the file."""
        self._fault = (instant_text(at), code, self._store.writes)

    def accept_failed(self, at: Instant) -> None:
        """Note that nobody could be accepted, for want of descriptors or memory."""
        self._accept_failed_at = instant_text(at)

    async def view(self, caller: Caller) -> shapes.Status:
        """The status as `caller` may see it."""
        now = self._clock.now()
        view: shapes.Status = {
            "server": f"scheduler-daemon {__version__}",
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "protocol": PROTOCOL,
            "schema": self._schema,
            "zone_data": zone_data_version(),
            "clock": self._clock.source,
            "started_at": instant_text(self._started_at),
            "counts": await self._counts(caller.uid, now),
            "hosts": [_host(h) for h in self._scheduler.hosts.of_owner(caller.uid)[:SHOWN]],
            "retrying": self._retrying(caller.uid, now),
        }
        if caller.admin:
            view["database"] = str(self._database)
            # For others it would tell when somebody's reminders are made or due.
            if self._scheduler.last_scan_at is not None:
                view["last_scan_at"] = instant_text(self._scheduler.last_scan_at)
            if self._scheduler.failures:
                view["failures"] = self._scheduler.failures
            if self.restart_wanted_for:
                view["restart_wanted_for"] = self.restart_wanted_for
        next_wake_at = (
            self._scheduler.next_wake_at
            if caller.admin
            else self._scheduler.next_wake_of(caller.uid)
        )
        if next_wake_at is not None:
            view["next_wake_at"] = instant_text(next_wake_at)
        wrong = self._store.wrong()
        if wrong is not None:
            self.persistence_failed(now, PersistenceFailed.code)
            self._scheduler.troubles.told("database_failed", wrong)
        if self._fault is not None:
            at, code, writes = self._fault
            over = self._store.writes > writes
            view["last_persistence_error"] = {"at": at, "code": code, "over": over}
        if self._accept_failed_at is not None:
            view["last_accept_failure_at"] = self._accept_failed_at
        free = _free_bytes(self._database)
        if free is not None:
            view["free_disk_bytes"] = free
        return view

    async def _counts(self, owner: int, now: Instant) -> shapes.Counts:
        counts = await self._reader.counts(owner, now)
        return {
            "active": counts.active,
            "overdue": counts.overdue,
            "overdue_without_host": await self._without_host(owner, now, counts.overdue),
            "paused": counts.paused,
            "ended": counts.ended,
            "set_aside": counts.set_aside,
            "runs": counts.runs,
        }

    async def _without_host(self, owner: int, now: Instant, overdue: int) -> int:
        """Of `overdue`, those in Sessions that no host takes, or that every host called gone."""
        if not overdue:
            return 0
        hosts = self._scheduler.hosts
        told_apart = hosts.told_apart(owner)
        if hosts.stars(owner):
            return await self._overdue_in([k for k in told_apart if hosts.first(k) is None], now)
        taken = await self._overdue_in([k for k in told_apart if hosts.first(k)], now)
        return max(0, overdue - taken)

    async def _overdue_in(self, keys: Iterable[Key], now: Instant) -> int:
        return sum((await self._reader.overdue_in(keys, now)).values())

    def _retrying(self, owner: int, now: Instant) -> list[shapes.RetryStatus]:
        shown: list[shapes.RetryStatus] = []
        for state in self._scheduler.states():
            if state.key[0] == owner and len(shown) < SHOWN:
                shown += self._of_session(state, now)
        return shown[:SHOWN]

    def _of_session(self, state: SessionState, now: Instant) -> list[shapes.RetryStatus]:
        monotonic = self._clock.monotonic()
        session = state.key[1]
        rows: list[shapes.RetryStatus] = []
        for followup in state.recording:
            attempts = state.attempts(message_in(followup))
            rows.append({"session_id": session, "why": "receipt", "attempts": attempts})
        if state.pause is not None:
            row: shapes.RetryStatus = {
                "session_id": session,
                "why": state.pause.why,
                "attempts": state.pause.attempts,
                "next_try_at": later(now, state.pause.until - monotonic),
            }
            if state.pause.last_error is not None:
                row["last_error"] = state.pause.last_error
            rows.append(row)
        if state.unanswered() and not state.busy:
            row = {
                "session_id": session,
                "why": "no_answer",
                "attempts": state.unanswered(),
                "last_error": SILENT,
            }
            rows.append(row)
        for message, aside in state.set_aside(monotonic).items():
            rows.append(
                {
                    "session_id": session,
                    "why": "set_aside",
                    "attempts": state.attempts(message),
                    "next_try_at": later(now, aside.until - monotonic),
                    "last_error": aside.last_error,
                }
            )
        return rows


def _free_bytes(database: Path) -> int | None:
    """What an ordinary process may still write beside the database, None where nobody can say."""
    try:
        room = os.statvfs(database.parent)
    except OSError:
        return None
    return room.f_bavail * room.f_frsize


def _host(host: Host) -> shapes.HostStatus:
    view: shapes.HostStatus = {
        "name": host.name,
        "sessions": "*" if host.star else nsmallest(SHOWN, host.sessions),
        "in_flight": host.in_flight,
        "max_in_flight": host.slots,
        "attached_at": instant_text(host.attached_at),
    }
    if not host.star:
        view["session_count"] = len(host.sessions)
    return view
