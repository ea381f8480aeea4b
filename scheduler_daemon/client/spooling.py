"""What stands between the daemon's answer and `deliver` in a host with a queue on disk."""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NoReturn

from scheduler_daemon import wall
from scheduler_daemon.client.answers import (
    Accept,
    Admitted,
    Busy,
    Deliver,
    Gone,
    NotDelivered,
    Outcome,
)
from scheduler_daemon.client.spool import LONGEST_PAUSE, Message, Spool
from scheduler_daemon.wire.shapes import Followup

BUSY_PAUSE = dt.timedelta(seconds=10)
FIRST_PAUSE = dt.timedelta(seconds=30)
"""After the first failure; each later pause is four times as long, up to LONGEST_PAUSE."""
MAX_FAILURES = 6
"""After so many the message is kept as failed, an hour and three quarters after the first."""

_LOOK_SECONDS = 60.0
"""The longest wait for an instant: the clock may be set, and the machine may sleep."""
_TROUBLE_SECONDS = 5.0
"""Before the disk is tried again."""
_REASON_LENGTH = 300

_LOGGER = logging.getLogger("scheduler_daemon.client")


class Spooling:
    """Admits follow-ups to `spool` and gives them to `deliver` later, in order: one at a time in
    each Session and at most `max_parallel` at once.

    `accept` looks at a follow-up before it is queued, and says what messages it becomes (itself,
    where nothing is to be cut apart), or Busy or Gone. `ready` is called with a Session that was
    answered busy and is free.
    """

    def __init__(
        self,
        spool: Spool,
        accept: Accept | None,
        deliver: Deliver,
        max_parallel: int,
        ready: Callable[[str], None],
    ) -> None:
        if max_parallel < 1:
            raise ValueError("max_parallel is at least 1")
        self._spool = spool
        self._accept = accept
        self._deliver = deliver
        self._max_parallel = max_parallel
        self._ready = ready
        self._woken = asyncio.Event()
        self._attempts: set[asyncio.Task[None]] = set()
        self._turned_away: set[str] = set()

    def admit(self, followup: Followup) -> Outcome:
        """What the daemon is answered; an admission is on disk by then, or was before."""
        known = self._spool.number_of(followup)
        if known is not None:
            return Admitted(str(known))
        messages = [followup] if self._accept is None else self._accept(followup)
        if isinstance(messages, Busy | Gone):
            return messages
        number = self._spool.admit(messages, wall.now())
        if number is None:
            self._turned_away.add(followup["session_id"])
            return Busy()
        self._woken.set()
        return Admitted(str(number))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Deliver until left; what `deliver` is doing then is cancelled, and comes again.

        Raises SpoolRefused where another host has the queue.
        """
        loop = asyncio.get_running_loop()
        bell = self._spool.hold()
        loop.add_reader(bell, self._rung)
        working = asyncio.create_task(self._run())
        try:
            yield
        finally:
            loop.remove_reader(bell)
            tasks = {working, *self._attempts}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._spool.bell.release()

    def _rung(self) -> None:
        self._spool.bell.quiet()
        self._woken.set()

    async def _run(self) -> NoReturn:
        await self._written(self._spool.put_back)
        while True:
            self._woken.clear()
            try:
                seconds = self._start_due(wall.now())
                self._call_back()
            except sqlite3.Error as error:
                _LOGGER.error("the queue %s cannot be read: %s", self._spool.path, error)
                seconds = _TROUBLE_SECONDS
            except Exception:
                # A row that was edited by hand: what is admitted must not rest for it.
                _LOGGER.exception("the queue %s cannot be worked through", self._spool.path)
                seconds = _TROUBLE_SECONDS
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), seconds)

    def _start_due(self, now: dt.datetime) -> float | None:
        """Start what may start; the seconds until more may, None where only an event tells."""
        self._spool.prune(now)
        while len(self._attempts) < self._max_parallel:
            message = self._spool.begin(now)
            if message is None:
                return self._seconds_until_due(now)
            task = asyncio.create_task(self._attempt(message))
            self._attempts.add(task)
            task.add_done_callback(self._attempted)
        return None

    def _call_back(self) -> None:
        """Tell of each Session that was answered busy and has nothing left to wait for."""
        for session_id in [each for each in self._turned_away if not self._spool.is_occupied(each)]:
            self._turned_away.discard(session_id)
            self._ready(session_id)

    def _seconds_until_due(self, now: dt.datetime) -> float | None:
        due = self._spool.next_due()
        if due is None:
            return None
        seconds = (dt.datetime.fromisoformat(due) - now).total_seconds()
        return min(max(seconds, 0.0), _LOOK_SECONDS)

    def _attempted(self, task: asyncio.Task[None]) -> None:
        self._attempts.discard(task)
        self._woken.set()

    async def _attempt(self, message: Message) -> None:
        """Deliver a message once and write what came of it."""
        await self._written(await self._delivered(message))

    async def _delivered(self, message: Message) -> Callable[[], None]:
        """Deliver; what is to be written about it."""
        number = message.number
        followup: Followup = {**message.followup, "attempt": message.attempts}
        try:
            outcome = self._deliver(followup)
            if inspect.isawaitable(outcome):
                outcome = await outcome
            if isinstance(outcome, Gone):
                reason = _storable(outcome.reason or "the Session is not known")
                return lambda: self._spool.end(number, "unknown", wall.now(), reason)
            if isinstance(outcome, Busy):
                return partial(self._put_off_busy, number, outcome)
            return lambda: self._spool.end(number, "done", wall.now())
        except NotDelivered as failure:
            return partial(self._failed, message, failure.reason, again=failure.again)
        except Exception as defect:
            _LOGGER.exception("message %d could not be delivered", number)
            reason = f"{type(defect).__name__}: {defect}"
            return partial(self._failed, message, reason, again=True)

    def _put_off_busy(self, number: int, busy: Busy) -> None:
        seconds = busy.retry_after_seconds
        pause = BUSY_PAUSE if seconds is None else dt.timedelta(seconds=seconds)
        now = wall.now()
        self._spool.put_off(number, "busy", now + pause, now, "the Session is busy")

    def _failed(self, message: Message, reason: str, *, again: bool) -> None:
        now, reason = wall.now(), _storable(reason)
        if again and message.failures + 1 < MAX_FAILURES:
            pause = min(FIRST_PAUSE * 4**message.failures, LONGEST_PAUSE)
            self._spool.put_off(message.number, "failed", now + pause, now, reason)
        else:
            self._spool.end(message.number, "failed", now, reason)

    async def _written(self, write: Callable[[], None]) -> None:
        """Write, again and again while the disk fails: what was done must not be done twice."""
        while True:
            try:
                return write()
            except sqlite3.Error as error:
                _LOGGER.error("the queue %s cannot be written: %s", self._spool.path, error)
                await asyncio.sleep(_TROUBLE_SECONDS)


def _storable(reason: str) -> str:
    """As much of it as is kept; half a surrogate pair, which no file takes, is written out."""
    return reason[:_REASON_LENGTH].encode("utf-8", "backslashreplace").decode()
