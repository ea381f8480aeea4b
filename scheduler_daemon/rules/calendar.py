"""Rules on a local clock: which dates, which times of day, and the instants that these resolve to.

Daily and weekly are said here in full; cron brings dates of its own (cron.py). A date is its
proleptic Gregorian ordinal (1 is 0001-01-01, a Monday), a time of day the duration since midnight.
Dates run from 0000-12-31 to 10000-01-01: in some zone these have instants of years 1 to 9999 UTC.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol
from zoneinfo import ZoneInfo

from scheduler_daemon.model import Daily, Instant, Weekly
from scheduler_daemon.rules.zones import (
    EARLIEST,
    Reading,
    highest_reading,
    load_zone,
    lowest_reading,
    reading_at,
    resolve,
)

FIRST_DATE = dt.date.min.toordinal() - 1
LAST_DATE = dt.date.max.toordinal() + 1


class Dates(Protocol):
    """The local dates of a rule, without end either way: every rule has some in 400 years."""

    def on_or_after(self, date: int) -> int:
        """The first date of the rule from `date` on."""

    def on_or_before(self, date: int) -> int:
        """The last date of the rule up to `date`."""


class Weekdays:
    """The dates of some weekdays: 1 is Monday, 0 and 7 are Sunday. Not empty."""

    def __init__(self, weekdays: Iterable[int]) -> None:
        chosen = {weekday % 7 for weekday in weekdays}
        self._wait = [
            next(n for n in range(7) if (weekday + n) % 7 in chosen) for weekday in range(7)
        ]
        self._since = [
            next(n for n in range(7) if (weekday - n) % 7 in chosen) for weekday in range(7)
        ]

    def on_or_after(self, date: int) -> int:
        return date + self._wait[date % 7]

    def on_or_before(self, date: int) -> int:
        return date - self._since[date % 7]


class LocalRule:
    """All readings of some times of day on some dates of a zone's clock, as instants in order.

    The order of readings is the order of instants but for a clock change: readings in a gap move
    forward by its length, maybe past others, maybe onto one (then they count once). Left out are
    instants outside years 1 to 9999.
    """

    def __init__(self, dates: Dates, times: Sequence[dt.timedelta], zone: ZoneInfo) -> None:
        self._dates = dates
        self._times = times
        self._zone = zone

    def first_after(self, instant: Instant) -> Instant | None:
        """The first occurrence strictly after `instant`, None when there is none in year 9999."""
        best = None
        for reading in self._from(lowest_reading(instant, self._zone)):
            due = resolve(reading, self._zone)
            if due is not None and due > instant and (best is None or due < best):
                best = due
            if best is not None and reading >= reading_at(best, self._zone):
                return best  # readings above what the clock shows then are due later
        return best

    def last_until(self, instant: Instant) -> Instant | None:
        """The last occurrence at or before `instant`, None when there is none in year 1."""
        best = None
        for reading in self._back_from(highest_reading(instant, self._zone)):
            due = resolve(reading, self._zone)
            if due is not None and due <= instant and (best is None or due > best):
                best = due
            if best is not None and reading <= lowest_reading(best, self._zone):
                return best
        return best

    def _from(self, reading: Reading) -> Iterator[Reading]:
        """The readings of the rule from this one on, in ascending order."""
        first, time_of_day = _split(reading)
        date = self._dates.on_or_after(first)
        start = bisect_left(self._times, time_of_day) if date == first else 0
        while date <= LAST_DATE:
            midnight = _midnight(date)
            for index in range(start, len(self._times)):
                yield midnight + self._times[index]
            date, start = self._dates.on_or_after(date + 1), 0

    def _back_from(self, reading: Reading) -> Iterator[Reading]:
        """The readings of the rule up to this one, in descending order."""
        last, time_of_day = _split(reading)
        date = self._dates.on_or_before(last)
        end = bisect_right(self._times, time_of_day) if date == last else len(self._times)
        while date >= FIRST_DATE:
            midnight = _midnight(date)
            for index in range(end - 1, -1, -1):
                yield midnight + self._times[index]
            date, end = self._dates.on_or_before(date - 1), len(self._times)


def daily_or_weekly(rule: Daily | Weekly) -> LocalRule:
    """The occurrences of a daily or weekly rule."""
    weekdays = rule.weekdays if isinstance(rule, Weekly) else range(1, 8)
    since_midnight = dt.datetime.combine(EARLIEST, rule.time, dt.UTC) - EARLIEST
    return LocalRule(Weekdays(weekdays), [since_midnight], load_zone(rule.time_zone))


def _split(reading: Reading) -> tuple[int, dt.timedelta]:
    return reading.days + 1, reading - dt.timedelta(days=reading.days)


def _midnight(date: int) -> Reading:
    return dt.timedelta(days=date - 1)
