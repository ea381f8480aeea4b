"""What one user does is nothing to another: real uids, every method, before and after."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from scheduler_daemon.cli.exposition import openmetrics
from scheduler_daemon.server.methods import METHODS
from tests.support.inprocess import Json, Peer, Running, needs_root, running
from tests.support.process import short_folder

pytestmark = needs_root

ADA, BEN, NOBODY = 54_321, 54_322, 65_534

SECONDS: Json = {"after_seconds": 3600}

BY_ID: dict[str, Json] = {
    "reminder.get": {},
    "reminder.update": {"revision": 1, "prompt": "mine"},
    "reminder.delete": {},
    "reminder.pause": {},
    "reminder.resume": {},
    "reminder.snooze": {"seconds": 60},
    "reminder.skip": {},
    "reminder.run_now": {},
    "reminder.history": {},
}
"""Methods that name a reminder, and what they take beside its id."""

LOOKS: list[tuple[str, Json]] = [
    ("hello", {}),
    ("reminder.list", {"status": "all"}),
    ("reminder.list", {"session_id": "shared", "status": "all", "order": "target"}),
    ("reminder.list", {"text": "secret"}),
    ("reminder.get", {"id": "r1"}),
    ("reminder.history", {"id": "r1"}),
    ("reminder.history", {"session_id": "shared"}),
    ("session.list", {}),
    ("daemon.status", {}),
    ("reminder.preview", {"at": "2030-01-01T00:00:00Z"}),
]


class Users(NamedTuple):
    """A daemon of root, and what different users connected to it."""

    on: Running
    ada: Peer
    ben: Peer
    nobody: Peer
    root: Peer


@pytest.fixture
async def users() -> AsyncIterator[Users]:
    folder = short_folder()
    async with running(folder, allowed_uids=(ADA, BEN, "nobody")) as on:
        ada, ben, nobody = [await on.peer_as(uid) for uid in (ADA, BEN, NOBODY)]
        yield Users(on, ada, ben, nobody, await on.peer())
    shutil.rmtree(folder)


async def seen_by(peer: Peer) -> list[Json]:
    """All answers to what only looks, without what time and the disk change."""
    answers = [await peer.ask(method, **params) for method, params in LOOKS]
    for answer in answers:
        answer.pop("id")
        answer.get("result", {}).pop("free_disk_bytes", None)
    return answers


async def what_ada_does(users: Users) -> None:
    """Everything there is to do, in a Session whose name another user's has too."""
    ada, clock = users.ada, users.on.clock
    await ada.call("host.attach", name="ada's", sessions="*")
    await ada.call("daemon.watch")
    one = await ada.create("shared", "secret", title="secret", idempotency_key="k", **SECONDS)
    await ada.create("shared", "secret", every_seconds=300)
    await ada.create("shared", "secret", after_seconds=60)
    clock.advance(60)
    followup = await ada.followup()
    while followup.get("method") != "session.followup":
        followup = await ada.followup()
    ada.admit(followup)
    while not (await ada.call("reminder.history", session_id="shared"))["items"]:
        pass
    await ada.call("reminder.update", id=one["id"], revision=1, prompt="secrets")
    await ada.call("reminder.pause", id=one["id"])
    await ada.call("reminder.snooze", id=one["id"], seconds=600, idempotency_key="s")
    await ada.call("reminder.run_now", id=one["id"], idempotency_key="r")
    await ada.call("session.transfer", **{"from": "shared", "to": "elsewhere"})


def test_every_method_that_names_a_reminder_is_tried() -> None:
    by_id = {name for name, method in METHODS.items() if "id" in method.params.model_fields}
    assert by_id == set(BY_ID)


async def test_nothing_that_a_user_sees_changes_with_what_another_does(users: Users) -> None:
    before = [await seen_by(peer) for peer in (users.ben, users.nobody)]
    await what_ada_does(users)
    assert [await seen_by(peer) for peer in (users.ben, users.nobody)] == before
    assert users.ben.requests == users.nobody.requests == users.root.requests == []


async def test_the_metrics_of_a_user_do_not_change_with_what_another_does(users: Users) -> None:
    async def metrics() -> bytes:
        status: Any = await users.ben.call("daemon.status") | {"free_disk_bytes": 1}
        return openmetrics(status)

    before = await metrics()
    await what_ada_does(users)
    assert await metrics() == before


@pytest.mark.parametrize("method", BY_ID)
async def test_a_reminder_of_another_is_to_the_letter_one_that_is_not_there(
    users: Users, method: str
) -> None:
    await users.ada.create("shared", "secret", every_seconds=300)
    for session in ({}, {"session_id": "shared"}):
        there = await users.ben.ask(method, id="r1", **BY_ID[method], **session)
        absent = await users.ben.ask(method, id="r9", **BY_ID[method], **session)
        for answer in (there, absent):
            answer.pop("id")
            answer.get("result", {}).pop("id", None)
        assert there == absent
    (kept,) = (await users.ada.call("reminder.list"))["items"]
    assert (kept["revision"], kept["paused"], kept["prompt"]) == (1, False, "secret")


@pytest.mark.parametrize("method", ["reminder.snooze", "reminder.run_now"])
async def test_a_key_that_was_used_for_anothers_reminder_finds_nothing(
    users: Users, method: str
) -> None:
    asked = {"id": "r1", "idempotency_key": "k", **BY_ID[method]}
    await users.ada.create("shared", every_seconds=300)
    await users.ada.call(method, **asked)
    refused = await users.ben.refused(method, **asked)
    assert refused["data"] == {"code": "reminder_not_found", "field": "id"}


async def test_a_key_is_free_in_a_session_of_the_same_name_of_another(users: Users) -> None:
    made = [
        await peer.create("shared", "same", idempotency_key="k", **SECONDS)
        for peer in (users.ada, users.ben, users.nobody)
    ]
    assert [each["id"] for each in made] == ["r1", "r2", "r3"]
    other = await users.ben.refused(
        "reminder.create", session_id="shared", prompt="other", idempotency_key="k", **SECONDS
    )
    assert other["data"]["code"] == "idempotency_conflict"


async def test_forgetting_and_moving_touch_only_ones_own_session(users: Users) -> None:
    for peer in (users.ada, users.ben):
        await peer.create("shared", **SECONDS)
    gone = await users.ben.call("session.forget", session_id="shared")
    assert gone == {"reminders": 1, "dispatches": 0}
    moved = await users.ben.call("session.transfer", **{"from": "shared", "to": "x"})
    assert moved == {"reminders": 0}
    (kept,) = (await users.ada.call("reminder.list"))["items"]
    assert (kept["id"], kept["session_id"]) == ("r1", "shared")


async def test_a_cursor_of_another_shows_nothing_of_its(users: Users) -> None:
    """It is refused: it was made with another owner."""
    for _ in range(2):
        await users.ada.create("shared", **SECONDS)
    for method in ("reminder.list", "session.list"):
        if method == "session.list":
            await users.ada.create("second", **SECONDS)
        page = await users.ada.call(method, limit=1)
        refused = await users.ben.refused(method, limit=1, cursor=page["next_cursor"])
        assert refused["data"] == {"code": "invalid_request", "field": "cursor"}


async def test_no_host_of_another_receives_by_name_or_by_star(users: Users) -> None:
    for peer in (users.ben, users.nobody, users.root):
        await peer.call("host.attach", name="thief", sessions=["shared"])
        await peer.call("host.attach", name="thief", sessions="*")
    await users.ada.create("shared", "secret", after_seconds=60)
    await users.ada.create("shared", "secret", every_seconds=300)
    users.on.clock.advance(3600)
    for number in ("r1", "r2"):
        waiting = (await users.ada.call("reminder.get", id=number))["reminder"]["waiting_for"]
        assert waiting == {"why": "no_host"}
    await users.root.call("reminder.list", owner_uid=ADA)  # what has to come has come
    ready = {"jsonrpc": "2.0", "method": "session.ready", "params": {"session_id": "shared"}}
    for peer in (users.ben, users.nobody, users.root):
        await peer.call("hello")
        peer.write(ready)
        await peer.call("hello")
        assert peer.requests == []


async def test_the_answer_to_a_followup_of_another_is_none(users: Users) -> None:
    """Whoever guesses its id admits nothing."""
    await users.ada.call("host.attach", name="h", sessions=["shared"])
    await users.ada.create("shared", after_seconds=60)
    users.on.clock.advance(60)
    followup = await users.ada.followup()
    users.ben.admit(followup)
    await users.ben.call("hello")
    assert (await users.ada.call("daemon.status"))["hosts"][0]["in_flight"] == 1
    assert (await users.ada.call("reminder.history", id="r1"))["items"] == []


async def test_a_watcher_hears_of_its_own_only(users: Users) -> None:
    for peer in (users.ben, users.nobody):
        await peer.call("daemon.watch")
        await peer.call("daemon.watch", session_id="shared")
    await what_ada_does(users)
    await users.ben.create("shared", **SECONDS)
    (told,) = users.ben.requests
    assert (told["method"], told["params"]["owner_uid"]) == ("reminder.changed", BEN)
    await users.nobody.call("hello")
    assert users.nobody.requests == []


OF_OWNERS = sorted(
    name for name, method in METHODS.items() if "owner_uid" in method.params.model_fields
)
OTHERS: dict[str, Json] = {
    **{method: {"id": "r1", **more} for method, more in BY_ID.items()},
    "reminder.create": {"session_id": "shared", "prompt": "p", **SECONDS},
    "reminder.list": {},
    "session.list": {},
    "session.forget": {"session_id": "shared"},
    "session.transfer": {"from": "shared", "to": "x"},
    "daemon.watch": {},
}


@pytest.mark.parametrize("method", OF_OWNERS)
async def test_what_an_admin_does_for_another_or_looks_at_is_logged(
    users: Users, method: str
) -> None:
    """Also where it comes to nothing; what it does for itself is not worth the line."""
    await users.ada.create("shared", every_seconds=300)
    with capture_logs() as logs:
        await users.root.ask(method, **OTHERS[method], owner_uid=ADA)
        await users.root.ask(method, **OTHERS[method])
        await users.root.ask(method, **OTHERS[method], owner_uid=0)
    (named,) = (entry for entry in logs if entry["event"] == "owner_named")
    assert (named["method"], named["owner_uid"], named["by_uid"]) == (method, ADA, 0)
    assert all(
        entry["by_uid"] == 0
        for entry in logs
        if entry.get("owner_uid") == ADA and entry["event"] != "owner_named"
    )


@pytest.mark.parametrize("method", OF_OWNERS)
async def test_nobody_else_may_name_an_owner_and_learns_nothing_by_trying(
    users: Users, method: str
) -> None:
    await users.ada.create("shared", every_seconds=300)
    answers = [
        await users.ben.refused(method, **OTHERS[method], owner_uid=owner)
        for owner in (ADA, NOBODY, 0, 4_000_000)
    ]
    assert answers == [answers[0]] * 4
    assert answers[0]["data"] == {"code": "permission_denied", "field": "owner_uid"}


async def test_a_users_own_daemon_admits_no_other_user_but_root(folder: Path) -> None:
    async with running(folder) as on:
        for uid in (ADA, BEN, NOBODY):
            peer = await on.peer_as(uid)
            (frame,) = await peer.read_until_end()
            assert frame["error"]["data"] == {"code": "permission_denied"}
