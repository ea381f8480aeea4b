"""What callers do beyond making and changing, each in one transaction: skip, snooze, run, move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.acts import paused, skipped
from scheduler_daemon.delivery.plan import run_by_hand
from scheduler_daemon.errors import (
    IdempotencyConflict,
    LimitReached,
    NotFuture,
    PersistenceFailed,
    ReminderEnded,
    ReminderNotFound,
)
from scheduler_daemon.model import After, FollowUp, Occurrence, Reminder
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.acts import RequestKey, Run
from scheduler_daemon.store.columns import LARGEST
from scheduler_daemon.store.doctor import look, mend
from scheduler_daemon.store.rows import BadRow
from scheduler_daemon.store.store import Draft, Limits, Store, Which
from tests.store.support import (
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

NOW = instant_text(T0)
ONE = Which(1, OWNER, None)


async def history(store: Store, session: str = "s1") -> list[tuple[str, str]]:
    """Occurrences and outcomes, oldest first."""
    receipts, _ = await store.reader.history(OWNER, None, session, 2**62, 100)
    return [(each.occurrence_id, each.outcome) for each in reversed(receipts)]


# --- skip


async def skip(store: Store, in_flight: Occurrence | None = None) -> Reminder:
    new, _, _ = await store.skip(ONE, lambda old: skipped(old, in_flight, T0, trusted=True), T0)
    return new


async def test_a_skip_stands_in_history_without_follow_up_and_host(store: Store) -> None:
    await made(store, HOURLY, title="Title")
    new, occurrence, beside = await store.skip(
        ONE, lambda old: skipped(old, None, T0, trusted=True), T0
    )
    newest = beside.last_dispatch
    assert new == await found(store, 1)
    assert new.scheduled_at == later(7200)
    assert newest is not None
    assert (newest.outcome, newest.followup_id, newest.host) == ("skipped", "", "")
    assert (newest.occurrence_id, newest.decided_at) == (occurrence.occurrence_id, T0)
    assert (newest.title, newest.prompt) == ("Title", "Check the build")
    assert (new.dispatch_count, new.last_occurrence_at) == (0, later(3600))


async def test_of_a_skip_and_an_admission_of_one_occurrence_the_first_written_stays(
    store: Store,
) -> None:
    """A push that timed out is admitted after its occurrence was skipped: it does not count."""
    reminder = await made(store, HOURLY, max_occurrences=1)
    late = followup([reminder], later(3600))
    await skip(store)
    await store.record(late, later(3601), "host", None)
    assert await history(store) == [(f"r1@{instant_text(later(3600))}", "skipped")]
    now = await found(store, 1)
    assert (now.status, now.dispatch_count, now.scheduled_at) == ("active", 0, later(7200))


async def test_a_skip_while_one_is_in_flight_takes_out_the_one_after_it(store: Store) -> None:
    reminder = await made(store, HOURLY)
    pushed = followup([reminder], later(3600))
    new = await skip(store, pushed.occurrences[0])
    assert (new.scheduled_at, new.skips) == (later(3600), (later(3600), later(7200)))
    await store.record(pushed, later(3601), "host", None)
    now = await found(store, 1)
    assert (now.scheduled_at, now.after_at, now.skips) == (later(10800), later(7200), None)
    assert await history(store) == [
        (f"r1@{instant_text(later(7200))}", "skipped"),
        (f"r1@{instant_text(later(3600))}", "admitted"),
    ]


# --- ends in flight


async def test_the_last_one_wanted_ends_a_reminder_once_however_often_it_is_admitted(
    store: Store, path: Path
) -> None:
    """A crash between admission and receipt repeats it."""
    reminder = await made(store, HOURLY, max_occurrences=2)
    for hour, ends in ((1, set()), (2, {"r1"})):
        now = later(3600 * hour)
        pushed = followup([reminder], now)
        assert (await store.record(pushed, now, "host", None)).ended == ends
        assert (await store.record(pushed, now, "host", None)).ended == set()
        reminder = await found(store, 1)
    assert (reminder.status, reminder.ended_reason) == ("ended", "count")
    assert (reminder.dispatch_count, len(await history(store))) == (2, 2)
    assert_counts_are_right(path)


async def test_a_repeat_of_what_was_counted_does_not_count(store: Store) -> None:
    reminder = await made(store, HOURLY, max_occurrences=2)
    pushed = followup([reminder], later(3600))
    for _ in range(3):
        await store.record(pushed, later(3600), "host", None)
    now = await found(store, 1)
    assert (now.status, now.dispatch_count) == ("active", 1)


async def test_a_count_that_was_lowered_in_flight_ends_with_that_one(store: Store) -> None:
    reminder = await made(store, HOURLY)
    pushed = followup([reminder], later(3600))
    await store.change(ONE, lambda old: replace(old, max_occurrences=1))
    await store.change(ONE, paused)
    await store.record(pushed, later(3600), "host", None)
    now = await found(store, 1)
    assert (now.status, now.ended_reason, now.paused) == ("ended", "count", False)


async def test_an_end_that_was_set_in_flight_is_left_to_a_clock_that_can_be_trusted(
    store: Store,
) -> None:
    reminder = await made(store, HOURLY)
    pushed = followup([reminder], later(3600))
    await store.change(ONE, lambda old: replace(old, until=later(3600)))
    left = await store.record(pushed, later(3600), "host", None)
    assert (left.beyond_end, left.ended, left.moved) == (True, set(), {"r1"})
    now = await found(store, 1)
    assert (now.status, now.scheduled_at) == ("active", later(7200))
    (passed,) = followup([now], later(7200)).occurrences
    left = await store.settle([passed], later(7200), None)
    assert left.ended == {"r1"}
    assert (await found(store, 1)).ended_reason == "until"
    assert len(await history(store)) == 1


async def test_an_end_exactly_on_an_occurrence_ends_with_its_receipt(store: Store) -> None:
    reminder = await made(store, HOURLY, until=later(3600))
    left = await store.record(followup([reminder], later(9000)), later(9000), "host", None)
    assert (left.ended, left.beyond_end) == ({"r1"}, False)
    now = await found(store, 1)
    assert (now.ended_reason, now.last_occurrence_at) == ("until", later(3600))


# --- missed


async def test_what_was_too_old_stands_in_history_as_missed_and_is_not_counted(
    store: Store, path: Path
) -> None:
    often = await made(store, HOURLY, max_occurrences=1, expires_after_seconds=60)
    once = await made(store, After(60), expires_after_seconds=60)
    now = later(7200 + 61)
    passed = [followup([each], now).occurrences[0] for each in (often, once)]
    passed[1] = replace(passed[1], end_reason="missed")
    left = await store.settle(passed, now, "missed")
    assert (left.moved, left.ended) == ({"r1"}, {"r2"})
    assert left.sessions == {"r1": "s1", "r2": "s1"}
    assert [outcome for _, outcome in await history(store)] == ["missed", "missed"]
    first, second = await found(store, 1), await found(store, 2)
    assert (first.scheduled_at, first.dispatch_count) == (later(3 * 3600), 0)
    assert first.last_occurrence_at == later(7200)
    assert (second.status, second.ended_reason) == ("ended", "missed")
    assert_counts_are_right(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda old: replace(old, paused=True),
        lambda old: replace(old, until=later(10**6)),
        lambda old: replace(old, timing_revision=2),
        lambda old: replace(old, skips=(later(3600), later(7200))),
    ],
)
async def test_what_changed_since_it_was_looked_at_is_not_settled(
    store: Store, change: Callable[[Reminder], Reminder]
) -> None:
    reminder = await made(store, HOURLY)
    passed = followup([reminder], later(9000)).occurrences
    await store.change(ONE, change)
    before = await found(store, 1)
    left = await store.settle(passed, later(9000), "missed")
    assert (left.sessions, left.moved, left.ended) == ({}, set(), set())
    assert await found(store, 1) == before
    assert await history(store) == []


async def test_a_late_admission_of_what_was_missed_changes_nothing(store: Store) -> None:
    reminder = await made(store, HOURLY, max_occurrences=1)
    pushed = followup([reminder], later(3600))
    await store.settle(pushed.occurrences, later(7000), "missed")
    await store.record(pushed, later(7001), "host", None)
    assert [outcome for _, outcome in await history(store)] == ["missed"]
    now = await found(store, 1)
    assert (now.status, now.dispatch_count, now.scheduled_at) == ("active", 0, later(7200))


# --- snooze


def snoozed(
    seconds: float, key: RequestKey | None = None, refusal: NotFuture | None = None
) -> Callable[[Reminder], Draft]:
    def draft_of(old: Reminder) -> Draft:
        made = draft(
            at(seconds),
            owner=old.owner_uid,
            session=old.session_id,
            title=old.title,
            prompt=old.prompt,
            key=key.text if key else None,
            request_hash=key.request_hash if key else "",
            refusal=refusal,
        )
        return replace(made, snoozed_from=old.number)

    return draft_of


async def test_a_snooze_leaves_the_original_alone_even_where_that_has_ended(store: Store) -> None:
    original = await made(store, After(60), title="Title")
    await store.record(followup([original], later(60)), later(60), "host", None)
    before = await found(store, 1)
    given = await store.snooze(ONE, snoozed(600), None, T0, LIMITS)
    assert (given.created, given.number) == (True, 2)
    new = await found(store, 2)
    assert new == given.reminder
    assert (new.title, new.prompt, new.snoozed_from) == ("Title", before.prompt, 1)
    assert await found(store, 1) == before


async def test_a_repeated_snooze_finds_its_own_wherever_the_original_is(store: Store) -> None:
    """Also when it has moved, its time has passed, the limit was reached or it is gone."""
    await made(store, HOURLY)
    key = RequestKey("k1", "snooze r1")
    made_of = snoozed(600, key)
    await store.snooze(ONE, made_of, key, T0, LIMITS)
    await store.transfer(OWNER, "s1", "s2", LIMITS)
    late = snoozed(600, key, NotFuture("past"))
    again = await store.snooze(ONE, late, key, later(9000), Limits(1, 1))
    assert (again.created, again.number) == (False, 2)
    assert again.reminder == await found(store, 2)
    await store.delete(ONE, T0)
    again = await store.snooze(ONE, late, key, later(9000), LIMITS)
    assert again.number == 2
    await store.delete(Which(2, OWNER, None), T0)
    again = await store.snooze(ONE, late, key, later(9000), LIMITS)
    assert (again.number, again.reminder, again.created) == (2, None, False)


async def test_a_snooze_is_refused_like_a_creation(store: Store) -> None:
    await store.create(draft(HOURLY, key="k1"), T0, LIMITS)
    key = RequestKey("k1", "snooze r1")
    with pytest.raises(IdempotencyConflict):
        await store.snooze(ONE, snoozed(600, key), key, T0, LIMITS)
    with pytest.raises(LimitReached):
        await store.snooze(ONE, snoozed(600), None, T0, Limits(1, 9))
    past = snoozed(-1, refusal=NotFuture("past"))
    with pytest.raises(NotFuture):
        await store.snooze(ONE, past, None, T0, LIMITS)
    for which in (Which(9, OWNER, None), Which(1, OWNER + 1, None), Which(1, OWNER, "s2")):
        with pytest.raises(ReminderNotFound):
            await store.snooze(which, snoozed(600), None, T0, LIMITS)


# --- run now


async def run(store: Store, key: RequestKey | None = None, limits: Limits = LIMITS) -> Run:
    return await store.run_now(ONE, key, T0, limits)


async def pushed_run(store: Store, number: int) -> FollowUp:
    """The first occurrence by hand that is due, on its way."""
    ((name, due_at, reminder), *_) = (await store.reader.due((OWNER, "s1"), T0, 9, 9)).runs
    assert reminder.number == number
    return FollowUp("f1", OWNER, "s1", False, T0, (run_by_hand(reminder, name, due_at),))


@pytest.mark.parametrize("resting", [False, True])
async def test_a_run_is_due_at_once_and_moves_and_counts_nothing(
    store: Store, path: Path, resting: bool
) -> None:
    await made(store, HOURLY, max_occurrences=1)
    if resting:
        await store.change(ONE, paused)
    before = await found(store, 1)
    given = await run(store)
    assert (given.occurrence_id, given.created) == (f"r1@now-{NOW}", True)
    assert await store.reader.targets([(OWNER, "s1")]) == {(OWNER, "s1"): T0}
    pushed = await pushed_run(store, 1)
    for _ in range(2):
        left = await store.record(pushed, later(1), "host", "m1")
        assert (left.ended, left.moved) == (set(), set())
    assert await found(store, 1) == before
    assert await history(store) == [(f"r1@now-{NOW}", "admitted")]
    assert (await store.reader.due((OWNER, "s1"), T0, 9, 9)).runs == []
    assert_counts_are_right(path)


async def test_runs_of_the_same_millisecond_have_names_of_their_own(store: Store) -> None:
    """Also while the first of them is admitted already."""
    await made(store, HOURLY)
    names = [(await run(store)).occurrence_id]
    await store.record(await pushed_run(store, 1), T0, "host", None)
    names += [(await run(store)).occurrence_id for _ in range(2)]
    assert names == [f"r1@now-2026-03-02T12:00:00.00{last}Z" for last in range(3)]
    due = await store.reader.due((OWNER, "s1"), T0, 9, 9)
    assert [name for name, _, _ in due.runs] == names[1:]


async def test_a_repeated_run_finds_its_own_even_after_it_was_sent_or_all_is_gone(
    store: Store,
) -> None:
    await made(store, HOURLY)
    key = RequestKey("k1", "run r1")
    given = await run(store, key)
    await store.record(await pushed_run(store, 1), T0, "host", None)
    again = await run(store, key, Limits(0, 0))
    assert (again.occurrence_id, again.created) == (given.occurrence_id, False)
    assert again.beside.last_dispatch is not None
    await store.delete(ONE, T0)
    again = await run(store, key)
    assert (again.reminder, again.occurrence_id) == (None, given.occurrence_id)
    with pytest.raises(ReminderNotFound):
        await run(store)


async def test_a_run_is_refused_where_too_many_wait_or_nothing_is_left(store: Store) -> None:
    await store.create(draft(After(60), key="k1"), T0, LIMITS)
    with pytest.raises(IdempotencyConflict):
        await run(store, RequestKey("k1", "run r1"))
    limits = Limits(2, 9)
    for _ in range(2):
        await run(store, limits=limits)
    with pytest.raises(LimitReached, match="2 occurrences asked for by hand wait"):
        await run(store, limits=limits)
    await store.record(followup([await found(store, 1)], later(60)), later(60), "host", None)
    with pytest.raises(ReminderEnded, match="snooze it instead"):
        await run(store)
    assert len((await store.reader.due((OWNER, "s1"), T0, 9, 9)).runs) == 2  # they were promised


async def test_a_run_of_what_does_not_decode_is_a_bad_row(store: Store, path: Path) -> None:
    await made(store, HOURLY)
    await run(store)
    with by_hand(path) as conn:
        conn.execute("UPDATE reminders SET prompt = CAST(x'ff' AS TEXT)")
    due = await store.reader.due((OWNER, "s1"), T0, 9, 9)
    assert (due.runs, [bad.number for bad in due.one_shots.bad]) == ([], [1])
    await store.set_aside(due.one_shots.bad)
    assert (await store.reader.due((OWNER, "s1"), T0, 9, 9)).one_shots.bad == []
    assert await store.reader.targets([(OWNER, "s1")]) == {(OWNER, "s1"): None}
    with pytest.raises(BadRow):
        await run(store)


# --- numbers at their end


@pytest.mark.parametrize("column", ["revision", "timing_revision", "words_revision"])
async def test_a_change_that_no_row_could_be_read_with_is_refused(
    store: Store, path: Path, column: str
) -> None:
    """Somebody set it to its end by hand; stored it would be set aside, though it was answered."""
    await made(store, HOURLY)
    changed: dict[str, Any] = {column: LARGEST + 1}
    with by_hand(path) as conn:
        conn.execute(f"UPDATE reminders SET {column} = ?", (LARGEST,))
    with pytest.raises(PersistenceFailed, match="set to its end"):
        await store.change(ONE, lambda old: replace(old, **changed))
    assert getattr(await found(store, 1), column) == LARGEST


async def test_a_creation_for_which_no_id_is_left_is_refused_until_doctor_has_mended_that(
    store: Store, path: Path
) -> None:
    await made(store, HOURLY)
    with by_hand(path) as conn:
        conn.execute("UPDATE sqlite_sequence SET seq = ?", (LARGEST,))
    with pytest.raises(PersistenceFailed, match="`schedctl doctor --fix` mends ids"):
        await made(store, HOURLY)
    mend(path, look(path), NOW)
    assert (await made(store, HOURLY)).number < LARGEST
