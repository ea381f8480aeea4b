"""Rows edited by hand into what no program of ours writes: each steps aside, all others go on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon import planning
from scheduler_daemon.errors import ReminderNotFound
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.upkeep import note_zone_data
from scheduler_daemon.wire import params
from tests.support.clock import START
from tests.support.world import ADMIN, ADMIT, Json, World, few_rounds

DAILY: Json = {"daily": {"time": "12:05", "time_zone": "UTC"}}
EVERY: Json = {"every_seconds": 300}
AFTER: Json = {"after_seconds": 300}
CRON: Json = {"cron": {"expression": "5 12 * * *", "time_zone": "UTC"}}
WEEKLY: Json = {"weekly": {"time": "12:05", "time_zone": "UTC", "weekdays": [1, 2, 3, 4, 5, 6, 7]}}

NOT_UTF8 = "CAST(x'636166e9' AS TEXT)"
NOW = instant_text(START)


@contextmanager
def by_hand(path: Path, *, loose: bool = False) -> Iterator[sqlite3.Connection]:
    """The file as somebody opens it who wants every check out of the way; `loose` also types."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        if loose:
            conn.execute("PRAGMA writable_schema = ON")
            conn.execute("UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')')")
            conn.execute("PRAGMA writable_schema = RESET")
            conn.execute("PRAGMA writable_schema = ON")
        conn.execute("PRAGMA ignore_check_constraints = ON")
        yield conn
        if loose:
            conn.execute(
                "UPDATE sqlite_schema SET sql = sql || ' STRICT' "
                "WHERE type = 'table' AND name = 'reminders'"
            )


LET_THROUGH: list[tuple[Json, str]] = [
    (DAILY, "time_zone = 'Mars/Olympus'"),
    (DAILY, "time_zone = 'europe/berlin'"),
    (DAILY, f"time_zone = {NOT_UTF8}"),
    (DAILY, "kind = 'weekly', weekdays = '7,1'"),
    (WEEKLY, "weekdays = ',1'"),
    (CRON, "cron_expression = '05 12 * * *'"),
    (CRON, "cron_expression = '@daily at nine'"),
    (CRON, "cron_expression = printf('%.*c', 1000000, '1')"),
    (EVERY, "context = '{\"a\": 1}'"),
    (EVERY, "context = json_object('a', printf('%.*c', 1000000, 'x'))"),
    (AFTER, f"context = json_object('a', {NOT_UTF8})"),
    (AFTER, f"prompt = {NOT_UTF8}"),
    (EVERY, f"title = {NOT_UTF8}"),
    (EVERY, f"session_id = {NOT_UTF8}"),
    (AFTER, "session_id = 's' || char(0) || 't'"),
    (AFTER, "session_id = 's' || char(10)"),
    (EVERY, f"dispatch_count = {2**63 - 1}"),
    (EVERY, f"generation = {2**63 - 1}"),
    (EVERY, f"revision = {2**63 - 1}"),
    (EVERY, f"words_revision = {2**63 - 1}"),
]
"""Edits that no constraint refuses."""

PAST_CHECKS: list[tuple[Json, str]] = [
    (AFTER, "scheduled_at = '2026-01-01'"),
    (EVERY, "scheduled_at = '2026-01-01 12:01:00'"),
    (AFTER, "scheduled_at = 'soon'"),
    (DAILY, "scheduled_at = ''"),
    (EVERY, "scheduled_at = '2026-01-01T12:61:00.000Z'"),
    (EVERY, f"scheduled_at = {NOT_UTF8}"),
    (EVERY, "after_at = 'yesterday'"),
    (EVERY, "computed_at = '2026-01-01T12:00:00Z'"),
    (AFTER, "created_at = '2026'"),
    (EVERY, "last_occurrence_at = 'never'"),
    (EVERY, "anchor_at = '12:00'"),
    (EVERY, "interval_seconds = 1"),
    (AFTER, "delay_seconds = 0"),
    (DAILY, "local_time = '12:05'"),
    (DAILY, "local_time = NULL"),
    (EVERY, "kind = 'yearly'"),
    (EVERY, "until_at = '2026-12-24'"),
    (AFTER, "until_at = '2026-01-01T00:00:00.000Z'"),
    (AFTER, "max_occurrences = 3"),
    (EVERY, f"skips_to_at = '{NOW}'"),
    (EVERY, f"skips_after_at = '{NOW}'"),
    (EVERY, f"skips_after_at = '{NOW}', skips_to_at = '{NOW}'"),
    (EVERY, "generation = -1"),
    (EVERY, "revision = 0"),
    (EVERY, "dispatch_count = -1"),
    (EVERY, "max_occurrences = -1"),
    (EVERY, "expires_after_seconds = 0"),
    (AFTER, "snoozed_from = -7"),
    (EVERY, "ended_reason = 'bored'"),
    (AFTER, f"ended_at = '{NOW}', ended_reason = 'delivered'"),
    (AFTER, "prompt = ''"),
    (AFTER, "prompt = 'a' || char(0) || 'b'"),
    (AFTER, "prompt = printf('%.*c', 10000000, 'x')"),
    (EVERY, "title = printf('%.*c', 1000000, 'x')"),
    (EVERY, "session_id = ''"),
    (EVERY, "session_id = printf('%.*c', 300, 's')"),
    (EVERY, "session_id = '*'"),
    (AFTER, "title = ''"),
    (DAILY, "delay_seconds = 5"),
    (AFTER, "time_zone = 'UTC'"),
    (AFTER, "former_status = 'active'"),
    (EVERY, "set_aside_reason = 'because'"),
    (EVERY, "status = 'ACTIVE'"),
    (EVERY, "status = ''"),
    (EVERY, "paused = 2"),
]
"""Edits under `PRAGMA ignore_check_constraints`."""

PAST_TYPES: list[tuple[Json, str]] = [
    (AFTER, "scheduled_at = 1767268800"),
    (EVERY, "scheduled_at = x'00'"),
    (EVERY, "after_at = 1.5"),
    (AFTER, "prompt = x'ff'"),
    (AFTER, "title = x'00'"),
    (EVERY, "generation = 'none'"),
    (EVERY, "kind = x'6576657279'"),
    (EVERY, "interval_seconds = 'often'"),
    (DAILY, "time_zone = 7"),
    (CRON, "cron_expression = x'00'"),
    (EVERY, "revision = 'first'"),
    (EVERY, "context = x'00'"),
    (WEEKLY, "weekdays = 9"),
]
"""Edits once STRICT was taken out of the schema."""


async def check_set_aside(world: World, rule: Json, edit: str, *, loose: bool) -> None:
    """Spoil one of several reminders of a Session and let time pass."""
    victim = await world.create(prompt="spoilt", **rule)
    await world.create(prompt="once", after_seconds=300)
    await world.create(prompt="often", **DAILY)
    await world.create("t", "elsewhere", after_seconds=300)
    with capture_logs() as lines:
        with by_hand(world.path, loose=loose) as conn:
            conn.execute(f"UPDATE reminders SET {edit} WHERE id = ?", (victim,))
        agent = await world.agent("s", says=ADMIT)
        star = await world.agent("*", says=ADMIT, name="all")
        world.scheduler.reread()
        with few_rounds(world, 40):
            await world.advance(300)
            await world.advance(86_400)
    assert agent.prompts == [["once"], ["often"], ["often"]]
    assert star.prompts == [["elsewhere"]]
    ((status, former, reason),) = world.sql(
        "SELECT status, former_status, set_aside_reason FROM reminders WHERE id = ?", victim
    )
    assert (status, former) == ("set_aside", "active")
    assert 0 < len(reason) <= 500
    told = [line["reminder_id"] for line in lines if line["event"] == "row_set_aside"]
    assert told == [victim]
    assert (await world.status())["counts"]["set_aside"] == 1
    assert world.scheduler.failures == 0
    with pytest.raises(ReminderNotFound):
        await world.get(victim)


@pytest.mark.parametrize(("rule", "edit"), LET_THROUGH, ids=lambda each: str(each)[:40])
async def test_what_the_constraints_let_through_steps_aside(
    world: World, rule: Json, edit: str
) -> None:
    await check_set_aside(world, rule, edit, loose=False)


@pytest.mark.parametrize(("rule", "edit"), PAST_CHECKS, ids=lambda each: str(each)[:40])
async def test_what_came_past_the_checks_steps_aside(world: World, rule: Json, edit: str) -> None:
    await check_set_aside(world, rule, edit, loose=False)


@pytest.mark.parametrize(("rule", "edit"), PAST_TYPES, ids=lambda each: str(each)[:40])
async def test_a_value_of_another_type_steps_aside(world: World, rule: Json, edit: str) -> None:
    await check_set_aside(world, rule, edit, loose=True)


@pytest.mark.parametrize("loose", [False, True])
async def test_every_list_and_view_is_answered_beside_bad_rows(world: World, loose: bool) -> None:
    good = []
    for rule, edit in PAST_TYPES if loose else LET_THROUGH + PAST_CHECKS:
        victim = await world.create(prompt="spoilt good", **rule)
        good.append(await world.create(prompt="good", **rule))
        with by_hand(world.path, loose=loose) as conn:
            conn.execute(f"UPDATE reminders SET {edit} WHERE id = ?", (victim,))
    asked: Json
    for asked in (
        {"order": "target", "limit": 2},
        {"order": "target", "session_id": "s", "limit": 2},
        {"limit": 1},
        {"text": "good", "limit": 2},
        {"kind": "daily", "status": "all"},
    ):
        found: list[str] = []
        cursor: Json = {}
        while True:
            page = await world.page(**asked, **cursor)
            found += [each["id"] for each in page["items"]]
            if "next_cursor" not in page:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert set(found) <= set(good)
        assert len(found) == len(set(found))
    for caller in (None, ADMIN):
        await world.status(caller)
    who = {"owner_uid": "*"}
    sessions = await world.call("sessions.list_sessions", params.ListSessions, who, ADMIN)
    assert "s" in [each["session_id"] for each in sessions["items"]]


async def test_an_edit_by_hand_of_the_table_of_sessions_is_counted_anew(world: World) -> None:
    """A target that is missing there, or late, would never be sent."""
    agent = await world.agent("s", "t", "u", says=ADMIT)
    for session in ("s", "t", "u"):
        await world.create(session, session, after_seconds=300)
    with by_hand(world.path) as conn:
        conn.execute("UPDATE sessions SET next_target_at = NULL, active = 7")
        conn.execute("DELETE FROM sessions WHERE session_id = 't'")
        conn.execute("UPDATE sessions SET next_target_at = 'soon' WHERE session_id = 'u'")
        conn.execute("INSERT INTO sessions (owner_uid, session_id, active) VALUES (77, 'x', 3)")
        conn.execute("DELETE FROM owners")
    world.scheduler.reread()
    await world.settled()
    assert (await world.status())["counts"]["active"] == 3
    await world.advance(300)
    assert sorted(agent.prompts) == [["s"], ["t"], ["u"]]
    assert world.sql("SELECT active, ended FROM owners ORDER BY owner_uid") == [(0, 0), (0, 3)]
    assert world.sql("SELECT count(*) FROM sessions WHERE session_id = 'x'") == [(0,)]


@pytest.mark.parametrize("table", ["sessions", "owners"])
@pytest.mark.parametrize("act", ["deliver", "delete", "pause", "spoil"])
async def test_counts_that_are_too_low_hold_nothing_up(world: World, table: str, act: str) -> None:
    """Nothing could ever end or go: what it is taken from may not fall below nothing."""
    reminder = await world.create(after_seconds=300)
    await world.create(prompt="other", after_seconds=400)
    if act == "pause":
        await world.act("pause", reminder)
    world.sql(f"UPDATE {table} SET active = 0, paused = 0")
    if act == "deliver":
        await world.agent("s", says=ADMIT)
        await world.advance(300)
    elif act == "delete":
        assert await world.delete(reminder)
    elif act == "pause":
        await world.act("resume", reminder)
    else:
        world.spoil(reminder)
        with pytest.raises(ReminderNotFound):
            await world.get(reminder)
    counted = world.sql("SELECT sum(status = 'active') FROM reminders")
    assert world.sql(f"SELECT active FROM {table}") == counted
    assert world.scheduler.failures == 0


async def test_a_run_whose_instant_cannot_be_read_is_due_when_it_was_asked_for(
    world: World,
) -> None:
    reminder = await world.create(prompt="by hand", **DAILY)
    await world.act("run_now", reminder)
    await world.act("run_now", reminder)
    with by_hand(world.path) as conn:
        conn.execute("UPDATE runs SET due_at = 'soon' WHERE number = 1")
        conn.execute("UPDATE runs SET due_at = '2026', occurrence_id = 'x' WHERE number = 2")
    agent = await world.agent("s", says=ADMIT)
    assert agent.prompts == [["by hand"], ["by hand"]]
    assert world.sql("SELECT count(*) FROM runs") == [(0,)]
    ids = {each["occurrences"][0]["occurrence_id"] for each in agent.pushed}
    assert ids == {f"{reminder}@now-{NOW}", f"{reminder}@now-0001-01-01T00:00:00.000Z"}


@pytest.mark.parametrize(
    "identity",
    [
        *("''", "'x'", "'r2@now-2026-01-01T12:00:00.000Z'", "'r1@2026-01-01T12:05:00.000Z'"),
        *(NOT_UTF8, "'a' || char(0)", "printf('%.*c', 3000000, 'x')", "'r1@now-' || occurrence_id"),
    ],
)
async def test_a_run_with_another_identity_than_its_own_gets_one_and_holds_nothing_up(
    world: World, identity: str
) -> None:
    """With that of another occurrence its host would take one of the two for a repeat."""
    reminder = await world.create(prompt="by hand", **DAILY)
    await world.act("run_now", reminder)
    with by_hand(world.path) as conn:
        conn.execute(f"UPDATE runs SET occurrence_id = {identity}")
    agent = await world.agent("s", says=ADMIT)
    await world.advance(300)
    ids = [each["occurrences"][0]["occurrence_id"] for each in agent.pushed]
    assert ids == [f"{reminder}@now-{NOW}", f"{reminder}@2026-01-01T12:05:00.000Z"]
    assert world.scheduler.failures == 0


async def test_a_run_of_nobody_or_of_another_session_goes_nowhere(world: World) -> None:
    reminder = await world.create(prompt="by hand", **DAILY)
    await world.create("t", "other", **DAILY)
    await world.act("run_now", reminder)
    await world.act("run_now", reminder)
    world.sql("UPDATE runs SET reminder_number = 99 WHERE number = 1")
    world.sql("UPDATE runs SET session_id = 't' WHERE number = 2")
    agent = await world.agent("s", "t", says=ADMIT)
    with few_rounds(world, 20):
        await world.advance(60)
    assert agent.prompts == []


@pytest.mark.parametrize("column", ["decided_at", "admitted_at", "occurrence_at"])
async def test_a_receipt_that_cannot_be_read_is_left_out_and_harms_nobody(
    world: World, column: str
) -> None:
    agent = await world.agent("s", says=ADMIT)
    often = await world.create(prompt="often", **EVERY)
    for _ in range(3):
        await world.advance(300)
    with by_hand(world.path) as conn:
        conn.execute(f"UPDATE dispatches SET {column} = 'then' WHERE number IN (2, 3)")
    found = await world.history(id=often, limit=1)
    assert [each["occurrence_at"] for each in found["items"]] == ["2026-01-01T12:05:00.000Z"]
    assert "next_cursor" not in found
    assert len((await world.history(session_id="s"))["items"]) == 1
    assert "last_dispatch" not in await world.get(often)
    await world.advance(300)
    assert agent.prompts == [["often"]] * 4


@pytest.mark.parametrize("sql", ["UPDATE meta SET value = 'x'", "DELETE FROM meta"])
async def test_facts_of_the_file_that_were_edited_hold_up_no_start(world: World, sql: str) -> None:
    world.sql("INSERT INTO meta VALUES ('zone_data', '2020a'), ('zone_recompute_from', '7')")
    world.sql(sql)
    assert await world.store.upkeep(note_zone_data("2026a")) in (0, None)


async def test_a_backdated_target_that_is_no_occurrence_is_sent_and_the_rule_goes_on(
    world: World,
) -> None:
    """Who moves a target by hand wants it sent; what comes after it is the rule's."""
    daily = await world.create(prompt="daily", **DAILY)
    world.sql("UPDATE reminders SET scheduled_at = '2026-01-01T11:59:59.000Z' WHERE id = ?", daily)
    world.scheduler.reread()
    agent = await world.agent("s", says=ADMIT)
    assert [each["occurrences"][0]["occurrence_at"] for each in agent.pushed] == [
        "2026-01-01T11:59:59.000Z"
    ]
    assert (await world.get(daily))["scheduled_at"] == "2026-01-01T12:05:00.000Z"


async def test_until_before_the_target_ends_the_reminder_once_the_clock_can_be_trusted(
    world: World,
) -> None:
    often = await world.create(prompt="often", **EVERY)
    world.sql(f"UPDATE reminders SET until_at = '{NOW}' WHERE id = ?", often)
    world.scheduler.reread()
    agent = await world.agent("s", says=ADMIT)
    with few_rounds(world, 20):
        await world.advance(300)
        await world.advance(1000)
    assert agent.prompts == []
    assert (await world.get(often))["ended_reason"] == "until"


async def test_skips_that_lie_anywhere_neither_hold_up_nor_repeat_anything(world: World) -> None:
    often = await world.create(prompt="often", **EVERY)
    world.sql(
        "UPDATE reminders SET skips_after_at = '2020-01-01T00:00:00.000Z', "
        "skips_to_at = '2020-01-02T00:00:00.000Z' WHERE id = ?",
        often,
    )
    agent = await world.agent("s", says=ADMIT)
    await world.advance(300)
    await world.advance(300)
    assert agent.prompts == [["often"], ["often"]]


async def test_one_record_that_cannot_be_built_steps_aside_and_its_batch_goes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    build: Any = planning.occurrence  # type: ignore[attr-defined]

    def failing(reminder: Any, *rest: Any, **more: Any) -> Any:
        if reminder.prompt == "bad":
            raise RuntimeError("no such luck")
        return build(reminder, *rest, **more)

    monkeypatch.setattr(planning, "occurrence", failing)
    agent = await world.agent("s", says=ADMIT)
    for prompt in ("one", "bad", "two"):
        reminder = await world.create(prompt=prompt, **EVERY)
    bad = f"r{int(reminder[1:]) - 1}"
    with few_rounds(world, 40):
        await world.advance(300)
        assert agent.prompts == [["one", "two"]]
        assert (await world.why(bad))["why"] == "set_aside"
        for _ in range(10):
            await world.advance(60)
    assert [each["why"] for each in (await world.status())["retrying"]] == ["set_aside"]
    monkeypatch.setattr(planning, "occurrence", build)
    await world.advance(300)
    assert ["bad"] in agent.prompts or any("bad" in each for each in agent.prompts)
