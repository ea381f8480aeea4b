"""Creating, reading, changing, deleting and previewing reminders, as one caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.desk import Bounds, Caller
from scheduler_daemon.errors import (
    FrequencyTooHigh,
    IdempotencyConflict,
    InvalidPrompt,
    InvalidRequest,
    InvalidSelector,
    LimitReached,
    NotFuture,
    PersistenceUncertain,
    ReminderConflict,
    ReminderEnded,
    ReminderNotFound,
    TimeOutOfRange,
)
from scheduler_daemon.store.store import Limits
from scheduler_daemon.wire import params
from tests.support.world import ADMIT, UID, Json, World, running_world

DAILY = {"time": "09:00", "time_zone": "europe/berlin"}


# --- create


async def test_a_creation_answers_with_the_reminder_as_it_is_kept(world: World) -> None:
    made = await world.make("s", " Look! ", title=" build ", context={"folder": "/a"}, daily=DAILY)
    assert made == {
        "created": True,
        "reminder": {
            "id": "r1",
            "owner_uid": UID,
            "session_id": "s",
            "kind": "daily",
            "rule": {"daily": {"time": "09:00:00.000", "time_zone": "Europe/Berlin"}},
            "title": "build",
            "prompt": "Look!",
            "context": {"folder": "/a"},
            "scheduled_at": "2026-01-02T08:00:00.000Z",
            "scheduled_at_local": "2026-01-02T09:00:00+01:00[Europe/Berlin]",
            "rule_text": "every day at 09:00 Berlin time",
            "status": "active",
            "paused": False,
            "state": "scheduled",
            "revision": 1,
            "created_at": "2026-01-01T12:00:00.000Z",
            "waiting_for": {"why": "target"},
        },
    }
    assert await world.get("r1") == made["reminder"]


@pytest.mark.parametrize(
    "selector",
    [
        {"after_seconds": 1},
        {"at": "2026-12-24T18:00:00+01:00"},
        {"at": {"date": "2026-12-24", "time": "18:00:00", "time_zone": "Europe/Berlin"}},
        {"every_seconds": 300},
        {"daily": DAILY},
        {"weekly": {**DAILY, "weekdays": [5, 1]}},
        {"cron": {"expression": "*/15 9-17 * * mon-fri", "time_zone": "UTC"}},
    ],
)
async def test_a_rule_can_be_sent_again_as_it_is_shown(world: World, selector: Json) -> None:
    first = await world.get(await world.create(**selector))
    again = await world.get(await world.create(**first["rule"]))
    for name in ("kind", "rule", "rule_text", "scheduled_at"):
        assert first[name] == again[name]
    if first["kind"] != "after":
        assert not (await world.update(first["id"], **first["rule"]))["updated"]


@pytest.mark.parametrize(
    ("asked", "refusal", "field"),
    [
        ({"after_seconds": 1}, InvalidPrompt, "prompt"),
        ({"prompt": " ", "after_seconds": 1}, InvalidPrompt, "prompt"),
        ({"prompt": None, "after_seconds": 1}, InvalidPrompt, "prompt"),
        ({"prompt": "p", "title": None, "after_seconds": 1}, InvalidPrompt, "title"),
        ({"prompt": "p", "title": "x" * 121, "after_seconds": 1}, InvalidPrompt, "title"),
        ({"prompt": "p"}, InvalidSelector, None),
        ({"prompt": "p", "after_seconds": 1, "every_seconds": 300}, InvalidSelector, None),
        ({"prompt": "p", "every_seconds": 299}, FrequencyTooHigh, "every_seconds"),
        ({"prompt": "p", "at": "2026-01-01T12:00:00Z"}, NotFuture, "at"),
        ({"prompt": "p", "after_seconds": 10**12}, TimeOutOfRange, "after_seconds"),
    ],
)
async def test_what_cannot_be_made_is_refused_and_nothing_is_kept(
    world: World, asked: Json, refusal: type[Any], field: str | None
) -> None:
    with pytest.raises(refusal) as refused:
        await world.call("create", params.Create, {"session_id": "s", **asked})
    assert refused.value.field == field
    assert (await world.page())["items"] == []


async def test_a_target_that_is_not_in_the_future_is_refused_with_the_time_that_it_is(
    world: World,
) -> None:
    with pytest.raises(NotFuture) as refused:
        await world.create(at="2025-01-01T00:00:00Z")
    assert refused.value.data == {"now": "2026-01-01T12:00:00.000Z"}


async def test_words_never_reach_the_log(world: World) -> None:
    with capture_logs() as entries:
        reminder_id = await world.create(prompt="secret", title="hidden", after_seconds=60)
        await world.update(reminder_id, prompt="also secret")
        await world.delete(reminder_id)
    told = [entry for entry in entries if entry["log_level"] != "debug"]
    assert [entry["event"] for entry in told] == [
        "reminder_created",
        "reminder_updated",
        "reminder_deleted",
    ]
    assert all(entry["reminder_id"] == reminder_id for entry in told)
    assert "secret" not in str(told)
    assert "hidden" not in str(told)


# --- idempotency


async def test_the_same_key_gives_the_reminder_it_first_made(world: World) -> None:
    first = await world.make(idempotency_key="k", after_seconds=60)
    await world.advance(10)
    again = await world.make(idempotency_key="k", after_seconds=60)
    assert again == {"reminder": first["reminder"], "created": False}
    await world.update("r1", prompt="changed since")
    third = await world.make(idempotency_key="k", after_seconds=60)
    assert third["reminder"]["prompt"] == "changed since"
    assert len((await world.page())["items"]) == 1


async def test_a_retry_finds_its_reminder_although_its_time_has_passed(world: World) -> None:
    at = {"at": "2026-01-01T12:01:00Z", "idempotency_key": "k"}
    await world.agent("s", says=ADMIT)
    await world.make(**at)
    await world.advance(120)
    again = await world.make(**at)
    assert (again["created"], again["reminder"]["status"]) == (False, "ended")
    assert again["reminder"]["last_dispatch"]["outcome"] == "admitted"
    with pytest.raises(NotFuture):
        await world.make(at="2026-01-01T12:01:00Z", idempotency_key="other")


async def test_a_retry_finds_its_reminder_although_the_limit_is_reached(tmp_path: Path) -> None:
    async with running_world(tmp_path, limits=Limits(1, 10)) as world:
        await world.make(idempotency_key="k", after_seconds=60)
        assert not (await world.make(idempotency_key="k", after_seconds=60))["created"]
        with pytest.raises(LimitReached):
            await world.make(idempotency_key="other", after_seconds=60)


async def test_another_body_under_the_same_key_is_a_conflict(world: World) -> None:
    await world.make(idempotency_key="k", after_seconds=60)
    others: list[Json] = [{"after_seconds": 61}, {"title": "t"}, {"prompt": "q"}]
    for other in others:
        with pytest.raises(IdempotencyConflict) as refused:
            await world.make(idempotency_key="k", **{"after_seconds": 60, **other})
        assert refused.value.field == "idempotency_key"


async def test_keys_of_other_sessions_and_owners_are_other_keys(world: World) -> None:
    others: list[Json] = [{}, {"session": "t"}, {"caller": Caller(2000, False)}]
    for more in others:
        assert (await world.make(idempotency_key="k", after_seconds=60, **more))["created"]


async def test_a_retry_for_a_deleted_reminder_says_so(world: World) -> None:
    await world.make(idempotency_key="k", after_seconds=60)
    await world.delete("r1")
    again = await world.make(idempotency_key="k", after_seconds=60)
    assert again == {"id": "r1", "deleted": True, "created": False}


async def test_a_retry_for_a_reminder_that_cannot_be_read_says_that(world: World) -> None:
    await world.make(idempotency_key="k", after_seconds=60)
    world.spoil("r1")
    with pytest.raises(ReminderNotFound, match="cannot be read"):
        await world.make(idempotency_key="k", after_seconds=60)
    assert (await world.status())["counts"]["set_aside"] == 1


# --- limits


async def test_limits_hold_per_session_and_per_owner(tmp_path: Path) -> None:
    async with running_world(tmp_path, limits=Limits(2, 3)) as world:
        for session in ("s", "s", "t"):
            await world.create(session, after_seconds=60)
        with pytest.raises(LimitReached, match="this Session has 2 active reminders"):
            await world.create("s", after_seconds=60)
        with pytest.raises(LimitReached, match="this user has 3 active reminders"):
            await world.create("t", after_seconds=60)
        await world.create("s", after_seconds=60, caller=Caller(2000, False))
        await world.agent("s", says=ADMIT)
        await world.advance(60)
        await world.create("s", after_seconds=60)


async def test_limits_never_bound_when_anything_is_sent(tmp_path: Path) -> None:
    async with running_world(tmp_path) as world:
        await world.create("s", after_seconds=1)
        await world.create("s", after_seconds=1)
        world.service._desk.bounds = Bounds(100, Limits(1, 1), 1 << 20)
        await world.advance(1)
        assert len((await world.agent("s", says=ADMIT)).pushed) == 2


# --- get


@pytest.mark.parametrize(
    "reminder_id", ["r2", "r0", "r01", "1", "R1", "r1 ", "r-1", "r1\u0661", "r" + "9" * 18, "x"]
)
async def test_a_miss_is_a_miss(world: World, reminder_id: str) -> None:
    await world.create()
    with pytest.raises(ReminderNotFound) as refused:
        await world.get(reminder_id)
    assert refused.value.field == "id"
    with pytest.raises(ReminderNotFound):
        await world.update(reminder_id, revision=1, prompt="q")
    with pytest.raises(ReminderNotFound):
        await world.history(id=reminder_id)
    assert not await world.delete(reminder_id)


async def test_a_session_given_beside_an_id_must_match(world: World) -> None:
    await world.create("s")
    for session, found in (("s", True), ("t", False)):
        asked = {"id": "r1", "session_id": session}
        for method, model, more in (
            ("get", params.Get, {}),
            ("update", params.Update, {"revision": 1, "prompt": "p"}),
            ("history", params.History, {}),
        ):
            if found:
                await world.call(method, model, {**asked, **more})
            else:
                with pytest.raises(ReminderNotFound):
                    await world.call(method, model, {**asked, **more})
    assert not await world.delete("r1", session_id="t")
    assert await world.delete("r1", session_id="s")


async def test_a_reminder_that_cannot_be_read_is_set_aside_when_it_is_asked_for(
    world: World,
) -> None:
    for _ in range(3):
        await world.create()
    for number in (1, 2, 3):
        world.spoil(f"r{number}")
    with pytest.raises(ReminderNotFound, match="set aside"):
        await world.get("r1")
    with pytest.raises(ReminderNotFound, match="set aside"):
        await world.update("r2", revision=1, prompt="q")
    assert (await world.page())["items"] == []
    assert (await world.status())["counts"]["set_aside"] == 3
    assert await world.delete("r1")


# --- update


async def test_an_update_answers_with_what_it_made(world: World) -> None:
    await world.create(prompt="old", after_seconds=60)
    updated = await world.update("r1", prompt="new", every_seconds=600)
    assert updated["updated"] is True
    assert "dropped_occurrence" not in updated
    reminder = updated["reminder"]
    assert reminder == await world.get("r1")
    assert (reminder["prompt"], reminder["kind"], reminder["revision"]) == ("new", "every", 2)
    same = await world.update("r1", prompt="new", every_seconds=600)
    assert same == {"reminder": reminder, "updated": False}


async def test_timing_an_overdue_record_anew_says_what_is_given_up(world: World) -> None:
    await world.create(every_seconds=300)
    await world.create(after_seconds=1)
    await world.advance(1000)
    for reminder_id, dropped in (("r1", "12:15:00.000Z"), ("r2", "12:00:01.000Z")):
        updated = await world.update(reminder_id, after_seconds=60)
        assert updated["dropped_occurrence"] == "2026-01-01T" + dropped
        assert "dropped_occurrence" not in await world.update(reminder_id, prompt="other")


async def test_a_stale_revision_is_a_conflict_that_shows_the_current_reminder(
    world: World,
) -> None:
    await world.agent("s", says=ADMIT)
    await world.create(every_seconds=300)
    await world.advance(300)
    await world.update("r1", prompt="theirs")
    with pytest.raises(ReminderConflict) as refused:
        await world.update("r1", revision=1, prompt="mine")
    assert refused.value.data == {"reminder": await world.get("r1")}
    assert refused.value.data["reminder"]["last_dispatch"]["outcome"] == "admitted"


async def test_a_delivery_does_not_raise_the_revision(world: World) -> None:
    await world.agent("s", says=ADMIT)
    await world.create(every_seconds=300)
    await world.advance(300)
    assert (await world.update("r1", revision=1, prompt="new"))["updated"]


async def test_an_ended_reminder_cannot_be_changed(world: World) -> None:
    await world.agent("s", says=ADMIT)
    await world.create(after_seconds=1)
    await world.advance(1)
    with pytest.raises(ReminderEnded):
        await world.update("r1", prompt="again")
    with pytest.raises(ReminderConflict):
        await world.update("r1", revision=7, prompt="again")


async def test_an_update_needs_something_to_change(world: World) -> None:
    await world.create()
    with pytest.raises(InvalidRequest, match="nothing to change"):
        await world.update("r1")


# --- delete


async def test_a_deletion_keeps_the_receipts(world: World) -> None:
    await world.agent("s", says=ADMIT)
    await world.create(prompt="kept", every_seconds=300)
    await world.advance(300)
    assert await world.delete("r1")
    assert not await world.delete("r1")
    ways: list[Json] = [{"session_id": "s"}, {"id": "r1"}]
    for asked in ways:
        (dispatch,) = (await world.history(**asked))["items"]
        assert dispatch["prompt"] == "kept"


async def test_an_id_is_never_used_again(world: World) -> None:
    assert await world.create() == "r1"
    await world.delete("r1")
    assert await world.create() == "r2"


# --- preview


async def test_a_preview_shows_what_would_come_and_makes_nothing(world: World) -> None:
    shown = await world.call("preview", params.Preview, {"daily": DAILY, "count": 2})
    assert shown == {
        "items": [
            {
                "at": "2026-01-02T08:00:00.000Z",
                "local": "2026-01-02T09:00:00+01:00[Europe/Berlin]",
            },
            {
                "at": "2026-01-03T08:00:00.000Z",
                "local": "2026-01-03T09:00:00+01:00[Europe/Berlin]",
            },
        ],
        "rule_text": "every day at 09:00 Berlin time",
    }
    assert (await world.page(status="all"))["items"] == []


@pytest.mark.parametrize(
    ("asked", "instants"),
    [
        ({"after_seconds": 60}, ["2026-01-01T12:01:00.000Z"]),
        ({"at": "2027-01-01T00:00:00Z", "count": 9}, ["2027-01-01T00:00:00.000Z"]),
        (
            {"every_seconds": 43200, "count": 2},
            ["2026-01-02T00:00:00.000Z", "2026-01-02T12:00:00.000Z"],
        ),
    ],
)
async def test_a_preview_shows_a_one_shot_once(
    world: World, asked: Json, instants: list[str]
) -> None:
    shown = await world.call("preview", params.Preview, asked)
    assert shown["items"] == [{"at": at} for at in instants]


async def test_a_preview_ends_where_time_does(world: World) -> None:
    rare = {"expression": "0 0 29 2 *", "time_zone": "UTC"}
    shown = await world.call("preview", params.Preview, {"cron": rare, "count": 100})
    assert len(shown["items"]) == 100
    world.clock.jump((9996 - 2026) * 365.2425 * 86400)
    shown = await world.call("preview", params.Preview, {"cron": rare, "count": 100})
    assert [item["at"] for item in shown["items"]] == ["9996-02-29T00:00:00.000Z"]


async def test_a_preview_refuses_what_a_creation_would(world: World) -> None:
    with pytest.raises(NotFuture):
        await world.call("preview", params.Preview, {"at": "2026-01-01T12:00:00Z"})
    with pytest.raises(InvalidSelector):
        await world.call("preview", params.Preview, {})


# --- when it is not known whether something was written


@pytest.mark.parametrize("act", ["create", "update", "delete"])
async def test_the_loop_finds_out_what_was_written_after_all(
    world: World, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    agent = await world.agent("s", says=ADMIT)
    star = await world.agent("*", says=ADMIT)
    await world.create("s", "kept", after_seconds=600)
    await world.create("t", "kept", after_seconds=600)
    run = world.store._writer.run

    async def uncertain(*values: Any, **more: Any) -> None:
        await run(*values, **more)
        raise PersistenceUncertain("who knows")

    with monkeypatch.context() as unlucky:
        unlucky.setattr(world.store._writer, "run", uncertain)
        for number, session in ((1, "s"), (2, "t")):
            acts: dict[str, Callable[[], Awaitable[object]]] = {
                "create": partial(world.create, session, "made", after_seconds=60),
                "update": partial(world.update, f"r{number}", revision=1, after_seconds=60),
                "delete": partial(world.delete, f"r{number}"),
            }
            with pytest.raises(PersistenceUncertain):
                await acts[act]()
    await world.advance(60)
    expected = [] if act == "delete" else [["made" if act == "create" else "kept"]]
    assert (agent.prompts, star.prompts) == (expected, expected)
    await world.advance(540)
    assert len(agent.pushed) == (2 if act == "create" else len(expected))
