"""What a person types to say when, turned into the strict selector of the wire. Pure.

Only the form is looked at here. Whether a date exists, a zone is known or a rule may be is for
rules/ to say, in the daemon.
"""

from __future__ import annotations

import re

from scheduler_daemon.cli.durations import seconds_of
from scheduler_daemon.cli.exits import MisuseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,3})?)?"
_AT = rf"({_DATE})[T ]({_TIME})(Z|[+-][0-9]{{2}}:[0-9]{{2}})?"


def selector(
    kind: str, text: str, time_zone: str | None, machine_zone: Callable[[], str | None]
) -> dict[str, Any]:
    """The one selector member for `--KIND TEXT`, with `--tz TIME_ZONE` where the kind takes one.

    `machine_zone` names this machine's zone for the suggestion when `--tz` is missing. Raises
    MisuseError for whatever has no strict form.
    """
    if kind in ("after", "every"):
        _no_zone(kind, time_zone)
        return {f"{kind}_seconds": seconds_of(text, f"--{kind}")}
    if kind == "at":
        return {"at": point(text, "--at", time_zone, machine_zone)}
    value = {"daily": _daily, "weekly": _weekly, "cron": _cron}[kind](text)
    if time_zone is None:
        raise MisuseError(
            f"--{kind} needs --tz, the zone whose clock is meant{_suggest(machine_zone)}"
        )
    return {kind: {**value, "time_zone": time_zone}}


def instant(text: str, option: str) -> str:
    """An RFC 3339 date-time with its offset, as `at` takes it. Raises MisuseError."""
    match = re.fullmatch(_AT, text)
    if match is None or not match[3]:
        raise MisuseError(
            f"{option} takes an instant with its offset, 2026-12-24T17:00:00Z or "
            f"2026-12-24T18:00:00+01:00, not {text!r}"
        )
    return f"{match[1]}T{_with_seconds(match[2])}{match[3]}"


def has_offset(text: str) -> bool:
    """Whether `text` is an instant by itself, without a zone whose clock is meant."""
    match = re.fullmatch(_AT, text)
    return match is not None and bool(match[3])


def point(
    text: str, option: str, time_zone: str | None, machine_zone: Callable[[], str | None]
) -> str | dict[str, str]:
    """An instant as `instant`, or a date and time on the clock of `--tz TIME_ZONE`.

    Raises MisuseError, naming `option`, also where neither or both say whose clock is meant.
    """
    match = re.fullmatch(_AT, text)
    if match is None:
        raise MisuseError(
            f"{option} takes a date and a time, 2026-12-24T18:00:00+01:00, 2026-12-24T17:00:00Z or "
            f'"2026-12-24 18:00" with --tz, not {text!r}'
        )
    date, time, offset = match.groups()
    if offset and time_zone is not None:
        raise MisuseError(f"{option} has its offset already: leave --tz away, or the offset")
    if offset:
        return instant(text, option)
    if time_zone is None:
        raise MisuseError(
            f"{option} without an offset (Z or +01:00) needs --tz, the zone whose clock is meant"
            f"{_suggest(machine_zone)}"
        )
    return {"date": date, "time": _with_seconds(time), "time_zone": time_zone}


def _no_zone(kind: str, time_zone: str | None) -> None:
    if time_zone is not None:
        raise MisuseError(f"--{kind} counts seconds and has no zone: leave --tz away")


def _suggest(machine_zone: Callable[[], str | None]) -> str:
    name = machine_zone()
    if name is None:
        return ", for example --tz Europe/Berlin or --tz UTC"
    return f"; this machine's own is {name}: add --tz {name}"


def _with_seconds(time: str) -> str:
    return _two_digits(time) if time.count(":") == 2 else _two_digits(time) + ":00"


def _two_digits(time: str) -> str:
    return time if time[2] == ":" else f"0{time}"


def _local_time(text: str, option: str) -> str:
    if not re.fullmatch(_TIME, text):
        raise MisuseError(f"{option} takes a time of day such as 09:00 or 17:30:15, not {text!r}")
    return _two_digits(text)


def _daily(text: str) -> dict[str, object]:
    return {"time": _local_time(text.strip(), "--daily")}


def _weekly(text: str) -> dict[str, object]:
    days, at, time = text.partition("@")
    if not at:
        raise MisuseError(f"--weekly takes DAYS@TIME such as mon,wed,fri@09:00, not {text!r}")
    weekdays = {day for item in days.split(",") for day in _days_of(item.strip().lower())}
    return {"time": _local_time(time.strip(), "--weekly"), "weekdays": sorted(weekdays)}


def _days_of(item: str) -> list[int]:
    """One weekday or a range; `sat-mon` goes over the end of the week, as people mean it."""
    first, dash, last = item.partition("-")
    start = _weekday(first.strip())
    span = (_weekday(last.strip()) - start) % 7 if dash else 0
    return [(start + step) % 7 + 1 for step in range(span + 1)]


def _weekday(name: str) -> int:
    """0 for Monday to 6 for Sunday."""
    if name in ("1", "2", "3", "4", "5", "6", "7"):
        return int(name) - 1
    for index, full in enumerate(_WEEKDAYS):
        if len(name) >= 3 and full.startswith(name):
            return index
    raise MisuseError(
        f"--weekly takes the days mon tue wed thu fri sat sun, ranges such as mon-fri, or 1 "
        f"(Monday) to 7, not {name!r}"
    )


def _cron(text: str) -> dict[str, object]:
    return {"expression": text.strip()}
