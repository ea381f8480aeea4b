"""A row of the file into a value and back, strictly: what does not decode is a BadRow."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from typing import Any

from scheduler_daemon.errors import SchedulerError
from scheduler_daemon.model import (
    After,
    At,
    Cron,
    Daily,
    Dispatch,
    Every,
    Instant,
    Reminder,
    Rule,
    Weekly,
)
from scheduler_daemon.rules import (
    canonical_cron,
    canonical_zone,
    instant_text,
    parse_instant_text,
)

Row = tuple[Any, ...]

RULE_COLUMNS = (
    "kind",
    "delay_seconds",
    "interval_seconds",
    "anchor_at",
    "local_time",
    "weekdays",
    "cron_expression",
    "time_zone",
)

REMINDER_COLUMNS = (
    "number",
    "owner_uid",
    "session_id",
    *RULE_COLUMNS,
    "title",
    "prompt",
    "context",
    "scheduled_at",
    "after_at",
    "computed_at",
    "last_occurrence_at",
    "generation",
    "status",
    "ended_at",
    "ended_reason",
    "revision",
    "timing_revision",
    "words_revision",
    "created_at",
    "paused",
    "snoozed_from",
    "until_at",
    "max_occurrences",
    "dispatch_count",
    "expires_after_seconds",
    "skips_after_at",
    "skips_to_at",
)
"""The order in which every statement selects a reminder."""


_SURROGATE = re.compile("[\ud800-\udfff]")


class BadRow(Exception):
    """A row that does not decode, or was set aside; `reason` says which column and why."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number
        self.reason = reason


def rule_columns(rule: Rule, target: Instant) -> dict[str, Any]:
    """What the rule columns and the target hold for `rule`; an At has no more than its target."""
    columns: dict[str, Any] = dict.fromkeys(RULE_COLUMNS)
    columns |= {"kind": rule.kind, "scheduled_at": instant_text(target)}
    match rule:
        case After(seconds):
            columns["delay_seconds"] = seconds
        case Every(seconds, anchor):
            columns |= {"interval_seconds": seconds, "anchor_at": instant_text(anchor)}
        case Daily(time, zone):
            columns |= {"local_time": time_text(time), "time_zone": zone}
        case Weekly(time, weekdays, zone):
            days = ",".join(map(str, weekdays))
            columns |= {"local_time": time_text(time), "weekdays": days, "time_zone": zone}
        case Cron(expression, zone):
            columns |= {"cron_expression": expression, "time_zone": zone}
    return columns


def kept_columns(reminder: Reminder) -> dict[str, Any]:
    """What the columns hold that a caller's change may touch."""
    low, high = reminder.skips or (None, None)
    return rule_columns(reminder.rule, reminder.scheduled_at) | {
        "number": reminder.number,
        "title": reminder.title,
        "prompt": reminder.prompt,
        "context": context_text(reminder.context),
        "after_at": instant_text(reminder.after_at),
        "computed_at": instant_text(reminder.computed_at),
        "last_occurrence_at": maybe_text(reminder.last_occurrence_at),
        "generation": reminder.generation,
        "status": reminder.status,
        "ended_at": maybe_text(reminder.ended_at),
        "ended_reason": reminder.ended_reason,
        "revision": reminder.revision,
        "timing_revision": reminder.timing_revision,
        "words_revision": reminder.words_revision,
        "paused": reminder.paused,
        "until_at": maybe_text(reminder.until),
        "max_occurrences": reminder.max_occurrences,
        "expires_after_seconds": reminder.expires_after_seconds,
        "skips_after_at": maybe_text(low),
        "skips_to_at": maybe_text(high),
    }


def maybe_text(instant: Instant | None) -> str | None:
    """The canonical text of an instant, None for none."""
    return None if instant is None else instant_text(instant)


def context_text(context: Any) -> str | None:
    """A context as stored; an empty one is none."""
    return json.dumps(context, ensure_ascii=False, sort_keys=True) if context else None


def time_text(time: dt.time) -> str:
    return time.isoformat("milliseconds")


def decode_reminder(row: Row) -> Reminder:
    """The reminder of a row in the order of REMINDER_COLUMNS; raises BadRow."""
    column = dict(zip(REMINDER_COLUMNS, row, strict=True))
    at = "row"
    try:
        values = {}
        for at, decode in _DECODED.items():
            values[at] = decode(column[at])
        values |= {"until": values.pop("until_at"), "skips": _skips(values)}
        at = "rule"
        rule = _rule(column, values["scheduled_at"])
    except (ValueError, TypeError, RecursionError, SchedulerError) as error:
        # What a person reads in SQLite: no surrogates, which it could not keep.
        reason = f"{at}: {error}".encode(errors="backslashreplace").decode()
        raise BadRow(column["number"], reason) from error
    return Reminder(rule=rule, **values)


def read_reminder(row: Row) -> Reminder | BadRow:
    """The reminder of a row, or what is wrong with it.

    The latter without its traceback, which would keep the cursor that the row came from.
    """
    try:
        return decode_reminder(row)
    except BadRow as bad:
        return bad.with_traceback(None)


def _rule(column: dict[str, Any], target: Instant) -> Rule:
    match column["kind"]:
        case "after":
            return After(_whole(column["delay_seconds"], 1))
        case "at":
            return At(target)
        case "every":
            anchor = parse_instant_text(column["anchor_at"])
            return Every(_whole(column["interval_seconds"], 300), anchor)
        case "daily":
            return Daily(_time(column["local_time"]), _zone(column["time_zone"]))
        case "weekly":
            days = _weekdays(column["weekdays"])
            return Weekly(_time(column["local_time"]), days, _zone(column["time_zone"]))
        case "cron":
            expression = column["cron_expression"]
            if canonical_cron(expression) != expression:
                raise ValueError(f"cron_expression {expression!r} is not canonical")
            return Cron(expression, _zone(column["time_zone"]))
    raise ValueError(f"kind {column['kind']!r} is unknown")


def _skips(values: dict[str, Any]) -> tuple[Instant, Instant] | None:
    low, high = values.pop("skips_after_at"), values.pop("skips_to_at")
    return None if low is None or high is None else (low, high)


def _flag(value: Any) -> bool:
    return bool(_whole(value))


def _maybe_whole(value: Any) -> int | None:
    return None if value is None else _whole(value, 1)


def _whole(value: Any, least: int = 0) -> int:
    if not isinstance(value, int):
        raise TypeError("a whole number is missing")
    if value < least:
        raise ValueError(f"{value} is less than {least}")
    return value


def _zone(name: Any) -> str:
    if canonical_zone(name) != name:
        raise ValueError(f"time_zone {name!r} is not in the zone database's spelling")
    return str(name)


def _time(text: str) -> dt.time:
    time = dt.time.fromisoformat(text)
    if time_text(time) != text or time.tzinfo is not None:
        raise ValueError(f"local_time {text!r} is not HH:MM:SS.fff")
    return time


def _weekdays(text: Any) -> tuple[int, ...]:
    days = tuple(int(day) for day in _text(text).split(","))
    if ",".join(map(str, sorted(set(days)))) != text or not set(days) <= set(range(1, 8)):
        raise ValueError(f"weekdays {text!r} are not 1 to 7 in their order, with commas between")
    return days


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("text is missing")
    if "\0" in value:
        raise ValueError("holds a NUL character")
    if not value.isprintable() and _SURROGATE.search(value):
        raise ValueError("holds bytes that are not UTF-8")
    return value


def _filled(value: Any) -> str:
    if not _text(value):
        raise ValueError("is empty")
    return str(value)


def _maybe_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _status(value: Any) -> str:
    if value not in ("active", "ended"):
        raise ValueError(f"{value!r} is not a status that can be sent or listed")
    return str(value)


def _context(text: Any) -> dict[str, str] | None:
    if text is None:
        return None
    value = json.loads(_text(text))
    if not isinstance(value, dict):
        raise TypeError("is not an object")
    return {_text(key): _text(each) for key, each in value.items()} or None


def _maybe_instant(text: str | None) -> Instant | None:
    return None if text is None else parse_instant_text(text)


_DECODED: dict[str, Callable[[Any], Any]] = {
    "number": _whole,
    "owner_uid": _whole,
    "session_id": _filled,
    "title": _maybe_text,
    "prompt": _filled,
    "context": _context,
    "scheduled_at": parse_instant_text,
    "after_at": parse_instant_text,
    "computed_at": parse_instant_text,
    "last_occurrence_at": _maybe_instant,
    "generation": _whole,
    "status": _status,
    "ended_at": _maybe_instant,
    "ended_reason": _maybe_text,
    "revision": _whole,
    "timing_revision": _whole,
    "words_revision": _whole,
    "created_at": parse_instant_text,
    "paused": _flag,
    "snoozed_from": _maybe_whole,
    "until_at": _maybe_instant,
    "max_occurrences": _maybe_whole,
    "dispatch_count": _whole,
    "expires_after_seconds": _maybe_whole,
    "skips_after_at": _maybe_instant,
    "skips_to_at": _maybe_instant,
}
"""How each column outside the rule is read."""


def decode_dispatch(row: Row) -> Dispatch:
    """The dispatch of a row of the `history_…` statements."""
    (
        number,
        followup_id,
        occurrence_id,
        reminder_id,
        session_id,
        occurrence_at,
        decided_at,
        admitted_at,
        host,
        message_id,
        outcome,
        title,
        prompt,
    ) = row
    return Dispatch(
        number=number,
        followup_id=followup_id,
        occurrence_id=occurrence_id,
        reminder_id=reminder_id,
        session_id=session_id,
        occurrence_at=parse_instant_text(occurrence_at),
        decided_at=parse_instant_text(decided_at),
        admitted_at=parse_instant_text(admitted_at),
        host=host or "",
        message_id=message_id,
        outcome=outcome,
        title=title,
        prompt=prompt if prompt is not None else "",
    )
