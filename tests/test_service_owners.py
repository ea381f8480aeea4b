"""Who sees and changes what: only its own, unless it is an admin that says otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.desk import Caller
from scheduler_daemon.errors import InvalidRequest, PermissionDenied, ReminderNotFound
from scheduler_daemon.wire import params
from tests.support.world import ADMIN, ADMIT, UID, World

OTHER = Caller(2000, False)
OWN_ADMIN = Caller(UID, True)

METHODS: list[tuple[str, Any, dict[str, Any]]] = [
    ("create", params.Create, {"session_id": "s", "prompt": "p", "after_seconds": 60}),
    ("get", params.Get, {"id": "r1"}),
    ("list_reminders", params.ListReminders, {}),
    ("update", params.Update, {"id": "r1", "revision": 1, "prompt": "q"}),
    ("delete", params.One, {"id": "r1"}),
    ("history", params.History, {"id": "r1"}),
    ("history", params.History, {"session_id": "s"}),
]


async def one_each(world: World) -> None:
    """r1 is ours, r2 the other's, both in a Session named s."""
    await world.create("s", "ours", after_seconds=60)
    await world.create("s", "theirs", after_seconds=60, caller=OTHER)


@pytest.mark.parametrize(("method", "model", "asked"), METHODS)
async def test_an_owner_is_named_by_admins_only(
    world: World, method: str, model: Any, asked: dict[str, Any]
) -> None:
    """One's own uid may be said by anybody."""
    await one_each(world)
    theirs = {**asked, "owner_uid": OTHER.uid}
    with pytest.raises(PermissionDenied) as refused:
        await world.call(method, model, theirs)
    assert refused.value.field == "owner_uid"
    await world.call(method, model, {**asked, "owner_uid": UID})
    if "id" in theirs:
        theirs["id"] = "r2"
    await world.call(method, model, theirs, ADMIN)


@pytest.mark.parametrize(("method", "model", "asked"), METHODS[1:2] + METHODS[3:6])
async def test_somebody_elses_reminder_looks_like_none(
    world: World, method: str, model: Any, asked: dict[str, Any]
) -> None:
    """For an admin too, unless it names the owner."""
    await one_each(world)
    for caller in (OTHER, ADMIN):
        if method == "delete":
            assert (await world.call(method, model, asked, caller))["deleted"] is False
        else:
            with pytest.raises(ReminderNotFound):
                await world.call(method, model, asked, caller)
    assert (await world.get("r1"))["prompt"] == "ours"


async def test_lists_and_histories_show_ones_own(world: World) -> None:
    await one_each(world)
    await world.agent("s", says=ADMIT)
    await world.agent("s", uid=OTHER.uid, says=ADMIT)
    await world.advance(60)
    for caller, prompts in ((None, ["ours"]), (OTHER, ["theirs"]), (ADMIN, [])):
        page = await world.page(caller, status="all")
        assert [item["prompt"] for item in page["items"]] == prompts
        receipts = await world.history(caller, session_id="s")
        assert [item["prompt"] for item in receipts["items"]] == prompts


async def test_an_admin_may_read_for_everybody(world: World) -> None:
    await one_each(world)
    await world.agent("s", says=ADMIT)
    await world.create("t", "third", after_seconds=6000)
    await world.advance(60)
    for asked, expected in (
        ({"status": "all"}, ["ours", "theirs", "third"]),
        ({"order": "target"}, ["theirs", "third"]),
        ({"session_id": "s", "status": "all", "limit": 1}, ["ours"]),
    ):
        page = await world.page(ADMIN, owner_uid="*", **asked)
        assert [item["prompt"] for item in page["items"]] == expected
    got = await world.call("get", params.Get, {"id": "r2", "owner_uid": "*"}, OWN_ADMIN)
    assert got["reminder"]["owner_uid"] == OTHER.uid
    (receipt,) = (await world.history(ADMIN, id="r1", owner_uid="*"))["items"]
    assert receipt["prompt"] == "ours"
    assert (await world.history(ADMIN, id="r2", owner_uid="*")) == {"items": []}


async def test_an_admin_may_read_the_receipts_of_everybodys_sessions_of_a_name(
    world: World,
) -> None:
    for uid in (1000, 2000):
        await world.agent("s", uid=uid, says=ADMIT)
    for uid in (1000, 2000, 1000, 2000, 1000):
        await world.create("s", str(uid), after_seconds=1, caller=Caller(uid, False))
        await world.advance(1)
    prompts: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await world.history(ADMIN, session_id="s", owner_uid="*", limit=2, cursor=cursor)
        prompts += [item["prompt"] for item in page["items"]]
        cursor = page.get("next_cursor")
    assert prompts == ["1000", "2000", "1000", "2000", "1000"]


async def test_reading_for_everybody_is_for_admins(world: World) -> None:
    for method, model, asked in METHODS[1:3] + METHODS[5:]:
        if method != "update":
            with pytest.raises(PermissionDenied):
                await world.call(method, model, {**asked, "owner_uid": "*"})


async def test_writing_names_one_owner() -> None:
    for _, model, asked in (METHODS[0], METHODS[3], METHODS[4]):
        with pytest.raises(InvalidRequest):
            params.parse(model, {**asked, "owner_uid": "*"})


async def test_an_admins_act_on_anothers_reminder_is_logged_with_its_uid(world: World) -> None:
    await one_each(world)
    with capture_logs() as entries:
        await world.create("s", caller=ADMIN, owner_uid=UID)
        await world.call(
            "update",
            params.Update,
            {"id": "r1", "revision": 1, "prompt": "q", "owner_uid": UID},
            ADMIN,
        )
        await world.delete("r1", caller=ADMIN, owner_uid=UID)
        await world.create("s")
    by = [(each["event"], each["owner_uid"], each.get("by_uid")) for each in entries]
    assert by == [
        ("reminder_created", UID, 0),
        ("reminder_updated", UID, 0),
        ("reminder_deleted", UID, 0),
        ("reminder_created", UID, None),
    ]


async def test_what_an_admin_makes_for_another_goes_to_the_others_host(world: World) -> None:
    agent = await world.agent("s", says=ADMIT)
    await world.create("s", "from root", after_seconds=1, owner_uid=UID, caller=ADMIN)
    await world.advance(1)
    assert agent.prompts == [["from root"]]
