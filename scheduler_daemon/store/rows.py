"""A row of the file into a value and back, strictly: what does not decode is a BadRow."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from scheduler_daemon.errors import PersistenceFailed, SchedulerError
from scheduler_daemon.model import (
    After,
    At,
    Cron,
    Daily,
    Every,
    Instant,
    Reminder,
    Rule,
    Weekly,
)
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store import columns

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
    "former_status",
    "set_aside_reason",
)
"""The order in which every statement selects a reminder."""

MAX_REASON_CHARS = 500
"""What is kept of the reason: it may quote what somebody wrote."""


class BadRow(Exception):
    """A row that does not decode, or was set aside; `reason` says which column and why."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number
        self.reason = reason


def rule_columns(rule: Rule, target: Instant) -> dict[str, Any]:
    """What the rule columns and the target hold for `rule`; an At has no more than its target."""
    found: dict[str, Any] = dict.fromkeys(RULE_COLUMNS)
    found |= {"kind": rule.kind, "scheduled_at": instant_text(target)}
    match rule:
        case After(seconds):
            found["delay_seconds"] = seconds
        case Every(seconds, anchor):
            found |= {"interval_seconds": seconds, "anchor_at": instant_text(anchor)}
        case Daily(time, zone):
            found |= {"local_time": columns.time_text(time), "time_zone": zone}
        case Weekly(time, weekdays, zone):
            days = ",".join(map(str, weekdays))
            found |= {"local_time": columns.time_text(time), "weekdays": days, "time_zone": zone}
        case Cron(expression, zone):
            found |= {"cron_expression": expression, "time_zone": zone}
    return found


def check_countable(*numbers: int) -> None:
    """Raises persistence_failed for one with which no row is read: somebody set it by hand."""
    if max(numbers) > columns.LARGEST:
        raise PersistenceFailed(
            "nothing was stored: what is counted here was set to its end (2^53-1) by hand; "
            "`schedctl doctor --fix` mends ids, `sqlite3` a revision"
        )


def kept_columns(reminder: Reminder) -> dict[str, Any]:
    """What the columns hold that a caller's change may touch. Raises persistence_failed."""
    check_countable(reminder.revision, reminder.timing_revision, reminder.words_revision)
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
        _check_rule(column)
        at = "ends"
        _check_ends(column)
    except (ValueError, TypeError, OverflowError, RecursionError, SchedulerError) as error:
        # What a person reads in SQLite: no surrogates, which it could not keep.
        reason = f"{at}: {error}"[:MAX_REASON_CHARS].encode(errors="backslashreplace").decode()
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
            return After(columns.counted(column["delay_seconds"]))
        case "at":
            return At(target)
        case "every":
            anchor = columns.instant(column["anchor_at"])
            return Every(columns.whole(column["interval_seconds"], 300), anchor)
        case "daily":
            return Daily(columns.time(column["local_time"]), columns.zone(column["time_zone"]))
        case "weekly":
            days, zone = columns.weekdays(column["weekdays"]), columns.zone(column["time_zone"])
            return Weekly(columns.time(column["local_time"]), days, zone)
        case "cron":
            expression = columns.expression(column["cron_expression"])
            return Cron(expression, columns.zone(column["time_zone"]))
    raise ValueError(f"kind {column['kind']!r} is unknown")


def _check_rule(column: dict[str, Any]) -> None:
    """What another kind of rule has would keep the row from being written again."""
    odd = [
        name
        for name in RULE_COLUMNS[1:]
        if column[name] is not None and column["kind"] not in _KINDS[name]
    ]
    if odd:
        raise ValueError(f"{odd[0]} has no place in a rule of the kind {column['kind']}")


def _skips(values: dict[str, Any]) -> tuple[Instant, Instant] | None:
    low, high = values.pop("skips_after_at"), values.pop("skips_to_at")
    if low is None and high is None:
        return None
    # A receipt advances a record that is as it was planned: what is dropped here would keep it.
    if low is None or high is None or low >= high:
        raise ValueError("skips_after_at and skips_to_at are two instants in their order, or none")
    return low, high


def _check_ends(column: dict[str, Any]) -> None:
    """What the schema's CHECKs say of ends, for a row that got past them."""
    if column["kind"] in ("after", "at") and (
        column["until_at"] is not None or column["max_occurrences"] is not None
    ):
        raise ValueError("a one-shot has neither until_at nor max_occurrences")
    ended = (column["ended_at"] is not None, column["ended_reason"] is not None)
    if ended != ((column["status"] == "ended"),) * 2:
        raise ValueError("an ended reminder has ended_at and ended_reason, an active one neither")
    if column["former_status"] is not None or column["set_aside_reason"] is not None:
        raise ValueError("former_status and set_aside_reason are of a reminder that is set aside")


_KINDS = {
    "delay_seconds": ("after",),
    "interval_seconds": ("every",),
    "anchor_at": ("every",),
    "local_time": ("daily", "weekly"),
    "weekdays": ("weekly",),
    "cron_expression": ("cron",),
    "time_zone": ("daily", "weekly", "cron"),
}
"""The kinds of rules that have a column."""


_DECODED: dict[str, Callable[[Any], Any]] = {
    "number": columns.counted,
    "owner_uid": columns.uid,
    "session_id": columns.session,
    "title": columns.title,
    "prompt": columns.filled(columns.MAX_PROMPT_CHARS),
    "context": columns.context,
    "scheduled_at": columns.instant,
    "after_at": columns.instant,
    "computed_at": columns.instant,
    "last_occurrence_at": columns.maybe_instant,
    "generation": columns.whole,
    "status": columns.status,
    "ended_at": columns.maybe_instant,
    "ended_reason": columns.ended_reason,
    "revision": columns.counted,
    "timing_revision": columns.counted,
    "words_revision": columns.counted,
    "created_at": columns.instant,
    "paused": columns.flag,
    "snoozed_from": columns.maybe_counted,
    "until_at": columns.maybe_instant,
    "max_occurrences": columns.maybe_counted,
    "dispatch_count": columns.whole,
    "expires_after_seconds": columns.maybe_counted,
    "skips_after_at": columns.maybe_instant,
    "skips_to_at": columns.maybe_instant,
}
"""How each column outside the rule is read."""
