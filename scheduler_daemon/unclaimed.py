"""One warning line for each Session whose reminders are overdue and that no host takes."""

from __future__ import annotations

import datetime as dt

from scheduler_daemon.clock import Clock
from scheduler_daemon.hosts.lines import Hosts
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import Instant, Key
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.reader import Reader

LOOK_SECONDS = 60.0
"""At most one look in so long; it rides on rounds that happen anyway."""

AT_ONCE = 1000
"""Sessions read in one look, and those remembered because a host had them when they came up."""

LINES = 20
"""Sessions named in one look; the rest are counted in one line."""

log = get_logger(__name__)


class Unclaimed:
    """Looks for Sessions that have been overdue for `warn_seconds` and that no host takes.

    Nobody takes a Session either when every host that could said that it is gone.
    """

    def __init__(self, clock: Clock, reader: Reader, hosts: Hosts, warn_seconds: float) -> None:
        self._clock = clock
        self._reader = reader
        self._hosts = hosts
        self.warn_after(warn_seconds)
        # Hosts need time to come back after a start: nothing is unclaimed before that.
        self._look_from = clock.monotonic() + warn_seconds
        # Per owner, how far its overdue Sessions were seen in the order of targets.
        self._seen: dict[int, tuple[str, str]] = {}
        self._taken: dict[Key, None] = {}

    def warn_after(self, seconds: float) -> None:
        """Warn of what has been overdue for so long."""
        self._warn_after = dt.timedelta(seconds=seconds)

    @property
    def due(self) -> bool:
        """Whether it is time for a look."""
        return self._clock.monotonic() >= self._look_from

    def forget(self) -> None:
        """Begin anew: the clock was set back."""
        self._seen.clear()
        self._taken.clear()

    async def look(self, now: Instant) -> None:
        """Warn of each Session once, when it is time for a look. `now` is the wall clock."""
        if not self.due:
            return
        self._look_from = self._clock.monotonic() + LOOK_SECONDS
        since = now - self._warn_after
        found = await self._left(since)
        for owner in await self._reader.owners():
            found += await self._new(owner, since)
        lost: list[tuple[str, Key]] = []
        for at, key in found:
            if self._hosts.first(key) is None:
                lost.append((at, key))
            elif len(self._taken) < AT_ONCE:
                self._taken[key] = None
        _warn(lost)

    async def _left(self, since: Instant) -> list[tuple[str, Key]]:
        """Sessions that had a host when they came up and are still overdue."""
        taken = list(self._taken)
        self._taken.clear()
        targets = await self._reader.targets(taken)
        return [(instant_text(at), key) for key, at in targets.items() if at and at <= since]

    async def _new(self, owner: int, since: Instant) -> list[tuple[str, Key]]:
        """Sessions that were not seen yet."""
        place = self._seen.get(owner, ("", ""))
        found = await self._reader.sessions_due(owner, since, place, AT_ONCE)
        if found:
            self._seen[owner] = found[-1]
        return [(at, (owner, session)) for at, session in found]


def _warn(lost: list[tuple[str, Key]]) -> None:
    for at, (owner, session) in lost[:LINES]:
        log.warning("session_unclaimed", owner_uid=owner, session_id=session, overdue_since=at)
    if len(lost) > LINES:
        log.warning("more_sessions_unclaimed", sessions=len(lost) - LINES)
