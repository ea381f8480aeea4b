"""Targets computed anew: after other zone data, and after a clock that ran ahead; in slices."""

from __future__ import annotations

import dataclasses
import datetime as dt
import sqlite3
from collections.abc import Callable
from pathlib import Path

from scheduler_daemon.model import After, At, Daily, Every, Instant, Reminder
from scheduler_daemon.rules import decide, instant_text
from scheduler_daemon.store.store import Store, Which
from scheduler_daemon.store.upkeep import (
    AHEAD,
    SLICE,
    Slice,
    any_beyond,
    correct_ahead,
    end_beyond,
    moved_target,
    note_zone_data,
    recompute_zones,
)
from tests.store.support import (
    CRON,
    DAILY,
    HOURLY,
    LIMITS,
    OWNER,
    T0,
    assert_counts_are_right,
    at,
    by_hand,
    followup,
    found,
    later,
    made,
    opened,
)

# T0 is 12:00 UTC; the DAILY of these tests is due at 14:00 UTC, 9:00 in New York.
NINE = dt.datetime(2026, 3, 2, 14, tzinfo=dt.UTC)
OLDER = NINE + dt.timedelta(hours=1)
"""The same as an older release of the zone data had it."""


def set_by_hand(path: Path, number: int | None = None, **columns: Instant) -> None:
    with by_hand(path) as conn:
        for name, value in columns.items():
            conn.execute(
                f"UPDATE reminders SET {name} = ? WHERE number = coalesce(?, number)",
                (instant_text(value), number),
            )


def fill(path: Path, count: int) -> None:
    """As many daily reminders, in five Sessions, with targets of the older zone data."""
    with by_hand(path) as conn:
        conn.execute(
            """INSERT INTO reminders (owner_uid, session_id, kind, local_time, time_zone, prompt,
                 scheduled_at, after_at, computed_at, created_at)
               WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
               SELECT :owner, 's' || (i % 5), 'daily', '09:00:00.000', 'America/New_York', 'x',
                 :older, :now, :now, :now FROM n""",
            {"count": count, "owner": OWNER, "older": instant_text(OLDER), "now": instant_text(T0)},
        )


def targets(path: Path) -> list[str]:
    with by_hand(path) as conn:
        return [at for (at,) in conn.execute("SELECT DISTINCT scheduled_at FROM reminders")]


async def all_slices(
    store: Store, act: Callable[[], Callable[[sqlite3.Connection], Slice]]
) -> list[Slice]:
    done: list[Slice] = []
    while not done or not done[-1].done:
        done.append(await store.upkeep(act()))
        await store.set_aside(done[-1].bad)
    return done


async def zones(store: Store, now: Instant = T0) -> list[Slice]:
    mark = 0

    def following() -> Callable[[sqlite3.Connection], Slice]:
        return recompute_zones(mark, now)

    done: list[Slice] = []
    while not done or not done[-1].done:
        done.append(await store.upkeep(following()))
        mark = done[-1].mark
    return done


# --- other zone data than last time


async def test_the_first_start_notes_its_zone_data_and_has_nothing_to_compute(
    store: Store,
) -> None:
    assert await store.upkeep(note_zone_data("2026a")) is None
    assert await store.upkeep(note_zone_data("2026a")) is None


async def test_other_zone_data_begins_at_the_first_reminder_and_goes_on_after_a_restart(
    path: Path,
) -> None:
    """Wherever it is stopped, the next start goes on from its mark."""
    fill(path, 2 * SLICE + 50)
    async with opened(path) as store:
        await store.upkeep(note_zone_data("2025b"))
        assert await store.upkeep(note_zone_data("2026a")) == 0
        one = await store.upkeep(recompute_zones(0, T0))
        assert (one.done, one.mark, len(one.moved)) == (False, SLICE, SLICE)
    assert targets(path) == [instant_text(NINE), instant_text(OLDER)]
    async with opened(path) as store:
        mark = await store.upkeep(note_zone_data("2026a"))
        assert mark == SLICE
        two = await store.upkeep(recompute_zones(mark, T0))
        assert (two.done, two.mark, len(two.moved)) == (False, 2 * SLICE, SLICE)
        three = await store.upkeep(recompute_zones(two.mark, T0))
        assert (three.done, len(three.moved)) == (True, 50)
        assert set(three.moved) == {(OWNER, f"s{number}") for number in range(5)}
        assert await store.upkeep(note_zone_data("2026a")) is None
    assert targets(path) == [instant_text(NINE)]
    assert_counts_are_right(path)


async def test_zone_data_that_changes_again_begins_anew(store: Store, path: Path) -> None:
    fill(path, SLICE + 1)
    await store.upkeep(note_zone_data("2025b"))
    await store.upkeep(note_zone_data("2025c"))
    await store.upkeep(recompute_zones(0, T0))
    assert await store.upkeep(note_zone_data("2026a")) == 0


async def test_a_whole_number_of_slices_ends_with_an_empty_one(store: Store, path: Path) -> None:
    fill(path, SLICE)
    parts = await zones(store)
    assert [(part.done, part.mark, len(part.moved)) for part in parts] == [
        (False, SLICE, SLICE),
        (True, SLICE, 0),
    ]


async def test_only_active_future_targets_on_a_local_clock_are_computed_again(
    store: Store, path: Path
) -> None:
    """A committed target that has come is kept, and so is what lives on no clock."""
    daily, overdue, ended = [await made(store, DAILY) for _ in range(3)]
    cron = await made(store, CRON)
    others = [await made(store, rule) for rule in (HOURLY, After(9000), at(9000))]
    await store.record(followup([ended], NINE), NINE, "host", None)
    with by_hand(path) as conn:
        conn.execute(
            "UPDATE reminders SET status = 'ended', ended_at = created_at, ended_reason = 'count' "
            "WHERE number = ?",
            (ended.number,),
        )
    for number in (daily.number, ended.number):
        set_by_hand(path, number, scheduled_at=OLDER)
    set_by_hand(path, overdue.number, scheduled_at=T0)
    (part,) = await zones(store)
    assert part.moved == [(OWNER, "s1")]
    assert await found(store, daily.number) == daily
    assert (await found(store, overdue.number)).scheduled_at == T0
    assert (await found(store, ended.number)).scheduled_at == OLDER
    for each in (cron, *others):
        assert await found(store, each.number) == each


async def test_what_moves_to_before_now_is_due_at_once(store: Store, path: Path) -> None:
    reminder = await made(store, DAILY)
    set_by_hand(path, scheduled_at=OLDER)
    now = NINE + dt.timedelta(minutes=30)
    await zones(store, now)
    assert await store.reader.targets([(OWNER, "s1")]) == {(OWNER, "s1"): NINE}
    recurring = (await store.reader.due((OWNER, "s1"), now, 1, 1)).recurring
    assert recurring.reminders == [reminder]


async def test_bad_rows_hold_up_neither_their_slice_nor_the_next(store: Store, path: Path) -> None:
    fill(path, SLICE + 10)
    with by_hand(path) as conn:
        conn.execute("UPDATE reminders SET time_zone = 'Europe/Atlantis' WHERE number % 10 = 0")
    parts = await zones(store)
    assert [len(part.bad) for part in parts] == [20, 1]
    assert [len(part.moved) for part in parts] == [180, 9]
    assert parts[0].bad[0].number == 10
    for part in parts:
        await store.set_aside(part.bad)
    assert [len(part.bad) for part in await zones(store)] == [0]  # they are read no more
    assert_counts_are_right(path)


def test_only_rules_of_a_local_clock_can_have_another_target() -> None:
    base = Reminder(
        **{field.name: None for field in dataclasses.fields(Reminder)}  # type: ignore[arg-type]
    )
    now = dataclasses.replace(base, after_at=T0, computed_at=T0, scheduled_at=OLDER)
    assert moved_target(dataclasses.replace(now, rule=DAILY)) == NINE
    assert moved_target(dataclasses.replace(now, rule=DAILY, scheduled_at=NINE)) is None
    for rule in (HOURLY, After(60), At(T0)):
        assert moved_target(dataclasses.replace(now, rule=rule)) is None


# --- a clock that ran ahead

FAST = T0 + dt.timedelta(days=3650)


async def test_a_clock_that_ran_far_ahead_silences_nothing(store: Store, path: Path) -> None:
    """The recurring become due as if made now, an `after` at the clock plus its delay."""
    anchored = Every(3600, FAST)
    for rule in (DAILY, anchored, After(60)):
        await made(store, rule, now=FAST)
    fixed = await made(store, At(FAST + AHEAD), now=FAST)
    (part,) = await all_slices(store, lambda: correct_ahead(T0))
    assert part.moved == [(OWNER, "s1")] * 3
    assert [(await found(store, number)).scheduled_at for number in (1, 2, 3)] == [
        NINE,
        later(3600),
        later(60),
    ]
    for number in (1, 2, 3):
        reminder = await found(store, number)
        assert (reminder.after_at, reminder.computed_at, reminder.generation) == (FAST, T0, 0)
    assert await found(store, fixed.number) == fixed
    assert_counts_are_right(path)


async def test_a_day_ahead_is_kept_and_more_is_not(store: Store, path: Path) -> None:
    kept = await made(store, DAILY, now=T0 + AHEAD)
    await made(store, DAILY, now=T0 + AHEAD + dt.timedelta(milliseconds=1))
    (part,) = await all_slices(store, lambda: correct_ahead(T0))
    assert len(part.moved) == 1
    assert await found(store, kept.number) == kept


async def test_a_target_that_moves_back_past_a_dispatch_gets_new_occurrence_ids(
    store: Store,
) -> None:
    """No host takes the coming occurrences for repeats; the dispatch under the fast clock stays."""
    reminder = await made(store, Daily(dt.time(9), "UTC"))
    await store.record(followup([reminder], FAST), FAST, "host", None)
    await all_slices(store, lambda: correct_ahead(T0))
    corrected = await found(store, 1)
    assert (corrected.generation, corrected.scheduled_at) == (1, later(21 * 3600))
    assert corrected.last_occurrence_at == decide(reminder.rule, reminder.scheduled_at, FAST)[0]
    due = later(24 * 3600)
    again = followup([corrected], due, "f2")
    await store.record(again, due, "host", None)
    assert again.occurrences[0].occurrence_id == "r1.1@2026-03-03T09:00:00.000Z"
    receipts, _ = await store.reader.history(OWNER, 1, None, 2**62, 10)
    assert len(receipts) == 2
    assert (await found(store, 1)).generation == 1


async def test_skips_of_a_time_that_a_fast_clock_showed_are_forgotten(store: Store) -> None:
    """Else the next skip of one in flight would take out an occurrence of ten years later."""
    await made(store, HOURLY, now=FAST)
    skips = (later(3600, FAST), later(7200, FAST))
    await store.change(Which(1, OWNER, None), lambda old: dataclasses.replace(old, skips=skips))
    await all_slices(store, lambda: correct_ahead(T0))
    assert (await found(store, 1)).skips is None


async def test_skips_outlive_other_zone_data(store: Store, path: Path) -> None:
    await made(store, DAILY)
    skips = (NINE, later(86400, NINE))
    await store.change(Which(1, OWNER, None), lambda old: dataclasses.replace(old, skips=skips))
    set_by_hand(path, scheduled_at=OLDER)
    await zones(store)
    moved = await found(store, 1)
    assert (moved.scheduled_at, moved.skips) == (NINE, skips)


async def test_many_are_corrected_in_slices_and_bad_rows_are_told_apart(
    store: Store, path: Path
) -> None:
    fill(path, 2 * SLICE)
    set_by_hand(path, scheduled_at=FAST, computed_at=FAST)
    with by_hand(path) as conn:
        conn.execute("UPDATE reminders SET time_zone = 'Europe/Atlantis' WHERE number = 5")
    parts = await all_slices(store, lambda: correct_ahead(T0))
    assert [len(part.moved) for part in parts] == [SLICE - 1, SLICE, 0]
    assert [bad.number for part in parts for bad in part.bad] == [5]
    with by_hand(path) as conn:
        rest = conn.execute("SELECT DISTINCT scheduled_at FROM reminders WHERE status = 'active'")
        assert rest.fetchall() == [(instant_text(NINE),)]
    assert_counts_are_right(path)


async def test_what_has_ended_stays_as_it_ended(store: Store, path: Path) -> None:
    reminder = await made(store, After(60), now=FAST)
    await store.record(followup([reminder], later(61, FAST)), FAST, "host", None)
    ended = await found(store, 1)
    assert [part.moved for part in await all_slices(store, lambda: correct_ahead(T0))] == [[]]
    assert await found(store, 1) == ended


async def test_a_rule_without_another_occurrence_keeps_its_target(store: Store, path: Path) -> None:
    """There is nothing after the clock: the year 9999 is over for it."""
    await made(store, HOURLY)
    late = dt.datetime(9999, 12, 29, tzinfo=dt.UTC)
    set_by_hand(path, scheduled_at=late, computed_at=dt.datetime(9999, 12, 31, tzinfo=dt.UTC))
    with by_hand(path) as conn:
        conn.execute("UPDATE reminders SET interval_seconds = 10000000000000")
    (part,) = await all_slices(store, lambda: correct_ahead(late))
    reminder = await found(store, 1)
    assert (reminder.scheduled_at, reminder.computed_at, len(part.moved)) == (late, late, 1)


# --- runs that a clock left ahead


async def test_a_run_is_due_at_once_under_a_clock_that_was_set_back(
    store: Store, path: Path
) -> None:
    """However little; one that is due already keeps its instant."""
    await made(store, HOURLY)
    await made(store, HOURLY, session="s2")
    for number, now in ((1, later(1)), (2, T0)):
        await store.run_now(Which(number, OWNER, None), None, now, LIMITS)
    (part,) = await all_slices(store, lambda: correct_ahead(T0))
    assert part.moved == [(OWNER, "s1")]
    targets = await store.reader.targets([(OWNER, "s1"), (OWNER, "s2")])
    assert set(targets.values()) == {T0}
    assert_counts_are_right(path)


# --- what a clock that could not be trusted left beyond its end


async def test_what_lies_beyond_its_end_is_ended_in_slices_and_nothing_else(
    store: Store, path: Path
) -> None:
    until = later(3600)
    kept = [await made(store, HOURLY, until=until), await made(store, HOURLY)]
    fill(path, SLICE + 3)
    with by_hand(path) as conn:
        conn.execute("UPDATE reminders SET until_at = ? WHERE number > 2", [instant_text(T0)])
        conn.execute("UPDATE reminders SET paused = 1 WHERE number % 2 = 0 AND number > 2")
        conn.execute("UPDATE reminders SET time_zone = 'Europe/Atlantis' WHERE number = 7")
        assert any_beyond(conn)
    parts = await all_slices(store, lambda: end_beyond(T0))
    assert [len(part.ended) for part in parts] == [SLICE - 1, 3]
    assert [len(part.moved) for part in parts] == [SLICE - 1, 3]
    assert [bad.number for part in parts for bad in part.bad] == [7]
    for each in kept:
        assert await found(store, each.number) == each
    for number in (3, 4):
        ended = await found(store, number)
        assert (ended.status, ended.ended_reason, ended.ended_at) == ("ended", "until", T0)
        assert not ended.paused
    with by_hand(path) as conn:
        assert not any_beyond(conn)
    assert_counts_are_right(path)
