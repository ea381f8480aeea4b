"""Rows and values: each kind there and back unchanged, and nothing that is not exactly a row."""

from __future__ import annotations

import datetime as dt
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_daemon.model import (
    After,
    At,
    Cron,
    Daily,
    Every,
    Instant,
    OneShot,
    Reminder,
    Rule,
    Weekly,
)
from scheduler_daemon.rules import canonical_cron, instant_text
from scheduler_daemon.store.database import connect
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import (
    REMINDER_COLUMNS,
    BadRow,
    context_text,
    decode_reminder,
    kept_columns,
    rule_columns,
)
from scheduler_daemon.store.store import Store
from tests.store.support import (
    CRON,
    DAILY,
    HOURLY,
    OWNER,
    T0,
    at,
    by_hand,
    found,
    instants,
    made,
)

# --- there and back

times = st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "US/Eastern"])
weekdays = st.sets(st.integers(1, 7), min_size=1).map(lambda days: tuple(sorted(days)))
expressions = st.sampled_from(
    ["0 9 * * 1-5", "*/15 9-17 * * mon-fri", "@yearly", "0 0 */2 * 0", "5,35 0 1 jan,dec 7"]
).map(canonical_cron)
rules: st.SearchStrategy[Rule] = st.one_of(
    st.builds(After, st.integers(1, 2**53 - 1)),
    st.builds(At, instants),
    st.builds(Every, st.integers(300, 2**53 - 1), instants),
    st.builds(Daily, times, zones),
    st.builds(Weekly, times, weekdays, zones),
    st.builds(Cron, expressions, zones),
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@pytest.fixture(scope="module")
def conn(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """A file of its own, on which nothing is committed."""
    path = shutil.copy(template, tmp_path_factory.mktemp("rows"))
    with closing(connect(Path(path), read_only=False)) as conn:
        yield conn


def stored(conn: sqlite3.Connection, values: dict[str, Any]) -> tuple[Any, ...]:
    """A row with these values as it is read again."""
    conn.execute("BEGIN")
    try:
        number = conn.execute(QUERIES["insert_reminder"], values).lastrowid
        asked = {"number": number, "owner": None, "session": None}
        row: tuple[Any, ...] = conn.execute(QUERIES["reminder_by_number"], asked).fetchone()
        return row
    finally:
        conn.rollback()


def values_of(rule: Rule, target: Instant, **more: Any) -> dict[str, Any]:
    at = instant_text(target)
    return {
        **rule_columns(rule, target),
        "owner_uid": OWNER,
        "session_id": "s1",
        "after_at": at,
        "computed_at": at,
        "created_at": at,
        "title": None,
        "context": None,
        "snoozed_from": None,
        "until_at": None,
        "max_occurrences": None,
        "expires_after_seconds": None,
        **more,
    }


@given(
    rule=rules, target=instants, title=texts, prompt=texts, context=st.dictionaries(texts, texts)
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_reminder_comes_back_as_it_was(
    conn: sqlite3.Connection,
    rule: Rule,
    target: Instant,
    title: str,
    prompt: str,
    context: dict[str, str],
) -> None:
    target = rule.instant if isinstance(rule, At) else target
    values = values_of(
        rule, target, title=title or None, prompt=f"{prompt}.", context=context_text(context)
    )
    back = decode_reminder(stored(conn, values))
    assert back.rule == rule
    if isinstance(rule, Every) and isinstance(back.rule, Every):
        assert back.rule.anchor == rule.anchor  # which equality leaves out
    assert (back.scheduled_at, back.after_at, back.created_at) == (target, target, target)
    assert (back.title, back.prompt, back.context) == (title or None, f"{prompt}.", context or None)
    assert (back.status, back.generation, back.revision) == ("active", 0, 1)
    assert (back.last_occurrence_at, back.ended_at, back.ended_reason) == (None, None, None)
    assert (back.paused, back.dispatch_count, back.skips) == (False, 0, None)


maybe = partial(st.one_of, st.none())
counts = st.integers(1, 2**53 - 1)
pairs = st.lists(instants, min_size=2, max_size=2, unique=True).map(sorted)


@given(
    recurring=rules.filter(lambda rule: not isinstance(rule, OneShot)),
    one_shot=rules.filter(lambda rule: isinstance(rule, OneShot)),
    ends=st.tuples(maybe(instants), maybe(counts), maybe(counts), maybe(counts)),
    kept=st.tuples(st.booleans(), maybe(pairs.map(tuple)), maybe(instants)),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_limits_a_reminder_comes_back_as_it_was(
    conn: sqlite3.Connection,
    recurring: Rule,
    one_shot: Rule,
    ends: tuple[Instant | None, int | None, int | None, int | None],
    kept: tuple[bool, Any, Instant | None],
) -> None:
    """As it was made, and as a caller's change left it."""
    names = ("until_at", "max_occurrences", "expires_after_seconds", "snoozed_from")
    until, *rest = ends
    given = dict(zip(names, [until and instant_text(until), *rest], strict=True))
    made = decode_reminder(stored(conn, values_of(recurring, T0, prompt="x", **given)))
    assert (made.until, *rest) == (
        until,
        made.max_occurrences,
        made.expires_after_seconds,
        made.snoozed_from,
    )
    paused, skips, last = kept
    changed = replace(made, paused=paused, skips=skips, last_occurrence_at=last, generation=3)
    assert decode_reminder(rewritten(conn, made, changed)) == changed
    ended = replace(
        changed, status="ended", ended_at=T0, ended_reason="until", paused=False, skips=None
    )
    assert decode_reminder(rewritten(conn, made, ended)) == ended
    target = one_shot.instant if isinstance(one_shot, At) else T0
    once = replace(made, rule=one_shot, scheduled_at=target, until=None, max_occurrences=None)
    assert decode_reminder(rewritten(conn, made, once)) == once


def rewritten(conn: sqlite3.Connection, old: Reminder, new: Reminder) -> tuple[Any, ...]:
    """The row of a reminder that was made as `old` and then changed to `new`."""
    more = {"snoozed_from": old.snoozed_from, "prompt": old.prompt}
    more["expires_after_seconds"] = old.expires_after_seconds
    conn.execute("BEGIN")
    try:
        conn.execute(QUERIES["insert_reminder"], values_of(old.rule, T0, **more))
        (number,) = conn.execute("SELECT max(number) FROM reminders").fetchone()
        conn.execute(QUERIES["update_reminder"], kept_columns(replace(new, number=number)))
        asked = {"number": number, "owner": None, "session": None}
        row: tuple[Any, ...] = conn.execute(QUERIES["reminder_by_number"], asked).fetchone()
        return (old.number, *row[1:])
    finally:
        conn.rollback()


@pytest.mark.parametrize(
    ("rule", "columns"),
    [
        (After(60), {"kind": "after", "delay_seconds": 60}),
        (at(0), {"kind": "at"}),
        (HOURLY, {"kind": "every", "interval_seconds": 3600, "anchor_at": instant_text(T0)}),
        (
            DAILY,
            {"kind": "daily", "local_time": "09:00:00.000", "time_zone": "America/New_York"},
        ),
        (
            Weekly(dt.time(9, 0, 0, 5000), (1, 7), "UTC"),
            {"kind": "weekly", "local_time": "09:00:00.005", "weekdays": "1,7", "time_zone": "UTC"},
        ),
        (
            CRON,
            {"kind": "cron", "cron_expression": "0 9 * * *", "time_zone": "Europe/Berlin"},
        ),
    ],
)
def test_rules_are_stored_as_columns_that_a_person_can_read(
    rule: Rule, columns: dict[str, Any]
) -> None:
    stored = rule_columns(rule, T0)
    set_ones = {name: value for name, value in stored.items() if value is not None}
    assert set_ones == columns | {"scheduled_at": "2026-03-02T12:00:00.000Z"}


# --- exactly a row

BASE: dict[str, Any] = {
    **dict.fromkeys(REMINDER_COLUMNS),
    "number": 7,
    "owner_uid": OWNER,
    "session_id": "s1",
    "kind": "daily",
    "local_time": "09:00:00.000",
    "time_zone": "Europe/Berlin",
    "prompt": "Check the build",
    "scheduled_at": "2026-03-02T08:00:00.000Z",
    "after_at": "2026-03-01T08:00:00.000Z",
    "computed_at": "2026-03-01T08:00:00.000Z",
    "generation": 0,
    "status": "active",
    "revision": 1,
    "timing_revision": 1,
    "words_revision": 1,
    "created_at": "2026-03-01T08:00:00.000Z",
    "paused": 0,
    "dispatch_count": 0,
}
CRON_ROW = {"kind": "cron", "local_time": None, "cron_expression": "0 9 * * *"}
WEEKLY_ROW = {"kind": "weekly", "weekdays": "1,2"}
EVERY_ROW = {"kind": "every", "interval_seconds": 300, "anchor_at": BASE["created_at"]} | {
    "local_time": None,
    "time_zone": None,
}


def row(**changed: Any) -> tuple[Any, ...]:
    return tuple({**BASE, **changed}[name] for name in REMINDER_COLUMNS)


def test_the_rows_that_the_next_test_breaks_are_good() -> None:
    for kind in ({}, CRON_ROW, WEEKLY_ROW, EVERY_ROW):
        decode_reminder(row(**kind))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"scheduled_at": "2026-03-02T08:00:00Z"}, "scheduled_at: not a canonical instant"),
        ({"scheduled_at": "2026-03-02 08:00:00.000Z"}, "scheduled_at: "),
        ({"scheduled_at": "2026-03-02T08:00:00.000+00:00"}, "scheduled_at: "),
        ({"scheduled_at": "2026-02-30T08:00:00.000Z"}, "scheduled_at: day is out of range"),
        ({"scheduled_at": None}, "scheduled_at: "),
        ({"after_at": ""}, "after_at: "),
        ({"computed_at": "yesterday"}, "computed_at: "),
        ({"last_occurrence_at": "2026"}, "last_occurrence_at: "),
        ({"ended_at": "never"}, "ended_at: "),
        ({"created_at": "2026-03-01T24:00:00.000Z"}, "created_at: "),
        ({"prompt": "a\0b"}, "prompt: holds a NUL character"),
        ({"prompt": "caf\udce9"}, "prompt: holds bytes that are not UTF-8"),
        ({"prompt": None}, "prompt: text is missing"),
        ({"prompt": ""}, "prompt: is empty"),
        ({"kind": "after", "delay_seconds": 0}, "rule: 0 is less than 1"),
        ({"title": "a\0b"}, "title: holds a NUL character"),
        ({"session_id": "caf\udce9"}, "session_id: holds bytes that are not UTF-8"),
        ({"context": "[]"}, "context: is not an object"),
        ({"context": '{"a": 1}'}, "context: text is missing"),
        ({"context": '{"a": "\\u0000"}'}, "context: holds a NUL character"),
        ({"context": '{"a": "\\ud800"}'}, "context: holds bytes that are not UTF-8"),
        ({"context": "{"}, "context: Expecting"),
        ({"context": "[" * 100_000}, "context: "),
        ({"status": "set_aside"}, "status: 'set_aside' is not a status"),
        ({"status": None}, "status: None is not a status"),
        ({"generation": None}, "generation: a whole number is missing"),
        ({"paused": None}, "paused: a whole number is missing"),
        ({"dispatch_count": -1}, "dispatch_count: -1 is less than 0"),
        ({"snoozed_from": "r7"}, "snoozed_from: a whole number is missing"),
        ({"max_occurrences": 0}, "max_occurrences: 0 is less than 1"),
        ({"expires_after_seconds": 60.5}, "expires_after_seconds: a whole number is missing"),
        ({"until_at": "2026-03-02"}, "until_at: "),
        ({"skips_after_at": "soon"}, "skips_after_at: "),
        ({"skips_to_at": "2026-03-02T08:00:00Z"}, "skips_to_at: "),
        ({"kind": "yearly"}, "rule: kind 'yearly' is unknown"),
        ({"kind": "after"}, "rule: a whole number is missing"),
        (EVERY_ROW | {"anchor_at": None}, "rule: "),
        (EVERY_ROW | {"interval_seconds": "300"}, "rule: a whole number is missing"),
        ({"local_time": "09:00"}, "rule: local_time '09:00' is not HH:MM:SS.fff"),
        ({"local_time": "24:00:00.000"}, "rule: "),
        ({"local_time": "09:00:00.000+01:00"}, "rule: local_time "),
        ({"local_time": None}, "rule: "),
        ({"time_zone": "europe/berlin"}, "rule: time_zone 'europe/berlin' is not in the zone data"),
        ({"time_zone": "Europe/Atlantis"}, "rule: A time zone is"),
        ({"time_zone": None}, "rule: A time zone is"),
        (WEEKLY_ROW | {"weekdays": "2,1"}, "rule: weekdays '2,1' are not 1 to 7 in their order"),
        (WEEKLY_ROW | {"weekdays": "1,1"}, "rule: weekdays "),
        (WEEKLY_ROW | {"weekdays": "1,8"}, "rule: weekdays "),
        (WEEKLY_ROW | {"weekdays": "1,,2"}, "rule: "),
        (WEEKLY_ROW | {"weekdays": None}, "rule: text is missing"),
        (CRON_ROW | {"cron_expression": "00 9 * * *"}, "rule: cron_expression '00 9 * * *' is not"),
        (CRON_ROW | {"cron_expression": "@daily"}, "rule: cron_expression '@daily' is not"),
        (CRON_ROW | {"cron_expression": "9 o'clock"}, "rule: "),
        (CRON_ROW | {"cron_expression": None}, "rule: "),
        (CRON_ROW | {"cron_expression": "0 0 31 2 *"}, "rule: The cron rule"),
    ],
)
def test_what_is_not_exactly_a_row_is_a_bad_row_with_its_column_and_reason(
    changed: dict[str, Any], reason: str
) -> None:
    with pytest.raises(BadRow) as caught:
        decode_reminder(row(**changed))
    assert caught.value.number == 7
    assert caught.value.reason.startswith(reason)
    assert str(caught.value) == caught.value.reason
    caught.value.reason.encode()  # SQLite can keep it


# --- what a hand wrote that no CHECK refuses


@pytest.mark.parametrize(
    "edit",
    [
        "time_zone = 'Europe/Atlantis'",
        "kind = 'weekly', weekdays = '7,1'",
        "context = '{\"a\": 1}'",
        "kind = 'cron', local_time = NULL, cron_expression = 'every day at nine'",
        "prompt = CAST(x'636166e9' AS TEXT)",
        "title = CAST(x'ff' AS TEXT)",
        "time_zone = CAST(x'4575726f70652fff' AS TEXT)",
    ],
)
async def test_an_edit_that_only_reading_can_refuse_harms_nobody_else(
    path: Path, store: Store, edit: str
) -> None:
    """Every question to the file is answered; the row itself is a bad one and can be set aside."""
    bad, good = await made(store, DAILY), await made(store, HOURLY)
    with by_hand(path) as conn:
        conn.execute(f"UPDATE reminders SET {edit} WHERE id = 'r1'")
    late = dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
    assert isinstance(await store.reader.get(bad.number, None, None), BadRow)
    page = await store.reader.page(OWNER, None, "active", by_target=True, after=("", 0), limit=9)
    assert [reminder for reminder, _ in page.items] == [good]
    recurring = (await store.reader.due((OWNER, "s1"), late, 9, 9)).recurring
    assert recurring.reminders == [good]
    assert [each.number for each in recurring.bad] == [bad.number]
    assert await store.set_aside(recurring.bad) == [(OWNER, "s1")]
    assert await store.reader.targets([(OWNER, "s1")]) == {(OWNER, "s1"): good.scheduled_at}
    with by_hand(path) as conn:
        kept = conn.execute("SELECT status, former_status, set_aside_reason FROM reminders")
        assert kept.fetchone() == ("set_aside", "active", recurring.bad[0].reason)


async def test_a_row_that_breaks_a_check_can_be_set_aside_too(path: Path, store: Store) -> None:
    """SQLite tests the rules of the columns that an update names, and no others."""
    await made(store, DAILY)
    with by_hand(path) as conn:
        conn.execute("PRAGMA ignore_check_constraints = ON")
        conn.execute("UPDATE reminders SET scheduled_at = 'soon', local_time = '9'")
    bad = await store.reader.get(1, None, None)
    assert isinstance(bad, BadRow)
    assert await store.set_aside([bad]) == [(OWNER, "s1")]


async def test_a_row_that_was_put_right_by_hand_is_one_again(path: Path, store: Store) -> None:
    reminder = await made(store, DAILY)
    await store.set_aside([BadRow(1, "rule: because")])
    with by_hand(path) as conn:
        conn.execute(
            "UPDATE reminders SET status = former_status, former_status = NULL, "
            "set_aside_reason = NULL"
        )
    assert await found(store, 1) == reminder
