"""Tells the service manager how the loop is: alive as often as its watchdog wants, and in words."""

from __future__ import annotations

import asyncio

from scheduler_daemon.clock import Clock, Handle
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import Instant
from scheduler_daemon.rules import instant_text
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.store.reader import Reader
from scheduler_daemon.systemd import Manager

WORDS_SECONDS = 10.0
"""At most one line of status in so long: it counts what is overdue."""

log = get_logger(__name__)


class Heart:
    """Beats when the loop has come round, not by a timer beside it.

    Twice in every `watchdog_seconds` of the manager the loop is made to come round; where it
    does not, nothing is told, and the manager ends the process. Without a watchdog nothing wakes.
    `note` is said with every line of status, when it is not empty.
    """

    def __init__(
        self, clock: Clock, reader: Reader, scheduler: Scheduler, manager: Manager
    ) -> None:
        self._clock = clock
        self._reader = reader
        self._scheduler = scheduler
        self._manager = manager
        self._asked = False
        self._timers: dict[str, Handle] = {}
        self._telling: asyncio.Task[None] | None = None
        self._stale = False
        self.note = ""

    def start(self) -> None:
        """Begin; nothing happens where no manager listens."""
        if self._manager.listens:
            self._scheduler.came_round = self._came_round
            self._ask()
            self._tell()

    def tell(self) -> None:
        """Say at once how it is; not before `start`, nor after `stop`."""
        if "words" in self._timers:
            self._timers.pop("words").cancel()
            self._tell()

    async def stop(self) -> None:
        """Tell nothing any more."""
        self._scheduler.came_round = lambda: None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)

    def _ask(self) -> None:
        seconds = self._manager.watchdog_seconds
        if seconds is not None:
            self._asked = True
            self._scheduler.go_round()
            self._timers["beat"] = self._clock.call_later(seconds / 2, self._ask)

    def _came_round(self) -> None:
        if self._asked:
            self._asked = False
            self._manager.alive()
            return  # it came round for this alone: there is nothing to tell in words
        self._stale = True
        if "words" not in self._timers:
            self._tell()

    def _tell(self) -> None:
        """Say how it is now, and again after a while when it has changed until then."""
        self._stale = False
        self._timers["words"] = self._clock.call_later(WORDS_SECONDS, self._tell_again)
        self._telling = asyncio.create_task(self._say())

    def _tell_again(self) -> None:
        del self._timers["words"]
        if self._stale:
            self._tell()

    async def _say(self) -> None:
        try:
            overdue = await self._overdue(self._clock.now())
        except Exception:
            log.exception("status_line_failed")
            return
        at = self._scheduler.next_wake_at
        wake = f"next wake {instant_text(at)}" if at is not None else "nothing to wake for"
        hosts = self._scheduler.hosts.count
        note = f"; {self.note}" if self.note else ""
        self._manager.status(f"{wake}; {overdue} overdue; {hosts} agent hosts connected{note}")

    async def _overdue(self, now: Instant) -> int:
        owners = await self._reader.owners()
        return sum([(await self._reader.counts(owner, now)).overdue for owner in owners])
