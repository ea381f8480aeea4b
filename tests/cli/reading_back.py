"""Readers of a calendar that did not write it: one moves what a gap skips, one leaves it out."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from zoneinfo import ZoneInfo

import icalendar
import recurring_ical_events
from dateutil.rrule import rruleset, rrulestr

from scheduler_daemon.model import Instant
from scheduler_daemon.rules import first, parse_instant_text, parse_rule, zones
from scheduler_daemon.wire.shapes import Reminder
from tests.cli import shapes

FAR = dt.datetime.max.replace(tzinfo=dt.UTC)


def recurring(kind: str, value: object, at: str, **changes: Any) -> Reminder:
    """A reminder as it would come over the wire, with the target that follows from `at`."""
    after = parse_instant_text(at)
    rule = parse_rule({kind: value}, after)
    target = first(rule, after)
    assert target is not None
    text = target.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    shown = shapes.reminder(
        kind=kind.removesuffix("_seconds"), rule={kind: value}, scheduled_at=text, **changes
    )
    return cast("Reminder", shown)


def ours(reminder: Reminder, end: Instant) -> list[Instant]:
    """What the daemon will send up to `end`, to the second, by the rules of time alone."""
    at = parse_instant_text(reminder["scheduled_at"])
    rule = parse_rule(reminder["rule"], at)
    until = parse_instant_text(reminder["until"]) if "until" in reminder else FAR
    left = reminder.get("max_occurrences", 10**9) - reminder.get("dispatch_count", 0)
    found: list[Instant] = []
    due: Instant | None = at
    while due is not None and due <= until and len(found) < left:
        if (second := due.replace(microsecond=0)) > end:
            break
        found.append(second)
        due = first(rule, due)
    return found


def moving(data: bytes, start: Instant, end: Instant) -> list[Instant]:
    """recurring-ical-events: computes readings, then what instants these are."""
    parsed = icalendar.Calendar.from_ical(data)
    events = recurring_ical_events.of(parsed).between(start, end + dt.timedelta(seconds=1))
    return sorted(event["DTSTART"].dt.astimezone(dt.UTC) for event in events)


def strict(data: bytes, end: Instant) -> list[Instant]:
    """dateutil over readings of the clock, without those that do not exist (section 3.3.10)."""
    parsed = icalendar.Calendar.from_ical(data)
    return sorted(each for event in parsed.walk("VEVENT") for each in _strict(event, end))


def _strict(event: Any, end: Instant) -> list[Instant]:
    start = event["DTSTART"].dt
    zone = start.tzinfo

    def local(moment: dt.datetime) -> dt.datetime:
        return moment.astimezone(zone).replace(tzinfo=None)

    found = rruleset()
    if "RRULE" in event:
        text = event["RRULE"].to_ical().decode()
        if "UNTIL" in text:  # dateutil wants it on the same clock as the start
            until = local(event["RRULE"]["UNTIL"][0])
            parts = [part for part in text.split(";") if not part.startswith("UNTIL")]
            text = ";".join([*parts, f"UNTIL={until:%Y%m%dT%H%M%S}"])
        found.rrule(rrulestr(text, dtstart=start.replace(tzinfo=None)))
    else:
        found.rdate(start.replace(tzinfo=None))
    for name, add in (("RDATE", found.rdate), ("EXDATE", found.exdate)):
        if name in event:
            for each in event[name].dts:
                add(each.dt.replace(tzinfo=None))
    readings = found.between(dt.datetime(1, 1, 1), local(end), inc=True)  # noqa: DTZ001 - a local reading
    instants = [reading.replace(tzinfo=zone).astimezone(dt.UTC) for reading in readings]
    return [
        instant
        for reading, instant in zip(readings, instants, strict=True)
        if local(instant) == reading
    ]


@contextmanager
def our_zone_data() -> Iterator[None]:
    """Readers find zones by name: in the data that the rules use, not in the machine's."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([str(zones._source().root)])
    ZoneInfo.clear_cache()
    try:
        yield
    finally:
        zoneinfo.reset_tzpath(before)
        ZoneInfo.clear_cache()
