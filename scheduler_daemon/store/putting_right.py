"""What belongs to reminders, put right: occurrences by hand, idempotency keys, numbers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from scheduler_daemon.model import Key
from scheduler_daemon.rules import parse_instant_text
from scheduler_daemon.store.columns import LARGEST, is_instant
from scheduler_daemon.store.companions import is_run_id
from scheduler_daemon.store.lookups import free_run_id
from scheduler_daemon.store.queries import CARE

IDS_LEFT_OUT = 1_000_000
"""How far ids jump where it is not known which were given out, so that none comes again."""

AT_ONCE = "0001-01-01T00:00:00.000Z"
"""When an occurrence by hand is due that says nothing else."""

_LATEST = parse_instant_text("9998-12-31T00:00:00.000Z")
"""An identity that has to be found can lie a little later."""


def mend_runs(conn: sqlite3.Connection, rows: Iterable[dict[str, Any]]) -> int:
    """Give occurrences by hand an identity and an instant that can be read; gives how many.

    One without an instant is due when it was asked for, which its identity says, else at once.
    """
    count = 0
    for row in rows:
        occurrence_id, number = row["occurrence_id"], row["reminder_number"]
        if is_run_id(occurrence_id, number) and is_instant(row["due_at"]):
            continue
        asked_at = str(occurrence_id)[-len(AT_ONCE) :]
        due_at = next(filter(is_instant, (row["due_at"], asked_at)), AT_ONCE)
        if not is_run_id(occurrence_id, number):
            at = min(parse_instant_text(due_at), _LATEST)
            occurrence_id = free_run_id(conn, number, at)
        values = {"number": row["number"], "due_at": due_at, "occurrence_id": occurrence_id}
        conn.execute(CARE["put_run"], values)
        count += 1
    return count


def key_instants(row: dict[str, Any], now: str) -> dict[str, str | None]:
    """The instants that a row of `all_keys` should have: `created_at`, and `gone_at`.

    A key says since when its reminder is gone, and nothing while that is there.
    """
    made_at, created_at, gone_at = row["made_at"], row["created_at"], row["gone_at"]
    if not is_instant(created_at):
        created_at = made_at if is_instant(made_at) else now
    if made_at is not None:
        gone_at = None
    elif not is_instant(gone_at):
        gone_at = now
    return {"created_at": created_at, "gone_at": gone_at}


def mend_keys(conn: sqlite3.Connection, now: str) -> int:
    """Put the instants of idempotency keys right at the instant `now`; gives how many."""
    wrong = [row for row in named(conn.execute(CARE["all_keys"])) if not has_its_instants(row)]
    for row in wrong:
        who = as_bytes((row["owner_uid"], row["session_id"]))
        key = {"key": row["key"].encode("utf-8", "surrogateescape")}
        conn.execute(CARE["put_key"], key_instants(row, now) | who | key)
    return len(wrong)


def has_its_instants(row: dict[str, Any]) -> bool:
    """Whether the instants of a row of `all_keys` are as they should be."""
    return key_instants(row, AT_ONCE).items() <= row.items()


def named(rows: sqlite3.Cursor) -> Iterator[dict[str, Any]]:
    """Rows with their values by name."""
    names = [each[0] for each in rows.description]
    return (dict(zip(names, row, strict=True)) for row in rows)


def last_numbers(conn: sqlite3.Connection) -> tuple[int | None, int]:
    """The last number that was given out, and the highest that anything speaks of.

    None for the first where the file says what is no number of ours, none that leaves another, or
    several.
    """
    said = [seq for (seq,) in conn.execute(CARE["last_numbers"])] or [0]
    (spoken_of,) = conn.execute(CARE["spoken_of"], {"largest": LARGEST}).fetchone()
    sound = len(said) == 1 and type(said[0]) is int and 0 <= said[0] < LARGEST
    return said[0] if sound else None, spoken_of


def mend_numbers(conn: sqlite3.Connection) -> int:
    """Let ids go on after all that were given out; gives after which."""
    given_out, spoken_of = last_numbers(conn)
    last = spoken_of + (IDS_LEFT_OUT if given_out is None else 0)
    put_last_number(conn, last)
    return last


def put_last_number(conn: sqlite3.Connection, number: int) -> None:
    """Let ids go on above this."""
    conn.execute(CARE["drop_last_number"])
    conn.execute(CARE["put_last_number"], {"number": number})


def as_bytes(key: Key) -> dict[str, object]:
    """A Session as the statements of CARE take it: its name need not be UTF-8."""
    return {"owner": key[0], "session": key[1].encode("utf-8", "surrogateescape")}
