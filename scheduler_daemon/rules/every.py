"""Fixed-rate arithmetic: the grid base + k x interval for every integer k. No calendar, no zone.

Positions are exact integers of milliseconds, so that late work never shifts the sequence. The idea
is that of timerfd_create(2): the count of intervals that went by is one division.
"""

from __future__ import annotations

from scheduler_daemon.model import Instant
from scheduler_daemon.rules.instants import MILLISECOND, later


def next_after(base: Instant, seconds: int, instant: Instant) -> Instant | None:
    """The first point of the grid strictly after `instant`, None past year 9999."""
    return later(base, (_elapsed(base, seconds, instant) + 1) * seconds * 1000)


def last_until(base: Instant, seconds: int, instant: Instant) -> Instant | None:
    """The latest point of the grid at or before `instant`, None before year 1."""
    return later(base, _elapsed(base, seconds, instant) * seconds * 1000)


def _elapsed(base: Instant, seconds: int, instant: Instant) -> int:
    """The whole intervals from `base` to `instant`; negative when it lies before."""
    return (instant - base) // MILLISECOND // (seconds * 1000)
