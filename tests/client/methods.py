"""Every call of a client: how it is made, and the method and params that go out."""

from __future__ import annotations

from collections.abc import Callable

from scheduler_daemon.client import Client

DAILY = {"time": "09:00", "time_zone": "Europe/Berlin"}

METHODS: list[tuple[Callable[[Client], object], str, dict[str, object]]] = [
    (lambda client: client.hello("me"), "hello", {"protocol": 1, "client": "me"}),
    (
        lambda client: client.create(
            "s1",
            "p",
            daily={"time": "09:00", "time_zone": "Europe/Berlin"},
            title="t",
            context={"cwd": "/"},
            until="2027-01-01T00:00:00Z",
            max_occurrences=5,
            expires_after_seconds=3600,
            idempotency_key="k",
            owner_uid=7,
        ),
        "reminder.create",
        {
            "session_id": "s1",
            "prompt": "p",
            "daily": DAILY,
            "title": "t",
            "context": {"cwd": "/"},
            "until": "2027-01-01T00:00:00Z",
            "max_occurrences": 5,
            "expires_after_seconds": 3600,
            "idempotency_key": "k",
            "owner_uid": 7,
        },
    ),
    (
        lambda client: client.get("r1", session_id="s1"),
        "reminder.get",
        {"id": "r1", "session_id": "s1"},
    ),
    (lambda client: client.list(), "reminder.list", {}),
    (
        lambda client: client.list("s1", status="all", order="target", limit=5, cursor="c"),
        "reminder.list",
        {"session_id": "s1", "status": "all", "order": "target", "limit": 5, "cursor": "c"},
    ),
    (
        lambda client: client.list(
            state="paused", kind="daily", due_before="2027-01-01T00:00:00Z", text="build"
        ),
        "reminder.list",
        {
            "state": "paused",
            "kind": "daily",
            "due_before": "2027-01-01T00:00:00Z",
            "text": "build",
        },
    ),
    (
        lambda client: client.update("r1", 3, prompt="p", after_seconds=60),
        "reminder.update",
        {"id": "r1", "revision": 3, "prompt": "p", "after_seconds": 60},
    ),
    (
        lambda client: client.update("r1", 3, title=None, context={}),
        "reminder.update",
        {"id": "r1", "revision": 3, "title": None, "context": {}},
    ),
    (
        lambda client: client.update(
            "r1", 3, until="2027-01-01T00:00:00Z", max_occurrences=5, expires_after_seconds=60
        ),
        "reminder.update",
        {
            "id": "r1",
            "revision": 3,
            "until": "2027-01-01T00:00:00Z",
            "max_occurrences": 5,
            "expires_after_seconds": 60,
        },
    ),
    (
        lambda client: client.update(
            "r1", 3, until=None, max_occurrences=None, expires_after_seconds=None
        ),
        "reminder.update",
        {
            "id": "r1",
            "revision": 3,
            "until": None,
            "max_occurrences": None,
            "expires_after_seconds": None,
        },
    ),
    (
        lambda client: client.delete("r1", owner_uid=7),
        "reminder.delete",
        {"id": "r1", "owner_uid": 7},
    ),
    (
        lambda client: client.preview(every_seconds=300, count=2),
        "reminder.preview",
        {"every_seconds": 300, "count": 2},
    ),
    (
        lambda client: client.preview(
            every_seconds=300, until="2027-01-01T00:00:00Z", max_occurrences=2
        ),
        "reminder.preview",
        {"every_seconds": 300, "until": "2027-01-01T00:00:00Z", "max_occurrences": 2},
    ),
    (
        lambda client: client.history("r1", limit=5, owner_uid="*"),
        "reminder.history",
        {"id": "r1", "limit": 5, "owner_uid": "*"},
    ),
    (
        lambda client: client.pause("r1", session_id="s1"),
        "reminder.pause",
        {"id": "r1", "session_id": "s1"},
    ),
    (
        lambda client: client.resume("r1", owner_uid=7),
        "reminder.resume",
        {"id": "r1", "owner_uid": 7},
    ),
    (
        lambda client: client.snooze("r1", seconds=600, idempotency_key="k"),
        "reminder.snooze",
        {"id": "r1", "seconds": 600, "idempotency_key": "k"},
    ),
    (
        lambda client: client.snooze("r1", at="2027-01-01T00:00:00Z"),
        "reminder.snooze",
        {"id": "r1", "at": "2027-01-01T00:00:00Z"},
    ),
    (
        lambda client: client.skip("r1", session_id="s1"),
        "reminder.skip",
        {"id": "r1", "session_id": "s1"},
    ),
    (
        lambda client: client.run_now("r1", idempotency_key="k"),
        "reminder.run_now",
        {"id": "r1", "idempotency_key": "k"},
    ),
    (
        lambda client: client.session_list(limit=5, cursor="c", owner_uid="*"),
        "session.list",
        {"limit": 5, "cursor": "c", "owner_uid": "*"},
    ),
    (
        lambda client: client.session_forget("s1", owner_uid=7),
        "session.forget",
        {"session_id": "s1", "owner_uid": 7},
    ),
    (
        lambda client: client.session_transfer("s1", "s2"),
        "session.transfer",
        {"from": "s1", "to": "s2"},
    ),
    (lambda client: client.status(), "daemon.status", {}),
    (lambda client: client.call("new.method", {"a": 1}), "new.method", {"a": 1}),
]
