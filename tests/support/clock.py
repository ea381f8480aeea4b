"""The clock that tests turn: nothing moves unless `advance`, `jump` or `suspend` is called."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field

from scheduler_daemon.clock import MILLISECOND_NS, SECOND_NS, SteadyMeter, StepMeter
from scheduler_daemon.model import Instant

START = dt.datetime(2026, 1, 1, 12, 0, 0, tzinfo=dt.UTC)


@dataclass(eq=False)
class _Call:
    """One `call_later`; it runs once, inside `advance`, unless it was cancelled."""

    at_ns: int
    callback: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass(eq=False)
class _Waiter:
    """One `wait` in progress, and the timeout that ends it."""

    until: Instant | None
    timeout: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))


class ManualClock:
    """A `Clock` with whole nanoseconds inside, so that any sum of advances is exact.

    Movements are synchronous: callbacks have run and waiters are woken (they go on at the
    loop's next turn) when they return. Unlike the real one it takes any number of waits.
    """

    source = "manual"

    def __init__(self, start: Instant = START) -> None:
        self._start = start
        self._wall_ns = 0
        self._monotonic_ns = 0
        self._boot_ns = 0
        self._meter = StepMeter(0)
        self._steady_meter = SteadyMeter(0, 0.0)
        self._calls: list[_Call] = []
        self._waiters: list[_Waiter] = []
        self._set_unseen = False

    def now(self) -> Instant:
        return self._start + dt.timedelta(milliseconds=self._wall_ns // MILLISECOND_NS)

    def monotonic(self) -> float:
        return self._monotonic_ns / SECOND_NS

    def stepped(self) -> float:
        return self._meter.step(self._wall_ns - self._boot_ns)

    def steady(self) -> float:
        return self._steady_meter.seconds(self._wall_ns - self._boot_ns, self.monotonic())

    def call_later(self, seconds: float, callback: Callable[[], object]) -> _Call:
        call = _Call(self._monotonic_ns + _ns(seconds), callback)
        self._calls.append(call)
        return call

    async def wait(self, until: Instant | None, woken: asyncio.Event) -> None:
        if woken.is_set() or (until is not None and self.now() >= until):
            return
        if self._set_unseen:
            self._set_unseen = False
            return
        waiter = _Waiter(until)
        try:
            async with waiter.timeout:
                self._waiters.append(waiter)
                await woken.wait()
        except TimeoutError:
            return
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks: each callback runs at its own instant, in their order."""
        end_ns = self._monotonic_ns + _ns(seconds)
        while call := self._next_call(end_ns):
            self._calls.remove(call)
            self._pass(call.at_ns)
            call.callback()
        self._pass(end_ns)

    def jump(self, seconds: float) -> None:
        """Set the wall clock, forward or back (negative); every waiter learns of it."""
        self._wall_ns += _ns(seconds)
        self._set_unseen = not self._waiters
        self._wake(self._waiters)

    def suspend(self, seconds: float) -> None:
        """Let a suspended machine's time pass: the monotonic clock stands, the others go on."""
        self._wall_ns += _ns(seconds)
        self._boot_ns += _ns(seconds)
        self._wake_due()

    @property
    def waiting(self) -> list[Instant | None]:
        """What is waited for at the moment, None for a wait without an instant."""
        return [waiter.until for waiter in self._waiters]

    @property
    def pending_calls(self) -> int:
        """How many callbacks have neither run nor been cancelled."""
        return sum(not call.cancelled for call in self._calls)

    def _next_call(self, end_ns: int) -> _Call | None:
        self._calls = [call for call in self._calls if not call.cancelled]
        due = [call for call in self._calls if call.at_ns <= end_ns]
        return min(due, key=lambda call: call.at_ns, default=None)

    def _pass(self, monotonic_ns: int) -> None:
        passed = max(0, monotonic_ns - self._monotonic_ns)
        self._monotonic_ns += passed
        self._wall_ns += passed
        self._boot_ns += passed
        self._wake_due()

    def _wake_due(self) -> None:
        now = self.now()
        self._wake([w for w in self._waiters if w.until is not None and w.until <= now])

    def _wake(self, waiters: list[_Waiter]) -> None:
        self._waiters = [waiter for waiter in self._waiters if waiter not in waiters]
        for waiter in waiters:
            waiter.timeout.reschedule(0.0)


def _ns(seconds: float) -> int:
    return round(seconds * SECOND_NS)
