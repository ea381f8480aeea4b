"""What `doctor --fix` does about what was found in rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection

from scheduler_daemon.model import Reminder
from scheduler_daemon.store.mending import count_all, set_aside
from scheduler_daemon.store.putting_right import mend_keys, mend_numbers, mend_runs, named
from scheduler_daemon.store.queries import CARE
from scheduler_daemon.store.reminder_findings import (
    computed_target,
    former_status,
    is_aside,
    newest_receipt_of,
    restored,
    wrong_last_occurrence,
)
from scheduler_daemon.store.rows import BadRow, Row, read_reminder


def mend_rows(conn: sqlite3.Connection, codes: Collection[str], now: str) -> list[str]:
    """Mend what was found under these codes; gives what was done, in words."""
    done = []
    if "counts" in codes:
        count_all(conn)
        done.append("Sessions and owners were counted anew")
    for code, act, what in _COUNTED:
        count = act(conn, now) if code in codes else 0
        done += [f"{count} {what}"] if count else []
    if "set_aside" in codes or "unreadable" in codes:
        done += _each_reminder(conn, _mend_bad)
    if "last_occurrence" in codes:
        done += _each_reminder(conn, _mend_last)
    if "numbers" in codes:
        done.append(f"ids go on after r{mend_numbers(conn)}")
    count_all(conn)
    return done


def _carry_out(name: str) -> Callable[[sqlite3.Connection, str], int]:
    return lambda conn, _: conn.execute(CARE[name]).rowcount


def _mend_runs(conn: sqlite3.Connection, _: str) -> int:
    return mend_runs(conn, list(named(conn.execute(CARE["all_runs"]))))


_COUNTED: tuple[tuple[str, Callable[[sqlite3.Connection, str], int], str], ...] = (
    (
        "runs",
        _carry_out("drop_orphan_runs"),
        "occurrences by hand of reminders that are gone were dropped",
    ),
    (
        "runs",
        _carry_out("move_runs"),
        "occurrences by hand were moved to their reminders' Sessions",
    ),
    ("runs", _mend_runs, "occurrences by hand got an identity and an instant"),
    ("keys", mend_keys, "idempotency keys got their instants"),
    ("past_words", _carry_out("drop_words"), "former words were dropped"),
)
"""By the code of the finding: what is done, and in words to how many."""


def _each_reminder(
    conn: sqlite3.Connection, mend: Callable[[sqlite3.Connection, Row], list[str]]
) -> list[str]:
    return [what for row in conn.execute(CARE["all_reminders"]) for what in mend(conn, row)]


def _mend_bad(conn: sqlite3.Connection, row: Row) -> list[str]:
    """Put back what can be read, compute a target that cannot, set aside what else cannot."""
    read = read_reminder(row)
    if isinstance(read, Reminder):
        return []
    was, name = restored(row), f"r{row[0]}"
    target = computed_target(was)
    done = []
    if target is not None:
        conn.execute(CARE["put_target"], {"number": row[0], "target": target})
        done.append(f"{name} has the target {target} from its rule")
    if target is not None or not isinstance(read_reminder(was), BadRow):
        return done + _put_back(conn, row, was)
    if is_aside(row):
        return []
    set_aside(conn, [read])
    return [f"{name} was set aside"]


def _put_back(conn: sqlite3.Connection, row: Row, was: Row) -> list[str]:
    if row == was:
        return []
    status = former_status(row)
    conn.execute(CARE["put_back"], {"number": row[0], "status": status})
    return [f"r{row[0]} was put back" if is_aside(row) else f"r{row[0]} is {status} again"]


def _mend_last(conn: sqlite3.Connection, row: Row) -> list[str]:
    """Let a reminder say of its newest occurrence what its receipts say."""
    read = read_reminder(row)
    if isinstance(read, BadRow) or read.status != "active" or not wrong_last_occurrence(conn, read):
        return []
    at = newest_receipt_of(conn, read.number)
    conn.execute(CARE["put_last_occurrence"], {"number": read.number, "at": at})
    return [f"{read.id} says what its receipts say came last: {at or 'nothing'}"]
