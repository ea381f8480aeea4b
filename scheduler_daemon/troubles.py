"""What goes wrong inside: counted, and logged so that no repetition becomes a storm of lines."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import random
from typing import Any, ParamSpec, TypeVar

from scheduler_daemon.clock import Clock
from scheduler_daemon.delivery.backoff import LONGEST_SECONDS, pause
from scheduler_daemon.errors import SchedulerError
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import Key

RETRY_SECONDS = 1.0
"""How long it waits before what failed is tried again."""

KINDS_KEPT = 100
"""Kinds of lines of which it is remembered when they were written."""

P = ParamSpec("P")
T = TypeVar("T")

log = get_logger(__name__)


@dataclass(slots=True)
class _Said:
    at: float  # monotonic seconds
    lines: int = 1
    left_out: int = 0


class Troubles:
    """Counts defects, and writes lines about what may repeat without end.

    A line of one kind is written at once, and again after a pause that doubles from 1 s to 5
    minutes; `left_out` of it says how many were not written in between. `count` is the number of
    defects met: a file or a disk that fails is none of ours. `monotonic` gives seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._said: OrderedDict[tuple[object, ...], _Said] = OrderedDict()
        self.count = 0

    def met(self, event: str, error: BaseException, **ids: object) -> None:
        """Log what was caught; a defect is counted, and has its traceback in the line."""
        if isinstance(error, SchedulerError):
            if (more := self._say((event, error.code))) is not None:
                log.warning(event, code=error.code, **ids, **more)
            return
        self.count += 1
        kind = (event, type(error), _place(error))
        if (more := self._say(kind)) is not None:
            log.error(event, exc_info=error, **ids, **more)

    def told(self, event: str, reason: str) -> None:
        """Log what the world did; lines of one event and reason are alike."""
        if (more := self._say((event, reason))) is not None:
            log.error(event, reason=reason, **more)

    @contextmanager
    def caught(self, event: str, **ids: object) -> Iterator[None]:
        """Whatever is raised in here ends here."""
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            if asked_to_end(error):
                raise
            self.met(event, error, **ids)

    def kept_from(self, event: str, act: Callable[P, None]) -> Callable[P, None]:
        """`act`, of which nothing that it raises reaches its caller."""

        def kept(*args: P.args, **named: P.kwargs) -> None:
            with self.caught(event):
                act(*args, **named)

        return kept

    def _say(self, kind: tuple[object, ...]) -> dict[str, Any] | None:
        """What a line of this kind says beside itself; None when it is not written."""
        now = self._monotonic()
        said = self._said.get(kind)
        if said is None or now - said.at > 3 * LONGEST_SECONDS:
            self._said[kind] = _Said(now)
            if len(self._said) > KINDS_KEPT:
                self._said.popitem(last=False)
            return {}
        if now < said.at + pause(said.lines, 0.0):
            said.left_out += 1
            return None
        more = {"left_out": said.left_out} if said.left_out else {}
        said.at, said.lines, said.left_out = now, said.lines + 1, 0
        return more


class Confined:
    """Keeps what goes wrong for one Session to that Session, which `again` takes up soon."""

    def __init__(self, clock: Clock, troubles: Troubles, again: Callable[[Key], None]) -> None:
        self._clock = clock
        self._troubles = troubles
        self._again = again
        self._waiting: set[Key] = set()

    @contextmanager
    def to(self, key: Key) -> Iterator[None]:
        """What is raised in here ends here."""
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            if asked_to_end(error):
                raise
            self._troubles.met("session_failed", error, owner_uid=key[0], session_id=key[1])
            if key not in self._waiting:
                self._waiting.add(key)
                self._clock.call_later(RETRY_SECONDS, lambda: self._take_up(key))

    def _take_up(self, key: Key) -> None:
        self._waiting.discard(key)
        self._again(key)


class Unfailing:
    """Does what must not be left undone: again after pauses that grow, however often it takes."""

    def __init__(self, clock: Clock, troubles: Troubles) -> None:
        self._clock = clock
        self._troubles = troubles

    async def run(
        self,
        event: str,
        act: Callable[[], Awaitable[T]],
        *,
        longest: float = LONGEST_SECONDS,
        **ids: object,
    ) -> T:
        """What `act` gives; no pause before it is awaited again has more seconds than `longest`."""
        attempts = 0
        while True:
            try:
                return await act()
            except (Exception, asyncio.CancelledError) as error:
                if asked_to_end(error):
                    raise
                self._troubles.met(event, error, **ids)
            attempts += 1
            over = asyncio.Event()
            timer = self._clock.call_later(min(_jittered(attempts), longest), over.set)
            try:
                await over.wait()
            finally:
                timer.cancel()

    def call(self, event: str, act: Callable[[], object]) -> None:
        """Call `act` now, and again from timers where it raises."""
        self._attempt(event, act, 1)

    def _attempt(self, event: str, act: Callable[[], object], attempts: int) -> None:
        done = False
        with self._troubles.caught(event):
            act()
            done = True
        if not done:
            again = partial(self._attempt, event, act, attempts + 1)
            self._clock.call_later(_jittered(attempts), again)


def _jittered(attempts: int) -> float:
    return pause(attempts, random())  # noqa: S311  jitter, no secret


def asked_to_end(error: BaseException) -> bool:
    """Whether somebody cancels this task; a cancellation that went astray is a defect like any."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _place(error: BaseException) -> tuple[str, int] | None:
    """Where it was raised."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return None if step is None else (step.tb_frame.f_code.co_filename, step.tb_lineno)
