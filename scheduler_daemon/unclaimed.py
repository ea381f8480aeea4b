"""One warning line for each Session whose reminders are overdue and that no host takes."""

from __future__ import annotations

import datetime as dt

from scheduler_daemon.clock import Clock
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import Instant
from scheduler_daemon.server.hosts import Hosts
from scheduler_daemon.store.reader import Reader

LOOK_SECONDS = 60.0
"""At most one look in so long; it rides on rounds that happen anyway."""

LINES = 20
"""Sessions named in one look; the rest are counted in one line."""

log = get_logger(__name__)


class Unclaimed:
    """Looks for Sessions that have been overdue without a host for `warn_seconds`."""

    def __init__(self, clock: Clock, reader: Reader, hosts: Hosts, warn_seconds: float) -> None:
        self._clock = clock
        self._reader = reader
        self._hosts = hosts
        self._warn_after = dt.timedelta(seconds=warn_seconds)
        # Hosts need time to come back after a start: nothing is unclaimed before that.
        self._look_from = clock.monotonic() + warn_seconds
        self._warned: dict[int, tuple[str, str]] = {}

    async def look(self, now: Instant) -> None:
        """Warn of each Session once. `now` is the wall clock."""
        if self._clock.monotonic() < self._look_from:
            return
        self._look_from = self._clock.monotonic() + LOOK_SECONDS
        for owner in await self._reader.owners():
            await self._look_at(owner, now - self._warn_after)

    async def _look_at(self, owner: int, since: Instant) -> None:
        place = self._warned.get(owner, ("", ""))
        found = await self._reader.sessions_due(owner, since, place, 1000)
        if found:
            self._warned[owner] = found[-1]
        lost = [(at, name) for at, name in found if not self._hosts.line((owner, name))]
        for at, name in lost[:LINES]:
            log.warning("session_unclaimed", owner_uid=owner, session_id=name, overdue_since=at)
        if len(lost) > LINES:
            log.warning("more_sessions_unclaimed", owner_uid=owner, sessions=len(lost) - LINES)
