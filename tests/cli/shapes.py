"""Reminders, receipts, changes and statuses as a daemon would send them."""

from __future__ import annotations

from typing import Any

from scheduler_daemon.wire.messages import notification


def reminder(number: int = 7, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "id": f"r{number}",
        "owner_uid": 1000,
        "session_id": "s1",
        "kind": "after",
        "rule": {"after_seconds": 1200},
        "prompt": "Check the build",
        "scheduled_at": "2999-12-24T13:20:00.000Z",
        "rule_text": "once, 20 minutes after it was set",
        "status": "active",
        "paused": False,
        "state": "scheduled",
        "revision": 1,
        "created_at": "2026-12-24T13:00:00.000Z",
        "waiting_for": {"why": "target"},
    }
    return {**base, **changes}


def receipt(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "followup_id": "f1",
        "occurrence_id": "r7@x",
        "reminder_id": "r7",
        "session_id": "s1",
        "occurrence_at": "2026-12-24T12:50:00.000Z",
        "decided_at": "2026-12-24T12:59:59.000Z",
        "admitted_at": "2026-12-24T12:59:59.000Z",
        "host": "editor",
        "outcome": "admitted",
    }
    return {**base, **changes}


def event(change: str = "created", **more: Any) -> dict[str, Any]:
    return {"id": "r7", "owner_uid": 1000, "session_id": "s1", "change": change, **more}


def changed(change: str = "created", **more: Any) -> dict[str, object]:
    return notification("reminder.changed", event(change, **more))


def session(name: str = "s1", **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "session_id": name,
        "owner_uid": 1000,
        "active": 4,
        "paused": 1,
        "overdue": 2,
        "ended": 3,
        "set_aside": 0,
        "runs": 0,
        "next_target_at": "2999-12-24T13:20:00.000Z",
        "live": True,
        "hosts": ["editor"],
        "waiting_for": {"why": "busy", "attempts": 3},
    }
    return {**base, **changes}


def host(name: str = "editor", sessions: Any = ("s1",), **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "name": name,
        "sessions": sessions if sessions == "*" else list(sessions),
        "in_flight": 0,
        "max_in_flight": 16,
        "attached_at": "2026-12-24T12:00:00.000Z",
    }
    if sessions != "*":
        base["session_count"] = len(sessions)
    return {**base, **changes}


def status(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "server": "scheduler-daemon 0.1.0",
        "python": "3.13.1",
        "sqlite": "3.46.1",
        "protocol": 1,
        "schema": 1,
        "zone_data": "tzdata 2025.2",
        "clock": "timerfd",
        "started_at": "2026-12-24T12:00:00.000Z",
        "counts": {
            "active": 3,
            "overdue": 2,
            "overdue_without_host": 1,
            "paused": 0,
            "ended": 4,
            "set_aside": 0,
            "runs": 0,
        },
        "hosts": [],
        "retrying": [],
    }
    return {**base, **changes}
