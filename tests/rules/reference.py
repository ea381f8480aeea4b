"""A second, slow opinion: every local time of every date, resolved by fold, then sorted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from zoneinfo import ZoneInfo

from scheduler_daemon.model import Cron, Daily, Instant, Weekly
from scheduler_daemon.rules.zones import load_zone

DAY = dt.timedelta(days=1)
TRICKY_ZONES = (
    "UTC",
    "America/New_York",  # an hour, at two in the night
    "Europe/Berlin",
    "Australia/Lord_Howe",  # half an hour
    "Antarctica/Troll",  # two hours
    "America/Havana",  # at midnight
    "Asia/Beirut",
    "America/Nuuk",  # an hour before midnight, into another date
    "Pacific/Apia",  # 2011-12-30 does not exist
    "Pacific/Kwajalein",  # nor does 1993-08-21
    "Africa/Casablanca",  # an offset that is lower in Ramadan
    "Africa/Monrovia",  # -00:44:30 until 1972
    "Asia/Kathmandu",
)
CHANGES = (
    "1919-03-31T05:00:00Z",
    "1972-01-07T00:44:30Z",
    "1993-08-21T12:00:00Z",
    "2011-12-30T10:00:00Z",
    "2023-10-29T01:00:00Z",  # in Nuuk one of no offset, about which ZoneInfo errs
    "2024-03-10T05:00:00Z",
    "2024-03-31T01:00:00Z",
    "2024-04-06T15:00:00Z",
    "2024-10-05T15:30:00Z",
    "2024-10-27T01:00:00Z",
    "2024-11-03T06:00:00Z",
    "2026-03-08T07:00:00Z",
    "2026-03-29T00:00:00Z",
    "2026-10-25T01:00:00Z",
)
"""Instants at or near which some of these zones change their clock."""


def occurrences(rule: Daily | Weekly | Cron, start: Instant, end: Instant) -> list[Instant]:
    """All occurrences from `start` to `end`, both included."""
    zone = load_zone(rule.time_zone)
    found = set()
    date = start.date() - 3 * DAY
    while date <= end.date() + 3 * DAY:
        if matches(rule, date):
            found |= {resolved(date, time, zone) for time in times(rule)}
        date += DAY
    return sorted(instant for instant in found if start <= instant <= end)


def resolved(date: dt.date, time: dt.time, zone: ZoneInfo) -> Instant:
    """The first of the two instants that datetime offers which shows the reading; else a gap."""
    reading = dt.datetime.combine(date, time, zone)
    offered = [reading.replace(fold=fold).astimezone(dt.UTC) for fold in (0, 1)]
    showing = [
        instant
        for instant in offered
        if instant.astimezone(zone).replace(tzinfo=None, fold=0) == reading.replace(tzinfo=None)
    ]
    return min(showing, default=offered[0])


def times(rule: Daily | Weekly | Cron) -> Iterable[dt.time]:
    if not isinstance(rule, Cron):
        return [rule.time]
    minutes, hours = (members(text, 60) for text in rule.expression.split()[:2])
    return [dt.time(hour, minute) for hour in hours if hour < 24 for minute in minutes]


def matches(rule: Daily | Weekly | Cron, date: dt.date) -> bool:
    if isinstance(rule, Daily):
        return True
    if isinstance(rule, Weekly):
        return date.isoweekday() in rule.weekdays
    _, _, month_days, months, weekdays = rule.expression.split()
    if date.month not in members(months, 13, 1):
        return False
    day = date.day in members(month_days, 32, 1)
    weekday = date.isoweekday() % 7 in members(weekdays, 7)
    either = not (month_days.startswith("*") or weekdays.startswith("*"))
    return day or weekday if either else day and weekday


def members(text: str, end: int, low: int = 0) -> set[int]:
    """The values of a field in its canonical form."""
    found: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        if span == "*":
            found.update(range(low, end, int(step or 1)))
        else:
            found.update(range(int(first), int(last or first) + 1))
    return found
