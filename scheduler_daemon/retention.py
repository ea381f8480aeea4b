"""Removes what has been kept long enough, beside the loop; what that is, is store/retention.py."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable

from scheduler_daemon.clock import TRUSTED_AFTER_SECONDS, Clock, Handle, trusted
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import Instant
from scheduler_daemon.store.lookups import START, Place
from scheduler_daemon.store.retention import (
    Gone,
    Keep,
    Part,
    Pass,
    ended_reminders,
    gone_keys,
    old_receipts,
    receipts_beyond,
)
from scheduler_daemon.store.store import Store

LOOK_SECONDS = 3600.0
"""At most one look in so long; it rides on rounds that happen anyway."""

PASSES: tuple[Pass, ...] = (receipts_beyond, old_receipts, ended_reminders, gone_keys)

log = get_logger(__name__)


class Retention:
    """Removes slice by slice, under a clock that can be trusted, when the loop comes round.

    An idle process is woken for it at most once after a start or a setting of the clock, and only
    where there is something to remove. `removed` hears of each reminder when that is on disk.
    """

    def __init__(
        self, clock: Clock, store: Store, keep: Keep, removed: Callable[[Gone], None]
    ) -> None:
        self._clock = clock
        self._store = store
        self.keep = keep
        self._removed = removed
        self._look_from = clock.monotonic()
        self._marks: dict[Pass, Place] = dict.fromkeys(PASSES, START)
        self._task: asyncio.Task[None] | None = None
        self._timer: Handle | None = None

    def look(self) -> None:
        """The loop has come round: begin, when it is time for a look."""
        if self._clock.monotonic() >= self._look_from:
            self._begin()

    def look_again(self) -> None:
        """The clock was set: the next round looks, whenever the last one did."""
        self._look_from = self._clock.monotonic()

    async def stop(self) -> None:
        """Leave what is not done to the next start."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._look_from = self._clock.monotonic() + LOOK_SECONDS
            self._task = asyncio.create_task(self._run(), name="retention")

    async def _run(self) -> None:
        removed: Counter[str] = Counter()
        try:
            for each in PASSES:
                if not await self._pass(each, removed):
                    self._wait_for_trust()
                    break
        except Exception:
            log.exception("retention_failed")  # and the next look tries again
        if removed:
            log.info("retention_removed", **removed)

    async def _pass(self, act: Pass, removed: Counter[str]) -> bool:
        """Whether the pass came to its end; there is something to remove where it did not."""
        done = False
        while not done:
            now = self._clock.now()
            where = (self.keep, now, self._marks[act])
            # Only what is found there takes the lock of whoever writes.
            part = await self._store.reader.upkeep(_slice(act, *where, remove=False))
            if part.found:
                if not trusted(self._clock):  # asked after `now`, of which it then speaks too
                    return False
                start = self._clock.monotonic()
                part = await self._store.upkeep(_slice(act, *where, remove=True))
                await self._rest(self._clock.monotonic() - start)
                removed[act.__name__] += part.found
                self._tell(part)
            self._marks[act] = part.mark
            done = part.done
        return True

    async def _rest(self, seconds: float) -> None:
        """Leave the disk to others for as long as a slice had it."""
        if seconds > 0:
            rested = asyncio.Event()
            self._clock.call_later(seconds, rested.set)
            await rested.wait()

    def _tell(self, part: Part) -> None:
        for gone in part.gone:
            self._removed(gone)

    def _wait_for_trust(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        seconds = TRUSTED_AFTER_SECONDS - self._clock.steady()
        self._timer = self._clock.call_later(seconds, self._begin)


def _slice(
    act: Pass, keep: Keep, now: Instant, mark: Place, *, remove: bool
) -> Callable[[sqlite3.Connection], Part]:
    return lambda conn: act(conn, keep, now, mark, remove)
