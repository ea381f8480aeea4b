"""Questions to the file: each page in its order, whole, and nothing twice."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path

import pytest

from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.model import After, Reminder, Rule
from scheduler_daemon.store.lookups import START, Beside, Place, place
from scheduler_daemon.store.pages import PAGE_CHARS, Page
from scheduler_daemon.store.reader import UNREAD, Counts
from scheduler_daemon.store.rows import BadRow
from scheduler_daemon.store.store import Store, Which
from tests.store.support import (
    DAILY,
    HOURLY,
    OWNER,
    T0,
    Ticks,
    at,
    by_hand,
    followup,
    found,
    later,
    made,
)

KEY = (OWNER, "s1")


async def several(store: Store) -> list[Reminder]:
    """Nine reminders of two owners in two Sessions, with targets that coincide; r9 has ended."""
    rules: list[Rule] = [at(7200), HOURLY, at(3600), After(3600), DAILY, at(60), HOURLY, at(7200)]
    sessions = ["s1", "s1", "s2", "s1", "s2", "s1", "s2", "s2"]
    owners = [OWNER] * 5 + [OWNER + 1] * 3
    for rule, session, owner in zip(rules, sessions, owners, strict=True):
        await made(store, rule, session=session, owner=owner)
    last = await made(store, at(30))
    await store.record(followup([last], later(30)), later(30), "host", None)
    return [await found(store, number) for number in range(1, 10)]


async def pages(
    store: Store, owner: int | None, session: str | None, status: str, by_target: bool, limit: int
) -> list[Reminder]:
    """All pages, one after another."""
    items: list[Reminder] = []
    after: Place = START
    while True:
        page = await store.reader.page(
            owner, session, status, by_target=by_target, after=after, limit=limit
        )
        assert len(page.items) <= limit
        items += [reminder for reminder, _ in page.items]
        if not page.more:
            return items
        assert len(page.items) == limit
        after = place(items[-1])


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("by_target", [False, True])
@pytest.mark.parametrize("status", ["active", "ended", "all"])
async def test_pages_hold_everything_once_and_in_order(
    store: Store, status: str, by_target: bool, limit: int
) -> None:
    """For a Session, an owner, a Session name of everybody, and everybody."""
    everything = await several(store)
    for owner in (OWNER, OWNER + 1, None):
        for session in ("s1", "s2", None):
            expected = [
                each
                for each in everything
                if owner in (None, each.owner_uid)
                and session in (None, each.session_id)
                and status in ("all", each.status)
            ]
            expected.sort(key=place if by_target else lambda each: each.number)
            assert await pages(store, owner, session, status, by_target, limit) == expected


async def test_each_item_has_its_newest_dispatch(store: Store) -> None:
    await made(store, HOURLY)
    for hour in (1, 2):
        now = later(3600 * hour)
        await store.record(followup([await found(store, 1)], now, f"f{hour}"), now, "host", None)
    await made(store, HOURLY)
    page = await store.reader.page(OWNER, None, "all", by_target=False, after=START, limit=9)
    newest = [beside.last_dispatch for _, beside in page.items]
    assert [each and each.followup_id for each in newest] == ["f2", None]


async def page_of(store: Store, limit: int = 1000) -> Page:
    return await store.reader.page(OWNER, None, "active", by_target=False, after=START, limit=limit)


async def test_a_page_ends_before_its_words_grow_too_many(store: Store) -> None:
    for _ in range(40):
        await made(store, HOURLY, prompt="x" * 32768)
    page = await page_of(store)
    assert page.more
    words = sum(len(reminder.prompt) for reminder, _ in page.items)
    assert PAGE_CHARS < words <= PAGE_CHARS + 32768


async def test_bad_rows_are_told_apart_and_count_as_seen(store: Store, path: Path) -> None:
    for _ in range(4):
        await made(store, DAILY)
    with by_hand(path) as conn:
        conn.execute("UPDATE reminders SET time_zone = 'Europe/Atlantis' WHERE number = 2")
    page = await page_of(store, limit=3)
    assert [reminder.number for reminder, _ in page.items] == [1, 3]
    assert [bad.number for bad in page.bad] == [2]
    assert page.more
    assert page.bad[0].__traceback__ is None  # it would keep what the row was read with


# --- history


async def test_history_goes_newest_first_page_by_page(store: Store) -> None:
    reminders = [await made(store, HOURLY), await made(store, HOURLY)]
    for hour in range(1, 4):
        now = later(3600 * hour)
        reminders = [await found(store, each.number) for each in reminders]
        await store.record(followup(reminders, now, f"f{hour}"), now, "host", None)
    await store.delete(Which(2, OWNER, None), T0)
    seen = []
    before, more = 2**62, True
    while more:
        page, more = await store.reader.history(OWNER, None, "s1", before, 2)
        seen += [(each.followup_id, each.reminder_id) for each in page]
        before = page[-1].number
    assert seen == [(f"f{hour}", f"r{number}") for hour in (3, 2, 1) for number in (2, 1)]
    page, more = await store.reader.history(None, 1, None, 2**62, 2)
    assert ([each.followup_id for each in page], more) == (["f3", "f2"], True)
    for owner, session in ((OWNER + 1, None), (OWNER, "s2")):
        assert await store.reader.history(owner, 1, session, 2**62, 2) == ([], False)


async def test_the_receipts_of_a_session_name_are_merged_for_an_admin(store: Store) -> None:
    """Those of owners who have no reminder left as well."""
    for owner in (OWNER, OWNER + 1, OWNER, OWNER + 2):
        reminder = await made(store, at(1), owner=owner)
        await store.record(followup([reminder], later(2)), later(2), "host", None)
        await store.delete(Which(reminder.number, None, None), T0)
    await made(store, at(1), session="s2")
    page, more = await store.reader.history(None, None, "s1", 2**62, 3)
    assert ([each.reminder_id for each in page], more) == (["r4", "r3", "r2"], True)
    page, more = await store.reader.history(None, None, "s1", page[-1].number, 3)
    assert ([each.reminder_id for each in page], more) == (["r1"], False)


async def test_a_page_of_history_ends_before_its_words_grow_too_many(store: Store) -> None:
    reminder = await made(store, HOURLY, prompt="x" * 32768)
    for hour in range(1, 31):
        now = later(3600 * hour)
        await store.record(followup([reminder], now, f"f{hour}"), now, "host", None)
        reminder = await found(store, 1)
    page, more = await store.reader.history(OWNER, 1, None, 2**62, 1000)
    assert more
    assert len(page) == PAGE_CHARS // 32768 + 1


# --- what is due


async def test_due_are_the_first_one_shots_and_the_overdue_recurring(store: Store) -> None:
    everything = await several(store)
    due = await store.reader.due(KEY, later(7200), 9, 9)
    one_shots, recurring = due.one_shots, due.recurring
    assert [each.number for each in one_shots.reminders] == [4, 1]
    assert recurring.reminders == [everything[1]]
    due = await store.reader.due(KEY, later(7200), 1, 0)
    one_shots, recurring = due.one_shots, due.recurring
    assert [each.number for each in one_shots.reminders] == [4]
    assert recurring.reminders == []
    due = await store.reader.due(KEY, later(3599), 9, 9)
    one_shots, recurring = due.one_shots, due.recurring
    assert one_shots.reminders == recurring.reminders == []


async def test_overdue_recurring_are_read_in_parts_even_where_targets_are_equal(
    store: Store,
) -> None:
    made_in_order = [await made(store, HOURLY) for _ in range(5)]
    seen: list[Reminder] = []
    after = START
    while True:
        part = await store.reader.due_recurring(KEY, later(3600), after, 2)
        if not part.reminders:
            break
        seen += part.reminders
        after = place(seen[-1])
    assert seen == made_in_order
    assert (await store.reader.due_recurring(KEY, later(3599), START, 2)).reminders == []


async def test_sessions_with_something_due_come_in_the_order_of_their_targets(
    store: Store,
) -> None:
    for session, seconds in (("b", 60), ("a", 60), ("c", 30), ("d", 90), ("e", 3600)):
        await made(store, at(seconds), session=session)
    await made(store, at(30), owner=OWNER + 1)
    due = await store.reader.sessions_due(OWNER, later(90), ("", ""), 10)
    assert [name for _, name in due] == ["c", "a", "b", "d"]
    seen = []
    after = ("", "")
    while found := await store.reader.sessions_due(OWNER, later(90), after, 1):
        seen += found
        after = found[-1]
    assert seen == due


async def test_the_next_target_is_that_of_an_owner_or_of_a_session(store: Store) -> None:
    await several(store)
    reader = store.reader
    assert await reader.next_target(OWNER, T0) == later(3600)
    assert await reader.next_target(OWNER + 1, later(60)) == later(3600)
    assert await reader.next_target(OWNER, later(10**6)) is None
    assert await reader.next_target_of_session(KEY, later(3600)) == later(7200)
    assert await reader.next_target_of_session(KEY, later(7200)) is None
    assert await reader.targets([KEY, (OWNER, "none")]) == {KEY: later(3600), (OWNER, "none"): None}


async def test_owners_with_nothing_active_are_left_out(store: Store) -> None:
    await several(store)
    assert await store.reader.owners() == [OWNER, OWNER + 1]
    for number in range(6, 9):
        await store.delete(Which(number, None, None), T0)
    assert await store.reader.owners() == [OWNER]


async def test_counts_are_an_owners_own(store: Store) -> None:
    await several(store)
    await store.set_aside([BadRow(1, "rule: because")])
    counts = await store.reader.counts(OWNER, later(3600))
    assert counts == Counts(active=4, paused=0, ended=1, set_aside=1, overdue=3, runs=0)
    assert await store.reader.counts(77, later(3600)) == Counts(0, 0, 0, 0, 0, 0)
    keys = [KEY, (OWNER, "s2"), (OWNER, "none")]
    overdue = await store.reader.overdue_in(keys, later(3600))
    assert list(overdue.values()) == [2, 1, 0]


async def test_the_clock_of_a_dispatch_is_that_of_its_last_decision(store: Store) -> None:
    reminder = await made(store, HOURLY)
    await store.record(followup([reminder], later(3601)), later(3602), "host", None)
    assert await store.reader.decided_at(1, later(3600)) == later(3601)
    assert await store.reader.decided_at(1, later(7200)) is None
    again = dataclasses.replace(reminder, generation=1)
    await store.record(followup([again], later(3700), "f2"), later(3701), "host", None)
    assert await store.reader.decided_at(1, later(3600)) == later(3700)


# --- the connection


async def test_a_question_that_the_file_cannot_answer_is_persistence_failed(path: Path) -> None:
    """Also when SQLite ended the transaction by itself, as after an I/O error."""

    def fail(conn: sqlite3.Connection) -> None:
        conn.execute("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    heard: list[str] = []
    store = await Store.open(path, monotonic=Ticks(), wait_seconds=1, failed=heard.append)
    for question in (fail, lambda conn: conn.execute("DELETE FROM reminders")):
        with pytest.raises(PersistenceFailed, match=UNREAD):
            await store.reader._look(question)
    assert heard == ["disk I/O error", "attempt to write a readonly database"]
    assert await store.reader.owners() == []
    await store.close()


async def test_a_question_that_is_a_defect_is_not_blamed_on_the_file(store: Store) -> None:
    with pytest.raises(sqlite3.ProgrammingError):
        await store.reader._look(lambda conn: conn.execute("SELECT ?, ?", (1,)))
    assert await store.reader.owners() == []


async def test_a_question_never_sees_half_a_transaction(store: Store, path: Path) -> None:
    """It is one snapshot, whoever writes meanwhile."""
    await made(store, HOURLY)

    def look(conn: sqlite3.Connection) -> list[tuple[int]]:
        first = conn.execute("SELECT count(*) FROM reminders").fetchone()
        with by_hand(path) as other:
            other.execute("DELETE FROM reminders")
        return [first, conn.execute("SELECT count(*) FROM reminders").fetchone()]

    assert await store.reader._look(look) == [(1,), (1,)]
    assert await store.reader.get(1, None, None) is None


async def test_questions_are_answered_while_somebody_holds_the_write_lock(
    store: Store, path: Path
) -> None:
    reminder = await made(store, HOURLY)
    with by_hand(path) as holder:
        holder.execute("BEGIN IMMEDIATE")
        assert await found(store, 1) == reminder
        assert (await page_of(store)).items == [(reminder, Beside())]
        holder.execute("ROLLBACK")


async def test_what_cannot_be_mended_is_not_read_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler_daemon.store.reader.MENDS", 0)
    with pytest.raises(PersistenceFailed):
        await store.reader.owners()
