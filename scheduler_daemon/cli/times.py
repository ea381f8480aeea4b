"""How an instant is shown to a person: relative to now, and on a clock with its zone named. Pure.

Instants come as the texts of the wire. Words are English whatever the locale; the only thing that
is read from the machine is its zone, for instants that bring none.
"""

from __future__ import annotations

import datetime as dt

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3_600, 86_400, 365 * 86_400
_UNITS = (
    (_YEAR, "year", "y"),
    (_DAY, "day", "d"),
    (_HOUR, "hour", "h"),
    (_MINUTE, "minute", "min"),
    (1, "second", "s"),
)


class Moment:
    """An instant on one clock: aware, with that clock's offset, and the name of its zone.

    A named tuple would do, but building its class costs every command 5 ms.
    """

    __slots__ = ("local", "zone")

    def __init__(self, local: dt.datetime, zone: str) -> None:
        self.local = local
        self.zone = zone


def instant(text: str) -> dt.datetime:
    """The instant of a canonical text of the wire. Raises ValueError."""
    return dt.datetime.fromisoformat(text)


def moment(utc: str, local: str | None, zone_name: str | None) -> Moment:
    """The instant `utc` on the clock of `local` (RFC 9557) where given, else on the machine's.

    `zone_name` is how the machine's clock is called; None says its distance from UTC instead,
    because an abbreviation may mean several zones, or none where the C library has no zone files.
    """
    if local is not None:
        text, _, zone = local.partition("[")
        return Moment(dt.datetime.fromisoformat(text), zone.rstrip("]"))
    at = instant(utc)
    try:
        here = at.astimezone()
    except (OverflowError, ValueError, OSError):  # the first and last days of the calendar
        return Moment(at, "UTC")
    return Moment(here, zone_name or f"UTC{here.isoformat()[-6:]}")


def clock(at: Moment) -> str:
    """`2026-12-24 14:20:00 Europe/Berlin`; for eyes, so to the second."""
    return f"{at.local.date()} {at.local:%H:%M:%S} {at.zone}"


_MEAN_YEAR = 31_556_952
"""Seconds, of the Gregorian calendar: leap days add up to years in some thousand of them."""


def span(seconds: float, *, short: bool = False) -> str:
    """A length of time in its two largest units: `1 hour 30 minutes`, `1 h 30 min`; seconds >= 0.

    The short form is for tables.
    """
    if seconds >= 10 * _MEAN_YEAR:
        return f"{int(seconds // _MEAN_YEAR)} {'y' if short else 'years'}"
    unit = 1 if seconds < 10 * _MINUTE else _MINUTE if seconds < _DAY else _HOUR
    rest = round(seconds / unit) * unit
    parts = []
    for size, name, brief in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            word = brief if short else name if count == 1 else f"{name}s"
            parts.append(f"{count} {word}")
        elif parts:
            break  # "1 day 5 seconds" would claim a precision that the words do not have
    return " ".join(parts[:2]) or ("0 s" if short else "0 seconds")


def relative(at: dt.datetime, now: dt.datetime, *, short: bool = False) -> str:
    """`in 20 minutes`, `5 min ago` (short), or `now` and `just now` where that is no second."""
    seconds = (at - now).total_seconds()
    if round(seconds) == 0:
        return "now" if seconds > 0 else "just now"
    words = span(abs(seconds), short=short)
    return f"in {words}" if seconds > 0 else f"{words} ago"
