"""Runs the store's upkeep beside the loop, slice by slice; what a slice does is store/upkeep.py."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable

from scheduler_daemon.clock import TRUSTED_AFTER_SECONDS, Clock, Handle, trusted
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import Key, Reminder
from scheduler_daemon.planning import Planner
from scheduler_daemon.store.mending import BEFORE_ALL, is_named
from scheduler_daemon.store.store import Store
from scheduler_daemon.store.upkeep import (
    Slice,
    any_beyond,
    any_corrected,
    correct_ahead,
    end_beyond,
    keep_corrected,
    put_back,
    recompute_zones,
)
from scheduler_daemon.troubles import RETRY_SECONDS, Unfailing

log = get_logger(__name__)


class Upkeep:
    """Computes targets again: those of a clock that was wrong, and those of other zone data.

    Before that, what an edit by hand left wrong is put right; after it, once the clock can be
    trusted, corrections are kept and what lies beyond its end ends. `changed` hears of each
    Session whose target moved, `lost` when that is not known, `ended` of each reminder that ended.
    How far the zones are done is the planner's `zone_mark`: it computes what is about to be sent
    itself.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        planner: Planner,
        unfailing: Unfailing,
        changed: Callable[[Key], None],
        lost: Callable[[], None],
        ended: Callable[[Reminder], None],
    ) -> None:
        self._clock = clock
        self._store = store
        self._planner = planner
        self._unfailing = unfailing
        self._changed = changed
        self._lost = lost
        self._ended = ended
        self._task: asyncio.Task[None] | None = None
        self._timer: Handle | None = None
        self._again = False
        self._unchecked = True

    def start(self) -> None:
        """Begin, or begin again when it is done with what it does."""
        self._again = True
        if self._task is None or self._task.done():
            run = self._unfailing.run("upkeep_failed", self._run, longest=RETRY_SECONDS)
            self._task = asyncio.create_task(run, name="upkeep")

    def check(self) -> None:
        """Begin with what an edit by hand may have left wrong."""
        self._unchecked = True
        self.start()

    async def stop(self) -> None:
        """Leave what is not done to the next start."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._again:
            self._again = False
            if self._timer is not None:
                self._timer.cancel()
            try:
                if self._unchecked:
                    await self._check()
                await self._correct_ahead()
                await self._put_back()
                await self._recompute_zones()
                await self._rely_on_clock()
            except BaseException:
                self._again = True
                self._lost()
                raise

    async def _check(self) -> None:
        self._unchecked = False  # what is edited meanwhile is seen at the next
        try:
            await self._put_right()
        except BaseException:
            self._unchecked = True
            raise

    async def _put_right(self) -> None:
        """Compare the tables of Sessions and owners with the reminders."""
        reader = self._store.reader
        place: Key | None = BEFORE_ALL
        while place is not None:
            wrong, place = await reader.wrong_sessions(place)
            await self._mend(wrong)
        wrong, owners = await reader.wrong_elsewhere()
        await self._mend(wrong)
        if owners:
            await self._store.count_owners(owners)

    async def _mend(self, keys: list[Key]) -> None:
        if keys:
            await self._store.mend(keys)
        for key in filter(is_named, keys):
            self._changed(key)

    async def _correct_ahead(self) -> None:
        moved = 0
        done = False
        while not done:
            part = await self._slice(correct_ahead(self._clock.now()))
            moved += len(part.moved)
            done = part.done
        if moved:
            log.warning("targets_of_a_fast_clock_corrected", reminders=moved)

    async def _put_back(self) -> None:
        moved = 0
        done = False
        while not done:
            part = await self._slice(put_back(self._clock.now()))
            moved += len(part.moved)
            done = part.done
        if moved:
            log.warning("targets_of_a_slow_clock_put_back", reminders=moved)

    async def _recompute_zones(self) -> None:
        moved = 0
        while (mark := self._planner.zone_mark) is not None:
            # What came due since the start rests on the older data as well.
            ahead_of = min(self._planner.started_at, self._clock.now())
            part = await self._slice(recompute_zones(mark, ahead_of))
            moved += len(part.moved)
            self._planner.zone_mark = None if part.done else part.mark
            if part.done:
                log.info("targets_recomputed_for_zone_data", moved=moved)

    async def _rely_on_clock(self) -> None:
        """Do what waits for a clock that can be trusted, or come back for it."""
        beyond = await self._store.reader.upkeep(any_beyond)
        corrected = await self._store.reader.upkeep(any_corrected(self._clock.now()))
        if not trusted(self._clock):
            if beyond or corrected:
                seconds = TRUSTED_AFTER_SECONDS - self._clock.steady()
                self._timer = self._clock.call_later(seconds, self.start)
            return
        if corrected:
            await self._keep_corrected()
        if beyond:
            await self._end_beyond()

    async def _keep_corrected(self) -> None:
        done = False
        while not done:
            done = (await self._slice(keep_corrected(self._clock.now()))).done

    async def _end_beyond(self) -> None:
        done = False
        while not done:
            part = await self._slice(end_beyond(self._clock.now()))
            for reminder in part.ended:
                self._ended(reminder)
            done = part.done

    async def _slice(self, act: Callable[[sqlite3.Connection], Slice]) -> Slice:
        part = await self._store.upkeep(act)
        left = await self._store.set_aside(part.bad) if part.bad else []
        for key in part.moved + left:
            self._changed(key)
        return part
