"""The parts of one daemon, made from its settings; those that may change are given new ones.

Nothing here starts or stops anything: in what order that is done stands in daemon.py.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from scheduler_daemon.clock import Clock
from scheduler_daemon.desk import Bounds, Caller, Desk
from scheduler_daemon.hosts.lines import Hosts
from scheduler_daemon.log import configure
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.server.allowance import Allowance
from scheduler_daemon.server.connection import Connection
from scheduler_daemon.server.listener import Listener
from scheduler_daemon.server.peers import Door
from scheduler_daemon.server.turns import Turns
from scheduler_daemon.service import Service
from scheduler_daemon.settings import SCHEMA, Settings, group_number, user_number
from scheduler_daemon.status import StatusBoard
from scheduler_daemon.store.migrate import known
from scheduler_daemon.store.retention import Keep
from scheduler_daemon.store.store import Limits, Store
from scheduler_daemon.troubles import Troubles
from scheduler_daemon.watching import Watchers

FIXED = ("state_directory", "socket", "max_frame_bytes", "write_wait_seconds")
"""Settings that a daemon keeps from its start to its end."""

ENTRANCE = ("allowed_uids", "allowed_gids")
"""Settings that also decide with what mode a socket is made."""

HELD_BUFFERS = 8
"""So many times max_write_buffer_bytes one user's connections may make the daemon hold."""


class Assembly:
    """What one daemon consists of, beside its file and its socket."""

    def __init__(self, settings: Settings, clock: Clock, store: Store, database: Path) -> None:
        self._settings = self._first = settings
        self._clock = clock
        self.watchers = Watchers()
        self._turns = Turns()
        self.troubles = Troubles(clock.monotonic)
        self.scheduler = Scheduler(
            clock,
            store,
            Hosts(clock),
            self.watchers,
            self.troubles,
            followup_timeout_seconds=settings.followup_timeout_seconds,
            max_frame_bytes=settings.max_frame_bytes,
            unclaimed_warn_seconds=settings.unclaimed_warn_seconds,
            keep=_keep(settings),
        )
        schema = known()[-1].number
        self.status = StatusBoard(clock, store, self.scheduler, database, schema)
        self._desk = Desk(clock, store, self.scheduler, self.watchers, _bounds(settings))
        self._service = Service(self._desk)

    @property
    def settings(self) -> Settings:
        """Those in effect."""
        return self._settings

    def listener(self, sock: socket.socket) -> Listener:
        """Listens on `sock` for this daemon."""
        settings = self._settings
        return Listener(
            sock,
            _door(settings),
            self._clock,
            max_connections_per_uid=settings.max_connections_per_uid,
            max_held_per_uid=_most_held(settings),
            connect=self._connect,
            denied_hint=_denied_hint(settings),
            failed=self._not_accepted,
        )

    def _not_accepted(self, reason: str) -> None:
        self.status.accept_failed(self._clock.now())
        self.troubles.told("accept_failed", reason)

    def change(
        self, read: Settings, listener: Listener, *, socket_is_own: bool
    ) -> tuple[list[str], list[str]]:
        """Go on with `read`: the keys that changed, and those that wait for a restart.

        Connections and attached hosts keep the bounds that they began with. A socket of our own
        keeps its mode: whom it keeps out comes in after a restart, who lost the right is refused.
        """
        differing = self._differing(read, self._settings)
        fixed = [key for key in differing if key in FIXED]
        kept = {key: getattr(self._settings, key) for key in fixed}
        waiting = list(fixed)
        if socket_is_own and opening(read) != opening(self._first):
            waiting += [key for key in self._differing(read, self._first) if key in ENTRANCE]
        self.status.restart_wanted_for = waiting
        self._settings = settings = read.model_copy(update=kept)
        if {"log_level", "log_format"} & set(differing):
            configure(settings.log_level, settings.log_format, sys.stderr)
        self._desk.bounds = _bounds(settings)
        self.scheduler.change(
            followup_timeout_seconds=settings.followup_timeout_seconds,
            unclaimed_warn_seconds=settings.unclaimed_warn_seconds,
            keep=_keep(settings),
        )
        listener.change(
            _door(settings),
            max_connections_per_uid=settings.max_connections_per_uid,
            max_held_per_uid=_most_held(settings),
            denied_hint=_denied_hint(settings),
        )
        return [key for key in differing if key not in waiting], waiting

    @staticmethod
    def _differing(read: Settings, before: Settings) -> list[str]:
        return [key for key in SCHEMA if getattr(read, key) != getattr(before, key)]

    def _connect(
        self, caller: Caller, allowance: Allowance, closed: Callable[[Connection], None]
    ) -> Connection:
        settings = self._settings
        return Connection(
            caller,
            self._service,
            self.status,
            self.scheduler,
            self.watchers,
            self._clock,
            max_frame_bytes=settings.max_frame_bytes,
            max_pending_requests=settings.max_pending_requests,
            max_write_buffer_bytes=settings.max_write_buffer_bytes,
            write_timeout_seconds=settings.write_timeout_seconds,
            allowance=allowance,
            turns=self._turns,
            closed=closed,
        )


def opening(settings: Settings) -> tuple[bool, int | None]:
    """Whom a socket made by these lets connect beside this user: everybody, members of a group."""
    users, groups = settings.allowed_uids, settings.allowed_gids
    if len(groups) == 1 and not users:
        return False, group_number(groups[0])
    return bool(users or groups), None


def _most_held(settings: Settings) -> int:
    return HELD_BUFFERS * settings.max_write_buffer_bytes


def _keep(settings: Settings) -> Keep:
    return Keep(settings.history_days, settings.history_per_reminder, settings.ended_days)


def _bounds(settings: Settings) -> Bounds:
    return Bounds(
        max_prompt_chars=settings.max_prompt_chars,
        limits=Limits(settings.max_active_per_session, settings.max_active_per_owner),
        max_frame_bytes=settings.max_frame_bytes,
    )


def _door(settings: Settings) -> Door:
    return Door(
        os.getuid(),
        [user_number(user) for user in settings.allowed_uids],
        [group_number(group) for group in settings.allowed_gids],
    )


def _denied_hint(settings: Settings) -> str:
    groups = ", ".join(map(str, settings.allowed_gids))
    if groups:
        return f"this user may not use this daemon; it must be a member of the group {groups}"
    return "this user may not use this daemon; allowed_uids or allowed_gids must name it"
