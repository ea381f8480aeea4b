"""Runs the store's upkeep beside the loop, slice by slice; what a slice does is store/upkeep.py."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable

from scheduler_daemon.clock import Clock
from scheduler_daemon.log import get_logger
from scheduler_daemon.sending import Sender
from scheduler_daemon.server.hosts import Key
from scheduler_daemon.store.store import Store
from scheduler_daemon.store.upkeep import Slice, correct_ahead, recompute_zones

RETRY_SECONDS = 1.0
"""How long upkeep that failed waits before it begins again."""

log = get_logger(__name__)


class Upkeep:
    """Computes targets again: those of a clock that ran ahead, and those of other zone data.

    `changed` hears of each Session whose target moved. How far the zones are done is the
    sender's `zone_mark`, since it computes a record again that it is about to send.
    """

    def __init__(
        self, clock: Clock, store: Store, sender: Sender, changed: Callable[[Key], None]
    ) -> None:
        self._clock = clock
        self._store = store
        self._sender = sender
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def start(self) -> None:
        """Begin, or begin again when it is done with what it does."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="upkeep")

    def stop(self) -> None:
        """Leave what is not done to the next start."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._again:
            self._again = False
            try:
                await self._correct_ahead()
                await self._recompute_zones()
            except Exception:
                log.exception("upkeep_failed")
                self._clock.call_later(RETRY_SECONDS, self.start)

    async def _correct_ahead(self) -> None:
        moved = 0
        done = False
        while not done:
            part = await self._slice(correct_ahead(self._clock.now()))
            moved += len(part.moved)
            done = part.done
        if moved:
            log.warning("targets_of_a_fast_clock_corrected", reminders=moved)

    async def _recompute_zones(self) -> None:
        moved = 0
        while self._sender.zone_mark is not None:
            part = await self._slice(recompute_zones(self._sender.zone_mark, self._clock.now()))
            moved += len(part.moved)
            self._sender.zone_mark = None if part.done else part.mark
            if part.done:
                log.info("targets_recomputed_for_zone_data", moved=moved)

    async def _slice(self, act: Callable[[sqlite3.Connection], Slice]) -> Slice:
        part = await self._store.upkeep(act)
        if part.bad:
            await self._store.set_aside(part.bad)
        for key in part.moved:
            self._changed(key)
        return part
