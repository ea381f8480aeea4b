"""The cron dialect: parsing, the canonical form, times of day; no dates and no instants.

Five fields as crontab(5) of Vixie cron has them, with its rule for the two day fields: a day field
whose text starts with `*` is a star, even as `*/2`; when either is a star both must match, when
neither is either may. A set of values is an integer whose bit n stands for the value n.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import lru_cache
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
_TIMES = [dt.timedelta(minutes=minute) for minute in range(24 * 60)]


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
"""The days of each month, by its number, in a leap year."""


class CronFields(NamedTuple):
    """A parsed expression: the set of values of each field and what follows from its stars.

    `either_day` says that a date matches when its day of the month or its weekday does, else both
    have to. `canonical` is the one spelling of the rule.
    """

    minutes: int
    hours: int
    month_days: int
    months: int
    weekdays: int
    either_day: bool
    canonical: str


def canonical_cron(text: object) -> str:
    """The one spelling of the rule that `text` says; equal rules have equal canonical forms.

    Raises InvalidRule for anything outside the dialect, FrequencyTooHigh for times of day closer
    than five minutes on the clock face, TimeOutOfRange for dates that never come.
    """
    return parse_cron(text).canonical


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
    return [_TIMES[60 * hour + minute] for hour in values(fields.hours) for minute in minutes]


@lru_cache(maxsize=1024)
def _parse(text: str) -> CronFields:
    parts = [part for part in text.replace("\t", " ").split(" ") if part]
    if len(parts) == 1:
        macro = parts[0].lower()
        if macro in MACROS and macro != parts[0]:
            raise _refused(f"Cron macros are lower-case: write {macro}; got {quoted(text)}")
        parts = MACROS.get(macro, "").split()
    if len(parts) != len(FIELDS):
        raise _refused(
            "A cron expression has five fields, minute hour day-of-month month day-of-week, with "
            f"blanks between, or is one of {', '.join(MACROS)}; got {quoted(text)}"
        )
    parsed = [_parse_field(part, index) for index, part in enumerate(parts)]
    minutes, hours, month_days, months, weekdays = [members for members, _ in parsed]
    either_day = not (parts[2].startswith("*") or parts[4].startswith("*"))
    canonical = " ".join([written for _, written in parsed])
    fields = CronFields(minutes, hours, month_days, months, weekdays, either_day, canonical)
    _check_frequency(fields, text)
    _check_dates(fields, text)
    return fields


@lru_cache(maxsize=1024)
def _parse_field(text: str, index: int) -> tuple[int, str]:
    """The set of values that a field's text says, and its canonical text."""
    field = FIELDS[index]
    members = 0
    for item in text.split(","):
        members |= _parse_item(item, field)
    if field is DAY_OF_WEEK and members >> 7:
        members = members & 127 | 1  # 7 is Sunday too
    if field in (DAY_OF_MONTH, DAY_OF_WEEK):
        return members, _day_text(field, members, star=text.startswith("*"))
    return members, _field_text(field, members)


def _parse_item(item: str, field: Field) -> int:
    span, slash, step_text = item.partition("/")
    first_text, dash, last_text = span.partition("-")
    if span == "*":
        first, last = field.low, field.low + field.size - 1
    elif dash:
        first, last = _value(first_text, field, item), _value(last_text, field, item)
    elif slash:
        raise _bad_item(field, item)
    else:
        return 1 << _value(span, field, item)
    step = _number(step_text) if slash else 1
    if last == 0 < first and field is DAY_OF_WEEK:
        raise _refused(
            f"The {field.name} field of a cron expression does not accept {quoted(item)}: sun is "
            f"0, and ranges ascend. For a range up to Sunday write {first}-7"
        )
    if last < first or step is None or not 1 <= step <= field.size:
        raise _bad_item(field, item)
    return _every(first, last, step)


def _every(first: int, last: int, step: int) -> int:
    """The set of every `step`th value from `first` up to `last`."""
    if step == 1:
        return (2 << last) - (1 << first)
    return sum(1 << value for value in range(first, last + 1, step))


def _value(text: str, field: Field, item: str) -> int:
    value = _number(text)
    if value is None and text.isascii():
        value = field.names.get(text.lower())
    if value is None or not field.low <= value <= field.high:
        raise _bad_item(field, item)
    return value


def _number(text: str) -> int | None:
    """The number of a few ASCII digits, else None: int() alone accepts signs and other digits."""
    return int(text) if text.isdigit() and text.isascii() and len(text) <= 20 else None


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
    minutes = fields.minutes
    if fields.hours & (fields.hours << 1 | fields.hours >> 23):  # two neighbours, or 23 and 0
        minutes |= minutes << 60
    if any(minutes & minutes << distance for distance in range(1, SHORTEST_MINUTES)):
        raise FrequencyTooHigh(
            f"A cron rule may not have times of day closer than {SHORTEST_MINUTES} minutes on the "
            f"clock face, over midnight included; {quoted(text)} has. Every five minutes is */5.",
            field=_FIELD,
        )


def _check_dates(fields: CronFields, text: str) -> None:
    """Refuse dates that never come: in 400 years every date falls on every weekday, 29 Feb too."""
    if fields.either_day or fields.month_days & _every(1, 28, 1):
        return
    longest = max(LONGEST_MONTHS[month] for month in values(fields.months))
    if fields.month_days & _every(1, longest, 1) == 0:
        raise TimeOutOfRange(
            f"The cron rule {quoted(text)} never matches: none of its months has such a day. Give "
            "a day-of-month that one of its months has.",
            field=_FIELD,
        )


def _field_text(field: Field, members: int) -> str:
    """The canonical text of a field for which starting with `*` means nothing."""
    stepped = _stepped_text(field, members)
    return stepped if stepped and members.bit_count() > 2 else _list_text(members)


def _day_text(field: Field, members: int, *, star: bool) -> str:
    """The canonical text of a day field, which starts with `*` just when it is a star."""
    if not star:
        return _list_text(members)
    stepped = _stepped_text(field, members)
    # A star has the lowest value, which the longest step says alone.
    return stepped or f"*/{field.size},{_list_text(members & members - 1)}"


def _stepped_text(field: Field, members: int) -> str | None:
    """`*` or `*/s` where that says the set."""
    without_lowest = members & members - 1
    step = (without_lowest & -without_lowest).bit_length() - 1 - field.low
    if not without_lowest:
        step = field.size
    if members != _every(field.low, field.low + field.size - 1, step):
        return None
    return "*" if step == 1 else f"*/{step}"


def _list_text(members: int) -> str:
    """The values in order; three or more neighbours are a range."""
    return ",".join(
        f"{first}-{last}" if last - first > 1 else ",".join(map(str, range(first, last + 1)))
        for first, last in runs(members)
    )
