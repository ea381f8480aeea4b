"""Every refusal of every method: its code, the member at fault, and what comes beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon import __version__
from scheduler_daemon.rules import zone_data_version
from scheduler_daemon.server.methods import METHODS
from tests.support.inprocess import Blocked, Json, Peer, Running, request, running

DAILY = {"time": "09:00", "time_zone": "Europe/Berlin"}
AFTER = "2027-01-01T00:00:00Z"

SELECTORS: list[tuple[Json, str, str | None]] = [
    ({}, "invalid_selector", None),
    ({"after_seconds": 60, "at": "2027-01-01T00:00:00Z"}, "invalid_selector", None),
    ({"after_seconds": 60, "cron": None}, "invalid_selector", None),
    ({"after_seconds": 0}, "invalid_rule", "after_seconds"),
    ({"after_seconds": "60"}, "invalid_rule", "after_seconds"),
    ({"after_seconds": 60.0}, "invalid_rule", "after_seconds"),
    ({"after_seconds": True}, "invalid_rule", "after_seconds"),
    ({"after_seconds": None}, "invalid_rule", "after_seconds"),
    ({"after_seconds": 2**52}, "time_out_of_range", "after_seconds"),
    ({"at": "tomorrow"}, "invalid_rule", "at"),
    ({"at": "2026-01-01T12:00:00Z"}, "not_future", "at"),
    ({"every_seconds": 299}, "frequency_too_high", "every_seconds"),
    ({"daily": {"time": "09:00"}}, "invalid_rule", "daily.time_zone"),
    ({"daily": {**DAILY, "zone": "UTC"}}, "invalid_rule", "daily"),
    ({"daily": {**DAILY, "time_zone": "EST"}}, "invalid_time_zone", "daily.time_zone"),
    ({"weekly": {**DAILY, "weekdays": [0]}}, "invalid_rule", "weekly.weekdays"),
    (
        {"cron": {"expression": "* * * * *", "time_zone": "UTC"}},
        "frequency_too_high",
        "cron.expression",
    ),
    (
        {"cron": {"expression": "0 0 31 2 *", "time_zone": "UTC"}},
        "time_out_of_range",
        "cron.expression",
    ),
]

CREATE = {"session_id": "s", "prompt": "p", "after_seconds": 60}

CREATES: list[tuple[Json, str, str | None]] = [
    ({"session_id": None}, "invalid_request", "session_id"),
    ({"session_id": "*"}, "invalid_request", "session_id"),
    ({"session_id": "s" * 201}, "invalid_request", "session_id"),
    ({"session_id": "a\nb"}, "invalid_request", "session_id"),
    ({"prompt": ""}, "invalid_prompt", "prompt"),
    ({"prompt": " \n "}, "invalid_prompt", "prompt"),
    ({"prompt": None}, "invalid_prompt", "prompt"),
    ({"prompt": "x" * 32_769}, "invalid_prompt", "prompt"),
    ({"prompt": "a\0b"}, "invalid_prompt", "prompt"),
    ({"prompt": "\ud800"}, "invalid_prompt", "prompt"),
    ({"title": 5}, "invalid_prompt", "title"),
    ({"title": None}, "invalid_prompt", "title"),
    ({"title": "x" * 121}, "invalid_prompt", "title"),
    ({"context": {"a": 1}}, "invalid_request", "context.a"),
    ({"context": {"a": "x" * 4096}}, "invalid_request", "context"),
    ({"until": "2027-01-01T00:00:00Z"}, "invalid_rule", "until"),
    ({"until": None}, "invalid_rule", "until"),
    ({"max_occurrences": 3}, "invalid_rule", "max_occurrences"),
    ({"max_occurrences": 0}, "invalid_request", "max_occurrences"),
    ({"expires_after_seconds": 0}, "invalid_request", "expires_after_seconds"),
    ({"idempotency_key": ""}, "invalid_request", "idempotency_key"),
    ({"owner_uid": -1}, "invalid_request", "owner_uid"),
    ({"when": "now"}, "invalid_request", "when"),
]

OTHERS: list[tuple[str, Json, str, str | None]] = [
    ("hello", {"protocol": 1.0}, "invalid_request", "protocol"),
    ("hello", {"client": ""}, "invalid_request", "client"),
    ("reminder.get", {}, "invalid_request", "id"),
    ("reminder.get", {"id": "r2"}, "reminder_not_found", "id"),
    ("reminder.get", {"id": "one"}, "reminder_not_found", "id"),
    ("reminder.get", {"id": "r1", "session_id": "t"}, "reminder_not_found", "id"),
    ("reminder.list", {"status": "overdue"}, "invalid_request", "status"),
    ("reminder.list", {"order": "id"}, "invalid_request", "order"),
    ("reminder.list", {"limit": 0}, "invalid_request", "limit"),
    ("reminder.list", {"limit": 1001}, "invalid_request", "limit"),
    ("reminder.list", {"cursor": "x"}, "invalid_request", "cursor"),
    ("reminder.list", {"state": "ended", "status": "all"}, "invalid_request", "state"),
    ("reminder.list", {"kind": "hourly"}, "invalid_request", "kind"),
    ("reminder.list", {"due_before": "tomorrow"}, "invalid_rule", "due_before"),
    ("reminder.list", {"due_before": None}, "invalid_rule", "due_before"),
    ("reminder.update", {"id": "r1"}, "invalid_request", "revision"),
    ("reminder.update", {"id": "r1", "revision": 1}, "invalid_request", None),
    ("reminder.update", {"id": "r1", "revision": 0, "prompt": "x"}, "invalid_request", "revision"),
    ("reminder.update", {"id": "r2", "revision": 1, "prompt": "x"}, "reminder_not_found", "id"),
    ("reminder.update", {"id": "r1", "revision": 1, "prompt": ""}, "invalid_prompt", "prompt"),
    ("reminder.update", {"id": "r1", "revision": 1, "at": 1}, "invalid_rule", "at"),
    ("reminder.update", {"id": "r1", "revision": 1, "until": "soon"}, "invalid_rule", "until"),
    ("reminder.delete", {}, "invalid_request", "id"),
    ("reminder.delete", {"id": 1}, "invalid_request", "id"),
    ("reminder.pause", {}, "invalid_request", "id"),
    ("reminder.pause", {"id": "r2"}, "reminder_not_found", "id"),
    ("reminder.resume", {"id": "r1", "session_id": "t"}, "reminder_not_found", "id"),
    ("reminder.snooze", {"id": "r1"}, "invalid_selector", None),
    ("reminder.snooze", {"id": "r1", "seconds": 1, "at": AFTER}, "invalid_selector", None),
    ("reminder.snooze", {"id": "r1", "seconds": 0}, "invalid_rule", "seconds"),
    ("reminder.snooze", {"id": "r1", "seconds": 2**52}, "time_out_of_range", "seconds"),
    ("reminder.snooze", {"id": "r1", "at": "2026-01-01T12:00:00Z"}, "not_future", "at"),
    ("reminder.snooze", {"id": "r2", "seconds": 1}, "reminder_not_found", "id"),
    ("reminder.snooze", {"id": "one", "seconds": 1}, "reminder_not_found", "id"),
    ("reminder.skip", {"id": "r1"}, "invalid_request", "id"),
    ("reminder.skip", {"id": "r2"}, "reminder_not_found", "id"),
    ("reminder.run_now", {"id": "r2"}, "reminder_not_found", "id"),
    ("reminder.run_now", {"id": "r1", "idempotency_key": ""}, "invalid_request", "idempotency_key"),
    ("reminder.preview", {"after_seconds": 60, "count": 101}, "invalid_request", "count"),
    ("reminder.preview", {"after_seconds": 60, "session_id": "s"}, "invalid_request", "session_id"),
    ("reminder.history", {}, "invalid_request", None),
    ("reminder.history", {"id": "r2"}, "reminder_not_found", "id"),
    ("session.list", {"limit": 0}, "invalid_request", "limit"),
    ("session.list", {"cursor": "x"}, "invalid_request", "cursor"),
    ("session.forget", {}, "invalid_request", "session_id"),
    ("session.forget", {"session_id": "*"}, "invalid_request", "session_id"),
    ("session.transfer", {"from": "s"}, "invalid_request", "to"),
    ("session.transfer", {"from": "s", "to": "s"}, "invalid_request", "to"),
    ("daemon.status", {"verbose": True}, "invalid_request", "verbose"),
    ("host.attach", {"sessions": ["s"]}, "invalid_request", "name"),
    ("host.attach", {"name": "h"}, "invalid_request", "sessions"),
    ("host.attach", {"name": "h", "sessions": "s"}, "invalid_request", "sessions"),
    ("host.attach", {"name": "h", "sessions": ["*"]}, "invalid_request", "sessions"),
    ("host.attach", {"name": "h", "sessions": [1]}, "invalid_request", "sessions"),
    (
        "host.attach",
        {"name": "h", "sessions": [], "max_in_flight": 0},
        "invalid_request",
        "max_in_flight",
    ),
    ("host.detach", {}, "invalid_request", "sessions"),
]


def codes(error: Json) -> tuple[Any, Any]:
    """The code and the member at fault of what is refused inside `params`."""
    assert error["code"] == -32000
    assert error["message"]
    return error["data"]["code"], error["data"].get("field")


async def test_what_is_wrong_in_a_selector_has_the_code_of_the_rules(peer: Peer) -> None:
    for selector, code, field in SELECTORS:
        error = await peer.refused("reminder.create", session_id="s", prompt="p", **selector)
        assert codes(error) == (code, field), selector
        again = await peer.refused("reminder.preview", **selector)
        assert codes(again) == (code, field), selector
    assert (await peer.call("reminder.list"))["items"] == []


async def test_what_is_wrong_in_a_create_is_refused_with_the_member_at_fault(peer: Peer) -> None:
    for members, code, field in CREATES:
        error = await peer.refused("reminder.create", **{**CREATE, **members})
        assert codes(error) == (code, field), members
    for missing, code in (("session_id", "invalid_request"), ("prompt", "invalid_prompt")):
        params = {name: value for name, value in CREATE.items() if name != missing}
        assert codes(await peer.refused("reminder.create", **params)) == (code, missing)
    assert (await peer.call("reminder.list"))["items"] == []


async def test_what_is_wrong_in_the_other_methods_is_refused_so_too(peer: Peer) -> None:
    await peer.create()
    for method, params, code, field in OTHERS:
        assert codes(await peer.refused(method, **params)) == (code, field), (method, params)
    assert (await peer.call("reminder.get", id="r1"))["reminder"]["revision"] == 1


async def test_a_time_that_has_passed_is_refused_with_what_the_clock_shows(peer: Peer) -> None:
    error = await peer.refused("reminder.create", **CREATE | {"after_seconds": None})
    assert "now" not in error["data"]
    past = {"session_id": "s", "prompt": "p", "at": "2025-12-31T23:59:59Z"}
    error = await peer.refused("reminder.create", **past)
    assert error["data"] == {
        "code": "not_future",
        "field": "at",
        "now": "2026-01-01T12:00:00.000Z",
    }


async def test_a_key_with_another_body_is_a_conflict(peer: Peer) -> None:
    made = await peer.create(idempotency_key="k")
    again = await peer.call(
        "reminder.create", session_id="s", prompt="p", after_seconds=3600, idempotency_key="k"
    )
    assert (again["reminder"]["id"], again["created"]) == (made["id"], False)
    error = await peer.refused("reminder.create", **CREATE, idempotency_key="k")
    assert codes(error) == ("idempotency_conflict", "idempotency_key")


async def test_a_stale_revision_is_a_conflict_that_shows_the_reminder(peer: Peer) -> None:
    await peer.create()
    changed = await peer.call("reminder.update", id="r1", revision=1, prompt="new")
    error = await peer.refused("reminder.update", id="r1", revision=1, prompt="other")
    assert codes(error) == ("reminder_conflict", "revision")
    assert error["data"]["reminder"] == changed["reminder"]


async def test_an_ended_reminder_cannot_be_changed(on: Running, peer: Peer) -> None:
    await peer.create(after_seconds=60)
    await peer.call("host.attach", name="h", sessions="*")
    on.clock.advance(60)
    peer.admit(await peer.followup())
    while (await peer.call("reminder.get", id="r1"))["reminder"]["status"] == "active":
        pass
    error = await peer.refused("reminder.update", id="r1", revision=1, prompt="new")
    assert codes(error) == ("reminder_ended", None)
    for act in ("pause", "resume", "skip", "run_now"):
        assert codes(await peer.refused(f"reminder.{act}", id="r1")) == ("reminder_ended", None)
    assert (await peer.call("reminder.snooze", id="r1", seconds=1))["created"]


async def test_limits_of_a_session_and_of_an_owner(folder: Path) -> None:
    async with running(folder, max_active_per_session=2, max_active_per_owner=3) as on:
        peer = await on.peer()
        for session in "aab":
            await peer.create(session)
        for session, whose in (("a", "this Session"), ("c", "this user")):
            error = await peer.refused("reminder.create", **CREATE | {"session_id": session})
            assert codes(error) == ("limit_reached", None)
            assert whose in error["message"]
        error = await peer.refused("reminder.snooze", id="r1", seconds=1)
        assert codes(error) == ("limit_reached", None)


async def test_a_transfer_over_the_limit_moves_nothing(folder: Path) -> None:
    async with running(folder, max_active_per_session=2) as on:
        peer = await on.peer()
        for session in "aabb":
            await peer.create(session)
        error = await peer.refused("session.transfer", **{"from": "a", "to": "b"})
        assert codes(error) == ("limit_reached", "to")
        items = (await peer.call("reminder.list"))["items"]
        assert [item["session_id"] for item in items] == list("aabb")


async def test_so_many_runs_by_hand_wait_in_a_session_as_it_may_have_reminders(
    folder: Path,
) -> None:
    async with running(folder, max_active_per_session=2) as on:
        peer = await on.peer()
        await peer.create()
        for number in range(2):
            run = await peer.call("reminder.run_now", id="r1")
            assert run["occurrence_id"] == f"r1@now-2026-01-01T12:00:00.00{number}Z"
        error = await peer.refused("reminder.run_now", id="r1")
        assert codes(error) == ("limit_reached", None)


async def test_a_database_that_somebody_else_holds_fails_the_request(
    on: Running, peer: Peer
) -> None:
    """After write_wait_seconds; nothing is stored, reading goes on, and so does the next."""
    with Blocked(on.database):
        other = await on.peer()
        peer.write(request(1, "reminder.create", **CREATE))
        await other.call("reminder.list")
        on.clock.advance(10)
        error = (await peer.read())["error"]
        assert codes(error) == ("persistence_failed", None)
        assert str(on.database) not in error["message"]
        assert (await other.call("reminder.list"))["items"] == []
        fault = (await other.call("daemon.status"))["last_persistence_error"]
        at = "2026-01-01T12:00:10.000Z"
        assert fault == {"at": at, "code": "persistence_failed", "over": False}
    await peer.create()
    assert (await peer.call("daemon.status"))["last_persistence_error"] == {**fault, "over": True}


async def test_hello_says_who_answers_and_what_may_be_called(peer: Peer) -> None:
    hello = await peer.call("hello", protocol=1, client="a test")
    assert hello["protocol"] == 1
    assert hello["server"] == f"scheduler-daemon {__version__}"
    assert hello["zone_data"] == zone_data_version()
    assert hello["methods"] == list(METHODS)
    assert await peer.call("hello") == hello


@pytest.mark.parametrize("protocol", [0, 2, -1])
async def test_another_protocol_is_refused_with_those_that_are_spoken(
    peer: Peer, protocol: int
) -> None:
    error = await peer.refused("hello", protocol=protocol)
    assert error["data"] == {"code": "invalid_request", "field": "protocol", "protocols": [1]}


async def test_no_method_needs_a_hello(peer: Peer) -> None:
    assert (await peer.call("reminder.delete", id="r1"))["deleted"] is False
