"""Whole Sessions: their list, what forgetting removes, what a transfer moves and leaves."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.desk import Caller
from scheduler_daemon.errors import InvalidRequest, PermissionDenied, ReminderNotFound
from scheduler_daemon.wire import params
from scheduler_daemon.wire.frames import encode
from tests.support.world import ADMIN, ADMIT, BUSY, UID, Json, World, ids_of, running_world

OTHER = Caller(2000, False)


async def listed(world: World, caller: Caller | None = None, **asked: Any) -> Json:
    page: Json = await world.call("sessions.list_sessions", params.ListSessions, asked, caller)
    return page


async def forget(world: World, session: str, caller: Caller | None = None, **more: Any) -> Any:
    asked = {"session_id": session, **more}
    return await world.call("sessions.forget", params.Forget, asked, caller)


async def transfer(world: World, caller: Caller | None = None, **asked: Any) -> int:
    """How many moved from `s` to `new`, where nothing else is said."""
    asked = {"from": "s", "to": "new"} | {
        {"from_": "from"}.get(name, name): value for name, value in asked.items()
    }
    moved = await world.call("sessions.transfer", params.Transfer, asked, caller)
    count: int = moved["reminders"]
    return count


def names(page: Json) -> list[str]:
    return [each["session_id"] for each in page["items"]]


async def test_what_does_nothing_leaves_no_line_in_the_log(world: World) -> None:
    """A user could fill the journal otherwise."""
    await world.create("s", after_seconds=60)
    with capture_logs() as logs:
        assert await transfer(world, from_="empty") == 0
        assert await forget(world, "empty") == {"reminders": 0, "dispatches": 0}
        assert not logs
        await transfer(world)
        await forget(world, "new")
    assert [each["event"] for each in logs] == ["session_transferred", "session_forgotten"]


# --- the list


async def test_sessions_with_reminders_are_listed_by_name(world: World) -> None:
    """Those of which everything has ended too; not one that has only receipts."""
    await world.agent("ended", "gone", says=ADMIT)
    for session in ("b", "ended", "gone", "a", "Z", "\N{GRINNING FACE}", "\uffef"):
        await world.create(session, after_seconds=1)
    await world.create("theirs", caller=OTHER)
    await world.advance(1)
    await world.delete("r3")
    assert names(await listed(world)) == ["Z", "a", "b", "ended", "\uffef", "\N{GRINNING FACE}"]
    assert names(await listed(world, OTHER)) == ["theirs"]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_sessions_come_in_pages(world: World, limit: int) -> None:
    longest = ["\N{GRINNING FACE}" * 199 + letter for letter in "ab"]
    for session in ("a", "b", '"', *longest):
        await world.create(session)
    found, page = [], await listed(world, limit=limit)
    while "next_cursor" in page:
        assert len(page["items"]) == limit
        found += names(page)
        page = await listed(world, limit=limit, cursor=page["next_cursor"])
    assert found + names(page) == ['"', "a", "b", *longest]


async def test_an_admin_sees_those_of_everybody_by_name_and_then_by_uid(world: World) -> None:
    await world.create("b")
    await world.create("a", caller=OTHER)
    await world.create("b", caller=OTHER)
    await world.create("c", caller=Caller(500, False))
    keys, asked = [], {"owner_uid": "*", "limit": 1}
    while True:
        page = await listed(world, ADMIN, **asked)
        keys += [(each["session_id"], each["owner_uid"]) for each in page["items"]]
        if "next_cursor" not in page:
            break
        asked["cursor"] = page["next_cursor"]
    assert keys == [("a", 2000), ("b", UID), ("b", 2000), ("c", 500)]
    assert names(await listed(world, ADMIN, owner_uid=2000)) == ["a", "b"]
    assert names(await listed(world, ADMIN)) == []
    with pytest.raises(PermissionDenied):
        await listed(world, owner_uid=2000)


async def test_a_cursor_of_one_owners_sessions_is_not_good_for_anothers(world: World) -> None:
    for session in "ab":
        await world.create(session)
    cursor = (await listed(world, limit=1))["next_cursor"]
    for caller, asked in ((OTHER, {}), (ADMIN, {"owner_uid": "*"})):
        with pytest.raises(InvalidRequest):
            await listed(world, caller, cursor=cursor, **asked)
    with pytest.raises(InvalidRequest):
        await world.page(cursor=cursor)


async def test_a_page_of_sessions_ends_before_its_frame_would_be_too_long(tmp_path: Any) -> None:
    async with running_world(tmp_path, max_frame_bytes=64 * 1024) as world:
        agents = [await world.agent("*", name="\N{SNOWFLAKE}" * 200) for _ in range(20)]
        for number in range(6):
            await world.create(f"s{number}")
        page = await listed(world)
        assert len(encode(page)) <= 64 * 1024
        assert len(page["items"]) < 6
        more = await listed(world, cursor=page["next_cursor"])
        assert names(page) + names(more) == [f"s{number}" for number in range(6)]
        assert len(page["items"][0]["hosts"]) == len(agents)


async def test_a_session_says_what_is_in_it_and_who_takes_it(world: World) -> None:
    await world.agent("s", name="codex", says=BUSY)
    await world.create("s", after_seconds=1)
    await world.act("pause", await world.create("s", after_seconds=1))
    await world.create("s", every_seconds=300)
    await world.act("run_now", await world.create("run", after_seconds=900))
    await world.act("pause", await world.create("rests"))
    await world.advance(1)
    rests, run, session = (await listed(world))["items"]
    assert (rests["paused"], rests["active"]) == (1, 1)
    assert "next_target_at" not in rests
    assert run["next_target_at"] == "2026-01-01T12:00:00.000Z"
    assert (run["overdue"], run["waiting_for"]) == (0, {"why": "no_host"})
    counts = [session[name] for name in ("active", "paused", "overdue", "ended", "set_aside")]
    assert counts == [3, 1, 1, 0, 0]
    assert (session["live"], session["hosts"]) == (True, ["codex"])
    assert session["waiting_for"]["why"] == "busy"


# --- forgetting


async def test_forgetting_removes_reminders_and_receipts_and_says_how_many(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    await world.create("s", "ended", after_seconds=1)
    await world.create("s", "deleted", after_seconds=1)
    await world.advance(1)
    await world.delete("r2")
    world.spoil(await world.create("s"))
    await world.act("pause", await world.create("s"))
    agent.detach("s")
    await world.act("run_now", await world.create("s", every_seconds=300))
    await world.create("t")
    await world.create("s", caller=OTHER)
    assert await forget(world, "s") == {"reminders": 4, "dispatches": 2}
    assert await forget(world, "s") == {"reminders": 0, "dispatches": 0}
    assert (await world.history(session_id="s"))["items"] == []
    assert [each["id"] for each in (await world.page(status="all"))["items"]] == ["r6"]
    assert (await listed(world, OTHER))["items"][0]["active"] == 1
    assert world.sql("SELECT * FROM runs") == world.sql("SELECT * FROM past_words") == []
    agent.attach("s")
    await world.advance(900)
    assert len(agent.pushed) == 2


async def test_what_is_admitted_after_its_session_was_forgotten_is_a_receipt_and_no_more(
    world: World,
) -> None:
    agent = await world.agent("s")
    await world.create("s", "words", every_seconds=300)
    await world.advance(300)
    assert await forget(world, "s") == {"reminders": 1, "dispatches": 0}
    agent.answer(ADMIT)
    await world.settled()
    (receipt,) = (await world.history(session_id="s"))["items"]
    assert (receipt["reminder_id"], receipt["prompt"]) == ("r1", "words")
    await world.advance(900)
    assert len(agent.pushed) == 1
    assert await forget(world, "s") == {"reminders": 0, "dispatches": 1}


async def test_a_key_outlives_the_session_that_was_forgotten(world: World) -> None:
    asked: Json = {"after_seconds": 60, "idempotency_key": "k"}
    await world.make("s", **asked)
    await forget(world, "s")
    assert await world.make("s", **asked) == {"id": "r1", "deleted": True, "created": False}


async def test_nobody_forgets_what_is_somebody_elses(world: World) -> None:
    await world.create("s")
    assert await forget(world, "s", OTHER) == {"reminders": 0, "dispatches": 0}
    with pytest.raises(PermissionDenied):
        await forget(world, "s", OTHER, owner_uid=UID)
    assert (await forget(world, "s", ADMIN, owner_uid=UID))["reminders"] == 1


# --- moving


async def test_active_reminders_move_with_all_that_they_are(world: World) -> None:
    await world.create("s", "p", title="t", context={"a": "b"}, every_seconds=300)
    await world.act("pause", await world.create("s", after_seconds=5))
    before = [await world.get(each) for each in ("r1", "r2")]
    assert await transfer(world) == 2
    after = [await world.get(each) for each in ("r1", "r2")]
    assert after == [each | {"session_id": "new"} for each in before]
    assert names(await listed(world)) == ["new"]
    assert await transfer(world) == 0


async def test_what_has_ended_was_sent_or_cannot_be_read_stays(world: World) -> None:
    await world.agent("s", says=ADMIT)
    await world.create("s", after_seconds=1)
    await world.create("s", every_seconds=300)
    spoilt = await world.create("s", after_seconds=900)
    await world.advance(1)
    await world.advance(299)
    world.spoil(spoilt)
    await world.page()
    assert await transfer(world) == 1
    assert (await world.get("r1"))["session_id"] == "s"
    assert len((await world.history(session_id="s"))["items"]) == 2
    assert (await world.history(session_id="new"))["items"] == []
    ways: list[Json] = [{"id": "r2"}, {"id": "r2", "session_id": "new"}]
    for asked in ways:
        (receipt,) = (await world.history(**asked))["items"]
        assert receipt["session_id"] == "s"
    assert [each["set_aside"] for each in (await listed(world))["items"]] == [0, 1]


async def test_a_key_finds_its_reminder_where_it_has_moved(world: World) -> None:
    asked: Json = {"after_seconds": 60, "idempotency_key": "k"}
    await world.make("s", **asked)
    await transfer(world)
    again = await world.make("s", **asked)
    assert (again["created"], again["reminder"]["session_id"]) == (False, "new")
    assert (await world.make("new", **asked))["created"]


async def test_the_new_session_waits_for_what_is_on_its_way_in_the_old_one(world: World) -> None:
    agent = await world.agent("s", "new")
    await world.create("s", every_seconds=300)
    await world.create("new", after_seconds=1)
    await world.advance(300)
    (moving,) = [each for each in agent.pushed if each["session_id"] == "s"]
    assert await transfer(world, from_="s", to="new") == 1
    agent.answer(ADMIT, next(each for each in agent.pushed if each["session_id"] == "new"))
    await world.advance(29)
    assert agent.sessions.count("new") == 1
    agent.answer(ADMIT, moving)
    await world.advance(271)
    assert agent.sessions.count("new") == 2
    assert ids_of(agent.pushed[-1]) == ["r1@2026-01-01T12:10:00.000Z"]
    assert agent.sessions[-1] == "new"
    (receipt,) = (await world.history(id="r1"))["items"]
    assert receipt["session_id"] == "s"


async def test_a_host_that_stays_silent_holds_the_new_session_until_its_time_is_over(
    world: World,
) -> None:
    agent = await world.agent("s", "new")
    await world.create("s", every_seconds=300)
    await world.advance(300)
    await transfer(world)
    await world.advance(29)
    assert agent.sessions == ["s"]
    await world.advance(1)
    old, new = agent.pushed
    assert (new["session_id"], ids_of(new)) == ("new", ids_of(old))
    agent.answer(ADMIT, old)
    agent.answer(ADMIT, new)
    await world.advance(1)
    assert world.receipts() == ids_of(old)
    assert (await world.get("r1"))["scheduled_at"] == "2026-01-01T12:10:00.000Z"


async def test_what_is_to_run_by_hand_moves_with_its_reminder(world: World) -> None:
    run = await world.act("run_now", await world.create("s", every_seconds=300))
    await transfer(world)
    agent = await world.agent("s", "new", says=ADMIT)
    assert [(each["session_id"], ids_of(each)) for each in agent.pushed] == [
        ("new", [run["occurrence_id"]])
    ]


async def test_hosts_that_called_the_new_session_gone_are_asked_again(world: World) -> None:
    await world.create("s", after_seconds=1)
    agent = await world.agent("new", says=ADMIT)
    agent.host.gone.add("new")
    await transfer(world)
    await world.advance(1)
    assert agent.sessions == ["new"]


async def test_a_session_is_not_moved_to_itself(world: World) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await transfer(world, to="s")
    assert refusal.value.field == "to"


async def test_nobody_moves_what_is_somebody_elses(world: World) -> None:
    await world.create("s")
    assert await transfer(world, OTHER) == 0
    with pytest.raises(PermissionDenied):
        await transfer(world, OTHER, owner_uid=UID)
    assert await transfer(world, ADMIN, owner_uid=UID) == 1
    with pytest.raises(ReminderNotFound):
        await world.act("pause", "r1", session_id="s")
