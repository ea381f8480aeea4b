"""What doctor finds in single reminders: those that are set aside, or should be; odd targets."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from scheduler_daemon.model import At, OneShot, Reminder
from scheduler_daemon.rules import first, instant_text, zone_data_version, zone_of
from scheduler_daemon.store.columns import LARGEST, is_instant
from scheduler_daemon.store.finding import FIX, Finding, fixable
from scheduler_daemon.store.lookups import meta_value
from scheduler_daemon.store.queries import CARE
from scheduler_daemon.store.rows import REMINDER_COLUMNS, BadRow, Row, read_reminder
from scheduler_daemon.store.upkeep import ZONE_DATA, counted_from

_STATUS = REMINDER_COLUMNS.index("status")
_TARGET = REMINDER_COLUMNS.index("scheduled_at")
_AFTER = REMINDER_COLUMNS.index("after_at")
_ENDED = REMINDER_COLUMNS.index("ended_at")
_FORMER = REMINDER_COLUMNS.index("former_status")
_REASON = REMINDER_COLUMNS.index("set_aside_reason")


def in_reminders(conn: sqlite3.Connection) -> Iterator[Finding]:
    """What is found in the table of reminders."""
    same_zones = meta_value(conn, ZONE_DATA) in (None, zone_data_version())
    for row in conn.execute(CARE["all_reminders"]):
        read = read_reminder(row)
        if isinstance(read, BadRow):
            yield _unreadable(row, read)
        elif read.status == "active":
            yield from _last_occurrence(conn, read)
            if same_zones or zone_of(read.rule) is None:
                yield from _target(read)


def is_aside(row: Row) -> bool:
    return bool(row[_STATUS] == "set_aside")


def former_status(row: Row) -> str:
    """The status that a row has or, set aside, had; the likeliest where that is none."""
    said = row[_FORMER] if is_aside(row) else row[_STATUS]
    if said in ("active", "ended"):
        return str(said)
    return "active" if row[_ENDED] is None else "ended"


def restored(row: Row) -> Row:
    """The row as it would be with that status."""
    values = list(row)
    values[_STATUS], values[_FORMER], values[_REASON] = former_status(row), None, None
    return tuple(values)


def computed_target(row: Row) -> str | None:
    """The target of a row in which nothing but that cannot be read; None for any other."""
    if is_instant(row[_TARGET]) or not is_instant(row[_AFTER]):
        return None
    read = read_reminder((*row[:_TARGET], row[_AFTER], *row[_TARGET + 1 :]))
    if not isinstance(read, Reminder) or isinstance(read.rule, At):
        return None  # of an at there is nothing but the target
    target = first(read.rule, read.after_at)
    return None if target is None else instant_text(target)


def wrong_last_occurrence(conn: sqlite3.Connection, reminder: Reminder) -> bool:
    """Whether a reminder is kept back by an occurrence of which there is no receipt."""
    last = reminder.last_occurrence_at
    if isinstance(reminder.rule, OneShot) or last is None or last < reminder.scheduled_at:
        return False
    newest = newest_receipt_of(conn, reminder.number)
    return newest is None or newest < instant_text(last)


def newest_receipt_of(conn: sqlite3.Connection, number: int) -> str | None:
    """The newest occurrence by its rule that receipts of a reminder say came."""
    (at,) = conn.execute(CARE["newest_receipt_of"], {"number": number}).fetchone()
    return at if is_instant(at) else None


def _unreadable(row: Row, read: BadRow) -> Finding:
    was = restored(row)
    again = read_reminder(was)
    if is_aside(row):
        return _set_aside(row, was, again)
    said = f"r{row[0]} cannot be read: {read.reason}"
    if isinstance(again, Reminder):
        return fixable("unreadable", f"{said}; all else of it can", f"make it {again.status}")
    if computed_target(was) is not None:
        return fixable("unreadable", f"{said}; its rule says the target", "compute it anew")
    return Finding(
        "unreadable",
        f"{said}; the daemon sets it aside when it meets it",
        f"{_by_hand(again, row)}; or set it aside: {FIX}",
        fixable=True,
    )


def _set_aside(row: Row, was: Row, again: Reminder | BadRow) -> Finding:
    said = f"r{row[0]} is set aside"
    if isinstance(again, Reminder):
        text = f"{said} ({row[_REASON]}) and can be read again"
        return fixable("set_aside", text, f"put it back, {again.status}")
    if computed_target(was) is not None:
        text = f"{said}: {again.reason}; its rule says what the target would be"
        return fixable("set_aside", text, "compute it anew")
    hand = f"{_by_hand(again, row)}, then `schedctl doctor --fix`"
    gone = f"; or `schedctl delete r{row[0]}`" if 1 <= row[0] <= LARGEST else ""
    return Finding("set_aside", f"{said} and never sent: {again.reason}", hand + gone)


def _by_hand(bad: BadRow, row: Row) -> str:
    column = bad.reason.partition(":")[0]
    if column == "number":
        return f"no id is made of it: delete {row[0]} from the table of reminders with sqlite3"
    what = column if column in REMINDER_COLUMNS else f"the {column}"
    return f"mend {what} of number {row[0]} in the table of reminders with sqlite3"


def _last_occurrence(conn: sqlite3.Connection, reminder: Reminder) -> Iterator[Finding]:
    if wrong_last_occurrence(conn, reminder):
        last = reminder.last_occurrence_at
        assert last is not None  # it would keep nothing back
        yield fixable(
            "last_occurrence",
            f"{reminder.id} says that its occurrence of {instant_text(last)} came, of which there "
            "is no receipt: none before that is sent",
            "let it say what its receipts say",
        )


def _target(reminder: Reminder) -> Iterator[Finding]:
    """Explained and left alone: whoever moved a target by hand wants it sent."""
    if isinstance(reminder.rule, OneShot):
        return
    since = counted_from(reminder)
    expected = first(reminder.rule, since)
    if expected == reminder.scheduled_at:
        return
    said = "none" if expected is None else instant_text(expected)
    yield Finding(
        "target",
        f"{reminder.id} has the target {instant_text(reminder.scheduled_at)}, its rule says "
        f"{said} after {instant_text(since)}: it is sent as it stands, and goes on by "
        "its rule",
        kind="note",
    )
