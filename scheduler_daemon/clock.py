"""The clocks of the daemon's process, its one wall-clock wait, and what tells a set clock.

Nothing here knows what is waited for. `tests/support/clock.py` has the clock that tests turn.
"""

from __future__ import annotations

import asyncio
import ctypes
import datetime as dt
import errno
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from scheduler_daemon.model import Instant

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000
TRUSTED_AFTER_SECONDS = 600.0
SEGMENT_SECONDS = 30.0
"""The longest wait without a look at the clock where the kernel has no timer for it."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_READING_NS = 100 * MILLISECOND_NS
# The year 2255: no Linux clock can be set that far (settimeofday stops at 2232), and it still
# fits the 64 bits of nanoseconds that the kernel counts in (the year 2262).
_FAR_NS = 9_000_000_000 * SECOND_NS
# fcntl.h and sys/timerfd.h; Python names them from 3.13 on.
_TFD_NONBLOCK = os.O_NONBLOCK
_TFD_CLOEXEC = os.O_CLOEXEC
_TFD_TIMER_ABSTIME = 1
_TFD_TIMER_CANCEL_ON_SET = 2


class Handle(Protocol):
    """A callback that has not run yet."""

    def cancel(self) -> None:
        """Keep the callback from running; nothing when it has run or was cancelled."""


class Clock(Protocol):
    """What the daemon may know of time.

    `source` names how `wait` waits: `timerfd`, `segments` or, in tests, `manual`.
    """

    source: str

    def now(self) -> Instant:
        """The wall clock: UTC, cut (not rounded) to whole milliseconds."""

    def monotonic(self) -> float:
        """Seconds since some fixed point, never going back; a suspended machine's do not count."""

    def stepped(self) -> float:
        """Seconds by which the wall clock was set since the last call that told of a step.

        Positive for forward. Measured as wall clock minus CLOCK_BOOTTIME: a suspend is no step,
        and neither is slewing (adjtime, NTP), which bends both alike. Less than one second in
        all is 0.0 and stays in account: two settings by 0.6 s are told as 1.2 at the second.
        The first call counts from the making of the clock.
        """

    def steady(self) -> float:
        """Seconds of monotonic time since the clock was made, or set by more than an hour.

        A setting counts from the call that notices it: ask after each.
        """

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Handle:
        """Call `callback` in the running event loop after `seconds` of monotonic time."""

    async def wait(self, until: Instant | None, woken: asyncio.Event) -> None:
        """Return when the wall clock has reached `until`, it was set, or `woken` is set.

        None for `until` waits for the other two. A clock that was set while nobody waited ends
        the next wait at once; so may a resume from suspend. A return says nothing about which
        of them it was: look at the clock again. Never early for `until`. One wait at a time.
        """


class StepMeter:
    """Tells settings of the clock, of one second and more, from wall clock minus boot clock."""

    def __init__(self, offset_ns: int) -> None:
        self._offset_ns = offset_ns

    def step(self, offset_ns: int) -> float:
        """Seconds since the last reported step, or 0.0 while they are less than one."""
        moved = offset_ns - self._offset_ns
        if abs(moved) < SECOND_NS:
            return 0.0
        self._offset_ns = offset_ns
        return moved / SECOND_NS


class SteadyMeter:
    """Tells how long the wall clock has gone on without being set by more than an hour."""

    def __init__(self, offset_ns: int, monotonic: float) -> None:
        self._offset_ns = offset_ns
        self._since = monotonic

    def seconds(self, offset_ns: int, monotonic: float) -> float:
        """Seconds since the start or the last such setting, noticed now at the latest."""
        if abs(offset_ns - self._offset_ns) > 3600 * SECOND_NS:
            self._since = monotonic
        self._offset_ns = offset_ns
        return monotonic - self._since


def trusted(clock: Clock) -> bool:
    """Whether what cannot be undone may rest on the clock: it has been steady for ten minutes.

    A machine without a clock of its own starts somewhere and is put right soon.
    """
    return clock.steady() >= TRUSTED_AFTER_SECONDS


class KernelTimer(ABC):
    """An absolute timer on CLOCK_REALTIME that the kernel cancels when that clock is set.

    See timerfd_create(2). OSError when the kernel lacks it or refuses a part of it.
    """

    def __init__(self) -> None:
        self.fd = self._create(time.CLOCK_REALTIME, _TFD_NONBLOCK | _TFD_CLOEXEC)
        try:
            self.arm(None)  # some kernels refuse only here; armed, it notices settings from now on
        except OSError:
            self.close()
            raise

    def arm(self, until_ns: int | None) -> bool:
        """Let `fd` become readable at `until_ns`, or far ahead for None.

        False when the clock was set since the last look; it is armed all the same.
        """
        at = _FAR_NS if until_ns is None else min(until_ns, _FAR_NS)
        try:
            self._set(_TFD_TIMER_ABSTIME | _TFD_TIMER_CANCEL_ON_SET, at)
        except OSError as error:
            if error.errno != errno.ECANCELED:
                raise
            return False
        return True

    def was_set(self) -> bool:
        """Take what made `fd` readable: True when the clock was set, False when time was up."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.ECANCELED:
                raise
            return True
        return False

    def close(self) -> None:
        os.close(self.fd)

    @abstractmethod
    def _create(self, clock: int, flags: int) -> int:
        """timerfd_create(2): a descriptor."""

    @abstractmethod
    def _set(self, flags: int, at_ns: int) -> None:
        """timerfd_settime(2): once, at an instant in nanoseconds since 1970."""


class OsTimer(KernelTimer):
    """Through Python's own functions, which came with 3.13; AttributeError where they are not."""

    def _create(self, clock: int, flags: int) -> int:
        create: Callable[..., int] = getattr(os, "timerfd_create")  # noqa: B009 - unknown to 3.11
        return create(clock, flags=flags)

    def _set(self, flags: int, at_ns: int) -> None:
        settime: Callable[..., object] = getattr(os, "timerfd_settime_ns")  # noqa: B009 - as above
        settime(self.fd, flags=flags, initial=at_ns)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class CtypesTimer(KernelTimer):
    """Through the C library; AttributeError where it has no such function."""

    def __init__(self) -> None:
        if ctypes.sizeof(ctypes.c_long) < 8:
            # There the plain symbol takes 32-bit seconds, and the other one's name varies.
            raise OSError(errno.ENOSYS, "no 64-bit timerfd_settime")
        self._libc = ctypes.CDLL(None, use_errno=True)
        super().__init__()

    def _create(self, clock: int, flags: int) -> int:
        return _checked(int(self._libc.timerfd_create(clock, flags)))

    def _set(self, flags: int, at_ns: int) -> None:
        spec = _Itimerspec(_Timespec(0, 0), _Timespec(*divmod(at_ns, SECOND_NS)))
        _checked(int(self._libc.timerfd_settime(self.fd, flags, ctypes.byref(spec), None)))


def _checked(result: int) -> int:
    """The result of a C function, or the OSError that its errno stands for when negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def kernel_timer() -> KernelTimer | None:
    """The timer of this kernel, or None where there is none (gVisor, some seccomp filters)."""
    for timer in (OsTimer, CtypesTimer):
        try:
            return timer()
        except (AttributeError, OSError):
            continue
    return None


class SystemClock:
    """The real clock. It outlives event loops (a loop knows of it during `wait` only).

    `open_timer` gives the timer to wait with, or None to wait in segments of at most
    `SEGMENT_SECONDS`, each of which looks at the clock again; these notice a setting of one
    second or more, and without an `until` they do not wake at all. Close the clock at the end.
    """

    def __init__(self, open_timer: Callable[[], KernelTimer | None] = kernel_timer) -> None:
        self._timer = open_timer()
        self.source = "timerfd" if self._timer else "segments"
        self._meter = StepMeter(_offset_ns())
        self._segment_meter = StepMeter(_offset_ns())
        self._steady_meter = SteadyMeter(_offset_ns(), self.monotonic())
        self._waiting = False

    def now(self) -> Instant:
        return _EPOCH + dt.timedelta(milliseconds=time.time_ns() // MILLISECOND_NS)

    def monotonic(self) -> float:
        return time.monotonic()

    def stepped(self) -> float:
        return self._meter.step(_offset_ns())

    def steady(self) -> float:
        return self._steady_meter.seconds(_offset_ns(), self.monotonic())

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Handle:
        return asyncio.get_running_loop().call_later(seconds, callback)

    async def wait(self, until: Instant | None, woken: asyncio.Event) -> None:
        if self._waiting:  # the loop would forget the first one's descriptor
            raise RuntimeError("somebody waits on this clock already")
        self._waiting = True
        turn = self._segment if self._timer is None else self._timed
        try:
            while not woken.is_set() and (until is None or self.now() < until):
                if await turn(until, woken):
                    return
        finally:
            self._waiting = False

    def close(self) -> None:
        """Give the descriptor back; waiting again is a mistake. A second call does nothing."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.close()

    async def _timed(self, until: Instant | None, woken: asyncio.Event) -> bool:
        """Wait with the kernel's timer; True when the clock was set."""
        timer = self._timer
        assert timer is not None
        if not timer.arm(None if until is None else _nanoseconds(until)):
            return True
        return await _readable(timer.fd, woken) and timer.was_set()

    async def _segment(self, until: Instant | None, woken: asyncio.Event) -> bool:
        """Wait for one segment; True, without waiting, when the clock was set since the last."""
        if self._segment_meter.step(_offset_ns()):
            return True
        seconds = None
        if until is not None:
            seconds = min(SEGMENT_SECONDS, (until - self.now()).total_seconds())
        try:
            async with asyncio.timeout(seconds):
                await woken.wait()
        except TimeoutError:
            pass
        return False


async def _readable(fd: int, woken: asyncio.Event) -> bool:
    """True when `fd` became readable, False when `woken` was set before it."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        loop.remove_reader(fd)  # it stays readable, and one interruption is enough
        waiting.reschedule(0.0)  # long past: now

    try:
        async with asyncio.timeout(None) as waiting:
            loop.add_reader(fd, interrupt)
            await woken.wait()
    except TimeoutError:
        return True
    finally:
        loop.remove_reader(fd)
    return False


def _nanoseconds(instant: Instant) -> int:
    """Since 1970, exactly; a float would not be."""
    return (instant - _EPOCH) // dt.timedelta(microseconds=1) * 1000


def _offset_ns() -> int:
    """Wall clock minus boot clock, read close together: a suspend in between would look a step."""
    while True:
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        wall = time.time_ns()
        if time.clock_gettime_ns(time.CLOCK_BOOTTIME) - before < _READING_NS:
            return wall - before
