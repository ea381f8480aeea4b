"""The composition root: builds everything, starts it and stops it, each in one order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from scheduler_daemon import __version__
from scheduler_daemon.clock import Clock, SystemClock
from scheduler_daemon.desk import Bounds, Caller, Desk
from scheduler_daemon.errors import PersistenceFailed, PersistenceUncertain, SchedulerError
from scheduler_daemon.heart import Heart
from scheduler_daemon.log import configure, get_logger
from scheduler_daemon.places import DATABASE_NAME
from scheduler_daemon.rules import instant_text, zone_data_version
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.server.address import Address, SocketRefused, bind
from scheduler_daemon.server.connection import Connection
from scheduler_daemon.server.hosts import Hosts
from scheduler_daemon.server.listener import Listener
from scheduler_daemon.server.peers import Door
from scheduler_daemon.service import Service
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
from scheduler_daemon.store.retention import Keep
from scheduler_daemon.store.standing import lost_frames
from scheduler_daemon.store.store import Limits, Store
from scheduler_daemon.store.upkeep import note_zone_data
from scheduler_daemon.systemd import Manager, SocketsRefused, adopted_socket
from scheduler_daemon.text import printable
from scheduler_daemon.troubles import Troubles
from scheduler_daemon.watching import Watchers

OLDEST_SQLITE = (3, 37, 0)  # STRICT tables

FIRST_LOOK_SECONDS = 10.0
"""How long the first look at what is due may keep peers waiting; the loop goes on trying."""

LOCK_NEWS_SECONDS = 1.0
"""After so long a start says in the log that it waits for another program's lock."""

LAST_ANSWERS_SECONDS = 0.5
"""At least so long, when stopping, what was asked may still be answered."""

log = get_logger(__name__)


def run(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT. 0 when it was stopped, 1 when it failed or could not start."""
    configure(settings.log_level, settings.log_format, sys.stderr)
    clock = SystemClock()
    try:
        asyncio.run(Daemon(settings, clock).run())
    except Exception as error:  # noqa: BLE001  the last place before a person sees a traceback
        return _failed(error)
    finally:
        clock.close()
    return 0


def migrate(settings: Settings) -> int:
    """Bring the database to this version's schema, no daemon running. 0 or 1."""
    path = database_file(settings)
    clock = SystemClock()
    try:
        lock = _take(path)
        try:
            applied = bring_up_to_date(path, instant_text(clock.now()))
        finally:
            lock.release()
    except Exception as error:  # noqa: BLE001  as above
        return _failed(error)
    finally:
        clock.close()
    print("\n".join(f"applied {name}" for name in applied) or "the database is up to date")
    return 0


def database_file(settings: Settings) -> Path:
    """The file itself. SQLite follows links; a lock beside a link would be another lock."""
    return Path(os.path.realpath(settings.state_directory / DATABASE_NAME))


def _failed(error: Exception) -> int:
    """Say in one line what is wrong; a defect of ours leaves its traceback in the log."""
    match error:
        case DatabaseRefused() | SocketRefused() | SocketsRefused() | SchedulerError():
            reason = str(error)
        case OSError():
            reason = f"{error.filename or 'the system'}: {error.strerror or error}"
        case sqlite3.Error():
            reason = f"the database cannot be used: {error}"
        case _:
            log.error("daemon_failed", exc_info=error)
            reason = "it failed inside; the log says more"
    print(f"scheduler-daemon: {printable(reason)}", file=sys.stderr)
    return 1


def _take(path: Path) -> Lock:
    """Hold the database and make sure that it is ours; what is not is left untouched."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise DatabaseRefused(
            f"this Python has SQLite {sqlite3.sqlite_version}; 3.37 or newer is needed"
        )
    make_private(path)
    examine(path)
    _refuse_to_begin_anew(path)
    lock = Lock(path)
    try:
        create_file(path)
        lock.hold_file(path)
    except DatabaseRefused:
        lock.release()
        raise
    return lock


def _refuse_to_begin_anew(path: Path) -> None:
    """A database that was here and is gone or empty is a loss, not a first start."""
    mark = path.with_name(f"{path.name}.mark")
    if mark.exists() and mark.stat().st_size and not (path.exists() and path.stat().st_size):
        raise DatabaseRefused(
            f"the database {path} is gone or empty, and one was here: put a backup in its place "
            f"(`schedctl restore`), or delete {mark} as well to begin anew"
        )


class Daemon:
    """One daemon in the running event loop, which must be the main thread's. Runs once."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._watchers = Watchers()
        self._troubles = Troubles(clock.monotonic)
        self._manager = Manager(os.environ, os.getpid())
        self._stop = asyncio.Event()
        self._reread: Callable[[], None] = lambda: None
        self.ready = asyncio.Event()

    def stop(self) -> None:
        """Let `run` end in good order."""
        self._stop.set()

    async def run(self) -> None:
        """Start, run until `stop` or a signal, stop.

        Raises DatabaseRefused, SocketRefused, SchedulerError or OSError when it cannot start, and
        whatever ends the scheduler's loop, which nothing should.
        """
        path = database_file(self._settings)
        async with AsyncExitStack() as at_end:
            self._handle_signals(at_end)
            at_end.callback(_take(path).release)
            lost = lost_frames(path)
            bring_up_to_date(path, instant_text(self._clock.now()))
            faults: list[Callable[[str], None]] = []
            store = await self._open(path, faults)
            at_end.push_async_callback(store.close)
            scheduler, status = self._build(store, path)
            faults.append(lambda text: self._persistence_failed(status, text))
            self._tell_of_lost(lost, status)
            await self._serve(store, scheduler, status)
        log.info("daemon_stopped")

    def _handle_signals(self, at_end: AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        acts = {
            signal.SIGTERM: self.stop,
            signal.SIGINT: self.stop,
            signal.SIGHUP: lambda: self._reread(),
        }
        for number, act in acts.items():
            loop.add_signal_handler(number, act)
            at_end.callback(loop.remove_signal_handler, number)

    async def _open(self, path: Path, faults: list[Callable[[str], None]]) -> Store:
        loop = asyncio.get_running_loop()
        return await Store.open(
            path,
            monotonic=self._clock.monotonic,
            wait_seconds=self._settings.write_wait_seconds,
            # Called on the writer's thread.
            failed=lambda text: _hear(loop, faults, text),
        )

    def _build(self, store: Store, path: Path) -> tuple[Scheduler, StatusBoard]:
        scheduler = Scheduler(
            self._clock,
            store,
            Hosts(self._clock),
            self._watchers,
            self._troubles,
            followup_timeout_seconds=self._settings.followup_timeout_seconds,
            max_frame_bytes=self._settings.max_frame_bytes,
            unclaimed_warn_seconds=self._settings.unclaimed_warn_seconds,
            keep=Keep(
                self._settings.history_days,
                self._settings.history_per_reminder,
                self._settings.ended_days,
            ),
        )
        schema = known()[-1].number
        return scheduler, StatusBoard(self._clock, store, scheduler, path, schema)

    async def _serve(self, store: Store, scheduler: Scheduler, status: StatusBoard) -> None:
        zone_mark = await self._note_zone_data(store)
        if self._stop.is_set():
            return
        door = self._door()
        address = self._address()
        heart = Heart(self._clock, store.reader, scheduler, self._manager)
        try:
            listener = self._listener(address.socket, door, store, scheduler, status)
            looping = asyncio.create_task(scheduler.run(zone_mark), name="scheduler")
            self._reread = scheduler.reread
            try:
                await self._until_stopped(listener, scheduler, looping, heart, address.path)
            finally:
                await heart.stop()
                await self._wind_up(listener, scheduler, looping)
        finally:
            address.release()

    def _address(self) -> Address:
        """The socket that systemd handed over, else one at the path of the settings."""
        adopted = adopted_socket(os.environ, os.getpid())
        if adopted is not None:
            return Address(adopted)
        others = bool(self._settings.allowed_uids or self._settings.allowed_gids)
        return bind(self._settings.socket, others=others)

    async def _note_zone_data(self, store: Store) -> int | None:
        """The first write: it waits for another program's lock as long as that is held."""
        act = note_zone_data(zone_data_version())
        noting = asyncio.create_task(store.upkeep(act, patient=True))
        timer = self._clock.call_later(LOCK_NEWS_SECONDS, _tell_of_lock)
        try:
            await _any_of(noting, self._stop)
            return noting.result() if noting.done() else None
        finally:
            timer.cancel()
            noting.cancel()

    async def _until_stopped(
        self,
        listener: Listener,
        scheduler: Scheduler,
        looping: asyncio.Task[None],
        heart: Heart,
        socket_path: Path,
    ) -> None:
        await self._first_look(scheduler, looping)
        if not self._stop.is_set():
            await listener.start()
            self._log_start(socket_path)
            self.ready.set()
            self._manager.ready()
            heart.start()
        await _any_of(looping, self._stop)
        self._manager.stopping()
        log.info("stop_requested")

    async def _first_look(self, scheduler: Scheduler, looping: asyncio.Task[None]) -> None:
        enough = asyncio.Event()
        timer = self._clock.call_later(FIRST_LOOK_SECONDS, enough.set)
        await _any_of(looping, scheduler.scanned, self._stop, enough)
        timer.cancel()

    async def _wind_up(
        self, listener: Listener, scheduler: Scheduler, looping: asyncio.Task[None]
    ) -> None:
        """Take nobody more, start nothing more, wait for what is under way, close."""
        listener.close()
        seconds = self._settings.stop_timeout_seconds
        until = self._clock.monotonic() + seconds
        await scheduler.stop(seconds)
        looping.cancel()
        await asyncio.gather(looping, return_exceptions=True)
        left = until - self._clock.monotonic()
        await listener.end_connections(max(left, LAST_ANSWERS_SECONDS))

    def _listener(
        self,
        sock: socket.socket,
        door: Door,
        store: Store,
        scheduler: Scheduler,
        status: StatusBoard,
    ) -> Listener:
        settings = self._settings
        bounds = Bounds(
            max_prompt_chars=settings.max_prompt_chars,
            limits=Limits(settings.max_active_per_session, settings.max_active_per_owner),
            max_frame_bytes=settings.max_frame_bytes,
        )
        service = Service(Desk(self._clock, store, scheduler, self._watchers, bounds))

        def connect(caller: Caller, closed: Callable[[Connection], None]) -> Connection:
            return Connection(
                caller,
                service,
                status,
                scheduler,
                self._watchers,
                self._clock,
                max_frame_bytes=settings.max_frame_bytes,
                max_pending_requests=settings.max_pending_requests,
                max_write_buffer_bytes=settings.max_write_buffer_bytes,
                write_timeout_seconds=settings.write_timeout_seconds,
                closed=closed,
            )

        return Listener(
            sock,
            door,
            self._clock,
            max_connections_per_uid=settings.max_connections_per_uid,
            connect=connect,
            denied_hint=_denied_hint(settings),
        )

    def _door(self) -> Door:
        return Door(
            os.getuid(),
            [user_number(user) for user in self._settings.allowed_uids],
            [group_number(group) for group in self._settings.allowed_gids],
        )

    def _log_start(self, socket_path: Path) -> None:
        log.info(
            "daemon_started",
            version=__version__,
            pid=os.getpid(),
            database=str(database_file(self._settings)),
            socket=str(socket_path),
            zone_data=zone_data_version(),
            clock=self._clock.source,
        )

    def _tell_of_lost(self, pages: int, status: StatusBoard) -> None:
        """Say that the log of writes was torn, which SQLite passes over in silence."""
        if pages:
            status.persistence_failed(self._clock.now(), PersistenceUncertain.code)
            log.error(
                "writes_lost",
                pages=pages,
                reason="the log of writes was damaged: changes of before the last stop are gone",
            )

    def _persistence_failed(self, status: StatusBoard, text: str) -> None:
        status.persistence_failed(self._clock.now(), PersistenceFailed.code)
        self._troubles.told("database_failed", text)


def _tell_of_lock() -> None:
    log.warning("waiting_for_lock", reason="another program holds the write lock")


async def _any_of(looping: asyncio.Task[Any], *events: asyncio.Event) -> None:
    """Return when one of the events is set; raises what ended the loop instead."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait([looping, *waits], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if looping.done():
        looping.result()


def _hear(loop: asyncio.AbstractEventLoop, hearers: list[Callable[[str], None]], text: str) -> None:
    for hear in hearers:
        loop.call_soon_threadsafe(hear, text)


def _denied_hint(settings: Settings) -> str:
    groups = ", ".join(map(str, settings.allowed_gids))
    if groups:
        return f"this user may not use this daemon; it must be a member of the group {groups}"
    return "this user may not use this daemon; allowed_uids or allowed_gids must name it"
