"""One column's value into what it means, strictly; whole rows are in rows.py.

Each function raises ValueError, TypeError or SchedulerError for what is not exactly such a value.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, get_args

from scheduler_daemon.model import EndedReason, Instant
from scheduler_daemon.rules import canonical_cron, canonical_zone, parse_instant_text

MAX_PROMPT_CHARS = 32768
MAX_TITLE_CHARS = 120
MAX_NAME_CHARS = 200
MAX_CONTEXT_BYTES = 4096
MAX_RULE_CHARS = 1000
"""What no row of ours exceeds: what is larger would not fit a frame, or takes long to read."""

LARGEST = 2**53 - 1
"""No number of ours is larger, and SQLite can count on from it."""

MAX_UID = 2**32 - 2
"""uid_t has 32 bits, and its last value is nobody (chown(2))."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


_LONGEST_SHOWN = 120


def shown(value: object) -> str:
    """A value as Python writes it: no bytes that are not UTF-8, and no more than a line of it."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def is_readable(value: str) -> bool:
    """Whether it came from UTF-8; the other way round it could not be given to SQLite again."""
    return value.isprintable() or not _SURROGATE.search(value)


def text(value: Any, most: int | None = None) -> str:
    if not isinstance(value, str):
        raise TypeError("text is missing")
    if most is not None and len(value) > most:
        raise ValueError(f"has {len(value)} characters, at most {most} can be")
    if "\0" in value:
        raise ValueError("holds a NUL character")
    if not is_readable(value):
        raise ValueError("holds bytes that are not UTF-8")
    return value


def maybe_text(value: Any, most: int | None = None) -> str | None:
    return None if value is None else text(value, most)


def filled(most: int) -> Callable[[Any], str]:
    def decode(value: Any) -> str:
        if not text(value, most):
            raise ValueError("is empty")
        return str(value)

    return decode


def title(value: Any) -> str | None:
    return None if value is None else filled(MAX_TITLE_CHARS)(value)


def name(value: Any) -> str:
    """What names a Session, host, message or idempotency key."""
    found = filled(MAX_NAME_CHARS)(value)
    if _CONTROL.search(found):
        raise ValueError("holds a control character")
    return found


def maybe_name(value: Any) -> str | None:
    return None if value is None else name(value)


def session(value: Any) -> str:
    if value == "*":
        raise ValueError("'*' names no Session")
    return name(value)


def whole(value: Any, least: int = 0, most: int = LARGEST) -> int:
    if type(value) is not int:
        raise TypeError("a whole number is missing")
    if value < least:
        raise ValueError(f"{value} is less than {least}")
    if value > most:
        raise ValueError(f"{value} is more than {most}")
    return value


def uid(value: Any) -> int:
    """The user of a row; no process runs as a larger one."""
    return whole(value, most=MAX_UID)


def counted(value: Any) -> int:
    return whole(value, 1)


def maybe_counted(value: Any) -> int | None:
    return None if value is None else counted(value)


def flag(value: Any) -> bool:
    if whole(value) > 1:
        raise ValueError(f"{value} is neither 0 nor 1")
    return bool(value)


def instant(value: Any) -> Instant:
    try:
        return parse_instant_text(text(value, MAX_NAME_CHARS))
    except ValueError as error:
        raise ValueError(f"{error}; one is written 2026-08-07T01:00:00.000Z") from None


def is_instant(value: object) -> bool:
    try:
        instant(value)
    except (ValueError, TypeError):
        return False
    return True


def maybe_instant(value: Any) -> Instant | None:
    return None if value is None else instant(value)


def status(value: Any) -> str:
    if value not in ("active", "ended"):
        raise ValueError(f"{shown(value)} is not a status that can be sent or listed")
    return str(value)


def ended_reason(value: Any) -> str | None:
    if value is not None and value not in get_args(EndedReason):
        raise ValueError(f"{shown(value)} is no reason to end")
    return None if value is None else str(value)


def context(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    # In JSON a character may take six, and each string has quotes and separators around it.
    try:
        found = json.loads(text(value, 10 * MAX_CONTEXT_BYTES))
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at character {error.pos + 1}") from None
    if not isinstance(found, dict):
        raise TypeError("is not an object")
    strings = {text(key): text(each) for key, each in found.items()}
    if sum(len(f"{key}{each}".encode()) for key, each in strings.items()) > MAX_CONTEXT_BYTES:
        raise ValueError(f"has more than {MAX_CONTEXT_BYTES} bytes")
    return strings or None


def time_text(time: dt.time) -> str:
    return time.isoformat("milliseconds")


def time(value: Any) -> dt.time:
    found = None
    with suppress(ValueError):
        found = dt.time.fromisoformat(text(value))
    if found is None or time_text(found) != value or found.tzinfo is not None:
        raise ValueError(f"local_time {shown(value)} is not HH:MM:SS.fff")
    return found


def weekdays(value: Any) -> tuple[int, ...]:
    days = tuple(int(day) for day in text(value, MAX_RULE_CHARS).split(","))
    if ",".join(map(str, sorted(set(days)))) != value or not set(days) <= set(range(1, 8)):
        raise ValueError(
            f"weekdays {shown(value)} are not 1 to 7 in their order, with commas between"
        )
    return days


def expression(value: Any) -> str:
    if canonical_cron(text(value, MAX_RULE_CHARS)) != value:
        raise ValueError(f"cron_expression {shown(value)} is not canonical")
    return str(value)


def zone(value: Any) -> str:
    if canonical_zone(value) != value:
        raise ValueError(f"time_zone {shown(value)} is not in the zone database's spelling")
    return str(value)
