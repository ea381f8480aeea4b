"""A rule in plain English, for a person or a model to read; nothing here is parsed again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from scheduler_daemon.model import After, At, Daily, Every, Rule, Weekly
from scheduler_daemon.rules.cron import CronFields, parse_cron, runs, times_of_day, values
from scheduler_daemon.rules.instants import instant_text
from scheduler_daemon.rules.zones import EARLIEST

_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

# Sets of weekdays: bit 0 is Monday.
_ALL_WEEKDAYS, _WORKING_DAYS, _WEEKEND = 0b1111111, 0b0011111, 0b1100000
_ALL_MONTHS = 0b1111111111110
_EVERY_DAY = "every day"

_MOST_LISTED = 6  # times of day, or days of the month: beyond it the expression reads better
_FEW_TIMES = 4  # so many are listed even when they are evenly spaced

# Zones of these areas are named for a region, which says little without its country.
_AREAS_OF_REGIONS = frozenset({"Brazil", "Canada", "Chile", "Mexico", "US"})


@lru_cache(maxsize=512)
def describe(rule: Rule) -> str:
    """The rule in short, such as `every weekday at 09:00 New York time`."""
    match rule:
        case After(seconds):
            return f"once, {_duration(seconds)} after it was set"
        case At(instant):
            return f"once, at {instant_text(instant)}"
        case Every(seconds=seconds):
            return f"every {_period(seconds)}"
        case Daily(time, zone):
            return f"{_EVERY_DAY} at {_clock(time)} {_zone(zone)}"
        case Weekly(time, days, zone):
            return f"{_each(sum(1 << day - 1 for day in days))} at {_clock(time)} {_zone(zone)}"
    words = _cron(parse_cron(rule.expression), rule.time_zone)
    return words or f'on the cron schedule "{rule.expression}" in {_zone(rule.time_zone)}'


def _cron(fields: CronFields, zone: str) -> str | None:
    """The rule in words, None where these would be less clear than the expression."""
    times = times_of_day(fields)
    rhythm = _rhythm(times)
    dates = _dates(fields, after_comma=rhythm is not None)
    if dates is None or (rhythm is None and len(times) > _MOST_LISTED):
        return None
    if rhythm is None:
        return f"{dates} at {_joined(map(_time_of_day, times))} {_zone(zone)}"
    return ", ".join(part for part in (rhythm, dates, _zone(zone)) if part != _EVERY_DAY)


def _rhythm(times: Sequence[dt.timedelta]) -> str | None:
    """Evenly spaced times of day as a period; None for few or uneven ones."""
    steps = {after - before for before, after in pairwise(times)}
    if len(steps) != 1 or len(times) < _FEW_TIMES:
        return None
    step = steps.pop()
    every = f"every {_period(int(step.total_seconds()))}"
    if step * len(times) == dt.timedelta(days=1):  # over midnight too
        if not times[0]:
            return every
        if step == dt.timedelta(hours=1):
            return f"{every} at {_duration(int(times[0].total_seconds()))} past"
    if len(times) == _FEW_TIMES:
        return None
    return f"{every} from {_time_of_day(times[0])} to {_time_of_day(times[-1])}"


def _dates(fields: CronFields, *, after_comma: bool) -> str | None:
    """The dates: `every Monday`, `on the 1st of every month`; None where words are no help."""
    weekdays = fields.weekdays >> 1 | (fields.weekdays & 1) << 6
    any_weekday = weekdays == _ALL_WEEKDAYS
    any_month_day = fields.month_days.bit_count() == 31
    in_months = _in_months(fields.months)
    if (any_weekday and any_month_day) or (fields.either_day and (any_weekday or any_month_day)):
        return _EVERY_DAY + in_months
    if any_month_day:
        return (_listed(weekdays, _weekday) if after_comma else _each(weekdays)) + in_months
    if fields.month_days.bit_count() > _MOST_LISTED and len(runs(fields.month_days)) > 1:
        return None
    if any_weekday:
        return _on_month_days(fields)
    if fields.either_day:
        return f"{_on_month_days(fields)} and {_each(weekdays)}{in_months}"
    return None


def _each(weekdays: int) -> str:
    named = {_ALL_WEEKDAYS: "day", _WORKING_DAYS: "weekday", _WEEKEND: "weekend day"}
    return "every " + (named.get(weekdays) or _joined(map(_weekday, values(weekdays))))


def _on_month_days(fields: CronFields) -> str:
    days, months = values(fields.month_days), values(fields.months)
    if len(days) == len(months) == 1:
        year = "leap year" if (days[0], months[0]) == (29, 2) else "year"
        return f"every {year} on {days[0]} {_month(months[0])}"
    listed, in_months = _listed(fields.month_days, _ordinal), _in_months(fields.months)
    if in_months.startswith(" in "):
        return f"on the {listed} of {in_months.removeprefix(' in ')}"
    return f"on the {listed} of every month{in_months}"


def _in_months(months: int) -> str:
    if months == _ALL_MONTHS:
        return ""
    first, last = runs(months)[0]
    if len(runs(months)) == 1 and last - first > 1:
        return f" from {_month(first)} to {_month(last)}"
    return f" in {_listed(months, _month)}"


def _listed(members: int, name: Callable[[int], str]) -> str:
    """The members of a set by name; three or more neighbours as `A to C`."""
    items: list[str] = []
    for first, last in runs(members):
        if last - first > 1:
            items.append(f"{name(first)} to {name(last)}")
        else:
            items.extend(map(name, range(first, last + 1)))
    return _joined(items)


def _joined(items: Iterable[str]) -> str:
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def _weekday(index: int) -> str:
    return _WEEKDAYS[index]


def _month(number: int) -> str:
    return _MONTHS[number - 1]


def _ordinal(day: int) -> str:
    suffix = "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{suffix}"


def _period(seconds: int) -> str:
    """What follows `every`; a day is 24 hours, as `every day` is said of the local clock."""
    if seconds == 86400:
        return "24 hours"
    text = _duration(seconds)
    return text.removeprefix("1 ") if text.count(" ") == 1 else text


def _duration(seconds: int) -> str:
    parts = []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}" if count == 1 else f"{count} {unit}s")
    return " ".join(parts)


def _time_of_day(since_midnight: dt.timedelta) -> str:
    return _clock((EARLIEST + since_midnight).time())


def _clock(time: dt.time) -> str:
    timespec = "milliseconds" if time.microsecond else "seconds" if time.second else "minutes"
    return time.isoformat(timespec=timespec)


def _zone(name: str) -> str:
    area, _, place = name.partition("/")
    if name in ("UTC", "Etc/UTC"):
        return "UTC"
    if area == "Etc":
        return f"{name} time"
    if area in _AREAS_OF_REGIONS:
        return f"{area} {place} time"
    return f"{place.rpartition('/')[2].replace('_', ' ')} time"
