"""What a person sees and may do with sqlite3: hand-made changes that break a rule fail."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_daemon.acts import paused
from scheduler_daemon.model import After, Reminder
from scheduler_daemon.rules import decide, instant_text, parse_instant_text
from scheduler_daemon.store.store import Store, Which
from tests.store.support import (
    CRON,
    DAILY,
    HOURLY,
    OWNER,
    T0,
    assert_counts_are_right,
    at,
    by_hand,
    followup,
    found,
    instants,
    later,
    made,
)

NOW = instant_text(T0)


@pytest.fixture
def hand(path: Path) -> Iterator[sqlite3.Connection]:
    with by_hand(path) as conn:
        yield conn


async def one_of_each(store: Store) -> list[Reminder]:
    """r1 after, r2 at, r3 every, r4 daily, r5 cron, r6 an ended one with its receipt."""
    kept = [await made(store, rule) for rule in (After(60), at(60), HOURLY, DAILY, CRON)]
    sent = await made(store, After(1))
    await store.record(followup([sent], later(2)), later(2), "host", "m1")
    return kept


# --- edits that are allowed


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
async def test_any_canonical_instant_may_be_given_by_hand(
    store: Store, hand: sqlite3.Connection, path: Path, number: int
) -> None:
    """A backdated recurring reminder is due, and its target is what the decision starts from."""
    await one_of_each(store)
    hand.execute(
        "UPDATE reminders SET scheduled_at = '2026-03-01T07:00:00.000Z', "
        "after_at = '2026-02-28T00:00:00.001Z', computed_at = '2026-02-28T00:00:00.000Z' "
        "WHERE id = ?",
        (f"r{number}",),
    )
    reminder = await found(store, number)
    backdated = dt.datetime(2026, 3, 1, 7, tzinfo=dt.UTC)
    assert reminder.scheduled_at == backdated
    assert await store.reader.targets([(OWNER, "s1")]) == {(OWNER, "s1"): backdated}
    assert_counts_are_right(path)
    occurrence, following = decide(reminder.rule, reminder.scheduled_at, T0)
    assert backdated <= occurrence <= T0
    await store.record(followup([reminder], T0), T0, "host", None)
    assert (await found(store, number)).status == ("active" if following else "ended")
    if reminder.rule == HOURLY:
        assert (occurrence, following) == (T0, later(3600))
    assert_counts_are_right(path)


canonical = instants.map(instant_text)
near_misses = st.tuples(canonical, st.integers(0, 23), st.sampled_from("0123456789TZ:-. z")).map(
    lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + 1 :]
)


@pytest.fixture(scope="module")
def checked(template: Path) -> Iterator[sqlite3.Connection]:
    """A file of its own for many attempts, all of them taken back."""
    conn = sqlite3.connect(":memory:", isolation_level=None)
    with by_hand(template) as origin:
        origin.backup(conn)
    conn.execute(
        "INSERT INTO reminders (owner_uid, session_id, kind, delay_seconds, prompt, scheduled_at, "
        f"after_at, computed_at, created_at) VALUES (1, 's', 'after', 60, 'x'{', ?' * 4})",
        [instant_text(T0)] * 4,
    )
    yield conn
    conn.close()


@given(text=st.one_of(canonical, near_misses))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_file_takes_exactly_the_instants_that_can_be_read_again(
    checked: sqlite3.Connection, text: str
) -> None:
    try:
        parse_instant_text(text)
        is_instant = True
    except ValueError:
        is_instant = False
    try:
        checked.execute("UPDATE reminders SET scheduled_at = ?", (text,))
        taken = True
    except sqlite3.IntegrityError:
        taken = False
    assert taken == is_instant


# --- edits that are refused


@pytest.mark.parametrize(
    "edit",
    [
        *(
            f"{column} = {value}"
            for column in ("scheduled_at", "after_at", "computed_at", "created_at")
            for value in (
                "NULL",
                "1772452800",
                "'2026-03-02T12:00:00Z'",
                "'2026-02-29T12:00:00.000Z'",
            )
        ),
        "scheduled_at = '2026-03-02 12:00:00.000Z'",
        "scheduled_at = '2026-03-02T12:00:00.000+00:00'",
        "scheduled_at = '2026-03-02T24:00:00.000Z'",
        "scheduled_at = '2026-03-02T12:00:00.000Z' || char(0) || 'junk'",
        "scheduled_at = '0000-03-02T12:00:00.000Z'",
        "scheduled_at = 'now'",
        "last_occurrence_at = 'yesterday'",
        "anchor_at = '2026-03-02T12:00:00.000'",
        "owner_uid = owner_uid + 1",
        "owner_uid = -1",
        "session_id = '*'",
        "session_id = ''",
        "number = 99",
        "paused = 2",
        "paused = NULL",
        "snoozed_from = 0",
        "until_at = '2027-01-01T00:00:00.000Z'",
        "max_occurrences = 1",
        "dispatch_count = -1",
        "expires_after_seconds = 0",
        "skips_after_at = '2026-03-02T12:00:00.000Z'",
        "skips_to_at = '2026-03-02T12:00:00.000Z'",
        "kind = 'every'",
        "kind = 'yearly'",
        "delay_seconds = 0",
        "delay_seconds = 'soon'",
        "delay_seconds = 60.5",
        "delay_seconds = NULL",
        "interval_seconds = 300",
        "local_time = '09:00:00.000'",
        "weekdays = '1'",
        "cron_expression = '0 9 * * *'",
        "time_zone = 'UTC'",
        "title = ''",
        "title = printf('%.*c', 121, 'x')",
        "title = 'a' || char(0)",
        "prompt = ''",
        "prompt = NULL",
        "prompt = printf('%.*c', 32769, 'x')",
        "prompt = 'a' || char(0) || 'b'",
        "context = '[]'",
        "context = '\"text\"'",
        "generation = -1",
        "revision = 0",
        "timing_revision = 0",
        "words_revision = 0",
        "status = 'paused'",
        "status = 'ended'",
        "status = 'set_aside'",
        "ended_at = '2026-03-02T12:00:00.000Z'",
        "ended_reason = 'delivered'",
        "ended_at = '2026-03-02T12:00:00.000Z', ended_reason = 'delivered'",
        "status = 'ended', ended_at = '2026-03-02T12:00:00.000Z', ended_reason = 'bored'",
        "set_aside_reason = 'x'",
        "former_status = 'active'",
    ],
)
async def test_a_hand_made_update_that_breaks_a_rule_fails(
    store: Store, hand: sqlite3.Connection, edit: str
) -> None:
    (reminder, *_) = await one_of_each(store)
    with pytest.raises(sqlite3.DatabaseError):
        hand.execute(f"UPDATE reminders SET {edit} WHERE id = 'r1'")
    assert await found(store, 1) == reminder


@pytest.mark.parametrize(
    ("reminder", "edit"),
    [
        ("r3", "interval_seconds = 299"),
        ("r3", "anchor_at = NULL"),
        ("r3", "until_at = 'tomorrow'"),
        ("r3", "until_at = '2026-02-30T12:00:00.000Z'"),
        ("r3", "max_occurrences = 0"),
        ("r3", "until_at = '2027-01-01T00:00:00.000Z', kind = 'at'"),
        ("r3", f"skips_after_at = '{NOW}', skips_to_at = '{NOW}'"),
        ("r3", f"skips_after_at = '{NOW}', skips_to_at = 'tomorrow'"),
        ("r3", f"skips_after_at = '2026-03-02', skips_to_at = '{NOW}'"),
        ("r3", "anchor_at = '2026-02-30T12:00:00.000Z'"),
        ("r4", "local_time = '9:00'"),
        ("r4", "local_time = '24:00:00.000'"),
        ("r4", "kind = 'weekly'"),
        ("r4", "kind = 'weekly', weekdays = '0,1'"),
        ("r4", "kind = 'weekly', weekdays = ''"),
        ("r4", "time_zone = ''"),
        ("r5", "cron_expression = '* * *'"),
        ("r6", "status = 'active'"),
        ("r6", "ended_at = NULL"),
    ],
)
async def test_nor_does_one_of_another_kind_pass(
    store: Store, hand: sqlite3.Connection, reminder: str, edit: str
) -> None:
    await one_of_each(store)
    with pytest.raises(sqlite3.IntegrityError):
        hand.execute(f"UPDATE reminders SET {edit} WHERE id = ?", (reminder,))


@pytest.mark.parametrize(
    "edit",
    [
        "occurrence_at = '2026-03-02'",
        "decided_at = '2026-02-30T12:00:00.000Z'",
        "admitted_at = NULL",
        "outcome = 'perhaps'",
        "host = NULL",
        "words_revision = NULL",
    ],
)
async def test_a_receipt_keeps_what_can_be_read_again(
    store: Store, hand: sqlite3.Connection, edit: str
) -> None:
    await one_of_each(store)
    with pytest.raises(sqlite3.IntegrityError):
        hand.execute(f"UPDATE dispatches SET {edit}")


def test_a_session_without_a_name_or_with_the_name_of_all_is_refused(
    checked: sqlite3.Connection,
) -> None:
    for name in ("", "*", "x" * 201):
        with pytest.raises(sqlite3.IntegrityError):
            checked.execute(
                "INSERT INTO reminders (owner_uid, session_id, kind, prompt, scheduled_at, "
                f"after_at, computed_at, created_at) VALUES (1, ?, 'at', 'x'{', ?' * 4})",
                [name, *[instant_text(T0)] * 4],
            )


# --- what follows from an edit


async def test_counts_follow_every_edit(store: Store, hand: sqlite3.Connection, path: Path) -> None:
    await one_of_each(store)
    ended = "status = 'ended', ended_at = created_at, ended_reason = 'missed'"
    live = "status = 'active', ended_at = NULL, ended_reason = NULL"
    for act in (
        f"UPDATE reminders SET {ended} WHERE id = 'r1'",
        f"UPDATE reminders SET {live} WHERE id = 'r6'",
        f"UPDATE reminders SET {ended}, scheduled_at = '2020-01-01T00:00:00.000Z' WHERE id = 'r6'",
        "DELETE FROM reminders WHERE id IN ('r1', 'r2')",
        f"UPDATE reminders SET {live}",
        "DELETE FROM reminders",
    ):
        hand.execute(act)
        assert_counts_are_right(path)
    assert hand.execute("SELECT count(*) FROM sessions").fetchone() == (0,)


async def test_words_that_were_sent_stay_what_was_sent_after_an_edit_by_hand(
    store: Store, hand: sqlite3.Connection
) -> None:
    """The edit makes them another revision, as one by a caller does."""
    reminder = await made(store, HOURLY, prompt="sent first")
    await store.record(followup([reminder], later(3600)), later(3600), "host", None)
    hand.execute("UPDATE reminders SET title = 'New', prompt = 'sent second' WHERE id = 'r1'")
    edited = await found(store, 1)
    assert edited.words_revision == 2
    await store.record(followup([edited], later(7200), "f2"), later(7200), "host", None)
    hand.execute("UPDATE reminders SET title = NULL WHERE id = 'r1'")
    hand.execute("UPDATE reminders SET prompt = 'never sent' WHERE id = 'r1'")
    receipts, _ = await store.reader.history(OWNER, 1, None, 2**62, 10)
    assert [(each.title, each.prompt) for each in receipts] == [
        ("New", "sent second"),
        (None, "sent first"),
    ]
    assert hand.execute("SELECT count(*) FROM past_words").fetchone() == (2,)


async def test_words_of_what_was_deleted_stay_only_if_they_were_sent(
    store: Store, hand: sqlite3.Connection
) -> None:
    await one_of_each(store)
    hand.execute("DELETE FROM reminders")
    kept = hand.execute("SELECT reminder_number, prompt FROM past_words").fetchall()
    assert kept == [(6, "Check the build")]
    (receipt,), _ = await store.reader.history(OWNER, 6, None, 2**62, 10)
    assert receipt.prompt == "Check the build"


# --- the views


async def test_the_views_work_for_anyone_while_the_store_is_open(store: Store, path: Path) -> None:
    """Read by another process, as a person would."""
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    soon = await made(store, After(3600), now=now, title="Soon", session="s2")
    late = await made(store, After(60), now=later(-7200, now))
    sent = await made(store, After(60), now=later(-3600, now), prompt="As sent")
    await store.record(followup([sent], now), now, "host", "m1")
    await store.delete(Which(sent.number, OWNER, None), now)
    for rule in (After(60), After(10**6)):
        resting = await made(store, rule, now=later(-3600, now))
        await store.change(Which(resting.number, OWNER, None), paused)
    code = (
        "import sqlite3, sys, json; conn = sqlite3.connect(sys.argv[1])\n"
        "print(json.dumps([conn.execute(f'SELECT * FROM {view}').fetchall()"
        " for view in ('upcoming', 'overdue', 'history')]))"
    )
    command = [sys.executable, "-c", code, str(path)]
    ended = subprocess.run(command, capture_output=True, check=True, text=True)
    upcoming, overdue, history = json.loads(ended.stdout)
    assert upcoming == [
        [soon.id, OWNER, "s2", instant_text(soon.scheduled_at), "after", "Soon", soon.prompt]
    ]
    assert overdue == [
        [late.id, OWNER, "s1", instant_text(late.scheduled_at), "after", None, late.prompt]
    ]
    target = instant_text(sent.scheduled_at)
    assert history == [
        [
            instant_text(now),
            "admitted",
            sent.id,
            OWNER,
            "s1",
            target,
            instant_text(now),
            "host",
            "m1",
            "f1",
            f"{sent.id}@{target}",
            None,
            "As sent",
        ]
    ]
