"""Creating a reminder in a transaction: what was asked for, the key it came with, the limits."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler_daemon.errors import IdempotencyConflict, LimitReached, SchedulerError
from scheduler_daemon.model import Instant, Reminder, Rule
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.lookups import Beside, beside, reminder_row
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import (
    check_countable,
    context_text,
    decode_reminder,
    maybe_text,
    rule_columns,
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A creation whose form was checked.

    `target` is None when the time was refused: `refusal` is raised unless the idempotency key
    finds what an earlier request made. `request_hash` is of the canonical request, and read only
    beside a key. What was snoozed has the number of the other reminder in `snoozed_from`.
    """

    owner_uid: int
    session_id: str
    rule: Rule
    target: Instant | None
    refusal: SchedulerError | None
    title: str | None
    prompt: str
    context: Mapping[str, str] | None
    key: str | None
    request_hash: str
    until: Instant | None = None
    max_occurrences: int | None = None
    expires_after_seconds: int | None = None
    snoozed_from: int | None = None


@dataclass(frozen=True, slots=True)
class Created:
    """What a creation gave: `reminder` is None when the key's reminder is gone."""

    number: int
    reminder: Reminder | None
    beside: Beside
    created: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """The most active reminders to keep."""

    per_session: int
    per_owner: int


def create(conn: sqlite3.Connection, draft: Draft, now: Instant, limits: Limits) -> Created:
    """Store a reminder, or find the one its idempotency key made. See Store.create."""
    who = {"owner": draft.owner_uid, "session": draft.session_id}
    earlier = _earlier(conn, draft, who)
    if earlier is not None:
        return earlier
    if draft.target is None:
        assert draft.refusal is not None
        raise draft.refusal
    _check_limits(conn, who, limits)
    at = instant_text(now)
    values = rule_columns(draft.rule, draft.target) | {
        "owner_uid": draft.owner_uid,
        "session_id": draft.session_id,
        "title": draft.title,
        "prompt": draft.prompt,
        "context": context_text(draft.context),
        "after_at": at,
        "computed_at": at,
        "created_at": at,
        "snoozed_from": draft.snoozed_from,
        "until_at": maybe_text(draft.until),
        "max_occurrences": draft.max_occurrences,
        "expires_after_seconds": draft.expires_after_seconds,
    }
    number = conn.execute(QUERIES["insert_reminder"], values).lastrowid
    assert number is not None
    check_countable(number)
    if draft.key is not None:
        conn.execute(
            QUERIES["insert_key"],
            who
            | {"key": draft.key, "request_hash": draft.request_hash, "number": number, "now": at}
            | {"asked_of": draft.snoozed_from, "occurrence_id": None},
        )
    return Created(number, _made(draft, draft.target, number, now), Beside(), created=True)


def _made(draft: Draft, target: Instant, number: int, now: Instant) -> Reminder:
    return Reminder(
        number=number,
        owner_uid=draft.owner_uid,
        session_id=draft.session_id,
        rule=draft.rule,
        title=draft.title,
        prompt=draft.prompt,
        context=draft.context or None,
        scheduled_at=target,
        after_at=now,
        computed_at=now,
        last_occurrence_at=None,
        generation=0,
        status="active",
        ended_at=None,
        ended_reason=None,
        revision=1,
        timing_revision=1,
        words_revision=1,
        created_at=now,
        snoozed_from=draft.snoozed_from,
        until=draft.until,
        max_occurrences=draft.max_occurrences,
        expires_after_seconds=draft.expires_after_seconds,
    )


def _earlier(conn: sqlite3.Connection, draft: Draft, who: dict[str, Any]) -> Created | None:
    if draft.key is None:
        return None
    number = same_request(conn, who | {"key": draft.key}, draft.request_hash)
    if number is None:
        return None
    row = reminder_row(conn, number, draft.owner_uid, None)
    if row is None:
        return Created(number, None, Beside(), created=False)
    return Created(number, decode_reminder(row), beside(conn, number), created=False)


def same_request(conn: sqlite3.Connection, key: dict[str, Any], request_hash: str) -> int | None:
    """The number that a key made before, None for a new key. Raises idempotency_conflict."""
    found = conn.execute(QUERIES["key_found"], key).fetchone()
    if found is None:
        return None
    if found[0] != request_hash:
        raise IdempotencyConflict(
            "this idempotency_key was used in this Session for another request; "
            "repeat that request as it was, or take a new key",
            field="idempotency_key",
        )
    return int(found[1])


def _check_limits(conn: sqlite3.Connection, who: dict[str, Any], limits: Limits) -> None:
    for name, limit, where in (
        ("active_of_session", limits.per_session, "this Session"),
        ("active_of_owner", limits.per_owner, "this user"),
    ):
        row = conn.execute(QUERIES[name], who).fetchone()
        if row and row[0] >= limit:
            raise LimitReached(
                f"{where} has {row[0]} active reminders and may keep {limit}; "
                "delete some that are no longer wanted"
            )
