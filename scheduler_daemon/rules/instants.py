"""Instants: their canonical UTC text, RFC 3339 input, and arithmetic that knows its range.

An instant is a `datetime` in UTC with whole milliseconds, years 0001 to 9999. No zone is known here
but UTC, and no rule.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache

from scheduler_daemon.errors import InvalidRule, TimeOutOfRange
from scheduler_daemon.model import Instant
from scheduler_daemon.rules.quoting import quoted

MILLISECOND = dt.timedelta(milliseconds=1)

# RFC 3339 as accepted here: upper-case T and Z, at most milliseconds, no leap second, no 24:00.
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
TIME = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,3})?")
_OFFSET = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_DATE_TIME = re.compile(f"{DATE.pattern}T{TIME.pattern}{_OFFSET}")

_TEXT_FORM = (
    'text in the form "YYYY-MM-DDTHH:MM:SS" with up to three fractional digits and then "Z" or an '
    'offset such as "+01:00" (never "-00:00")'
)
_AT_FORM = f"at is either {_TEXT_FORM}, or an object with exactly date, time and time_zone"


def as_instant(moment: dt.datetime) -> Instant:
    """The moment in UTC, cut down to whole milliseconds.

    Raises ValueError for one without a zone or offset, or outside years 0001 to 9999 UTC.
    """
    if moment.tzinfo is dt.UTC and moment.microsecond % 1000 == 0:
        return moment
    if moment.utcoffset() is None:
        raise ValueError("a datetime has to say its zone or offset, such as tzinfo=UTC; got none")
    try:
        moment = moment.astimezone(dt.UTC)
    except OverflowError:
        raise ValueError("a datetime has to lie inside the years 0001 to 9999 UTC") from None
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def instant_text(instant: Instant) -> str:
    """The canonical form: RFC 3339 in UTC with three fractional digits, `…T01:00:00.000Z`.

    Raises ValueError as `as_instant` does.
    """
    if instant.tzinfo is not dt.UTC or instant.microsecond % 1000:
        instant = as_instant(instant)
    return _text(instant)


# One instant is written a dozen times on its way. Only those in UTC may be looked up: in any other
# zone the two that a change of clocks repeats are equal (`fold`).
@lru_cache(maxsize=1024)
def _text(instant: Instant) -> str:
    return instant.isoformat(timespec="milliseconds")[:-6] + "Z"


def parse_instant_text(text: str) -> Instant:
    """The instant of a canonical text, as the database holds it; ValueError for any other form."""
    instant = dt.datetime.fromisoformat(text)
    if instant.tzinfo is not dt.UTC or instant_text(instant) != text:
        raise ValueError("not a canonical instant")
    return instant


def parse_at(value: object, field: str = "at") -> Instant:
    """The instant of an `at` given as text (RFC 3339 with an offset), or of another `field`.

    Raises InvalidRule for another form or a date that does not exist, TimeOutOfRange where the
    offset carries the instant out of years 0001 to 9999.
    """
    match = _DATE_TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[0].endswith("-00:00"):
        form = _AT_FORM if field == "at" else f"{field} is {_TEXT_FORM}"
        raise InvalidRule(f"{form}; got {quoted(value)}.", field=field)
    try:
        return dt.datetime.fromisoformat(match[0]).astimezone(dt.UTC)
    except ValueError:
        raise InvalidRule(
            f"The date of {field} does not exist; got {quoted(value)}. Give a day that the month "
            "has, in years 0001 to 9999.",
            field=field,
        ) from None
    except OverflowError:
        raise out_of_range(field) from None


def later(instant: Instant, by_milliseconds: int) -> Instant | None:
    """The instant so many milliseconds later (earlier when negative), None outside the range."""
    try:
        return instant + dt.timedelta(milliseconds=by_milliseconds)
    except OverflowError:
        return None


def out_of_range(field: str) -> TimeOutOfRange:
    """The refusal of an instant that lies outside years 0001 to 9999."""
    return TimeOutOfRange(
        f"{field} leads outside the years 0001 to 9999 UTC; give a time inside them.", field=field
    )
