"""Each method of the store is one transaction that does what its name says, and nothing half."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.errors import (
    IdempotencyConflict,
    LimitReached,
    NotFuture,
    PersistenceFailed,
    ReminderNotFound,
)
from scheduler_daemon.model import After, Reminder, Rule
from scheduler_daemon.rules import first
from scheduler_daemon.store import database
from scheduler_daemon.store import store as module
from scheduler_daemon.store.database import Database, DatabaseRefused
from scheduler_daemon.store.rows import BadRow
from scheduler_daemon.store.store import Limits, Store, Which
from tests.store.support import (
    DAILY,
    HOURLY,
    LIMITS,
    OWNER,
    T0,
    Ticks,
    assert_counts_are_right,
    at,
    by_hand,
    draft,
    followup,
    found,
    later,
    made,
    opened,
)

# --- creating


async def test_what_was_created_is_what_is_stored(store: Store) -> None:
    context = {"folder": "/srv", "é": "\n"}
    reminder = await made(store, DAILY, title="Title", context=context)
    assert reminder == await found(store, reminder.number)
    assert (reminder.id, reminder.context) == ("r1", context)


async def test_a_repeated_key_finds_what_it_made_as_it_is_now(store: Store) -> None:
    one = await store.create(draft(HOURLY, key="k1"), T0, LIMITS)
    await store.change(Which(1, OWNER, None), lambda old: dataclasses.replace(old, prompt="New"))
    assert one.reminder is not None
    await store.record(followup([one.reminder], later(3600)), later(3600), "host", None)
    again = await store.create(draft(HOURLY, key="k1"), later(7000), LIMITS)
    assert not again.created
    assert again.reminder == await found(store, 1)
    assert again.beside.last_dispatch is not None
    assert again.beside.last_dispatch.prompt == "Check the build"


async def test_a_key_is_looked_up_before_time_and_limits_are_checked(store: Store) -> None:
    """A retry of what is past by now, or reached the limit itself, still finds it."""
    await store.create(draft(at(60), key="k1"), T0, Limits(1, 1))
    past = draft(at(60), refusal=NotFuture("past"), key="k1")
    again = await store.create(past, later(60), Limits(1, 1))
    assert (again.number, again.created) == (1, False)


async def test_without_an_earlier_one_a_refused_time_is_refused(store: Store) -> None:
    refusal = NotFuture("past")
    with pytest.raises(NotFuture) as caught:
        await store.create(draft(at(-1), refusal=refusal, key="k1"), T0, LIMITS)
    assert caught.value is refusal
    with pytest.raises(NotFuture):
        await store.create(draft(at(-1), refusal=refusal), T0, LIMITS)
    assert await store.reader.get(1, None, None) is None


async def test_a_key_with_another_body_is_a_conflict_and_of_another_session_is_another(
    store: Store,
) -> None:
    await store.create(draft(HOURLY, key="k1"), T0, LIMITS)
    with pytest.raises(IdempotencyConflict):
        await store.create(draft(HOURLY, key="k1", request_hash="another"), T0, LIMITS)
    other = await store.create(draft(HOURLY, session="s2", key="k1"), T0, LIMITS)
    another = await store.create(draft(HOURLY, owner=OWNER + 1, key="k1"), T0, LIMITS)
    assert [other.number, another.number] == [2, 3]


async def test_a_key_outlives_its_reminder(store: Store, path: Path) -> None:
    await store.create(draft(HOURLY, key="k1"), T0, LIMITS)
    await store.delete(Which(1, OWNER, None), later(5))
    again = await store.create(draft(HOURLY, key="k1"), T0, LIMITS)
    assert (again.number, again.reminder, again.created) == (1, None, False)
    with by_hand(path) as conn:
        gone = conn.execute("SELECT reminder_number, gone_at FROM idempotency_keys").fetchall()
    assert gone == [(1, "2026-03-02T12:00:05.000Z")]


async def test_the_key_of_one_that_is_set_aside_does_not_say_that_it_was_deleted(
    store: Store,
) -> None:
    await store.create(draft(HOURLY, key="k1"), T0, LIMITS)
    await store.set_aside([BadRow(1, "rule: because")])
    with pytest.raises(BadRow):
        await store.create(draft(HOURLY, key="k1"), T0, LIMITS)


async def test_limits_count_what_is_active_and_nothing_else(store: Store) -> None:
    limits = Limits(per_session=2, per_owner=3)
    for session in ("s1", "s1", "s2"):
        await store.create(draft(HOURLY, session=session), T0, limits)
    with pytest.raises(LimitReached, match="this Session has 2 active reminders"):
        await store.create(draft(HOURLY), T0, limits)
    with pytest.raises(LimitReached, match="this user has 3 active reminders"):
        await store.create(draft(HOURLY, session="s2"), T0, limits)
    await store.create(draft(HOURLY, owner=OWNER + 1), T0, limits)
    await store.delete(Which(1, OWNER, None), T0)
    assert (await store.create(draft(HOURLY), T0, limits)).number == 5


async def test_a_number_is_never_given_twice(path: Path) -> None:
    """Not after the newest was deleted, and not after a restart."""
    async with opened(path) as store:
        assert (await made(store, HOURLY)).number == 1
        await store.delete(Which(1, OWNER, None), T0)
    async with opened(path) as store:
        assert (await made(store, HOURLY)).number == 2


# --- changing and deleting


async def test_a_change_gives_both_and_the_newest_dispatch(store: Store) -> None:
    old = await made(store, HOURLY)
    await store.record(followup([old], later(3600)), later(3600), "host", None)
    old = await found(store, 1)
    target = first(After(60), later(4000))
    assert target is not None
    new = dataclasses.replace(old, rule=After(60), scheduled_at=target, context={"a": "b"})
    before, after, newest = await store.change(Which(1, OWNER, "s1"), lambda _: new)
    assert (before, after) == (old, new)
    assert newest.last_dispatch is not None
    assert newest.last_dispatch.occurrence_id == f"r1@{'2026-03-02T13:00:00.000Z'}"
    assert await found(store, 1) == new


async def test_a_change_that_raises_or_changes_nothing_writes_nothing(
    store: Store, path: Path
) -> None:
    def refuse(old: Reminder) -> Reminder:
        raise LimitReached("no")

    reminder = await made(store, HOURLY)
    with pytest.raises(LimitReached):
        await store.change(Which(1, OWNER, None), refuse)
    before, after, newest = await store.change(Which(1, OWNER, None), lambda old: old)
    assert before is after
    assert newest.last_dispatch is None
    assert await found(store, 1) == reminder


@pytest.mark.parametrize(("owner", "session"), [(OWNER + 1, None), (OWNER, "s2"), (None, "s2")])
async def test_one_of_another_owner_or_session_looks_like_none(
    store: Store, owner: int | None, session: str | None
) -> None:
    await made(store, HOURLY)
    assert await store.reader.get(1, owner, session) is None
    with pytest.raises(ReminderNotFound):
        await store.change(Which(1, owner, session), lambda old: old)
    assert await store.delete(Which(1, owner, session), T0) is None
    assert (await found(store, 1)).number == 1


async def test_any_owner_s_is_found_by_an_admin(store: Store) -> None:
    await made(store, HOURLY)
    await store.change(
        Which(1, None, None), lambda old: dataclasses.replace(old, title="By an admin")
    )
    assert (await found(store, 1)).title == "By an admin"
    assert await store.delete(Which(1, None, None), T0) == (OWNER, "s1")
    assert await store.delete(Which(1, None, None), T0) is None


# --- the receipt


async def test_a_batch_is_recorded_as_one(store: Store, path: Path) -> None:
    reminders = [await made(store, HOURLY), await made(store, DAILY)]
    now = later(86400)
    await store.record(followup(reminders, now), later(1, now), "host", "m1")
    receipts, more = await store.reader.history(OWNER, None, "s1", 2**62, 10)
    assert not more
    assert [(each.reminder_id, each.followup_id, each.outcome) for each in receipts] == [
        ("r2", "f1", "admitted"),
        ("r1", "f1", "admitted"),
    ]
    assert {(each.decided_at, each.admitted_at) for each in receipts} == {(now, later(1, now))}
    assert {(each.host, each.message_id) for each in receipts} == {("host", "m1")}
    for number in (1, 2):
        reminder = await found(store, number)
        assert (reminder.after_at, reminder.computed_at) == (now, now)
        assert reminder.scheduled_at == first(reminder.rule, now)
    assert_counts_are_right(path)


async def test_a_rule_that_is_exhausted_ends_with_its_last_dispatch(
    store: Store, path: Path
) -> None:
    await made(store, HOURLY)
    with by_hand(path) as conn:
        conn.execute("UPDATE reminders SET scheduled_at = '9999-12-31T23:30:00.000Z'")
    reminder = await found(store, 1)
    await store.record(followup([reminder], reminder.scheduled_at), T0, "host", None)
    ended = await found(store, 1)
    assert (ended.status, ended.ended_reason, ended.ended_at) == ("ended", "range", T0)


async def test_words_changed_in_flight_are_not_those_that_were_sent(store: Store) -> None:
    sent = await made(store, HOURLY, title="Old", prompt="old")
    for words in ("newer", "newest"):
        await store.change(
            Which(1, OWNER, None),
            lambda old, words=words: dataclasses.replace(  # type: ignore[misc]
                old, title=None, prompt=words, words_revision=old.words_revision + 1
            ),
        )
    await store.record(followup([sent], later(3600)), later(3600), "host", None)
    (receipt,), _ = await store.reader.history(OWNER, 1, None, 2**62, 10)
    assert (receipt.title, receipt.prompt) == ("Old", "old")
    assert (await found(store, 1)).prompt == "newest"


async def test_a_record_deleted_in_flight_stays_deleted_and_has_its_receipt(store: Store) -> None:
    sent = await made(store, HOURLY)
    await store.delete(Which(1, OWNER, None), T0)
    await store.record(followup([sent], later(3600)), later(3600), "host", None)
    assert await store.reader.get(1, None, None) is None
    (receipt,), _ = await store.reader.history(OWNER, None, "s1", 2**62, 10)
    assert (receipt.reminder_id, receipt.prompt) == ("r1", "Check the build")


@pytest.mark.parametrize("rule", [HOURLY, at(3600)])
async def test_a_change_of_timing_in_flight_keeps_the_target_even_if_it_is_the_same(
    store: Store, rule: Rule
) -> None:
    """It is not enough to compare targets: what the caller asked for since has not been sent."""
    sent = await made(store, rule)
    await store.change(
        Which(1, OWNER, None),
        lambda old: dataclasses.replace(old, timing_revision=old.timing_revision + 1),
    )
    await store.record(followup([sent], later(3600)), later(3600), "host", None)
    reminder = await found(store, 1)
    assert (reminder.status, reminder.scheduled_at) == ("active", later(3600))
    assert reminder.last_occurrence_at == later(3600)


async def test_a_target_that_moved_back_past_a_dispatch_gets_a_new_generation(
    store: Store,
) -> None:
    """The admission comes after the clock was set back and the target computed anew."""
    sent = await made(store, HOURLY)
    ahead = later(100 * 3600)
    pushed = followup([sent], ahead)
    await store.retarget(sent, later(1800), T0, T0)
    await store.record(pushed, ahead, "host", None)
    await store.record(pushed, ahead, "host", None)  # repeated: no second rise
    reminder = await found(store, 1)
    assert (reminder.scheduled_at, reminder.generation) == (later(1800), 1)
    again = followup([reminder], later(1800))
    assert again.occurrences[0].occurrence_id.startswith("r1.1@")


async def test_a_receipt_waits_for_a_foreign_lock_without_end(path: Path) -> None:
    ticks = Ticks()
    async with opened(path, ticks) as store:
        sent = await made(store, HOURLY)
        with by_hand(path) as holder:
            holder.execute("BEGIN IMMEDIATE")
            receipt = asyncio.create_task(
                store.record(followup([sent], later(3600)), later(3600), "host", None)
            )
            await ticks.next_read()
            ticks.now = 1e6
            deletion = asyncio.create_task(store.delete(Which(1, OWNER, None), T0))
            await ticks.next_read()
            ticks.now = 2e6
            with pytest.raises(PersistenceFailed):
                await deletion
            assert not receipt.done()
            holder.execute("ROLLBACK")
        await receipt
        assert (await found(store, 1)).last_occurrence_at == later(3600)


# --- targets and rows set aside


async def test_a_target_computed_anew_is_refused_once_the_record_moved(store: Store) -> None:
    seen = await made(store, HOURLY)
    await store.record(followup([seen], later(3600)), later(3600), "host", None)
    await store.retarget(seen, later(60), T0, T0)
    assert (await found(store, 1)).scheduled_at == later(7200)


async def test_occurrences_that_were_dispatched_before_are_passed(store: Store) -> None:
    """No receipt is written, the records go on."""
    reminders = [await made(store, HOURLY), await made(store, DAILY)]
    now = later(86400)
    await store.settle(followup(reminders, now).occurrences, now, None)
    for reminder in reminders:
        stored = await found(store, reminder.number)
        assert stored.scheduled_at == first(reminder.rule, now)
        assert stored.last_occurrence_at is None


async def test_a_row_is_set_aside_and_logged_once(store: Store) -> None:
    await made(store, HOURLY)
    bad = [BadRow(1, "rule: " + "x" * 1000), BadRow(99, "there is none")]
    with capture_logs() as entries:
        assert await store.set_aside(bad) == [(OWNER, "s1")]
        assert await store.set_aside(bad) == []
    (line,) = entries
    assert (line["event"], line["reminder_id"]) == ("row_set_aside", "r1")


# --- opening


async def test_a_store_whose_second_connection_fails_leaves_nothing_open(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Database] = []
    original = database.open_database

    async def only_one(path: Path, *, read_only: bool) -> Database:
        if read_only:
            raise DatabaseRefused("no")
        opened.append(await original(path, read_only=read_only))
        return opened[0]

    monkeypatch.setattr(module, "open_database", only_one)
    with pytest.raises(DatabaseRefused):
        await Store.open(path, monotonic=Ticks(), wait_seconds=1, failed=print)
    with pytest.raises(ValueError, match="no active connection"):
        await opened[0].run(sqlite3.Connection.commit)
