"""Pausing, resuming, snoozing, skipping and running, as a caller meets them; keys above all."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_daemon.desk import Caller
from scheduler_daemon.errors import (
    IdempotencyConflict,
    InvalidSelector,
    NotFuture,
    ReminderNotFound,
)
from scheduler_daemon.watching import Watch
from scheduler_daemon.wire import params
from tests.support.world import ADMIN, ADMIT, UID, Json, World, ids_of

KEY: Json = {"idempotency_key": "k"}


class Ears:
    """Hears what watchers of an owner hear."""

    def __init__(self, world: World) -> None:
        self.frames: list[bytes] = []
        world.watchers.add(self, Watch(UID, None))

    def hear(self, frame: bytes) -> None:
        self.frames.append(frame)

    @property
    def changes(self) -> list[str]:
        return [each.split(b'"change":"')[1].split(b'"')[0].decode() for each in self.frames]


async def transfer(world: World, session: str, to: str) -> None:
    await world.call("sessions.transfer", params.Transfer, {"from": session, "to": to})


# --- pausing and resuming


async def test_a_second_pause_or_resume_changes_nothing_and_nobody_hears_of_it(
    world: World,
) -> None:
    await world.create(after_seconds=60)
    ears = Ears(world)
    for act, revision in (("pause", 2), ("resume", 3)):
        first = await world.act(act, "r1")
        assert first == await world.act(act, "r1") == {"reminder": await world.get("r1")}
        assert first["reminder"]["revision"] == revision
    assert ears.changes == ["paused", "resumed"]


async def test_a_resumed_one_shot_that_is_overdue_comes_at_once(world: World) -> None:
    agent = await world.agent("s")
    await world.create(after_seconds=60)
    await world.act("pause", "r1")
    await world.advance(3600)
    assert agent.pushed == []
    await world.act("resume", "r1")
    assert [ids_of(each) for each in agent.pushed] == [["r1@2026-01-01T12:01:00.000Z"]]


async def test_resuming_asks_hosts_that_called_the_session_gone_again(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    await world.create(after_seconds=1)
    await world.act("pause", "r1")
    await world.advance(1)
    agent.host.gone.add("s")
    await world.act("resume", "r1")
    assert agent.sessions == ["s"]


async def test_a_resume_that_finds_nothing_left_ends_the_reminder(world: World) -> None:
    await world.create(every_seconds=300, until="2026-01-01T12:05:00Z")
    await world.act("pause", "r1")
    await world.advance(900)
    ears = Ears(world)
    resumed = (await world.act("resume", "r1"))["reminder"]
    assert (resumed["status"], resumed["ended_reason"]) == ("ended", "until")
    assert ears.changes == ["resumed", "ended"]


# --- skipping


async def test_a_skip_is_told_as_an_update_and_ends_a_reminder_with_nothing_left(
    world: World,
) -> None:
    await world.advance(600)
    await world.create(every_seconds=300, until="2026-01-01T12:20:00Z")
    ears = Ears(world)
    first = await world.act("skip", "r1")
    assert first["skipped_occurrence"] == "2026-01-01T12:15:00.000Z"
    assert first["reminder"]["scheduled_at"] == "2026-01-01T12:20:00.000Z"
    last = await world.act("skip", "r1")
    assert (last["reminder"]["status"], last["reminder"]["ended_reason"]) == ("ended", "until")
    assert ears.changes == ["updated", "updated", "ended"]
    items = (await world.history(id="r1"))["items"]
    assert [each["outcome"] for each in items] == ["skipped", "skipped"]
    assert {(each["followup_id"], each["host"]) for each in items} == {("", "")}


async def test_a_skip_of_several_missed_takes_the_earliest_and_the_latest_comes(
    world: World,
) -> None:
    await world.create(every_seconds=300)
    await world.advance(950)
    assert (await world.act("skip", "r1"))["skipped_occurrence"] == "2026-01-01T12:05:00.000Z"
    agent = await world.agent("s")
    (each,) = agent.pushed[0]["occurrences"]
    assert each["occurrence_at"] == "2026-01-01T12:15:00.000Z"
    assert each["missed_from"] == "2026-01-01T12:10:00.000Z"


# --- snoozing


async def test_a_snooze_has_the_words_of_now_and_neither_end_nor_age(world: World) -> None:
    limits = {"until": "2027-01-01T00:00:00Z", "max_occurrences": 3, "expires_after_seconds": 9}
    await world.create("s", "old", title="t", context={"a": "b"}, every_seconds=300, **limits)
    await world.update("r1", prompt="new")
    await world.act("pause", "r1")
    await transfer(world, "s", "t")
    before = await world.get("r1")
    ears = Ears(world)
    made = await world.act("snooze", "r1", seconds=600)
    snoozed = made["reminder"]
    assert made["created"]
    assert snoozed == {
        "id": "r2",
        "owner_uid": UID,
        "session_id": "t",
        "kind": "after",
        "rule": {"after_seconds": 600},
        "title": "t",
        "prompt": "new",
        "context": {"a": "b"},
        "scheduled_at": "2026-01-01T12:10:00.000Z",
        "rule_text": "once, 10 minutes after it was set",
        "snoozed_from": "r1",
        "status": "active",
        "paused": False,
        "state": "scheduled",
        "revision": 1,
        "created_at": "2026-01-01T12:00:00.000Z",
        "waiting_for": {"why": "target"},
    }
    assert await world.get("r1") == before
    assert ears.changes == ["created"]


@pytest.mark.parametrize(
    "at",
    [
        "2026-01-01T13:00:00+01:00",
        {"date": "2026-01-02", "time": "12:00:00", "time_zone": "Europe/Berlin"},
    ],
)
async def test_a_snooze_may_be_until_an_instant_or_a_local_time(world: World, at: Any) -> None:
    await world.create()
    if isinstance(at, str):
        with pytest.raises(NotFuture) as refusal:
            await world.act("snooze", "r1", at=at)
        assert refusal.value.data["now"] == "2026-01-01T12:00:00.000Z"
    else:
        snoozed = (await world.act("snooze", "r1", at=at))["reminder"]
        assert (snoozed["kind"], snoozed["scheduled_at"]) == ("at", "2026-01-02T11:00:00.000Z")


async def test_what_snoozing_was_asked_for_is_named_as_it_was_asked(world: World) -> None:
    await world.create()
    for asked, found in (({}, "none"), ({"at": "x", "seconds": None}, "at and seconds")):
        with pytest.raises(InvalidSelector, match=f"exactly one of seconds and at; got {found}"):
            await world.act("snooze", "r1", **asked)


async def test_a_snooze_with_a_used_key_finds_the_first_whatever_happened_since(
    world: World,
) -> None:
    """Its time passed, the reminder that was snoozed moved and is gone."""
    asked = {**KEY, "at": "2026-01-01T12:10:00Z"}
    await world.create("s", every_seconds=300)
    first = await world.act("snooze", "r1", **asked)
    await world.advance(900)
    await transfer(world, "s", "t")
    again = await world.act("snooze", "r1", **asked)
    assert (again["created"], again["reminder"]["id"]) == (False, "r2")
    assert again["reminder"]["session_id"] == "t"
    await world.delete("r1")
    assert (await world.act("snooze", "r1", **asked))["reminder"] == again["reminder"]
    await world.delete("r2")
    gone = {"id": "r2", "deleted": True, "created": False}
    assert await world.act("snooze", "r1", **asked) == gone
    assert first["created"]


async def test_a_time_that_has_passed_is_refused_also_with_a_new_key(world: World) -> None:
    await world.create()
    with pytest.raises(NotFuture):
        await world.act("snooze", "r1", at="2026-01-01T12:00:00Z", **KEY)


async def test_a_key_is_good_for_one_request_of_one_method_in_a_session(world: World) -> None:
    await world.create(every_seconds=300)
    await world.create(every_seconds=300)
    await world.act("snooze", "r1", seconds=60, **KEY)
    others: list[tuple[str, str, Json]] = [
        ("snooze", "r1", {"seconds": 61}),
        ("snooze", "r2", {"seconds": 60}),
        ("run_now", "r1", {}),
    ]
    for act, reminder_id, asked in others:
        with pytest.raises(IdempotencyConflict) as refusal:
            await world.act(act, reminder_id, **asked, **KEY)
        assert refusal.value.field == "idempotency_key"
    with pytest.raises(IdempotencyConflict):
        await world.make(after_seconds=60, **KEY)
    assert (await world.act("run_now", "r1", idempotency_key="other"))["created"]


async def test_a_session_given_or_left_out_is_the_same_request(world: World) -> None:
    await world.create(every_seconds=300)
    for act, asked in (("snooze", {"seconds": 60}), ("run_now", {})):
        key = {"idempotency_key": act}
        assert (await world.act(act, "r1", **asked, **key))["created"]
        assert not (await world.act(act, "r1", session_id="s", **asked, **key))["created"]


async def test_without_a_key_each_snooze_is_another(world: World) -> None:
    await world.create()
    for number in (2, 3):
        assert (await world.act("snooze", "r1", seconds=60))["reminder"]["id"] == f"r{number}"


# --- running by hand


async def test_a_run_with_a_used_key_finds_the_first_whatever_happened_since(
    world: World,
) -> None:
    """It came, its reminder moved and ended, and is gone."""
    await world.create("s", every_seconds=300, max_occurrences=1)
    first = await world.act("run_now", "r1", **KEY)
    assert first["created"]
    await transfer(world, "s", "t")
    await world.advance(300)
    agent = await world.agent("t", says=ADMIT)
    again = await world.act("run_now", "r1", **KEY)
    assert (again["created"], again["occurrence_id"]) == (False, first["occurrence_id"])
    assert again["reminder"]["status"] == "ended"
    await world.delete("r1")
    gone = {"id": "r1", "deleted": True, "created": False}
    assert await world.act("run_now", "r1", **KEY) == gone
    assert [ids_of(each) for each in agent.pushed] == [
        [first["occurrence_id"]],
        ["r1@2026-01-01T12:05:00.000Z"],
    ]


async def test_a_run_comes_alone_with_the_words_of_when_it_is_pushed(world: World) -> None:
    """Among one-shots by the instant that it was asked for, and before recurring ones."""
    await world.create("s", "old", every_seconds=300)
    await world.create("s", "first", after_seconds=300)
    await world.create("s", "last", after_seconds=302)
    await world.advance(301)
    run = await world.act("run_now", "r1")
    await world.advance(9)
    await world.update("r1", prompt="new")
    agent = await world.agent("s", says=ADMIT)
    assert agent.prompts == [["first"], ["new"], ["last"], ["new"]]
    assert [each["batch"] for each in agent.pushed] == [False, False, False, True]
    (each,) = agent.pushed[1]["occurrences"]
    assert each["occurrence_id"] == run["occurrence_id"] == "r1@now-2026-01-01T12:05:01.000Z"
    assert (each["kind"], each["occurrence_at"]) == ("every", "2026-01-01T12:05:01.000Z")
    assert agent.pushed[1]["text"].startswith("[scheduled reminder, one-time]\n")


async def test_a_run_comes_also_when_its_reminder_ends_before(world: World) -> None:
    await world.create(after_seconds=1)
    await world.advance(1)
    run = await world.act("run_now", "r1")
    await world.advance(1)
    agent = await world.agent("s", says=ADMIT)
    assert [ids_of(each) for each in agent.pushed] == [
        ["r1@2026-01-01T12:00:01.000Z"],
        [run["occurrence_id"]],
    ]
    assert (await world.get("r1"))["status"] == "ended"


async def test_a_run_has_no_age_and_is_not_what_its_reminder_waits_for(world: World) -> None:
    await world.create(every_seconds=86_400, expires_after_seconds=1)
    run = await world.act("run_now", "r1")
    assert run["reminder"]["waiting_for"] == {"why": "target"}
    await world.advance(3600)
    agent = await world.agent("s")
    assert ids_of(agent.pushed[0]) == [run["occurrence_id"]]
    assert await world.why("r1") == {"why": "target"}
    ears = Ears(world)
    agent.answer(ADMIT)
    await world.settled()
    assert ears.changes == ["dispatched"]
    reminder = await world.get("r1")
    assert reminder["last_dispatch"]["occurrence_id"] == run["occurrence_id"]
    assert (run["reminder"]["runs"], reminder.get("runs")) == (1, None)
    assert reminder["scheduled_at"] == "2026-01-02T12:00:00.000Z"


async def test_an_admin_acts_for_another_owner_and_nobody_else_does(world: World) -> None:
    await world.create(every_seconds=300)
    for act, asked in (
        ("pause", {}),
        ("resume", {}),
        ("snooze", {"seconds": 60}),
        ("skip", {}),
        ("run_now", {}),
    ):
        for caller in (ADMIN, Caller(2000, False)):
            with pytest.raises(ReminderNotFound):
                await world.act(act, "r1", caller=caller, **asked)
        done = await world.act(act, "r1", caller=ADMIN, owner_uid=UID, **asked)
        assert done["reminder"]["owner_uid"] == UID
