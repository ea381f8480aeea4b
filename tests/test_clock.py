"""The clock of the process: never early, awake for a set clock, idle otherwise."""

from __future__ import annotations

import asyncio
import ctypes
import datetime as dt
import errno
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from scheduler_daemon import clock as clock_module
from scheduler_daemon.clock import (
    SEGMENT_SECONDS,
    Clock,
    CtypesTimer,
    KernelTimer,
    OsTimer,
    StepMeter,
    SystemClock,
    kernel_timer,
)
from scheduler_daemon.model import Instant
from tests.support.clock import START, ManualClock

DEADLINE = 10.0
MS = dt.timedelta(milliseconds=1)
SECOND_NS = 1_000_000_000


class StandIn:
    """The two functions of Python 3.13, made from ctypes where they do not exist."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)

    def timerfd_create(self, clock: int, /, *, flags: int) -> int:
        return int(self.libc.timerfd_create(clock, flags))

    def timerfd_settime_ns(self, fd: int, /, *, flags: int, initial: int) -> None:
        spec = (ctypes.c_long * 4)(0, 0, *divmod(initial, SECOND_NS))
        if self.libc.timerfd_settime(fd, flags, spec, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")


@pytest.fixture
def os_timerfd(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "timerfd_create"):
        stand_in = StandIn()
        monkeypatch.setattr(os, "timerfd_create", stand_in.timerfd_create, raising=False)
        monkeypatch.setattr(os, "timerfd_settime_ns", stand_in.timerfd_settime_ns, raising=False)


class SettableKernel(CtypesTimer):
    """A real timer, with settings of the clock told by hand."""

    set_on_arm = 0
    set_on_read = 0

    def _set(self, flags: int, at_ns: int) -> None:
        super()._set(flags, at_ns)  # as in the kernel: armed all the same
        if self.set_on_arm:
            self.set_on_arm -= 1
            raise OSError(errno.ECANCELED, "clock was set")

    def cancel(self) -> None:
        """As the kernel does for a set clock: readable, and the read fails."""
        self.set_on_read += 1
        super()._set(1, 1)

    def was_set(self) -> bool:
        if self.set_on_read:
            self.set_on_read -= 1
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(os, "read", failing(errno.ECANCELED))
                return super().was_set()
        return super().was_set()


def failing(number: int) -> Callable[..., bytes]:
    def read(fd: int, size: int) -> bytes:
        raise OSError(number, os.strerror(number))

    return read


@pytest.fixture(params=["os", "ctypes", "segments"])
def system_clock(request: pytest.FixtureRequest, os_timerfd: None) -> Iterator[SystemClock]:
    timers: dict[str, Callable[[], KernelTimer | None]] = {
        "os": OsTimer,
        "ctypes": CtypesTimer,
        "segments": lambda: None,
    }
    clock = SystemClock(timers[request.param])
    yield clock
    clock.close()


@pytest.fixture
def fake_kernel() -> Iterator[tuple[SystemClock, SettableKernel]]:
    timer = SettableKernel()
    clock = SystemClock(lambda: timer)
    yield clock, timer
    clock.close()


def never() -> asyncio.Event:
    return asyncio.Event()


async def started(task: asyncio.Task[None]) -> None:
    """Let `task` come to its wait."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()


def waiting(clock: Clock, until: Instant | None, woken: asyncio.Event) -> asyncio.Task[None]:
    return asyncio.create_task(clock.wait(until, woken))


class TestReading:
    def test_now_is_utc_cut_to_whole_milliseconds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(time, "time_ns", lambda: 1_786_064_400_123_999_999)
        with closing(SystemClock()) as clock:
            assert clock.now() == dt.datetime(2026, 8, 7, 1, 0, 0, 123_000, tzinfo=dt.UTC)

    def test_now_does_not_depend_on_the_machines_zone(
        self, monkeypatch: pytest.MonkeyPatch, system_clock: SystemClock
    ) -> None:
        monkeypatch.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()
        try:
            assert abs(system_clock.now() - dt.datetime.now(dt.UTC)) < dt.timedelta(seconds=5)
        finally:
            monkeypatch.undo()
            time.tzset()

    def test_the_monotonic_clock_is_that_of_the_event_loop(self, system_clock: SystemClock) -> None:
        before = time.monotonic()
        assert before <= system_clock.monotonic() <= time.monotonic()

    def test_a_fresh_clock_tells_of_no_step(self, system_clock: SystemClock) -> None:
        assert system_clock.stepped() == 0.0

    def test_wall_and_boot_clock_are_read_again_when_a_suspend_came_between(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        boots = iter([1, 1 + SECOND_NS, 2 * SECOND_NS, 2 * SECOND_NS])
        monkeypatch.setattr(time, "clock_gettime_ns", lambda _clock: next(boots))
        monkeypatch.setattr(time, "time_ns", lambda: 10 * SECOND_NS)
        assert clock_module._offset_ns() == 8 * SECOND_NS

    @pytest.mark.parametrize("seconds", [1.0, -1.0, 3600.0, -86400.0])
    def test_a_set_clock_is_told_once_with_its_direction(
        self, system_clock: SystemClock, monkeypatch: pytest.MonkeyPatch, seconds: float
    ) -> None:
        real = time.time_ns
        system_clock._meter = StepMeter(clock_module._offset_ns())
        monkeypatch.setattr(time, "time_ns", lambda: real() + int(seconds * 1.01 * SECOND_NS))
        assert system_clock.stepped() == pytest.approx(seconds * 1.01, abs=0.2)
        assert system_clock.stepped() == 0.0


class TestStepMeter:
    def test_less_than_a_second_is_no_step_but_adds_up(self) -> None:
        meter = StepMeter(0)
        assert meter.step(600_000_000) == 0.0
        assert meter.step(1_200_000_000) == 1.2
        assert meter.step(1_200_000_000) == 0.0

    def test_small_settings_both_ways_cancel_out(self) -> None:
        meter = StepMeter(0)
        assert [meter.step(offset) for offset in (900_000_000, 0, -900_000_000)] == [0.0] * 3
        assert meter.step(-SECOND_NS) == -1.0


class TestWaiting:
    async def test_a_wait_ends_at_its_instant_and_never_before(
        self, system_clock: SystemClock
    ) -> None:
        until = system_clock.now() + 30 * MS
        async with asyncio.timeout(DEADLINE):
            await system_clock.wait(until, never())
        assert system_clock.now() >= until

    async def test_an_instant_that_has_passed_does_not_wait(
        self, system_clock: SystemClock
    ) -> None:
        for until in (system_clock.now(), dt.datetime(1, 1, 1, tzinfo=dt.UTC)):
            async with asyncio.timeout(DEADLINE):
                await system_clock.wait(until, never())

    @pytest.mark.parametrize("until", [None, dt.datetime(9999, 12, 31, tzinfo=dt.UTC)])
    async def test_the_event_ends_a_wait_and_stays_set(
        self, system_clock: SystemClock, until: Instant | None
    ) -> None:
        woken = asyncio.Event()
        task = waiting(system_clock, until, woken)
        await started(task)
        woken.set()
        async with asyncio.timeout(DEADLINE):
            await task
        assert woken.is_set()

    async def test_an_event_that_is_set_already_does_not_wait(
        self, system_clock: SystemClock
    ) -> None:
        woken = asyncio.Event()
        woken.set()
        async with asyncio.timeout(DEADLINE):
            await system_clock.wait(None, woken)

    async def test_a_cancelled_wait_is_cancelled_and_the_clock_waits_again(
        self, system_clock: SystemClock
    ) -> None:
        task = waiting(system_clock, None, never())
        await started(task)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(DEADLINE):
            await system_clock.wait(system_clock.now() + 5 * MS, never())

    async def test_a_second_wait_at_the_same_time_is_refused(
        self, system_clock: SystemClock
    ) -> None:
        task = waiting(system_clock, None, never())
        await started(task)
        with pytest.raises(RuntimeError, match="already"):
            await system_clock.wait(None, never())
        task.cancel()

    def test_one_clock_serves_event_loops_one_after_another(
        self, system_clock: SystemClock
    ) -> None:
        for _ in range(3):
            asyncio.run(system_clock.wait(system_clock.now() + 2 * MS, never()))

    async def test_call_later_runs_in_the_loop_and_can_be_cancelled(
        self, system_clock: SystemClock
    ) -> None:
        ran = asyncio.Event()
        cancelled = asyncio.Event()
        system_clock.call_later(0.001, cancelled.set).cancel()
        system_clock.call_later(0.002, ran.set)
        async with asyncio.timeout(DEADLINE):
            await ran.wait()
        assert not cancelled.is_set()


class TestKernelTimer:
    async def test_both_ways_to_the_kernels_timer_are_called_timerfd(
        self, os_timerfd: None
    ) -> None:
        for timer in (OsTimer, CtypesTimer):
            with closing(SystemClock(timer)) as clock:
                assert clock.source == "timerfd"

    async def test_a_clock_that_is_set_ends_a_wait_with_and_without_an_instant(
        self, fake_kernel: tuple[SystemClock, SettableKernel]
    ) -> None:
        clock, timer = fake_kernel
        for until in (None, clock.now() + dt.timedelta(days=1)):
            task = waiting(clock, until, never())
            await started(task)
            timer.cancel()
            async with asyncio.timeout(DEADLINE):
                await task

    async def test_a_clock_that_was_set_between_waits_ends_the_next_at_once_and_only_that(
        self, fake_kernel: tuple[SystemClock, SettableKernel]
    ) -> None:
        clock, timer = fake_kernel
        timer.set_on_arm = 1
        async with asyncio.timeout(DEADLINE):
            await clock.wait(None, never())
        task = waiting(clock, None, never())
        await started(task)
        task.cancel()

    async def test_a_wake_before_the_instant_goes_on_waiting(
        self, fake_kernel: tuple[SystemClock, SettableKernel], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The clock was set back so that the timer's own end came too early for this wait."""
        clock, timer = fake_kernel
        woken = asyncio.Event()
        task = waiting(clock, clock.now() + dt.timedelta(days=1), woken)
        await started(task)
        for _ in range(3):
            CtypesTimer._set(timer, 1, 1)  # long past: fires at once
            reader = asyncio.Event()
            asyncio.get_running_loop().call_later(0.005, reader.set)
            await reader.wait()
            assert not task.done()
        woken.set()
        await task

    def test_a_timer_with_nothing_to_read_was_not_set(self, os_timerfd: None) -> None:
        for kind in (OsTimer, CtypesTimer):
            timer = kind()
            assert timer.arm(None)
            assert not timer.was_set()
            timer.close()

    def test_an_instant_beyond_the_kernels_count_is_armed_far_ahead(self, os_timerfd: None) -> None:
        for kind in (OsTimer, CtypesTimer):
            timer = kind()
            assert timer.arm(253_402_300_799 * SECOND_NS)
            timer.close()

    def test_any_other_failure_of_the_timer_is_not_swallowed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        timer = CtypesTimer()
        with pytest.raises(OSError, match="Invalid argument"):
            timer.arm(-1)
        timer.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            timer.was_set()

    def test_the_descriptor_is_closed_and_not_inherited(self) -> None:
        timer = CtypesTimer()
        assert not os.get_inheritable(timer.fd)
        clock = SystemClock(lambda: timer)
        clock.close()
        clock.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(timer.fd)

    def test_a_kernel_that_refuses_only_the_arming_leaks_no_descriptor(self) -> None:
        """gVisor makes the timer and refuses TFD_TIMER_CANCEL_ON_SET."""
        created: list[int] = []

        class Refused(CtypesTimer):
            def _set(self, flags: int, at_ns: int) -> None:
                created.append(self.fd)
                raise OSError(errno.EINVAL, "refused")

        with pytest.raises(OSError, match="refused"):
            Refused()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(created[0])


class TestWithoutKernelTimer:
    @pytest.fixture
    def no_os_functions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(os, "timerfd_create", raising=False)

    def test_the_c_library_serves_where_python_has_no_functions(
        self, no_os_functions: None
    ) -> None:
        timer = kernel_timer()
        assert isinstance(timer, CtypesTimer)
        timer.close()

    def test_pythons_own_functions_come_first(self, os_timerfd: None) -> None:
        timer = kernel_timer()
        assert isinstance(timer, OsTimer)
        timer.close()

    def test_a_library_without_the_function_leaves_segments(
        self, no_os_functions: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
        assert SystemClock().source == "segments"

    def test_a_kernel_that_refuses_leaves_segments(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(_self: KernelTimer, clock: int, flags: int) -> int:
            raise OSError(errno.ENOSYS, "no such call")

        monkeypatch.setattr(OsTimer, "_create", refused)
        monkeypatch.setattr(CtypesTimer, "_create", refused)
        assert SystemClock().source == "segments"

    def test_no_descriptors_left_leaves_segments(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            assert kernel_timer() is None
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_a_machine_with_32_bit_seconds_leaves_segments(
        self, no_os_functions: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ctypes, "sizeof", lambda _type: 4)
        assert kernel_timer() is None


class TestSegments:
    @pytest.fixture
    def clock(self) -> SystemClock:
        return SystemClock(lambda: None)

    @pytest.fixture
    def timeouts(self, monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
        """Every length that was asked for; each passes at once, and the wall clock with it."""
        asked: list[float | None] = []
        real_timeout, real_wall = asyncio.timeout, time.time_ns
        real_boot = time.clock_gettime_ns
        passed = 0

        def timeout(seconds: float | None) -> asyncio.Timeout:
            nonlocal passed
            asked.append(seconds)
            passed += int((seconds or 0) * SECOND_NS)
            return real_timeout(seconds and 0)

        monkeypatch.setattr(asyncio, "timeout", timeout)
        monkeypatch.setattr(time, "time_ns", lambda: real_wall() + passed)
        monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: real_boot(clock) + passed)
        return asked

    async def test_a_long_wait_is_cut_and_the_clock_read_again(
        self, clock: SystemClock, timeouts: list[float | None]
    ) -> None:
        until = clock.now() + dt.timedelta(seconds=100)
        await clock.wait(until, never())
        assert clock.now() >= until
        lengths = [seconds for seconds in timeouts if seconds is not None]
        assert lengths[:3] == [SEGMENT_SECONDS] * 3
        assert all(seconds <= SEGMENT_SECONDS for seconds in lengths)

    async def test_a_wait_for_nothing_has_no_segments(
        self, clock: SystemClock, timeouts: list[float | None]
    ) -> None:
        woken = asyncio.Event()
        task = waiting(clock, None, woken)
        await started(task)
        woken.set()
        await task
        assert timeouts == [None]

    async def test_a_clock_that_was_set_ends_the_wait_at_the_next_look_and_only_that_one(
        self, clock: SystemClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: real() - 3600 * SECOND_NS)
        async with asyncio.timeout(DEADLINE):
            await clock.wait(clock.now() + dt.timedelta(days=1), never())
        task = waiting(clock, clock.now() + dt.timedelta(days=1), never())
        await started(task)
        task.cancel()
        assert clock.stepped() == pytest.approx(-3600, abs=0.2)


class TestIdle:
    async def test_a_wait_leaves_no_timer_in_the_loop(self, system_clock: SystemClock) -> None:
        """Without one, and with nothing to read, the loop sleeps in the kernel for ever."""
        loop = asyncio.get_running_loop()
        task = waiting(system_clock, None, never())
        await started(task)
        scheduled: list[asyncio.TimerHandle] = getattr(loop, "_scheduled")  # noqa: B009
        assert [handle for handle in scheduled if not handle.cancelled()] == []
        task.cancel()


class TestManualClock:
    async def test_nothing_moves_by_itself(self) -> None:
        clock = ManualClock()
        assert (clock.now(), clock.monotonic(), clock.stepped()) == (START, 0.0, 0.0)
        task = waiting(clock, START + MS, never())
        await started(task)
        task.cancel()

    async def test_advance_moves_both_clocks_and_wakes_whose_instant_came(self) -> None:
        clock = ManualClock()
        early = waiting(clock, START + dt.timedelta(seconds=1), never())
        late = waiting(clock, START + dt.timedelta(seconds=2), never())
        await started(late)
        assert len(clock.waiting) == 2
        clock.advance(1.9999)
        await early
        assert not late.done()
        assert clock.now() == START + 1999 * MS
        clock.advance(0.0001)
        await late
        assert (clock.monotonic(), clock.stepped(), clock.waiting) == (2.0, 0.0, [])

    async def test_a_jump_moves_the_wall_clock_only_and_wakes_everybody(self) -> None:
        clock = ManualClock()
        for seconds in (3600.0, -7200.0):
            tasks = [
                waiting(clock, None, never()),
                waiting(clock, START + 366 * 86400_000 * MS, never()),
            ]
            await started(tasks[1])
            clock.jump(seconds)
            await asyncio.gather(*tasks)
            assert clock.stepped() == seconds
        assert clock.now() == START - dt.timedelta(hours=1)
        assert clock.monotonic() == 0.0

    async def test_a_suspend_is_no_jump_and_wakes_only_what_is_due(self) -> None:
        clock = ManualClock()
        clock.call_later(1, never().set)
        due, other = waiting(clock, START + 5 * MS, never()), waiting(clock, None, never())
        await started(other)
        clock.suspend(7200)
        await due
        assert not other.done()
        other.cancel()
        assert clock.now() == START + dt.timedelta(hours=2)
        assert (clock.monotonic(), clock.stepped(), clock.pending_calls) == (0.0, 0.0, 1)

    async def test_a_jump_while_nobody_waits_ends_the_next_wait_at_once(self) -> None:
        clock = ManualClock()
        clock.jump(-5)
        await clock.wait(None, never())
        task = waiting(clock, None, never())
        await started(task)
        task.cancel()

    async def test_two_movements_before_a_waiter_goes_on_wake_it_once(self) -> None:
        clock = ManualClock()
        task = waiting(clock, START + MS, never())
        await started(task)
        clock.advance(1)
        clock.advance(1)
        clock.jump(1)
        await task

    async def test_the_event_and_a_reached_instant_end_a_wait(self) -> None:
        clock = ManualClock()
        woken = asyncio.Event()
        task = waiting(clock, None, woken)
        await started(task)
        woken.set()
        await task
        await clock.wait(None, woken)
        await clock.wait(START, never())
        assert clock.waiting == []

    def test_callbacks_run_inside_advance_in_order_each_at_its_own_instant(self) -> None:
        clock = ManualClock()
        ran: list[tuple[str, float]] = []
        clock.call_later(2, lambda: ran.append(("second", clock.monotonic())))
        clock.call_later(1, lambda: clock.call_later(0.5, note("nested", clock, ran)))
        clock.call_later(1, lambda: ran.append(("first", clock.monotonic())))
        clock.call_later(1, lambda: ran.append(("never", 0.0))).cancel()
        assert clock.pending_calls == 3
        clock.advance(10)
        assert ran == [("first", 1.0), ("nested", 1.5), ("second", 2.0)]
        assert (clock.pending_calls, clock.monotonic()) == (0, 10.0)


def note(name: str, clock: ManualClock, ran: list[tuple[str, float]]) -> Callable[[], None]:
    return lambda: ran.append((name, clock.monotonic()))


def test_both_clocks_keep_the_protocol() -> None:
    """Held by the type checker; at run time the members are there."""
    clocks: list[Clock] = [ManualClock()]
    with closing(SystemClock()) as clock:
        clocks.append(clock)
        assert {each.source for each in clocks} >= {"manual"}
