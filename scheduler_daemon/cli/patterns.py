"""Rules on a local clock as a calendar can say them: sets of dates and times of day. Pure.

A calendar's rule and ours mean the same readings of the clock, but RFC 5545 leaves out readings
that daylight saving skips (section 3.3.10) and some programs move them as we do. So what a gap
moves is told apart here, and each such occurrence is named by its instant.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from scheduler_daemon.cli.zone_changes import changes
from scheduler_daemon.model import Cron, Daily, Weekly
from scheduler_daemon.rules.cron import parse_cron, values

YEARS = 10
"""How far ahead clock changes are looked for: what comes later is not known today anyway."""
_FOUR_CENTURIES = 146_097
"""Days, after which the calendar repeats itself."""
_LAST_DAY = dt.date.max.toordinal()

EVERY_MONTH = frozenset(range(1, 13))
EVERY_DAY = frozenset(range(1, 32))
EVERY_WEEKDAY = frozenset(range(1, 8))


class Pattern(NamedTuple):
    """Readings of a local clock: dates that match all three sets (Monday is 1), times of day."""

    months: frozenset[int]
    days: frozenset[int]
    weekdays: frozenset[int]
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    second: int
    zone: str

    def has_date(self, date: dt.date) -> bool:
        return (
            date.month in self.months
            and date.day in self.days
            and date.isoweekday() in self.weekdays
        )

    def has(self, reading: dt.datetime) -> bool:
        return (
            reading.hour in self.hours
            and reading.minute in self.minutes
            and reading.second == self.second
            and self.has_date(reading)
        )

    def readings(self, first: dt.datetime, end: dt.datetime) -> Iterator[dt.datetime]:
        """The readings from `first` to before `end`, both without a zone, in order."""
        for ordinal in range(first.toordinal(), end.toordinal() + 1):
            date = dt.date.fromordinal(ordinal)
            if self.has_date(date):
                for hour in self.hours:
                    for minute in self.minutes:
                        reading = dt.datetime.combine(date, dt.time(hour, minute, self.second))
                        if first <= reading < end:
                            yield reading


class Part(NamedTuple):
    """A pattern that is one rule of a calendar; `name` tells apart those of one reminder.

    `shifts` are its readings that a gap jumps over in the coming years, with those to which it
    moves them. Parts of one rule have no reading in common.
    """

    name: str
    pattern: Pattern
    shifts: Mapping[dt.datetime, dt.datetime]

    def skipped(self) -> set[dt.datetime]:
        """The readings of the pattern that are not to be left to a reader's view of gaps."""
        return {*self.shifts, *(new for new in self.shifts.values() if self.pattern.has(new))}

    def first(self, since: dt.datetime) -> dt.datetime | None:
        """The first reading from `since` on, but for skipped ones."""
        skipped = self.skipped()
        end = dt.date.fromordinal(min(since.toordinal() + _FOUR_CENTURIES, _LAST_DAY))
        readings = self.pattern.readings(since, dt.datetime.combine(end, dt.time.min))
        return next((reading for reading in readings if reading not in skipped), None)


def parts(rule: Daily | Weekly | Cron, year: int) -> list[Part]:
    """The rule as parts, where gaps are looked for from `year` on.

    Two where either of the day fields of a cron may match, and hours with a gap for themselves.
    """
    found = []
    for name, pattern in zip(("", "-weekdays"), _patterns(rule), strict=False):
        shifts = {
            reading: reading + change.forward
            for change in changes(pattern.zone, year, min(year + YEARS, dt.MAXYEAR))
            for reading in pattern.readings(change.onset, change.onset + change.forward)
        }
        of_gaps = {reading.hour for reading in shifts}
        calm = tuple(hour for hour in pattern.hours if hour not in of_gaps)
        if calm:
            found.append(Part(name, pattern._replace(hours=calm), {}))
        if shifts:
            hours = tuple(sorted(of_gaps))
            found.append(Part(f"{name}-gap", pattern._replace(hours=hours), shifts))
    return found


def _patterns(rule: Daily | Weekly | Cron) -> list[Pattern]:
    """One pattern, or two without a date in common for a cron of which either day may match."""
    if isinstance(rule, Cron):
        return _cron_patterns(rule)
    weekdays = frozenset(rule.weekdays) if isinstance(rule, Weekly) else EVERY_WEEKDAY
    hours, minutes, second = (rule.time.hour,), (rule.time.minute,), rule.time.second
    return [Pattern(EVERY_MONTH, EVERY_DAY, weekdays, hours, minutes, second, rule.time_zone)]


def _cron_patterns(rule: Cron) -> list[Pattern]:
    fields = parse_cron(rule.expression)
    base = Pattern(
        frozenset(values(fields.months)),
        frozenset(values(fields.month_days)),
        frozenset(value or 7 for value in values(fields.weekdays)),
        tuple(values(fields.hours)),
        tuple(values(fields.minutes)),
        0,
        rule.time_zone,
    )
    if not fields.either_day:
        return [base]
    return [base._replace(weekdays=EVERY_WEEKDAY), base._replace(days=EVERY_DAY - base.days)]
