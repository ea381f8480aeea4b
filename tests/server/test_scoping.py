"""One user's reminders, hosts and Sessions do not exist for another, except for an admin."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

from tests.support.inprocess import Json, Peer, Running, needs_root, running

pytestmark = needs_root

ADA, BEN = 54_321, 54_322


class Three(NamedTuple):
    """Two users, an admin, and the daemon that they share."""

    on: Running
    ada: Peer
    ben: Peer
    root: Peer


@pytest.fixture
async def three(folder: Path) -> AsyncIterator[Three]:
    async with running(folder, allowed_uids=(ADA, BEN)) as on:
        yield Three(on, await on.peer_as(ADA), await on.peer_as(BEN), await on.peer())


async def test_another_users_reminder_looks_like_none(three: Three) -> None:
    """To the letter: what a stranger is told of r1 is what it is told of r999."""
    await three.ada.create("shared", idempotency_key="k")
    for method, more in (
        ("reminder.get", {}),
        ("reminder.update", {"revision": 1, "prompt": "mine"}),
        ("reminder.history", {}),
    ):
        for session in ({}, {"session_id": "shared"}):
            there = await three.ben.refused(method, id="r1", **more, **session)
            absent = await three.ben.refused(method, id="r999", **more, **session)
            assert there == absent
            assert there["data"] == {"code": "reminder_not_found", "field": "id"}
    assert await three.ben.call("reminder.delete", id="r1") == {"id": "r1", "deleted": False}
    assert (await three.ada.call("reminder.get", id="r1"))["reminder"]["prompt"] == "p"


async def test_lists_and_counts_are_a_users_own(three: Three) -> None:
    await three.ada.create("shared")
    await three.ada.create("other")
    await three.ben.create("shared")
    for peer, ids in ((three.ada, ["r1", "r2"]), (three.ben, ["r3"]), (three.root, [])):
        items = (await peer.call("reminder.list"))["items"]
        assert [item["id"] for item in items] == ids
        assert (await peer.call("daemon.status"))["counts"]["active"] == len(ids)
    (item,) = (await three.ben.call("reminder.list", session_id="shared"))["items"]
    assert (item["id"], item["owner_uid"]) == ("r3", BEN)


async def test_a_key_of_one_user_is_free_for_another(three: Three) -> None:
    await three.ada.create("shared", "one", idempotency_key="k")
    made = await three.ben.create("shared", "two", idempotency_key="k")
    assert made["id"] == "r2"


async def test_a_host_gets_followups_of_its_own_user_only(three: Three) -> None:
    await three.ben.call("host.attach", name="thief", sessions="*")
    await three.ben.call("host.attach", name="thief", sessions=["shared"])
    await three.root.call("host.attach", name="root", sessions="*")
    await three.ada.create("shared", "secret", after_seconds=60)
    await three.ben.create("shared", "mine", after_seconds=60)
    three.on.clock.advance(60)
    followup = await three.ben.followup()
    (occurrence,) = followup["params"]["occurrences"]
    assert occurrence["prompt"] == "mine"
    waiting = (await three.ada.call("reminder.get", id="r1"))["reminder"]["waiting_for"]
    assert waiting["why"] == "no_host"
    await three.ben.call("hello")
    await three.root.call("hello")
    assert three.ben.requests == three.root.requests == []


async def test_status_shows_a_user_its_own_hosts_and_retries(three: Three) -> None:
    await three.ada.call("host.attach", name="ada's", sessions=["shared"])
    await three.ada.create("shared", after_seconds=60)
    three.on.clock.advance(60)
    followup = await three.ada.followup()
    busy = {"jsonrpc": "2.0", "id": followup["id"], "result": {"status": "busy"}}
    three.ada.write(busy)
    while not (await three.ada.call("daemon.status"))["retrying"]:
        pass
    for peer in (three.ben, three.root):
        status = await peer.call("daemon.status")
        assert (status["hosts"], status["retrying"]) == ([], [])


async def test_status_names_the_database_to_admins_only(three: Three) -> None:
    assert "database" not in await three.ada.call("daemon.status")
    assert (await three.root.call("daemon.status"))["database"] == str(three.on.database)


METHODS: list[tuple[str, Json]] = [
    ("reminder.create", {"session_id": "s", "prompt": "p", "after_seconds": 60}),
    ("reminder.get", {"id": "r1"}),
    ("reminder.list", {}),
    ("reminder.update", {"id": "r1", "revision": 1, "prompt": "new"}),
    ("reminder.delete", {"id": "r1"}),
    ("reminder.history", {"id": "r1"}),
]


@pytest.mark.parametrize(("method", "params"), METHODS)
async def test_only_admins_may_name_an_owner(three: Three, method: str, params: Json) -> None:
    await three.ada.create("s")
    for owner in (ADA, 0):
        error = await three.ben.refused(method, **params, owner_uid=owner)
        assert error["data"] == {"code": "permission_denied", "field": "owner_uid"}
    await three.root.call(method, **params, owner_uid=ADA)
    (kept,) = (await three.ada.call("reminder.list"))["items"][:1] or [None]
    assert (kept is None) == (method == "reminder.delete")


@pytest.mark.parametrize(("method", "params"), METHODS)
async def test_a_user_may_name_itself(three: Three, method: str, params: Json) -> None:
    await three.ada.create("s")
    await three.ada.call(method, **params, owner_uid=ADA)


@pytest.mark.parametrize(("method", "params"), METHODS)
async def test_every_owner_at_once_is_for_reading(three: Three, method: str, params: Json) -> None:
    await three.ada.create("s")
    if method in ("reminder.get", "reminder.list", "reminder.history"):
        await three.root.call(method, **params, owner_uid="*")
        error = await three.ben.refused(method, **params, owner_uid="*")
        assert error["data"]["code"] == "permission_denied"
    else:
        error = await three.root.refused(method, **params, owner_uid="*")
        assert error["data"] == {"code": "invalid_request", "field": "owner_uid"}


async def test_an_admin_sees_everybody_when_it_says_so(three: Three) -> None:
    await three.ada.create("s")
    await three.ben.create("s")
    items = (await three.root.call("reminder.list", owner_uid="*"))["items"]
    assert [(item["id"], item["owner_uid"]) for item in items] == [("r1", ADA), ("r2", BEN)]


async def test_what_an_admin_does_for_another_is_logged_as_its_act(three: Three) -> None:
    with capture_logs() as logs:
        made = await three.root.call(
            "reminder.create", session_id="s", prompt="p", after_seconds=60, owner_uid=ADA
        )
    assert made["reminder"]["owner_uid"] == ADA
    (entry,) = (entry for entry in logs if entry["event"] == "reminder_created")
    assert (entry["by_uid"], entry["owner_uid"]) == (0, ADA)


async def test_no_user_learns_when_others_reminders_are_due(three: Three) -> None:
    await three.ada.call("host.attach", name="h", sessions="*")
    await three.ada.create("s", after_seconds=60)
    while "next_wake_at" not in await three.root.call("daemon.status"):
        pass
    assert "next_wake_at" not in await three.ben.call("daemon.status")
