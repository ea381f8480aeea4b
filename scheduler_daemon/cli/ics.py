"""Reminders as iCalendar (RFC 5545): one event per reminder, a rule where one says it exactly.

The only module that imports icalendar, which comes with the extra `ics`. Instants are cut to whole
seconds: iCalendar has no fractions. An event has no length and blocks no time.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

from icalendar import Calendar, Event, Timezone, TimezoneDaylight, TimezoneStandard

from scheduler_daemon import __version__
from scheduler_daemon.cli import output, patterns
from scheduler_daemon.cli.patterns import EVERY_DAY, EVERY_MONTH, EVERY_WEEKDAY, Part, Pattern
from scheduler_daemon.cli.zone_changes import Change, changes
from scheduler_daemon.model import After, At, Cron, Daily, Every, Instant, Recurring, Weekly
from scheduler_daemon.rules import decide, first, parse_instant_text, parse_rule
from scheduler_daemon.rules.zones import load_zone
from scheduler_daemon.wire.shapes import Reminder

_UNITS = ((86_400, "DAILY"), (3_600, "HOURLY"), (60, "MINUTELY"), (1, "SECONDLY"))
_WEEKDAYS = ("", "MO", "TU", "WE", "TH", "FR", "SA", "SU")
_COUNTED = 20_000
"""The most occurrences that are counted to find the last one; of more, no end is written."""
_LARGEST = 2**31 - 1
"""What an integer of iCalendar may be (RFC 5545, section 3.3.8)."""
_LONGEST_SUMMARY = 60
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""What a text of iCalendar cannot hold, or what some reader takes for the end of a line."""


def calendar(reminders: Iterable[Reminder], now: Instant) -> bytes:
    """The file, written at `now`. Of each reminder what comes from its target on."""
    found = [(reminder, each) for reminder in reminders for each in _recurrences(reminder)]
    file = Calendar()
    file.add("prodid", f"-//scheduler-daemon//schedctl {__version__}//EN")
    file.add("version", "2.0")
    for zone in _zones(recurrence.start for _, recurrence in found):
        file.add_component(zone)
    for reminder, recurrence in found:
        file.add_component(_event(reminder, now, recurrence))
    data: bytes = file.to_ical()
    return data


def _zones(starts: Iterable[dt.datetime]) -> Iterator[Timezone]:
    """The zones that events name, from the year of the first to where gaps are looked for."""
    years: dict[str, list[int]] = {}
    for start in starts:
        if isinstance(start.tzinfo, ZoneInfo):
            years.setdefault(start.tzinfo.key, []).append(start.year)
    for name, of_events in sorted(years.items()):
        last = min(max(of_events) + patterns.YEARS, dt.MAXYEAR)
        yield _zone_of(name, changes(name, min(of_events), last))


def _zone_of(name: str, of_zone: Iterable[Change]) -> Timezone:
    """By hand, because Timezone.from_tzinfo dates the start of summer time an hour late."""
    groups: dict[tuple[str, dt.timedelta, dt.timedelta], list[dt.datetime]] = {}
    for change in of_zone:
        groups.setdefault((change.name, change.before, change.after), []).append(change.onset)
    zone = Timezone()
    zone.add("tzid", name)
    for (short, before, after), onsets in groups.items():
        kind = TimezoneDaylight() if after > before else TimezoneStandard()
        kind.add("dtstart", onsets[0])
        kind.add("tzname", short)
        kind.add("tzoffsetfrom", before)
        kind.add("tzoffsetto", after)
        if others := onsets[1:]:
            kind.add("rdate", others)
        zone.add_component(kind)
    return zone


def _recurrences(reminder: Reminder) -> Iterable[_Recurrence]:
    """When a reminder comes; more than one only where no single rule says the same."""
    at = parse_instant_text(reminder["scheduled_at"])
    rule = parse_rule(reminder["rule"], at)
    if isinstance(rule, After | At):
        return [_Recurrence("", _second(at))]
    if reminder.get("until", "9999") < reminder["scheduled_at"]:  # canonical texts sort
        return []  # the daemon waits for a clock that it trusts before it ends it
    end = _End(rule, at, reminder)
    return [_every(rule, at, end)] if isinstance(rule, Every) else _local(rule, at, end)


class _Recurrence:
    """When an event is: its first instant, and what repeats it. `part` tells those of one apart."""

    def __init__(self, part: str, start: dt.datetime, **properties: Any) -> None:
        self.part = part
        self.start = start
        self.properties = {name: value for name, value in properties.items() if value}


class _End:
    """Where a recurring reminder ends, from `until` and what is left of `max_occurrences`."""

    def __init__(self, rule: Recurring, at: Instant, reminder: Reminder) -> None:
        self._rule = rule
        self._at = at
        until = reminder.get("until")
        self._until = None if until is None else parse_instant_text(until)
        most = reminder.get("max_occurrences")
        self._left = None if most is None else most - reminder.get("dispatch_count", 0)

    def count(self) -> int | None:
        """How many are to come, where nothing else ends it."""
        return self._left if self._until is None else None

    @cached_property
    def last(self) -> Instant | None:
        """The last occurrence, to the second, None where there is no end or it is far away."""
        latest = None if self._until is None else decide(self._rule, self._at, self._until)[0]
        if self._left is not None and self._left <= _COUNTED:
            latest = self._counted(self._left, latest)
        return None if latest is None else _second(latest)

    def _counted(self, left: int, latest: Instant | None) -> Instant:
        """The last one that is left by number, or `latest` where that comes before."""
        due = self._at
        for _ in range(left - 1):
            following = first(self._rule, due)
            if following is None or (latest is not None and following > latest):
                break
            due = following
        return due


def _every(rule: Every, at: Instant, end: _End) -> _Recurrence:
    unit, name = next(each for each in _UNITS if rule.seconds % each[0] == 0)
    interval = rule.seconds // unit
    if interval > _LARGEST or first(rule, at) is None:  # the next one is for other generations
        return _Recurrence("", _second(at))
    recur = {"freq": name, "interval": interval, **_limit(end, end.count())}
    return _Recurrence("", _second(at), rrule=recur)


def _local(rule: Daily | Weekly | Cron, at: Instant, end: _End) -> Iterator[_Recurrence]:
    """Its parts as rules, without what a gap concerns, and what gaps move as instants.

    Readers either leave out readings in a gap or move them, maybe onto others of the rule. Neither
    happens where they are excepted from a rule of their own and what they become is said.
    """
    zone, at = _zone(rule.time_zone), _second(at)
    parts = patterns.parts(rule, at.year)
    count = end.count() if [part.name for part in parts] == [""] else None
    limit, last = _limit(end, count), end.last if count is None else None
    apart = {at, *_moved(parts, zone)}
    for part in parts:
        start = _start(part, at, zone)
        if start is None or (last is not None and start > last):
            continue
        apart.discard(start.astimezone(dt.UTC))
        skipped = [day.replace(tzinfo=zone) for day in sorted(part.skipped())]
        exdate = [day for day in skipped if day > start and (last is None or day <= last)]
        yield _Recurrence(part.name, start, rrule={**_recur(part.pattern), **limit}, exdate=exdate)
    coming = sorted(day for day in apart if day >= at and (last is None or day <= last))
    if coming:
        start, *others = (day.astimezone(zone) for day in coming)
        yield _Recurrence("-moved", start, rdate=others)


def _moved(parts: list[Part], zone: dt.tzinfo) -> Iterator[Instant]:
    """The instants to which gaps move readings, but for those that a part without gaps says."""
    calm = [part.pattern for part in parts if not part.shifts]
    for part in parts:
        for reading in part.shifts.values():
            if not any(pattern.has(reading) for pattern in calm):
                yield reading.replace(tzinfo=zone).astimezone(dt.UTC)


def _start(part: Part, at: Instant, zone: dt.tzinfo) -> dt.datetime | None:
    """Where a part begins at `at` or later, None where none of it comes."""
    reading = part.first(at.astimezone(zone).replace(tzinfo=None))
    return None if reading is None else reading.replace(tzinfo=zone)


def _zone(name: str) -> dt.tzinfo:
    return dt.UTC if name == "UTC" else load_zone(name)


def _recur(part: Pattern) -> dict[str, Any]:
    """The dates and times of a pattern, as far as the first one does not say them."""
    recur: dict[str, Any] = {"freq": "DAILY"}
    if part.months != EVERY_MONTH:
        recur["bymonth"] = sorted(part.months)
    if part.weekdays != EVERY_WEEKDAY:
        recur["freq"] = "WEEKLY"
        recur["byday"] = [_WEEKDAYS[day] for day in sorted(part.weekdays)]
    if part.days != EVERY_DAY:
        recur["freq"] = "MONTHLY"
        recur["bymonthday"] = sorted(part.days)
    if len(part.hours) * len(part.minutes) > 1:
        recur["byhour"], recur["byminute"] = list(part.hours), list(part.minutes)
    return recur


def _limit(end: _End, count: int | None) -> dict[str, Any]:
    """COUNT where it may be said, else UNTIL, else nothing: RFC 5545 takes one of them."""
    if count is not None:
        return {"count": count}
    last = end.last
    return {} if last is None else {"until": last}


def _event(reminder: Reminder, now: Instant, recurrence: _Recurrence) -> Event:
    created = parse_instant_text(reminder["created_at"])
    event = Event()
    # Ids are given out again by another daemon, or after going back to a copy of the file.
    uid = f"{reminder['id']}{recurrence.part}-{created:%Y%m%dT%H%M%S}@scheduler-daemon"
    event.add("uid", uid)
    event.add("dtstamp", _second(now))
    event.add("created", _second(created))
    event.add("dtstart", recurrence.start)
    for name, value in recurrence.properties.items():
        event.add(name, value)
    prompt = _text(reminder["prompt"])
    line = prompt.strip().partition("\n")[0]
    event.add("summary", _text(reminder.get("title") or output.cut(line, _LONGEST_SUMMARY)))
    event.add("description", prompt)
    event.add("categories", [_text(reminder["session_id"])])
    event.add("transp", "TRANSPARENT")
    return event


def _second(instant: Instant) -> Instant:
    return instant.replace(microsecond=0)


def _text(words: str) -> str:
    return _NO_TEXT.sub("\ufffd", words.replace("\r\n", "\n"))
