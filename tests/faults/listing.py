"""Every occurrence of a rule by walking through time minute by minute: what the clock tests trust.

Nothing of the program's own arithmetic is used, only the offsets that the zone data gives.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from scheduler_daemon.model import Instant
from scheduler_daemon.rules.zones import load_zone

Json = dict[str, Any]

MINUTE = dt.timedelta(minutes=1)
HOUR = dt.timedelta(hours=1)
DAY = dt.timedelta(days=1)


class WallRule(NamedTuple):
    """A rule on a local clock: how it is asked for, and which readings of that clock it means."""

    selector: Json
    zone: str
    means: Callable[[dt.datetime], bool]


def daily(zone: str, hour: int, minute: int) -> WallRule:
    time = dt.time(hour, minute)
    selector = {"daily": {"time": f"{time:%H:%M}", "time_zone": zone}}
    return WallRule(selector, zone, lambda reading: reading.time() == time)


def weekly(zone: str, hour: int, minute: int, weekdays: list[int]) -> WallRule:
    time = dt.time(hour, minute)
    asked = {"time": f"{time:%H:%M}", "time_zone": zone, "weekdays": weekdays}

    def means(reading: dt.datetime) -> bool:
        return reading.time() == time and reading.isoweekday() in weekdays

    return WallRule({"weekly": asked}, zone, means)


def by_night(zone: str) -> WallRule:
    """Every twenty minutes of the hours in which clocks are changed."""
    asked = {"expression": "*/20 22,23,0-3 * * *", "time_zone": zone}

    def means(reading: dt.datetime) -> bool:
        return reading.minute % 20 == 0 and reading.hour in (22, 23, 0, 1, 2, 3)

    return WallRule({"cron": asked}, zone, means)


def listed(rule: WallRule, start: Instant, end: Instant) -> list[Instant]:
    """All occurrences from `start` to `end`, both included."""
    found = set()
    walk = _walk(rule.zone, start - 2 * DAY, end + 2 * DAY)
    last_reading, last_instant = next(walk)
    shown = set()
    for reading, instant in walk:
        missing = last_reading + MINUTE
        while missing < reading:  # a gap: as the clock would have gone on before it
            if rule.means(missing):
                found.add(last_instant + (missing - last_reading))
            missing += MINUTE
        if rule.means(reading) and reading not in shown:  # the first of two
            found.add(instant)
            shown.add(reading)
        last_reading, last_instant = reading, instant
    return sorted(each for each in found if start <= each <= end)


def grid(anchor: Instant, seconds: int, start: Instant, end: Instant) -> list[Instant]:
    """All points of a fixed rate from `start` to `end`, both included."""
    step = dt.timedelta(seconds=seconds)
    at = anchor
    while at > start:
        at -= step
    while at < start:
        at += step
    found = []
    while at <= end:
        found.append(at)
        at += step
    return found


def changes(zone: str, year: int) -> list[Instant]:
    """The minutes of a year (UTC) at which a zone's clock is changed."""
    hour = dt.datetime(year, 1, 1, tzinfo=dt.UTC)
    found = []
    while hour.year == year:
        if _offset(zone, hour) != _offset(zone, hour + HOUR):
            minutes = (hour + number * MINUTE for number in range(1, 61))
            found.append(next(m for m in minutes if _offset(zone, m) == _offset(zone, hour + HOUR)))
        hour += HOUR
    return found


def _offset(zone: str, instant: Instant) -> dt.timedelta | None:
    return instant.astimezone(load_zone(zone)).utcoffset()


def _walk(zone: str, start: Instant, end: Instant) -> Iterator[tuple[dt.datetime, Instant]]:
    day = start.replace(hour=0, minute=0, second=0, microsecond=0)
    while day <= end:
        yield from _shown(zone, day)
        day += DAY


@lru_cache(maxsize=2000)
def _shown(zone: str, day: Instant) -> list[tuple[dt.datetime, Instant]]:
    """What a clock shows at each minute of a day of UTC."""
    minutes = [day + number * MINUTE for number in range(1440)]
    source = load_zone(zone)
    return [(each.astimezone(source).replace(tzinfo=None, fold=0), each) for each in minutes]
