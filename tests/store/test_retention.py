"""What goes after a while, against a model in plain Python; and how little one slice touches."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_daemon.rules import instant_text
from scheduler_daemon.store import retention
from scheduler_daemon.store.database import connect
from scheduler_daemon.store.lookups import START
from scheduler_daemon.store.retention import (
    REMOVED,
    Gone,
    Keep,
    Part,
    Pass,
    ended_reminders,
    gone_keys,
    old_receipts,
    receipts_beyond,
)
from tests.store.support import OWNER, T0, assert_counted

ALL: tuple[Pass, ...] = (receipts_beyond, old_receipts, ended_reminders, gone_keys)
KEEP = Keep(history_days=3, history_per_reminder=3, ended_days=2)


def ago(days: float) -> str:
    return instant_text(T0 - dt.timedelta(days=days))


@dataclass(frozen=True)
class Kept:
    """A reminder of the model; `status` is gone for one that was deleted at `ended`, in days ago.

    `receipts` are days ago, occurrence and revision of the words; `last` is the occurrence that it
    came with last.
    """

    status: str
    ended: float
    receipts: tuple[tuple[float, int, int], ...]
    last: int | None
    words: int
    run: bool
    key: bool

    @property
    def live(self) -> bool:
        return self.status in ("active", "set_aside")


DAYS = st.sampled_from([0.0, 1.0, 2.0, 2.5, 3.0, 3.5, 9.0, -400.0])
kept = st.builds(
    Kept,
    status=st.sampled_from(["active", "active", "ended", "set_aside", "gone"]),
    ended=DAYS,
    receipts=st.lists(st.tuples(DAYS, st.integers(1, 9), st.integers(1, 3)), max_size=7).map(tuple),
    last=st.none() | st.integers(1, 9),
    words=st.integers(1, 3),
    run=st.booleans(),
    key=st.booleans(),
)


_REMINDER = """
INSERT INTO reminders (number, owner_uid, session_id, kind, delay_seconds, prompt, scheduled_at,
  after_at, computed_at, created_at, last_occurrence_at, words_revision)
VALUES (?1, ?2, 's', 'after', 60, 'now', ?3, ?3, ?3, ?3, ?4, ?5)
"""
_KEY = """
INSERT INTO idempotency_keys (owner_uid, session_id, key, request_hash, reminder_number, created_at,
  gone_at)
VALUES (?2, 's', 'k' || ?1, 'h', ?1, ?3, ?4)
"""
_RECEIPT = """
INSERT INTO dispatches (occurrence_id, followup_id, reminder_number, owner_uid, session_id,
  occurrence_at, decided_at, admitted_at, host, outcome, words_revision)
VALUES ('o' || ?1 || '.' || ?6, 'f', ?1, ?2, 's', ?3, ?4, ?4, 'h', 'admitted', ?5)
"""
_WORDS = "INSERT OR IGNORE INTO past_words SELECT ?1, ?2, NULL, 'then' WHERE ?2 <> ?3"
_RUN = """
INSERT INTO runs (occurrence_id, reminder_number, owner_uid, session_id, due_at)
VALUES ('run' || ?1, ?1, ?2, 's', ?3)
"""


def write(conn: sqlite3.Connection, number: int, one: Kept) -> None:
    """A reminder of the model with all that belongs to it, as the daemon would have left it."""
    conn.execute(_REMINDER, (number, OWNER, ago(20), occurrence(one.last), one.words))
    for place, (days, at, words) in enumerate(one.receipts):
        conn.execute(_RECEIPT, (number, OWNER, occurrence(at), ago(days), words, place))
        conn.execute(_WORDS, (number, words, one.words))
    if one.key:
        gone_at = ago(one.ended) if one.status == "gone" else None
        conn.execute(_KEY, (number, OWNER, ago(20), gone_at))
    if one.run and one.status != "gone":
        conn.execute(_RUN, (number, OWNER, ago(0)))
    finish(conn, number, one)


def finish(conn: sqlite3.Connection, number: int, one: Kept) -> None:
    match one.status:
        case "gone":
            conn.execute("DELETE FROM reminders WHERE number = ?", (number,))
        case "ended":
            conn.execute(
                "UPDATE reminders SET status = 'ended', ended_at = ?, ended_reason = 'delivered'"
                " WHERE number = ?",
                (ago(one.ended), number),
            )
        case "set_aside":
            conn.execute(
                "UPDATE reminders SET status = 'set_aside', former_status = 'active',"
                " set_aside_reason = 'because' WHERE number = ?",
                (number,),
            )


def occurrence(number: int | None) -> str | None:
    return None if number is None else ago(number)


def stays(one: Kept) -> list[int]:
    """The places of the receipts that are there afterwards."""
    left = []
    for place, (days, at, _) in enumerate(one.receipts):
        newer = len(one.receipts) - place - 1
        in_time = days <= KEEP.history_days or (one.live and newer == 0)
        few = newer < KEEP.history_per_reminder
        if (few and in_time) or (one.live and at == one.last):
            left.append(place)
    return left


def is_gone(one: Kept) -> bool:
    return one.status == "gone" or (
        one.status == "ended" and one.ended > KEEP.ended_days and not one.run
    )


def key_of(one: Kept) -> str | None:
    """When the reminder of its key went; the word kept where it has not, None without the key."""
    if not one.key:
        return None
    if one.status == "gone":
        return ago(one.ended) if one.ended <= KEEP.ended_days else None
    return ago(0) if is_gone(one) else "kept"


def run_all(conn: sqlite3.Connection, *passes: Pass) -> list[Part]:
    """Every slice of the passes, to their ends."""
    parts = []
    for each in passes or ALL:
        mark = START
        while True:
            looked = each(conn, KEEP, T0, mark, False)
            changes = conn.total_changes
            assert each(conn, KEEP, T0, mark, False) == looked
            assert conn.total_changes == changes  # looking changes nothing
            part = each(conn, KEEP, T0, mark, True)
            assert part.found == looked.found
            assert part.found <= REMOVED
            parts.append(part)
            mark = part.mark
            if part.done:
                break
    return parts


@pytest.fixture(scope="module")
def conn(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("retention") / "scheduler.db"
    path.write_bytes(template.read_bytes())
    conn = connect(path, read_only=False)
    yield conn
    conn.close()


def read(conn: sqlite3.Connection, statement: str) -> list[tuple[object, ...]]:
    return conn.execute(statement).fetchall()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(kept, max_size=8), st.sampled_from([1, 2, 3, 100]))
def test_what_goes_and_what_stays_is_what_a_model_says(
    conn: sqlite3.Connection, reminders: list[Kept], size: int
) -> None:
    conn.execute("BEGIN")
    try:
        for number, one in enumerate(reminders, 1):
            write(conn, number, one)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(retention, "SLICE", size)
            patch.setattr(retention, "REMOVED", min(size, REMOVED))
            parts = run_all(conn)
            assert not any(part.found for part in run_all(conn))
        check(conn, reminders, parts)
    finally:
        conn.rollback()


def check(conn: sqlite3.Connection, reminders: list[Kept], parts: list[Part]) -> None:
    numbered = list(enumerate(reminders, 1))
    receipts = [(n, place) for n, one in numbered for place in stays(one)]
    words = {(n, reminders[n - 1].receipts[place][2]) for n, place in receipts}
    there = {n for n, one in numbered if not is_gone(one)}
    assert read(conn, "SELECT occurrence_id FROM dispatches ORDER BY number") == [
        (f"o{n}.{place}",) for n, place in receipts
    ]
    assert {n for (n,) in read(conn, "SELECT number FROM reminders")} == there
    assert set(read(conn, "SELECT reminder_number, words_revision FROM past_words")) == {
        (n, revision)
        for n, revision in words
        if n not in there or revision != reminders[n - 1].words
    }
    keys = read(conn, "SELECT key, coalesce(gone_at, 'kept') FROM idempotency_keys ORDER BY key")
    assert keys == [(f"k{n}", key_of(one)) for n, one in numbered if key_of(one)]
    assert sorted(gone for part in parts for gone in part.gone) == [
        Gone(n, OWNER, "s") for n, one in numbered if is_gone(one) and one.status != "gone"
    ]
    assert_counted(conn)


FAR_AHEAD = Kept(
    "active", 0, ((-400, 9, 1), *[(0, at, 1) for at in range(1, 9)]), 9, 1, False, False
)


def test_the_receipt_of_a_clock_that_ran_ahead_stays_while_it_decides_what_is_sent(
    conn: sqlite3.Connection,
) -> None:
    """Without it every occurrence up to that far one would count as dispatched."""
    conn.execute("BEGIN")
    write(conn, 1, FAR_AHEAD)
    run_all(conn)
    left = read(conn, "SELECT occurrence_id FROM dispatches")
    conn.rollback()
    assert left == [("o1.0",), ("o1.6",), ("o1.7",), ("o1.8",)]


def test_one_reminder_with_very_many_receipts_is_shortened_slice_by_slice(
    conn: sqlite3.Connection,
) -> None:
    conn.execute("BEGIN")
    going = 3 * REMOVED
    many = tuple((0.0, 1, 1 + (n < going)) for n in range(going + KEEP.history_per_reminder))
    write(conn, 1, Kept("active", 0, many, None, 1, False, False))
    parts = run_all(conn, receipts_beyond)
    words = read(conn, "SELECT words_revision FROM past_words")
    conn.rollback()
    assert [part.found for part in parts if part.found] == [REMOVED] * 3
    assert words == []  # the last slice took the last receipt that had others


def test_a_later_pass_begins_where_the_last_one_ended_unless_numbers_are_given_out_again(
    conn: sqlite3.Connection,
) -> None:
    conn.execute("BEGIN")
    for number in (1, 2):
        write(conn, number, Kept("active", 0, ((0, 1, 1), (0, 2, 1)), None, 1, False, False))
    mark = run_all(conn, receipts_beyond)[-1].mark
    again = receipts_beyond(conn, KEEP, T0, mark, True)
    conn.execute("DELETE FROM dispatches WHERE reminder_number = 2")
    after = receipts_beyond(conn, KEEP, T0, mark, True)
    conn.rollback()
    assert mark[1] == again.mark[1] == 4
    assert after.mark == START
