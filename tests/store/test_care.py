"""Whole Sessions: what is kept of each, moving them and forgetting them; runs go with their own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from scheduler_daemon.acts import paused
from scheduler_daemon.errors import LimitReached
from scheduler_daemon.model import After, Reminder
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.lookups import START, Place
from scheduler_daemon.store.pages import PAGE_ROWS
from scheduler_daemon.store.rows import BadRow
from scheduler_daemon.store.store import Limits, Store, Which
from tests.store.support import (
    DAILY,
    HOURLY,
    LIMITS,
    OWNER,
    T0,
    assert_counts_are_right,
    at,
    by_hand,
    draft,
    followup,
    found,
    later,
    made,
)
from tests.store.test_schema import one_of_each

NOW = instant_text(T0)


@pytest.fixture
def hand(path: Path) -> Iterator[sqlite3.Connection]:
    with by_hand(path) as conn:
        yield conn


async def four(store: Store) -> list[Reminder]:
    """Of Session s1: r1 active, r2 paused, r3 ended with a receipt, r4 set aside."""
    kept = [await made(store, HOURLY) for _ in range(2)]
    await store.change(Which(2, OWNER, None), paused)
    sent = await made(store, After(60))
    await store.record(followup([sent], later(60)), later(60), "host", None)
    await made(store, DAILY)
    await store.set_aside([BadRow(4, "rule: because")])
    return kept


# --- the list


async def test_sessions_come_by_name_with_their_counts(store: Store) -> None:
    """And with how many were asked for by hand, which are due."""
    await four(store)
    await store.run_now(Which(1, OWNER, None), None, T0, LIMITS)
    await made(store, at(30), session="a")
    await made(store, at(30), session="s1", owner=OWNER + 1)
    rows = await store.reader.sessions(OWNER, ("", -1), later(3600), 10)
    assert [astuple(row) for row in rows] == [
        ((OWNER, "a"), 1, 0, 0, 0, 1, 0, later(30)),
        ((OWNER, "s1"), 2, 1, 1, 1, 1, 1, T0),
    ]


async def test_pages_of_sessions_hold_each_once_for_one_and_for_everybody(store: Store) -> None:
    names = ["b", "a", "c", "\U0001f600", "Z"]
    for name in names:
        for uid in (OWNER, OWNER + 1, OWNER + 2):
            await made(store, HOURLY, session=name, owner=uid)
    for owner, owners in ((OWNER + 1, [OWNER + 1]), (None, [OWNER, OWNER + 1, OWNER + 2])):
        seen = []
        place: Place = ("", -1)
        while rows := await store.reader.sessions(owner, place, T0, 2):
            seen += [row.key for row in rows]
            place = (rows[-1].key[1], rows[-1].key[0])
        assert seen == [(each, name) for name in sorted(names) for each in owners]


async def test_a_session_without_reminders_is_not_listed(store: Store) -> None:
    await made(store, HOURLY)
    await store.delete(Which(1, OWNER, None), T0)
    assert await store.reader.sessions(OWNER, ("", -1), T0, 10) == []


# --- pages with a filter


async def test_a_page_looks_at_a_bounded_number_of_rows_and_says_how_far(
    store: Store, hand: sqlite3.Connection
) -> None:
    await made(store, HOURLY)
    hand.execute(
        "INSERT INTO reminders (owner_uid, session_id, kind, delay_seconds, prompt, scheduled_at, "
        "after_at, computed_at, created_at) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
        f"SELECT i + 1 FROM n WHERE i < {PAGE_ROWS}) SELECT {OWNER}, 's1', 'after', 60, 'x', "
        f"'{NOW}', '{NOW}', '{NOW}', '{NOW}' FROM n"
    )
    last = (await store.create(draft(HOURLY), T0, Limits(10**6, 10**6))).reminder
    page = await store.reader.page(
        OWNER,
        "s1",
        "active",
        by_target=False,
        after=START,
        limit=10,
        wanted=lambda row: row.kind == "every",
    )
    assert [each.number for each, _ in page.items] == [1]
    assert (page.more, page.looked_to[1]) == (True, PAGE_ROWS)
    page = await store.reader.page(
        OWNER,
        "s1",
        "active",
        by_target=False,
        after=page.looked_to,
        limit=10,
        wanted=lambda row: row.kind == "every",
    )
    assert ([each for each, _ in page.items], page.more) == ([last], False)


# --- moving


async def test_a_transfer_moves_what_is_active_and_leaves_receipts_and_keys(
    store: Store, path: Path
) -> None:
    await four(store)
    keyed = await store.create(draft(DAILY, key="k1"), T0, LIMITS)
    await store.run_now(Which(1, OWNER, None), None, T0, LIMITS)
    assert await store.transfer(OWNER, "s1", "s2", LIMITS) == ["r1", "r2", "r5"]
    assert [(await found(store, number)).session_id for number in (1, 2, 3)] == ["s2", "s2", "s1"]
    assert (await found(store, 2)).paused
    receipts, _ = await store.reader.history(OWNER, None, "s1", 2**62, 10)
    assert [each.reminder_id for each in receipts] == ["r3"]
    again = await store.create(draft(DAILY, key="k1"), T0, LIMITS)
    assert (again.number, again.created) == (keyed.number, False)
    (run,) = (await store.reader.due((OWNER, "s2"), T0, 9, 9)).runs
    assert run[2].number == 1
    assert_counts_are_right(path)


async def test_over_a_limit_nothing_moves(store: Store, path: Path) -> None:
    for session in ("s1", "s1", "s2", "s2"):
        await made(store, HOURLY, session=session)
    with pytest.raises(LimitReached, match="2 active reminders would join 2") as refusal:
        await store.transfer(OWNER, "s1", "s2", Limits(3, 100))
    assert refusal.value.field == "to"
    assert [(await found(store, number)).session_id for number in (1, 2)] == ["s1", "s1"]
    assert len(await store.transfer(OWNER, "s1", "s2", Limits(4, 1))) == 2
    assert await store.transfer(OWNER, "none", "s2", Limits(3, 1)) == []
    assert_counts_are_right(path)


async def test_a_transfer_while_a_message_is_in_flight_keeps_its_receipt_where_it_was_sent(
    store: Store,
) -> None:
    sent = await made(store, HOURLY)
    await store.transfer(OWNER, "s1", "s2", LIMITS)
    left = await store.record(followup([sent], later(3600)), later(3600), "host", None)
    assert left.sessions == {"r1": "s2"}
    now = await found(store, 1)
    assert (now.session_id, now.scheduled_at) == ("s2", later(7200))
    for session, count in (("s1", 1), ("s2", 0)):
        receipts, _ = await store.reader.history(OWNER, None, session, 2**62, 10)
        assert len(receipts) == count


# --- forgetting


async def test_a_forgotten_session_leaves_nothing_but_its_keys(
    store: Store, hand: sqlite3.Connection, path: Path
) -> None:
    await four(store)
    await store.create(draft(HOURLY, key="k1"), T0, LIMITS)
    await store.run_now(Which(1, OWNER, None), None, T0, LIMITS)
    other = await made(store, HOURLY, session="s2")
    theirs = await made(store, HOURLY, owner=OWNER + 1)
    gone = await store.forget(OWNER, "s1", later(5))
    assert (sorted(gone.reminders), gone.dispatches) == (["r1", "r2", "r3", "r4", "r5"], 1)
    for table in ("dispatches", "past_words", "runs"):
        assert hand.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    assert [await found(store, each.number) for each in (other, theirs)] == [other, theirs]
    gone_at = hand.execute("SELECT gone_at FROM idempotency_keys").fetchall()
    assert gone_at == [(instant_text(later(5)),)]
    again = await store.create(draft(HOURLY, key="k1"), T0, LIMITS)
    assert (again.number, again.reminder) == (5, None)
    assert_counts_are_right(path)
    again_gone = await store.forget(OWNER, "s1", later(6))
    assert (again_gone.reminders, again_gone.dispatches) == ([], 0)


async def test_words_that_receipts_of_another_session_refer_to_stay(store: Store) -> None:
    """It was sent in both, with other words each time."""
    sent = await made(store, HOURLY, prompt="first")
    await store.record(followup([sent], later(3600)), later(3600), "host", None)
    await store.transfer(OWNER, "s1", "s2", LIMITS)
    await store.change(Which(1, OWNER, None), lambda old: _reworded(old, "second"))
    moved = await found(store, 1)
    pushed = followup([moved], later(7200), "f2", "s2")
    await store.record(pushed, later(7200), "host", None)
    await store.change(Which(1, OWNER, None), lambda old: _reworded(old, "third"))
    await store.forget(OWNER, "s1", T0)
    (receipt,), _ = await store.reader.history(OWNER, None, "s2", 2**62, 10)
    assert receipt.prompt == "second"


def _reworded(old: Reminder, prompt: str) -> Reminder:
    return replace(old, prompt=prompt, words_revision=old.words_revision + 1)


# --- what follows from an edit by hand


async def test_counts_and_targets_follow_pauses_runs_and_other_sessions(
    store: Store, hand: sqlite3.Connection, path: Path
) -> None:
    """A pause takes a target away, a run is one, and both go where their reminder goes."""
    await one_of_each(store)
    ended = "status = 'ended', ended_at = created_at, ended_reason = 'missed'"
    aside = "status = 'set_aside', former_status = status, set_aside_reason = 'because'"
    run = (
        "INSERT INTO runs (occurrence_id, reminder_number, owner_uid, session_id, due_at) "
        f"SELECT '{{0}}' || number, number, owner_uid, session_id, '{NOW}' FROM reminders"
    )
    for act in (
        "UPDATE reminders SET paused = 1 WHERE id IN ('r1', 'r3')",
        "UPDATE reminders SET paused = 1 WHERE id = 'r6'",
        "UPDATE reminders SET session_id = 's2' WHERE id IN ('r3', 'r4', 'r6')",
        run.format("a"),
        "UPDATE reminders SET paused = 0 WHERE id = 'r3'",
        f"UPDATE reminders SET {aside} WHERE id = 'r4'",
        "UPDATE reminders SET session_id = 's3' WHERE id IN ('r1', 'r4')",
        f"UPDATE reminders SET {ended} WHERE id = 'r1'",
        "UPDATE runs SET due_at = '2027-01-01T00:00:00.000Z' WHERE reminder_number = 2",
        "DELETE FROM runs WHERE reminder_number = 3",
        "DELETE FROM reminders WHERE id IN ('r1', 'r4')",
        "UPDATE reminders SET session_id = 's2'",
        run.format("b"),
        "UPDATE reminders SET paused = 1 - paused",
        "DELETE FROM reminders",
    ):
        hand.execute(act)
        assert_counts_are_right(path)
    for table in ("sessions", "runs"):
        assert hand.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


async def test_the_runs_of_a_reminder_go_with_it_and_move_with_it(
    store: Store, hand: sqlite3.Connection
) -> None:
    await made(store, HOURLY)
    other = await made(store, HOURLY)
    for number in (1, 2):
        await store.run_now(Which(number, OWNER, None), None, T0, LIMITS)
    hand.execute("UPDATE reminders SET session_id = 's2' WHERE id = 'r2'")
    runs = "SELECT reminder_number, session_id FROM runs ORDER BY number"
    assert hand.execute(runs).fetchall() == [(1, "s1"), (2, "s2")]
    assert await store.delete(Which(1, OWNER, None), T0) == (OWNER, "s1")
    assert hand.execute(runs).fetchall() == [(2, "s2")]
    assert await store.reader.targets([(OWNER, "s1"), (OWNER, "s2")]) == {
        (OWNER, "s1"): None,
        (OWNER, "s2"): T0,
    }
    assert (await found(store, 2)).scheduled_at == other.scheduled_at


@pytest.mark.parametrize("edit", ["due_at = 'now'", "due_at = NULL", "occurrence_id = NULL"])
async def test_a_run_keeps_what_can_be_read_again(
    store: Store, hand: sqlite3.Connection, edit: str
) -> None:
    await made(store, HOURLY)
    await store.run_now(Which(1, OWNER, None), None, T0, LIMITS)
    with pytest.raises(sqlite3.IntegrityError):
        hand.execute(f"UPDATE runs SET {edit}")
