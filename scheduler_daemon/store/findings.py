"""What doctor finds in the rows of a file that has the schema, and what each finding is called."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scheduler_daemon.model import At, OneShot, Reminder
from scheduler_daemon.rules import first, instant_text, zone_data_version, zone_of
from scheduler_daemon.store.columns import instant
from scheduler_daemon.store.lookups import Key, meta_value
from scheduler_daemon.store.mending import BEFORE_ALL, wrong_elsewhere, wrong_sessions
from scheduler_daemon.store.queries import CARE
from scheduler_daemon.store.rows import (
    REMINDER_COLUMNS,
    BadRow,
    Row,
    read_dispatch,
    read_reminder,
)
from scheduler_daemon.store.upkeep import ZONE_DATA

_STATUS = REMINDER_COLUMNS.index("status")
_TARGET = REMINDER_COLUMNS.index("scheduled_at")
_AFTER = REMINDER_COLUMNS.index("after_at")

Kind = Literal["problem", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that somebody should know, in a sentence.

    A `note` is no fault. `mend` says what to do about a problem; `fixable` is whether
    `doctor --fix` does it.
    """

    code: str
    text: str
    mend: str = ""
    kind: Kind = "problem"
    fixable: bool = False


FIX = "`schedctl doctor --fix` does it"


def in_rows(conn: sqlite3.Connection) -> Iterator[Finding]:
    """What is found in all tables, in one snapshot that the caller opened."""
    yield from _counts(conn)
    yield from _reminders(conn)
    yield from _runs(conn)
    yield from _receipts(conn)
    yield from _leftovers(conn)


def _counts(conn: sqlite3.Connection) -> Iterator[Finding]:
    place: Key | None = BEFORE_ALL
    wrong: list[Key] = []
    while place is not None:
        found, place = wrong_sessions(conn, place)
        wrong += found
    empty, owners = wrong_elsewhere(conn)
    wrong += empty
    if wrong:
        owner, name = wrong[0]
        yield Finding(
            "counts",
            f"the table of Sessions is wrong about {len(wrong)}, the first is {name!r} of uid "
            f"{owner}; what it does not know of is not sent",
            f"it is counted anew: {FIX}, and so does the daemon at its start and at SIGHUP",
            fixable=True,
        )
    if owners and not wrong:
        yield Finding(
            "counts",
            f"the table of owners is wrong about {len(owners)}, the first is uid {owners[0]}",
            f"it is counted anew: {FIX}",
            fixable=True,
        )


def _reminders(conn: sqlite3.Connection) -> Iterator[Finding]:
    same_zones = meta_value(conn, ZONE_DATA) in (None, zone_data_version())
    for *columns, former, reason in conn.execute(CARE["all_reminders"]):
        row = tuple(columns)
        if row[_STATUS] == "set_aside":
            yield _set_aside(row, former, reason)
            continue
        read = read_reminder(row)
        if isinstance(read, BadRow):
            yield _unreadable(row, read)
        elif read.status == "active" and (same_zones or zone_of(read.rule) is None):
            yield from _target(read)


def _set_aside(row: Row, former: object, reason: object) -> Finding:
    name = f"r{row[0]}"
    again = read_reminder(restored(row, former))
    if isinstance(again, Reminder):
        return Finding(
            "set_aside",
            f"{name} is set aside ({reason}) and can be read again",
            f"put it back: {FIX}",
            fixable=True,
        )
    if computed_target(restored(row, former)) is not None:
        return Finding(
            "set_aside",
            f"{name} is set aside: {again.reason}; its rule says what the target would be",
            f"compute it anew: {FIX}",
            fixable=True,
        )
    return Finding(
        "set_aside",
        f"{name} is set aside and never sent: {again.reason}",
        f"{_by_hand(again, row)}, then `schedctl doctor --fix`; or `schedctl delete {name}`",
    )


def _unreadable(row: Row, bad: BadRow) -> Finding:
    return Finding(
        "unreadable",
        f"r{bad.number} cannot be read: {bad.reason}; the daemon sets it aside when it meets it",
        f"{_by_hand(bad, row)}; or set it aside: {FIX}",
        fixable=True,
    )


def _by_hand(bad: BadRow, row: Row) -> str:
    column = bad.reason.partition(":")[0]
    what = column if column in REMINDER_COLUMNS else "what is wrong"
    return f"mend {what} of number {row[0]} in the table of reminders with sqlite3"


def restored(row: Row, former: object) -> Row:
    """The row as it would be with its former status."""
    return (*row[:_STATUS], former, *row[_STATUS + 1 :])


def computed_target(row: Row) -> str | None:
    """The target of a row in which nothing but that cannot be read; None for any other."""
    if is_instant(row[_TARGET]) or not is_instant(row[_AFTER]):
        return None
    read = read_reminder((*row[:_TARGET], row[_AFTER], *row[_TARGET + 1 :]))
    if not isinstance(read, Reminder) or isinstance(read.rule, At):
        return None  # of an at there is nothing but the target
    target = first(read.rule, read.after_at)
    return None if target is None else instant_text(target)


def _target(reminder: Reminder) -> Iterator[Finding]:
    """Explained and left alone: whoever moved a target by hand wants it sent."""
    if isinstance(reminder.rule, OneShot):
        return
    expected = first(reminder.rule, reminder.after_at)
    if expected == reminder.scheduled_at:
        return
    said = "none" if expected is None else instant_text(expected)
    yield Finding(
        "target",
        f"{reminder.id} has the target {instant_text(reminder.scheduled_at)}, its rule says "
        f"{said} after {instant_text(reminder.after_at)}: it is sent as it stands, and goes on by "
        "its rule",
        kind="note",
    )


def _runs(conn: sqlite3.Connection) -> Iterator[Finding]:
    for number, occurrence_id, due_at, is_there, same in conn.execute(CARE["all_runs"]):
        what = f"occurrence {occurrence_id} asked for by hand (run {number})"
        if not is_there:
            yield Finding(
                "runs", f"{what} is of a reminder that is gone", f"drop it: {FIX}", fixable=True
            )
        elif not same:
            text = f"{what} is kept in another Session than its reminder, and is never sent"
            yield Finding("runs", text, f"move it there: {FIX}", fixable=True)
        elif not is_instant(due_at):
            text = f"{what} has an instant that cannot be read, {due_at!r}"
            yield Finding("runs", text, f"make it due: {FIX}", fixable=True)


def is_instant(value: object) -> bool:
    try:
        instant(value)
    except (ValueError, TypeError):
        return False
    return True


def _receipts(conn: sqlite3.Connection) -> Iterator[Finding]:
    bad = [row for row in conn.execute(CARE["all_dispatches"]) if read_dispatch(row) is None]
    if bad:
        number, _, occurrence_id = bad[0][:3]
        yield Finding(
            "receipts",
            f"{len(bad)} receipts cannot be read and are shown to nobody; the first is number "
            f"{number}, of {occurrence_id}",
            "mend or delete them in the table of dispatches with sqlite3",
        )


def _leftovers(conn: sqlite3.Connection) -> Iterator[Finding]:
    (keys,) = conn.execute(CARE["keys_of_nobody"]).fetchone()
    if keys:
        text = f"{keys} idempotency keys are of reminders that are gone, and do not say since when"
        yield Finding("keys", text, f"let them go like others: {FIX}", fixable=True)
    (words,) = conn.execute(CARE["words_of_nobody"]).fetchone()
    if words:
        text = f"{words} former words belong to no receipt"
        yield Finding("past_words", text, f"drop them: {FIX}", fixable=True)
    given_out, spoken_of = conn.execute(CARE["last_numbers"]).fetchone()
    if spoken_of > given_out:
        yield Finding(
            "numbers",
            f"ids go on after r{given_out}, but something speaks of r{spoken_of}: an id would come "
            "again",
            f"let them go on after that: {FIX}",
            fixable=True,
        )
