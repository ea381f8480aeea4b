"""A row of the file into a value and back, strictly: what does not decode is a BadRow."""

from __future__ import annotations

import datetime as dt
import json
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
)
"""The order in which every statement selects a reminder."""


class BadRow(Exception):
    """A row that does not decode; the message says which column and why."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number
        self.reason = reason


def rule_columns(rule: Rule, target: Instant) -> dict[str, Any]:
    """What the rule columns hold for `rule`; the target is a column of its own."""
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
        case At():
            pass  # only the target
    return columns


def context_text(context: Any) -> str | None:
    """A context as stored; an empty one is none."""
    return json.dumps(context, ensure_ascii=False, sort_keys=True) if context else None


def time_text(time: dt.time) -> str:
    return time.isoformat("milliseconds")


def decode_reminder(row: Row) -> Reminder:
    """The reminder of a row in the order of REMINDER_COLUMNS; raises BadRow."""
    column = dict(zip(REMINDER_COLUMNS, row, strict=True))
    try:
        return _decode(column)
    except (ValueError, TypeError, KeyError, SchedulerError) as error:
        raise BadRow(column["number"], str(error) or type(error).__name__) from error


def _decode(column: dict[str, Any]) -> Reminder:
    scheduled_at = parse_instant_text(column["scheduled_at"])
    return Reminder(
        number=column["number"],
        owner_uid=column["owner_uid"],
        session_id=_text(column["session_id"]),
        rule=_rule(column, scheduled_at),
        title=None if column["title"] is None else _text(column["title"]),
        prompt=_text(column["prompt"]),
        context=_context(column["context"]),
        scheduled_at=scheduled_at,
        after_at=parse_instant_text(column["after_at"]),
        computed_at=parse_instant_text(column["computed_at"]),
        last_occurrence_at=_maybe_instant(column["last_occurrence_at"]),
        generation=column["generation"],
        status=column["status"],
        ended_at=_maybe_instant(column["ended_at"]),
        ended_reason=column["ended_reason"],
        revision=column["revision"],
        timing_revision=column["timing_revision"],
        words_revision=column["words_revision"],
        created_at=parse_instant_text(column["created_at"]),
    )


def _rule(column: dict[str, Any], target: Instant) -> Rule:
    match column["kind"]:
        case "after":
            return After(column["delay_seconds"])
        case "at":
            return At(target)
        case "every":
            return Every(column["interval_seconds"], parse_instant_text(column["anchor_at"]))
        case "daily":
            return Daily(_time(column["local_time"]), _zone(column["time_zone"]))
        case "weekly":
            days = tuple(int(day) for day in column["weekdays"].split(","))
            if days != tuple(sorted(set(days))):
                raise ValueError(f"weekdays {column['weekdays']!r} are not in order")
            return Weekly(_time(column["local_time"]), days, _zone(column["time_zone"]))
        case "cron":
            expression = column["cron_expression"]
            if canonical_cron(expression) != expression:
                raise ValueError(f"cron_expression {expression!r} is not canonical")
            return Cron(expression, _zone(column["time_zone"]))
    raise ValueError(f"kind {column['kind']!r} is unknown")


def _zone(name: str) -> str:
    if canonical_zone(name) != name:
        raise ValueError(f"time_zone {name!r} is not in the zone database's spelling")
    return name


def _time(text: str) -> dt.time:
    time = dt.time.fromisoformat(text)
    if time_text(time) != text or time.tzinfo is not None:
        raise ValueError(f"local_time {text!r} is not HH:MM:SS.fff")
    return time


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("text with a NUL character")
    return value


def _context(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    value = json.loads(text)
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ValueError("context is not an object of strings")
    return value


def _maybe_instant(text: str | None) -> Instant | None:
    return None if text is None else parse_instant_text(text)


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
