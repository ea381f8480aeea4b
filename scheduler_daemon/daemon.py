"""The composition root: builds everything, starts it and stops it, each in one order."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from scheduler_daemon import __version__
from scheduler_daemon.assembly import Assembly, opening
from scheduler_daemon.clock import Clock, SystemClock
from scheduler_daemon.config import ConfigError
from scheduler_daemon.cores import dump_no_core
from scheduler_daemon.errors import PersistenceFailed, PersistenceUncertain, SchedulerError
from scheduler_daemon.heart import Heart
from scheduler_daemon.limits import give_memory_back, share_time, take_descriptors
from scheduler_daemon.log import complain, configure, get_logger
from scheduler_daemon.places import DATABASE_NAME
from scheduler_daemon.rules import instant_text, zone_data_version
from scheduler_daemon.server.address import Address, SocketRefused, bind, keeps_out
from scheduler_daemon.server.listener import Listener
from scheduler_daemon.settings import Settings
from scheduler_daemon.store.database import (
    LOCK_STEP_SECONDS,
    DatabaseRefused,
    Lock,
    create_file,
    examine,
    is_taken,
    make_private,
)
from scheduler_daemon.store.migrate import migrate as bring_up_to_date
from scheduler_daemon.store.standing import is_log_broken, lost_frames
from scheduler_daemon.store.store import Store
from scheduler_daemon.store.upkeep import note_zone_data
from scheduler_daemon.systemd import Manager, SocketsRefused, adopted_socket
from scheduler_daemon.text import printable

OLDEST_SQLITE = (3, 37, 0)  # STRICT tables

FIRST_LOOK_SECONDS = 10.0
"""How long the first look at what is due may keep peers waiting; the loop goes on trying."""

LOCK_NEWS_SECONDS = 1.0
"""After so long a start says in the log that it waits for another program's lock."""

LAST_ANSWERS_SECONDS = 0.5
"""At least so long, when stopping, what was asked may still be answered."""

STOP_RESERVE_SECONDS = 20.0
"""For closing the file after the hosts were waited for: a manager must not kill before that."""

T = TypeVar("T")

log = get_logger(__name__)


def run(settings: Settings, load: Callable[[], Settings] | None = None) -> int:
    """Run until SIGTERM or SIGINT. 0 when it was stopped, 1 when it failed or could not start.

    `load` reads the settings again at SIGHUP, and may raise ConfigError; None: they stay.
    """
    configure(settings.log_level, settings.log_format, sys.stderr)
    dump_no_core()
    take_descriptors()
    give_memory_back()
    share_time()
    clock = SystemClock()
    try:
        asyncio.run(Daemon(settings, clock, load).run())
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
        case PersistenceFailed():
            reason = f"{error}; the log says why, and `schedctl doctor` looks through the file"
        case DatabaseRefused() | SocketRefused() | SocketsRefused() | SchedulerError():
            reason = str(error)
        case OSError():
            reason = f"{error.filename or 'the system'}: {error.strerror or error}"
        case sqlite3.Error():
            reason = f"the database cannot be used: {error}"
        case _:
            log.error("daemon_failed", exc_info=error)
            reason = "it failed inside; the log says more"
    told = printable(reason)
    Manager(os.environ, os.getpid()).status(told)
    complain(f"scheduler-daemon: {told}")
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
    """One daemon in the running event loop, which must be the main thread's. Runs once.

    `parts` are there from the moment that its file is open, and `ready` is set when it serves.
    """

    parts: Assembly

    def __init__(
        self, settings: Settings, clock: Clock, load: Callable[[], Settings] | None = None
    ) -> None:
        self._settings = settings
        self._load = load or (lambda: settings)
        self._clock = clock
        self._manager = Manager(os.environ, os.getpid())
        self._stop = asyncio.Event()
        self._hung_up = asyncio.Event()
        self._hang_up: Callable[[], None] = self._hung_up.set
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
            broken = is_log_broken(path)
            await self._while_locked(self._until_free(path))
            if self._stop.is_set():
                return
            lost = lost_frames(path, log_was_broken=broken)
            self._manager.status("starting: brings the database up to date")
            bring_up_to_date(path, instant_text(self._clock.now()))
            store = await self._open(path)
            at_end.push_async_callback(store.close)
            self.parts = Assembly(self._settings, self._clock, store, path)
            self._tell_of_lost(lost)
            await self._serve(store)
        log.info("daemon_stopped")

    def _handle_signals(self, at_end: AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        acts = {
            signal.SIGTERM: self.stop,
            signal.SIGINT: self.stop,
            signal.SIGHUP: lambda: self._hang_up(),
        }
        for number, act in acts.items():
            loop.add_signal_handler(number, act)
            at_end.callback(loop.remove_signal_handler, number)

    async def _open(self, path: Path) -> Store:
        loop = asyncio.get_running_loop()

        def failed(text: str) -> None:
            # On the writer's thread, and by no act before the assembly is there.
            loop.call_soon_threadsafe(self._persistence_failed, text)

        return await Store.open(
            path,
            monotonic=self._clock.monotonic,
            wait_seconds=self._settings.write_wait_seconds,
            failed=failed,
        )

    async def _serve(self, store: Store) -> None:
        zone_mark = await self._note_zone_data(store)
        if self._stop.is_set():
            return
        parts, scheduler = self.parts, self.parts.scheduler
        address = self._address()
        heart = Heart(self._clock, store.reader, scheduler, self._manager)
        try:
            listener = parts.listener(address.socket)
            looping = asyncio.create_task(scheduler.run(zone_mark), name="scheduler")
            try:
                await self._until_stopped(listener, looping, heart, address)
            finally:
                self._hang_up = self._hung_up.set  # a stop is not begun anew by a reload's READY
                await heart.stop()
                await self._wind_up(listener, looping)
        finally:
            address.release()

    def _address(self) -> Address:
        """The socket that systemd handed over, else one at the path of the settings."""
        adopted = adopted_socket(os.environ, os.getpid())
        others, group = opening(self._settings)
        if adopted is not None:
            _warn_of_mode(keeps_out(adopted, others=others, group=group))
            return Address(adopted)
        return bind(self._settings.socket, others=others, group=group)

    async def _note_zone_data(self, store: Store) -> int | None:
        """The first write: it waits for another program's lock as long as that is held."""
        act = note_zone_data(zone_data_version())
        return await self._while_locked(store.upkeep(act, patient=True))

    async def _while_locked(self, waiting: Coroutine[Any, Any, T]) -> T | None:
        """What `waiting` gives, None when stopped before; says so when it takes long."""
        task = asyncio.create_task(waiting)
        timer = self._clock.call_later(LOCK_NEWS_SECONDS, self._tell_of_lock)
        try:
            await _any_of(task, self._stop)
            return task.result() if task.done() else None
        finally:
            timer.cancel()
            task.cancel()

    async def _until_free(self, path: Path) -> None:
        """Return when no other program keeps readers out."""
        while is_taken(path):
            again = asyncio.Event()
            timer = self._clock.call_later(LOCK_STEP_SECONDS, again.set)
            try:
                await again.wait()
            finally:
                timer.cancel()

    async def _until_stopped(
        self,
        listener: Listener,
        looping: asyncio.Task[None],
        heart: Heart,
        address: Address,
    ) -> None:
        await self._first_look(looping)
        if not self._stop.is_set():
            await listener.start()
            self._log_start(address.path)
            self.ready.set()
            self._manager.ready()
            heart.start()
            self._hear_hang_ups(listener, heart, socket_is_own=address.is_own)
        await _any_of(looping, self._stop)
        self._manager.stopping(self.parts.settings.stop_timeout_seconds + STOP_RESERVE_SECONDS)
        self._manager.status("stopping: waits for follow-ups that hosts have not answered yet")
        log.info("stop_requested")

    def _hear_hang_ups(self, listener: Listener, heart: Heart, *, socket_is_own: bool) -> None:
        """Reload at each SIGHUP from now on, and for one that came during the start."""
        self._hang_up = lambda: self._reload(listener, heart, socket_is_own=socket_is_own)
        if self._hung_up.is_set():
            self._hang_up()

    def _reload(self, listener: Listener, heart: Heart, *, socket_is_own: bool) -> None:
        """SIGHUP: the settings and the file are read again."""
        self._manager.reloading(self._clock.monotonic())
        try:
            changed, waiting = self.parts.change(
                self._load(), listener, socket_is_own=socket_is_own
            )
        except ConfigError as error:
            log.error("settings_refused", reason=str(error))
            heart.note = f"settings not read again: {error}"
        else:
            log.info("settings_read", changed=changed, waiting_for_restart=waiting)
            heart.note = f"a restart is wanted for {', '.join(waiting)}" if waiting else ""
        self.parts.scheduler.reread()
        self._manager.ready()
        heart.tell()

    async def _first_look(self, looping: asyncio.Task[None]) -> None:
        enough = asyncio.Event()
        timer = self._clock.call_later(FIRST_LOOK_SECONDS, enough.set)
        await _any_of(looping, self.parts.scheduler.scanned, self._stop, enough)
        timer.cancel()

    async def _wind_up(self, listener: Listener, looping: asyncio.Task[None]) -> None:
        """Take nobody more, start nothing more, wait for what is under way, close."""
        listener.close()
        seconds = self.parts.settings.stop_timeout_seconds
        until = self._clock.monotonic() + seconds
        await self.parts.scheduler.stop(seconds)
        looping.cancel()
        await asyncio.gather(looping, return_exceptions=True)
        left = until - self._clock.monotonic()
        await listener.end_connections(max(left, LAST_ANSWERS_SECONDS))

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

    def _tell_of_lock(self) -> None:
        reason = "another program holds the write lock"
        log.warning("waiting_for_lock", reason=reason)
        self._manager.status(f"starting: {reason}")

    def _tell_of_lost(self, pages: int) -> None:
        """Say that the log of writes was torn, which SQLite passes over in silence."""
        if pages:
            self.parts.status.persistence_failed(self._clock.now(), PersistenceUncertain.code)
            log.error(
                "writes_lost",
                pages=pages,
                reason="the log of writes was damaged: changes of before the last stop are gone",
            )

    def _persistence_failed(self, text: str) -> None:
        self.parts.status.persistence_failed(self._clock.now(), PersistenceFailed.code)
        self.parts.troubles.told("database_failed", text)


def _warn_of_mode(wants: str | None) -> None:
    if wants is not None:
        reason = "the socket that systemd made keeps out some whom the settings let in"
        log.warning("socket_keeps_out", reason=reason, wants=wants)


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
