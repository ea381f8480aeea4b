"""When the clock of a zone changes in the years ahead, and these changes as a VTIMEZONE needs them.

Found by looking at every day, as the rules' zone data shows no list of them. No two changes lie
within a day of one another (rules/zones.py).
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from scheduler_daemon.model import Instant
from scheduler_daemon.rules.zones import load_zone

_DAY_SECONDS = 86_400


class Change(NamedTuple):
    """The first instant at which a clock has another offset, both offsets, and its name then."""

    at: Instant
    before: dt.timedelta
    after: dt.timedelta
    name: str

    @property
    def onset(self) -> dt.datetime:
        """What the clock would have shown at the change without it (RFC 5545, section 3.6.5)."""
        return self.at.replace(tzinfo=None) + self.before

    @property
    def forward(self) -> dt.timedelta:
        """How far the clock jumps ahead; negative where it goes back."""
        return self.after - self.before


@lru_cache(maxsize=128)
def changes(zone_name: str, first_year: int, last_year: int) -> tuple[Change, ...]:
    """The changes of these years UTC and of the day before them, in order.

    The first one is no change: it says what the clock shows at the start.
    """
    zone = load_zone(zone_name)
    day = dt.datetime(first_year, 1, 1, tzinfo=dt.UTC) - dt.timedelta(seconds=_DAY_SECONDS)
    end = dt.datetime(last_year, 12, 31, tzinfo=dt.UTC)
    before = _offset(day, zone)
    found = [Change(day, before, before, _name(day, zone))]
    while day < end:
        following = day + dt.timedelta(seconds=_DAY_SECONDS)
        after = _offset(following, zone)
        if after != before:
            at = _first_with(after, day, zone)
            found.append(Change(at, before, after, _name(at, zone)))
        day, before = following, after
    return tuple(found)


def _first_with(offset: dt.timedelta, day: Instant, zone: ZoneInfo) -> Instant:
    """The first second of the day after `day` with this offset, which its end has."""
    low, high = 0, _DAY_SECONDS
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(day + dt.timedelta(seconds=middle), zone) == offset:
            high = middle
        else:
            low = middle
    return day + dt.timedelta(seconds=high)


def _offset(instant: Instant, zone: ZoneInfo) -> dt.timedelta:
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


def _name(instant: Instant, zone: ZoneInfo) -> str:
    return instant.astimezone(zone).tzname() or ""
