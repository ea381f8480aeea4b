"""Selectors, the wire form of rules: strict input to a rule, a rule back to its selector.

Everything that can be wrong inside a selector is refused here or in what is called from here, with
the code and the dotted name of the member at fault.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Any

from scheduler_daemon.errors import FrequencyTooHigh, InvalidRule, InvalidSelector
from scheduler_daemon.model import After, At, Cron, Daily, Every, Instant, Rule, Weekly
from scheduler_daemon.rules.cron import canonical_cron
from scheduler_daemon.rules.instants import (
    DATE,
    TIME,
    as_instant,
    instant_text,
    out_of_range,
    parse_at,
)
from scheduler_daemon.rules.quoting import quoted
from scheduler_daemon.rules.schedule import target_of
from scheduler_daemon.rules.zones import (
    EARLIEST,
    Reading,
    canonical_zone,
    gap_around,
    load_zone,
    resolve,
)

SHORTEST_INTERVAL = 300
"""The least `every_seconds`."""

LARGEST_INTEGER = 2**53 - 1
"""What every JSON reader can tell apart (RFC 8259, section 6)."""

_MINUTE_TIME = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")


def parse_selector(params: object, now: Instant) -> tuple[Rule, Instant]:
    """The rule that the one selector of `params` says, and its first target after `now`.

    Other keys are not looked at. Raises InvalidSelector for none or several or no mapping,
    InvalidRule, InvalidTimeZone or FrequencyTooHigh for what is inside, and as `target_of` does.
    """
    rule = parse_rule(params, now)
    return rule, target_of(rule, now)


def parse_rule(params: object, now: Instant) -> Rule:
    """As `parse_selector`, without a target; `now` is the anchor of an `Every` rule."""
    now = as_instant(now)
    names = f"{', '.join(SELECTORS[:-1])} and {SELECTORS[-1]}"
    if not isinstance(params, Mapping):
        raise InvalidSelector(f"Give an object with exactly one of {names}; got {quoted(params)}.")
    given = [key for key in SELECTORS if key in params]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise InvalidSelector(f"Give exactly one of {names}; got {found}.")
    return _PARSERS[given[0]](params[given[0]], now)


def selector_of(rule: Rule) -> dict[str, Any]:
    """The selector as it would be sent again."""
    match rule:
        case After(seconds):
            return {"after_seconds": seconds}
        case At(instant):
            return {"at": instant_text(instant)}
        case Every(seconds=seconds):
            return {"every_seconds": seconds}
        case Daily(time, zone):
            return {"daily": {"time": _time_text(time), "time_zone": zone}}
        case Weekly(time, weekdays, zone):
            members = {"time": _time_text(time), "time_zone": zone, "weekdays": list(weekdays)}
            return {"weekly": members}
    return {"cron": {"expression": rule.expression, "time_zone": rule.time_zone}}


def _parse_after(value: object, _now: Instant) -> After:
    seconds = _integer(value, "after_seconds", "an integer of at least 1")
    if seconds < 1:
        raise InvalidRule(
            f"after_seconds is at least 1, the seconds from now; got {quoted(value)}.",
            field="after_seconds",
        )
    return After(seconds)


def _parse_every(value: object, now: Instant) -> Every:
    least = f"an integer of at least {SHORTEST_INTERVAL}"
    seconds = _integer(value, "every_seconds", least)
    if seconds < SHORTEST_INTERVAL:
        raise FrequencyTooHigh(
            f"every_seconds is at least {SHORTEST_INTERVAL}, which is five minutes; "
            f"got {quoted(value)}.",
            field="every_seconds",
        )
    return Every(seconds, now)


def _parse_at(value: object, _now: Instant) -> At:
    if isinstance(value, dict):
        return At(_local_instant(_members(value, "at", ("date", "time", "time_zone"))))
    return At(parse_at(value))


def _local_instant(members: Mapping[str, object]) -> Instant:
    """The instant of a local date and time, which its zone's clock has to show."""
    date = _date(members["date"])
    time = _time(members["time"], "at.time", seconds_required=True)
    name = canonical_zone(members["time_zone"], field="at.time_zone")
    reading = dt.datetime.combine(date, time, dt.UTC) - EARLIEST
    zone = load_zone(name)
    gap = gap_around(reading, zone)
    if gap is not None:
        raise InvalidRule(
            f"{_reading_text(reading)} does not exist in {name}: its clock goes forward from "
            f"{_reading_text(gap[0])} to {_reading_text(gap[1])}. Give a time before the first or "
            "not before the second of these.",
            field="at.time",
        )
    instant = resolve(reading, zone)
    if instant is None:
        raise out_of_range("at")
    return instant


def _parse_daily(value: object, _now: Instant) -> Daily:
    members = _members(value, "daily", ("time", "time_zone"))
    time = _time(members["time"], "daily.time")
    return Daily(time, canonical_zone(members["time_zone"], field="daily.time_zone"))


def _parse_weekly(value: object, _now: Instant) -> Weekly:
    members = _members(value, "weekly", ("time", "time_zone", "weekdays"))
    time = _time(members["time"], "weekly.time")
    weekdays = _weekdays(members["weekdays"])
    return Weekly(time, weekdays, canonical_zone(members["time_zone"], field="weekly.time_zone"))


def _parse_cron(value: object, _now: Instant) -> Cron:
    members = _members(value, "cron", ("expression", "time_zone"))
    expression = canonical_cron(members["expression"])
    return Cron(expression, canonical_zone(members["time_zone"], field="cron.time_zone"))


def _members(value: object, selector: str, names: tuple[str, ...]) -> Mapping[str, object]:
    """The members of an object that has to have exactly these."""
    form = f"{selector} is an object with exactly {', '.join(names[:-1])} and {names[-1]}"
    if not isinstance(value, dict):
        raise InvalidRule(f"{form}; got {quoted(value)}.", field=selector)
    unknown = next((key for key in value if key not in names), None)
    if unknown is not None:
        raise InvalidRule(f"{form}; {quoted(unknown)} is not known.", field=selector)
    missing = next((name for name in names if name not in value), None)
    if missing is not None:
        raise InvalidRule(f"{form}; {missing} is missing.", field=f"{selector}.{missing}")
    return value


def _integer(value: object, field: str, accepted: str) -> int:
    if type(value) is not int or abs(value) > LARGEST_INTEGER:  # a bool is an int to isinstance
        raise InvalidRule(
            f"{field} is {accepted} and at most 2^53 - 1, without quotes or a fraction; "
            f"got {quoted(value)}.",
            field=field,
        )
    return value


def _weekdays(value: object) -> tuple[int, ...]:
    if isinstance(value, list) and value:
        wrong = [day for day in value if type(day) is not int or not 1 <= day <= 7]
        if not wrong:
            return tuple(sorted(set(value)))
        value = wrong[0]
    raise InvalidRule(
        "weekly.weekdays is a list of integers from 1, Monday, to 7, Sunday, and not empty; "
        f"got {quoted(value)}.",
        field="weekly.weekdays",
    )


def _date(value: object) -> dt.date:
    try:
        if isinstance(value, str) and DATE.fullmatch(value):
            return dt.date.fromisoformat(value)
    except ValueError:
        pass  # no such day
    raise InvalidRule(
        f"at.date is a day of the calendar in the form YYYY-MM-DD; got {quoted(value)}.",
        field="at.date",
    )


def _time(value: object, field: str, *, seconds_required: bool = False) -> dt.time:
    """A local time of day with whole milliseconds."""
    if isinstance(value, str) and (
        TIME.fullmatch(value) or (not seconds_required and _MINUTE_TIME.fullmatch(value))
    ):
        return dt.time.fromisoformat(value)
    form = "HH:MM:SS" if seconds_required else "HH:MM or HH:MM:SS"
    raise InvalidRule(
        f"{field} is a local time in the form {form}, from 00:00 to 23:59, with up to three "
        f"fractional digits of the seconds and no offset; got {quoted(value)}.",
        field=field,
    )


def _time_text(time: dt.time) -> str:
    return time.isoformat(timespec="milliseconds")


def _reading_text(reading: Reading) -> str:
    return (EARLIEST + reading).replace(tzinfo=None).isoformat(" ").removesuffix("000")


_PARSERS: dict[str, Callable[[object, Instant], Rule]] = {
    "after_seconds": _parse_after,
    "at": _parse_at,
    "every_seconds": _parse_every,
    "daily": _parse_daily,
    "weekly": _parse_weekly,
    "cron": _parse_cron,
}

SELECTORS = tuple(_PARSERS)
"""The keys of the six selectors."""
