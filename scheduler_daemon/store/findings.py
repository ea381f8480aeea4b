"""What doctor finds in the rows of a file that has the schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from scheduler_daemon.model import Key
from scheduler_daemon.store.columns import LARGEST, is_instant, shown
from scheduler_daemon.store.companions import is_run_id, wrong
from scheduler_daemon.store.finding import FIX, Finding, fixable
from scheduler_daemon.store.mending import BEFORE_ALL, wrong_elsewhere, wrong_sessions
from scheduler_daemon.store.putting_right import (
    IDS_LEFT_OUT,
    has_its_instants,
    last_numbers,
    named,
)
from scheduler_daemon.store.queries import CARE
from scheduler_daemon.store.reminder_findings import in_reminders
from scheduler_daemon.store.rows import MAX_REASON_CHARS


def in_rows(conn: sqlite3.Connection) -> Iterator[Finding]:
    """What is found in all tables, in one snapshot that the caller opened."""
    yield from _counts(conn)
    yield from in_reminders(conn)
    for row in named(conn.execute(CARE["all_runs"])):
        yield from _run(row)
    yield from _receipts(conn)
    yield from _keys(conn)
    yield from _words(conn)
    yield from _numbers(conn)


def _counts(conn: sqlite3.Connection) -> Iterator[Finding]:
    place: Key | None = BEFORE_ALL
    found: list[Key] = []
    while place is not None:
        some, place = wrong_sessions(conn, place)
        found += some
    empty, owners = wrong_elsewhere(conn)
    found += empty
    if found:
        owner, name = found[0]
        yield Finding(
            "counts",
            f"the table of Sessions is wrong about {len(found)}, the first is {shown(name)} of uid "
            f"{owner}; what it does not know of is not sent",
            f"it is counted anew: {FIX}, and so does the daemon at its start and at SIGHUP",
            fixable=True,
        )
    if owners and not found:
        text = f"the table of owners is wrong about {len(owners)}, the first is uid {owners[0]}"
        yield fixable("counts", text, "it is counted anew")


def _run(row: dict[str, Any]) -> Iterator[Finding]:
    occurrence_id, number = row["occurrence_id"], row["reminder_number"]
    what = f"occurrence {shown(occurrence_id)} asked for by hand (run {row['number']})"
    if row["of_owner"] is None:
        yield fixable("runs", f"{what} is of a reminder that is gone", "drop it")
        return
    if (row["of_owner"], row["in_session"]) != (row["owner_uid"], row["session_id"]):
        text = f"{what} is kept in another Session than its reminder, and is never sent"
        yield fixable("runs", text, "move it there")
    if not is_instant(row["due_at"]):
        text = f"{what} has an instant that cannot be read, {shown(row['due_at'])}"
        yield fixable("runs", text, "make it due")
    if not is_run_id(occurrence_id, number):
        text = f"{what} has no identity of an occurrence of r{number}"
        yield fixable("runs", text, "give it one")


def _receipts(conn: sqlite3.Connection) -> Iterator[Finding]:
    rows = named(conn.execute(CARE["all_receipts"]))
    yield from _unreadable(
        "receipts",
        "receipts cannot be read, and history leaves them out or shows them as they are not",
        ((f"number {row['number']}", _wrong_number(row) | wrong("receipt", row)) for row in rows),
        "dispatches",
    )


def _wrong_number(row: dict[str, Any]) -> dict[str, str]:
    number = row["number"]
    return {} if 1 <= number <= LARGEST else {"number": f"{number} is not from 1 to {LARGEST}"}


def _keys(conn: sqlite3.Connection) -> Iterator[Finding]:
    rows = named(conn.execute(CARE["all_keys"]))
    yield from _unreadable(
        "keys",
        "idempotency keys cannot be read, and no longer stand for what was asked with them",
        ((shown(row["key"]), _without_instants(wrong("key", row))) for row in rows),
        "idempotency_keys",
    )
    rows = named(conn.execute(CARE["all_keys"]))
    if count := sum(not has_its_instants(row) for row in rows):
        text = f"{count} idempotency keys say wrongly when they came, or since when they may go"
        yield fixable("keys", text, "put that right")


def _without_instants(found: dict[str, str]) -> dict[str, str]:
    """What is wrong with a key beside what is put right."""
    return {name: why for name, why in found.items() if not name.endswith("_at")}


def _words(conn: sqlite3.Connection) -> Iterator[Finding]:
    rows = named(conn.execute(CARE["all_words"]))
    yield from _unreadable(
        "past_words",
        "former words cannot be read, and history leaves their receipts out",
        ((f"of r{row['reminder_number']}", wrong("words", row)) for row in rows if row["is_used"]),
        "past_words",
    )
    rows = named(conn.execute(CARE["all_words"]))
    if unused := sum(not row["is_used"] for row in rows):
        yield fixable("past_words", f"{unused} former words belong to no receipt", "drop them")


def _unreadable(
    code: str, what: str, rows: Iterable[tuple[str, dict[str, str]]], table: str
) -> Iterator[Finding]:
    """One finding for all rows of a table in which something is wrong."""
    found = [(name, why) for name, why in rows if why]
    if found:
        name, why = found[0]
        column, reason = next(iter(why.items()))
        yield Finding(
            code,
            f"{len(found)} {what}; the first is {name}: {column}: {reason[:MAX_REASON_CHARS]}",
            f"mend or delete them in the table of {table} with sqlite3",
        )


def _numbers(conn: sqlite3.Connection) -> Iterator[Finding]:
    given_out, spoken_of = last_numbers(conn)
    if given_out is None:
        text = "which id was given out last cannot be read"
        yield fixable("numbers", text, f"ids go on {IDS_LEFT_OUT:,} after r{spoken_of}")
    elif spoken_of > given_out:
        text = f"ids go on after r{given_out}, but something speaks of r{spoken_of}"
        yield fixable("numbers", f"{text}: an id would come again", "let them go on after that")
