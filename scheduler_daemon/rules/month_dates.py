"""The dates of a cron rule: which days of a month match, and jumps from month to month.

Parsing is cron.py's. As in calendar.py a date is its proleptic Gregorian ordinal; the days of one
month are an integer whose bit n stands for the day n + 1.
"""

from __future__ import annotations

import datetime as dt
from calendar import isleap

from scheduler_daemon.rules.cron import LONGEST_MONTHS, CronFields

_FOUR_CENTURIES = 146_097  # days, after which the calendar repeats itself, weekdays too
_THIRTY_ONE_DAYS = (1 << 31) - 1
_FIVE_WEEKS = sum(1 << 7 * week for week in range(5))


class MonthDates:
    """The dates of an expression; a month without a match costs one step.

    Every accepted expression has some in 400 years, so a search ends.
    """

    def __init__(self, fields: CronFields) -> None:
        self._two_years = fields.months | fields.months << 12
        self._by_first_weekday = [_month_pattern(fields, weekday) for weekday in range(7)]

    def on_or_after(self, date: int) -> int:
        """The first matching date from `date` on."""
        year, month = _month_of(date)
        while True:
            waiting = self._two_years >> month
            month += (waiting & -waiting).bit_length() - 1
            if month > 12:
                year, month = year + 1, month - 12
            first, days = self._matching(year, month)
            days &= -1 << max(date - first, 0)
            if days:
                return first + (days & -days).bit_length() - 1
            month += 1

    def on_or_before(self, date: int) -> int:
        """The last matching date up to `date`."""
        year, month = _month_of(date)
        while True:
            past = self._two_years & (2 << month + 12) - 1
            month = past.bit_length() - 1 - 12
            if month < 1:
                year, month = year - 1, month + 12
            first, days = self._matching(year, month)
            days &= (2 << min(date - first, 30)) - 1
            if days:
                return first + days.bit_length() - 1
            month -= 1

    def _matching(self, year: int, month: int) -> tuple[int, int]:
        """The ordinal of the first of the month, and its matching days."""
        cycles = (year - 1) // 400  # `date` knows years 1 to 9999 only
        first = dt.date(year - 400 * cycles, month, 1).toordinal() + _FOUR_CENTURIES * cycles
        length = 28 if month == 2 and not isleap(year) else LONGEST_MONTHS[month]
        return first, self._by_first_weekday[first % 7] & (1 << length) - 1


def _month_of(date: int) -> tuple[int, int]:
    cycles = (date - 1) // _FOUR_CENTURIES
    day = dt.date.fromordinal(date - _FOUR_CENTURIES * cycles)
    return day.year + 400 * cycles, day.month


def _month_pattern(fields: CronFields, first_weekday: int) -> int:
    """The matching days of a month that begins on this weekday (0 is Sunday)."""
    month_days = fields.month_days >> 1
    two_weeks = fields.weekdays | fields.weekdays << 7
    weekdays = ((two_weeks >> first_weekday) & 127) * _FIVE_WEEKS & _THIRTY_ONE_DAYS
    return month_days | weekdays if fields.either_day else month_days & weekdays
