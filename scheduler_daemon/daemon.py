"""The composition root: builds everything, starts it and stops it, each in one order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

from scheduler_daemon import __version__
from scheduler_daemon.clock import Clock, SystemClock
from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.log import configure, get_logger
from scheduler_daemon.rules import instant_text, zone_data_version
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.server.connection import Connection
from scheduler_daemon.server.hosts import Hosts
from scheduler_daemon.server.listener import Listener, SocketRefused, bind
from scheduler_daemon.server.peers import Door
from scheduler_daemon.service import Bounds, Caller, Service
from scheduler_daemon.settings import Settings, group_number, user_number
from scheduler_daemon.status import StatusBoard
from scheduler_daemon.store.database import (
    DatabaseRefused,
    Lock,
    create_file,
    examine,
    make_private,
)
from scheduler_daemon.store.migrate import known
from scheduler_daemon.store.migrate import migrate as bring_up_to_date
from scheduler_daemon.store.store import Limits, Store
from scheduler_daemon.store.upkeep import note_zone_data

DATABASE = "scheduler.db"
OLDEST_SQLITE = (3, 37, 0)  # STRICT tables

log = get_logger(__name__)


def run(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT. 0 when it was stopped, 1 when it could not start."""
    configure(settings.log_level, settings.log_format, sys.stderr)
    try:
        asyncio.run(Daemon(settings).run())
    except (DatabaseRefused, SocketRefused) as refusal:
        print(f"scheduler-daemon: {refusal}", file=sys.stderr)
        return 1
    return 0


def migrate(settings: Settings) -> int:
    """Bring the database to this version's schema, no daemon running. 0 or 1."""
    path = settings.state_directory / DATABASE
    clock = SystemClock()
    try:
        lock = _take(path)
        try:
            applied = bring_up_to_date(path, instant_text(clock.now()))
        finally:
            lock.release()
    except DatabaseRefused as refusal:
        print(f"scheduler-daemon: {refusal}", file=sys.stderr)
        return 1
    finally:
        clock.close()
    print("\n".join(f"applied {name}" for name in applied) or "the database is up to date")
    return 0


def _take(path: Path) -> Lock:
    """Hold the database and make sure that it is ours; what is not is left untouched."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise DatabaseRefused(
            f"this Python has SQLite {sqlite3.sqlite_version}; 3.37 or newer is needed"
        )
    make_private(path)
    examine(path)
    lock = Lock(path)
    try:
        create_file(path)
    except DatabaseRefused:
        lock.release()
        raise
    return lock


class Daemon:
    """One daemon in the running event loop. Tests pass a clock of their own."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._stop = asyncio.Event()
        self.ready = asyncio.Event()

    def stop(self) -> None:
        """Let `run` end in good order."""
        self._stop.set()

    async def run(self) -> None:
        """Start, run until `stop` or a signal, stop. DatabaseRefused or SocketRefused."""
        path = self._settings.state_directory / DATABASE
        lock = _take(path)
        try:
            bring_up_to_date(path, instant_text(self._clock.now()))
            await self._with_store(path)
        finally:
            lock.release()

    async def _with_store(self, path: Path) -> None:
        faults: list[Callable[[str], None]] = []
        loop = asyncio.get_running_loop()
        store = await Store.open(
            path,
            monotonic=self._clock.monotonic,
            wait_seconds=self._settings.write_wait_seconds,
            # Called on the writer's thread.
            failed=lambda text: _hear(loop, faults, text),
        )
        try:
            scheduler, status = self._build(store, path)
            faults.append(lambda text: self._persistence_failed(status, text))
            await self._serve(store, scheduler, status)
        finally:
            await store.close()

    def _build(self, store: Store, path: Path) -> tuple[Scheduler, StatusBoard]:
        scheduler = Scheduler(
            self._clock,
            store,
            Hosts(self._clock),
            followup_timeout_seconds=self._settings.followup_timeout_seconds,
            max_frame_bytes=self._settings.max_frame_bytes,
            unclaimed_warn_seconds=self._settings.unclaimed_warn_seconds,
        )
        schema = known()[-1].number
        return scheduler, StatusBoard(self._clock, store.reader, scheduler, path, schema)

    async def _serve(self, store: Store, scheduler: Scheduler, status: StatusBoard) -> None:
        zone_mark = await store.upkeep(note_zone_data(zone_data_version()))
        sock = bind(self._settings.socket)
        listener = self._listener(sock, store, scheduler, status)
        loop_task = asyncio.create_task(scheduler.run(zone_mark), name="scheduler")
        handled = self._handle_signals(scheduler)
        try:
            await scheduler.scanned.wait()
            await listener.start()
            self._log_start()
            self.ready.set()
            await self._stop.wait()
            log.info("daemon_stopping")
        finally:
            await listener.close()
            await scheduler.stop(self._settings.stop_timeout_seconds)
            loop_task.cancel()
            await asyncio.gather(loop_task, return_exceptions=True)
            listener.end_connections()
            for number in handled:
                asyncio.get_running_loop().remove_signal_handler(number)
        log.info("daemon_stopped")

    def _listener(
        self, sock: socket.socket, store: Store, scheduler: Scheduler, status: StatusBoard
    ) -> Listener:
        settings = self._settings
        bounds = Bounds(
            max_prompt_chars=settings.max_prompt_chars,
            limits=Limits(settings.max_active_per_session, settings.max_active_per_owner),
            max_frame_bytes=settings.max_frame_bytes,
        )
        service = Service(self._clock, store, scheduler, bounds)

        def connect(caller: Caller, closed: Callable[[Connection], None]) -> Connection:
            return Connection(
                caller,
                service,
                status,
                scheduler,
                self._clock,
                max_frame_bytes=settings.max_frame_bytes,
                max_pending_requests=settings.max_pending_requests,
                max_write_buffer_bytes=settings.max_write_buffer_bytes,
                write_timeout_seconds=settings.write_timeout_seconds,
                closed=closed,
            )

        door = Door(
            os.getuid(),
            [user_number(user) for user in settings.allowed_uids],
            [group_number(group) for group in settings.allowed_gids],
        )
        return Listener(
            sock,
            settings.socket,
            door,
            max_connections_per_uid=settings.max_connections_per_uid,
            connect=connect,
            denied_hint=_denied_hint(settings),
        )

    def _handle_signals(self, scheduler: Scheduler) -> list[signal.Signals]:
        loop = asyncio.get_running_loop()
        acts = {
            signal.SIGTERM: self.stop,
            signal.SIGINT: self.stop,
            signal.SIGHUP: scheduler.rescan,
        }
        for number, act in acts.items():
            loop.add_signal_handler(number, act)
        return list(acts)

    def _log_start(self) -> None:
        log.info(
            "daemon_started",
            version=__version__,
            pid=os.getpid(),
            database=str(self._settings.state_directory / DATABASE),
            socket=str(self._settings.socket),
            zone_data=zone_data_version(),
            clock=self._clock.source,
        )

    def _persistence_failed(self, status: StatusBoard, text: str) -> None:
        status.persistence_failed(self._clock.now(), PersistenceFailed.code)
        log.error("database_failed", reason=text)


def _hear(loop: asyncio.AbstractEventLoop, hearers: list[Callable[[str], None]], text: str) -> None:
    for hear in hearers:
        loop.call_soon_threadsafe(hear, text)


def _denied_hint(settings: Settings) -> str:
    groups = ", ".join(map(str, settings.allowed_gids))
    if groups:
        return f"this user may not use this daemon; it must be a member of the group {groups}"
    return "this user may not use this daemon; allowed_uids or allowed_gids must name it"
