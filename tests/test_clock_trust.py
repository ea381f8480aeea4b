"""When the clock can be trusted: ten minutes after the start, or after it was set by much."""

from __future__ import annotations

import time

import pytest

from scheduler_daemon.clock import SECOND_NS, SteadyMeter, SystemClock, trusted
from tests.support.clock import ManualClock

HOUR_NS = 3600 * SECOND_NS


class TestSteadyMeter:
    def test_it_counts_from_the_start(self) -> None:
        meter = SteadyMeter(5, 100.0)
        assert [meter.seconds(5, at) for at in (100.0, 700.5)] == [0.0, 600.5]

    @pytest.mark.parametrize("direction", [1, -1])
    def test_a_setting_by_more_than_an_hour_begins_anew_and_one_by_an_hour_does_not(
        self, direction: int
    ) -> None:
        meter = SteadyMeter(0, 0.0)
        assert meter.seconds(direction * HOUR_NS, 700.0) == 700.0
        offset = direction * (2 * HOUR_NS + 1)
        assert meter.seconds(offset, 800.0) == 0.0
        assert meter.seconds(offset, 1400.0) == 600.0

    def test_settings_are_taken_one_by_one_and_each_large_one_begins_anew(self) -> None:
        """Two that are noticed together are one."""
        meter = SteadyMeter(0, 0.0)
        offsets = [(HOUR_NS, 100.0), (2 * HOUR_NS, 200.0), (0, 300.0), (2 * HOUR_NS, 310.0)]
        assert [meter.seconds(*each) for each in offsets] == [100.0, 200.0, 0.0, 0.0]
        assert meter.seconds(2 * HOUR_NS, 911.0) == 601.0

    def test_a_setting_that_is_noticed_late_counts_from_then(self) -> None:
        meter = SteadyMeter(0, 0.0)
        assert meter.seconds(-5 * HOUR_NS, 10_000.0) == 0.0
        assert meter.seconds(-5 * HOUR_NS, 10_001.0) == 1.0

    def test_small_settings_never_add_up(self) -> None:
        """A clock that is put right bit by bit is put right."""
        meter = SteadyMeter(0, 0.0)
        steps = [meter.seconds(number * HOUR_NS, float(number)) for number in range(1, 50)]
        assert steps == [float(number) for number in range(1, 50)]


class TestTrust:
    def test_a_clock_can_be_trusted_ten_minutes_after_the_start(self) -> None:
        clock = ManualClock()
        assert not trusted(clock)
        clock.advance(599.999)
        assert not trusted(clock)
        clock.advance(0.001)
        assert trusted(clock)

    @pytest.mark.parametrize("seconds", [3601.0, -3601.0, 10**9])
    def test_it_cannot_for_ten_minutes_after_it_was_set_by_more_than_an_hour(
        self, seconds: float
    ) -> None:
        clock = ManualClock()
        clock.advance(700)
        clock.jump(seconds)
        assert not trusted(clock)
        clock.advance(599)
        clock.jump(-seconds)
        assert not trusted(clock)
        clock.advance(599)
        assert not trusted(clock)
        clock.advance(1)
        assert trusted(clock)

    @pytest.mark.parametrize("seconds", [3600.0, -3600.0, 1.0])
    def test_a_smaller_setting_costs_no_trust(self, seconds: float) -> None:
        clock = ManualClock()
        clock.advance(600)
        clock.jump(seconds)
        assert trusted(clock)

    def test_what_tells_of_steps_and_what_tells_of_trust_do_not_disturb_each_other(self) -> None:
        clock = ManualClock()
        clock.advance(600)
        clock.jump(7200)
        assert clock.stepped() == 7200
        assert not trusted(clock)
        assert (clock.stepped(), clock.steady()) == (0.0, 0.0)

    def test_a_suspend_is_no_setting_and_its_time_does_not_count(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Wall and boot clock go on alike, the monotonic one stands still."""
        system_clock = SystemClock(lambda: None)
        wall, boot = time.time_ns, time.clock_gettime_ns
        before = system_clock.steady()
        day = 86400 * SECOND_NS
        monkeypatch.setattr(time, "time_ns", lambda: wall() + day)
        monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: boot(clock) + day)
        assert before <= system_clock.steady() < before + 60

    def test_the_system_clock_begins_anew_when_it_is_set(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        system_clock = SystemClock(lambda: None)
        real, monotonic = time.time_ns, time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 700)
        assert trusted(system_clock)
        monkeypatch.setattr(time, "time_ns", lambda: real() + 2 * HOUR_NS)
        assert not trusted(system_clock)
