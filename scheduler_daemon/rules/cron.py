"""The cron dialect: parsing, the canonical form, times of day; no dates and no instants.

Five fields as crontab(5) of Vixie cron has them, with its rule for the two day fields: a day field
whose text starts with `*` is a star, even as `*/2`; when either is a star both must match, when
neither is either may. A set of values is an integer whose bit n stands for the value n.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from scheduler_daemon.errors import FrequencyTooHigh, InvalidRule, TimeOutOfRange
from scheduler_daemon.rules.quoting import quoted

LONGEST_EXPRESSION = 1000
"""An expression has at most this many characters; any set of values can be said in far fewer."""

SHORTEST_MINUTES = 5
"""The least distance on the clock face of two neighbouring times of day, in minutes."""

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_FIELD = "cron.expression"


class Field(NamedTuple):
    """One of the five fields: its values run from `low` to `high`, and `size` are different."""

    name: str
    low: int
    high: int
    size: int
    names: Mapping[str, int] = {}


def _numbered(names: str, start: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.split(), start)}


MINUTE = Field("minute", 0, 59, 60)
HOUR = Field("hour", 0, 23, 24)
DAY_OF_MONTH = Field("day-of-month", 1, 31, 31)
MONTH = Field("month", 1, 12, 12, _numbered("jan feb mar apr may jun jul aug sep oct nov dec", 1))
DAY_OF_WEEK = Field("day-of-week", 0, 7, 7, _numbered("sun mon tue wed thu fri sat", 0))
FIELDS = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)


LONGEST_MONTHS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class CronFields(NamedTuple):
    """A parsed expression: the set of values of each field, and which day fields are stars."""

    minutes: int
    hours: int
    month_days: int
    months: int
    weekdays: int
    month_day_star: bool
    weekday_star: bool


def canonical_cron(text: object) -> str:
    """The one spelling of the rule that `text` says; equal rules have equal canonical forms.

    Raises InvalidRule for anything outside the dialect, FrequencyTooHigh for times of day closer
    than five minutes on the clock face, TimeOutOfRange for dates that never come.
    """
    fields = parse_cron(text)
    return " ".join(
        (
            _field_text(MINUTE, fields.minutes),
            _field_text(HOUR, fields.hours),
            _day_text(DAY_OF_MONTH, fields.month_days, star=fields.month_day_star),
            _field_text(MONTH, fields.months),
            _day_text(DAY_OF_WEEK, fields.weekdays, star=fields.weekday_star),
        )
    )


def parse_cron(text: object) -> CronFields:
    """The fields of an expression; raises as `canonical_cron` does."""
    if not isinstance(text, str):
        raise _refused(f"A cron expression is text with five fields; got {quoted(text)}")
    if len(text) > LONGEST_EXPRESSION:
        raise _refused(
            f"A cron expression has at most {LONGEST_EXPRESSION} characters; got {quoted(text)}"
        )
    return _parse(text)


def values(members: int) -> list[int]:
    """The values of a set, in ascending order."""
    return [value for value in range(members.bit_length()) if members >> value & 1]


def runs(members: int) -> list[tuple[int, int]]:
    """The values of a set as runs of neighbours: the first and last of each, in ascending order."""
    found: list[tuple[int, int]] = []
    for value in values(members):
        if found and value == found[-1][1] + 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return found


def times_of_day(fields: CronFields) -> list[dt.timedelta]:
    """The matching times, in ascending order, as durations since midnight."""
    minutes = values(fields.minutes)
    return [
        dt.timedelta(minutes=60 * hour + minute)
        for hour in values(fields.hours)
        for minute in minutes
    ]


@lru_cache(maxsize=1024)
def _parse(text: str) -> CronFields:
    parts = MACROS.get(text, text).replace("\t", " ").split(" ")
    parts = [part for part in parts if part]
    if len(parts) != len(FIELDS):
        raise _refused(
            "A cron expression has five fields, minute hour day-of-month month day-of-week, with "
            f"blanks between, or is one of {', '.join(MACROS)}; got {quoted(text)}"
        )
    minutes, hours, month_days, months, weekdays = (
        _parse_field(part, index) for index, part in enumerate(parts)
    )
    fields = CronFields(
        minutes,
        hours,
        month_days,
        months,
        weekdays,
        month_day_star=parts[2].startswith("*"),
        weekday_star=parts[4].startswith("*"),
    )
    _check_frequency(fields, text)
    _check_dates(fields, text)
    return fields


@lru_cache(maxsize=1024)
def _parse_field(text: str, index: int) -> int:
    """The set of values that a field's text says."""
    field = FIELDS[index]
    members = 0
    for item in text.split(","):
        members |= _parse_item(item, field)
    if field is DAY_OF_WEEK and members >> 7:
        members = members & 127 | 1  # 7 is Sunday too
    return members


def _parse_item(item: str, field: Field) -> int:
    span, slash, step_text = item.partition("/")
    first_text, dash, last_text = span.partition("-")
    if span == "*":
        first, last = field.low, field.low + field.size - 1
    else:
        first = _value(first_text, field, item)
        last = _value(last_text, field, item) if dash else first
    if last < first or (slash and not dash and span != "*"):
        raise _bad_item(field, item)
    step = _step(step_text, field, item) if slash else 1
    return sum(1 << value for value in range(first, last + 1, step))


def _value(text: str, field: Field, item: str) -> int:
    named = field.names.get(text.lower()) if text.isascii() else None
    if named is not None:
        return named
    value = _number(text)
    if value is None or not field.low <= value <= field.high:
        raise _bad_item(field, item)
    return value


def _step(text: str, field: Field, item: str) -> int:
    step = _number(text)
    if step is None or not 1 <= step <= field.size:
        raise _bad_item(field, item)
    return step


def _number(text: str) -> int | None:
    """The number of a few ASCII digits, else None: int() alone accepts signs and other digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def _bad_item(field: Field, item: str) -> InvalidRule:
    named = ", ".join(field.names)
    also = f" Names: {named}, alone or in ranges." if named else ""
    if field is DAY_OF_WEEK:
        also = f" 0 and 7 are Sunday.{also}"
    if field is MINUTE:
        also = " For a period that does not divide the hour use every_seconds."
    return _refused(
        f"The {field.name} field of a cron expression does not accept {quoted(item)}. It is a "
        f"comma list of *, n, a-b, */s and a-b/s, with values {field.low} to {field.high}, "
        f"ranges that ascend and steps 1 to {field.size}.{also}"
    )


def _refused(message: str) -> InvalidRule:
    return InvalidRule(message.removesuffix(".") + ".", field=_FIELD)


def _check_frequency(fields: CronFields, text: str) -> None:
    minutes = values(fields.minutes)
    distances = [after - before for before, after in pairwise(minutes)]
    if fields.hours & (fields.hours << 1 | fields.hours >> 23):
        distances.append(60 - minutes[-1] + minutes[0])  # into the next hour, or over midnight
    if distances and min(distances) < SHORTEST_MINUTES:
        raise FrequencyTooHigh(
            f"A cron rule may not have times of day closer than {SHORTEST_MINUTES} minutes on the "
            f"clock face, over midnight included; {quoted(text)} has. Every five minutes is */5.",
            field=_FIELD,
        )


def _check_dates(fields: CronFields, text: str) -> None:
    """Refuse dates that never come: in 400 years every date falls on every weekday, 29 Feb too."""
    both_must_match = fields.month_day_star or fields.weekday_star
    longest = max(LONGEST_MONTHS[month] for month in values(fields.months))
    if both_must_match and values(fields.month_days)[0] > longest:
        raise TimeOutOfRange(
            f"The cron rule {quoted(text)} never matches: none of its months has such a day. Give "
            "a day-of-month that one of its months has.",
            field=_FIELD,
        )


def _field_text(field: Field, members: int) -> str:
    """The canonical text of a field for which starting with `*` means nothing."""
    stepped = _step_text(field, members)
    if stepped is not None and (stepped == "*" or members.bit_count() > 2):
        return stepped
    return _list_text(members)


def _day_text(field: Field, members: int, *, star: bool) -> str:
    """The canonical text of a day field, which starts with `*` just when it is a star."""
    if not star:
        return _list_text(members)
    stepped = _step_text(field, members)
    if stepped is not None:
        return stepped
    lowest_alone = f"*/{field.size}"
    return f"{lowest_alone},{_list_text(members & ~(1 << field.low))}"


def _step_text(field: Field, members: int) -> str | None:
    """`*` or `*/s` where that says the set, with the lowest step."""
    for step in range(1, field.size + 1):
        if members == sum(1 << value for value in range(field.low, field.low + field.size, step)):
            return "*" if step == 1 else f"*/{step}"
    return None


def _list_text(members: int) -> str:
    """The values in order; three or more neighbours are a range."""
    return ",".join(
        f"{first}-{last}" if last - first > 1 else ",".join(map(str, range(first, last + 1)))
        for first, last in runs(members)
    )
