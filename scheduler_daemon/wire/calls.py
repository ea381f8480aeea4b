"""Params and result of each method, one TypedDict each, in the order of the protocol's tables.

For type checkers and readers, as shapes.py. `session_id` beside an `id` must match it;
`owner_uid` is for admins only.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from scheduler_daemon.wire.shapes import Kind, LocalInstant, Reminder, Selector


class HelloParams(TypedDict):
    """`hello`. `client` is a name for logs."""

    protocol: NotRequired[int]
    client: NotRequired[str]


class Hello(TypedDict):
    """Who answers, and what this peer may call; `zone_data` is the version of the zone data."""

    protocol: int
    server: str
    zone_data: str
    uid: int
    admin: bool
    methods: list[str]


class CreateParams(Selector):
    """`reminder.create`; exactly one member of Selector.

    `until` (an instant as `at` takes it) and `max_occurrences` are for recurring rules.
    """

    session_id: str
    prompt: str
    title: NotRequired[str]
    context: NotRequired[dict[str, str]]
    until: NotRequired[str]
    max_occurrences: NotRequired[int]
    expires_after_seconds: NotRequired[int]
    idempotency_key: NotRequired[str]
    owner_uid: NotRequired[int]


class Created(TypedDict):
    """`created` is false when the idempotency key had been used: `reminder` is then the first.

    Where that one has been deleted since, there is no `reminder` but its `id` and `deleted`.
    """

    reminder: NotRequired[Reminder]
    created: bool
    id: NotRequired[str]
    deleted: NotRequired[bool]


class GetParams(TypedDict):
    """`reminder.get`; a `session_id` must match."""

    id: str
    session_id: NotRequired[str]
    owner_uid: NotRequired[int | Literal["*"]]


class Got(TypedDict):
    """The answer of `reminder.get`."""

    reminder: Reminder


class ListParams(TypedDict, total=False):
    """`reminder.list`. `limit` is 1 to 1000 (100); `status` is `active` and `order` `created`.

    `state` takes the place of `status`. `due_before` is an instant as `at` takes it, `text` what
    title or prompt contain, whatever the case.
    """

    session_id: str
    status: Literal["active", "ended", "all"]
    state: Literal["scheduled", "overdue", "paused", "ended"]
    kind: Kind
    due_before: str
    text: str
    order: Literal["created", "target"]
    limit: int
    cursor: str
    owner_uid: int | Literal["*"]


class UpdateParams(Selector):
    """`reminder.update`: anything but the Session; at most one member of Selector, null clears."""

    id: str
    revision: int
    session_id: NotRequired[str]
    prompt: NotRequired[str]
    title: NotRequired[str | None]
    context: NotRequired[dict[str, str]]
    until: NotRequired[str | None]
    max_occurrences: NotRequired[int | None]
    expires_after_seconds: NotRequired[int | None]
    owner_uid: NotRequired[int]


class Updated(TypedDict):
    """`updated` is false when nothing changed.

    `dropped_occurrence` is the instant of the overdue occurrence that a new timing gave up.
    """

    reminder: Reminder
    updated: bool
    dropped_occurrence: NotRequired[str]


class DeleteParams(TypedDict):
    """`reminder.delete`; a `session_id` must match."""

    id: str
    session_id: NotRequired[str]
    owner_uid: NotRequired[int]


class Deleted(TypedDict):
    """`deleted` is false when there was no such reminder."""

    id: str
    deleted: bool


class PauseParams(TypedDict):
    """`reminder.pause`; a `session_id` must match."""

    id: str
    session_id: NotRequired[str]
    owner_uid: NotRequired[int]


class Paused(TypedDict):
    """The paused reminder; one that was paused already is as it was."""

    reminder: Reminder


class ResumeParams(TypedDict):
    """`reminder.resume`; a `session_id` must match."""

    id: str
    session_id: NotRequired[str]
    owner_uid: NotRequired[int]


class Resumed(TypedDict):
    """The resumed reminder; one that was not paused is as it was."""

    reminder: Reminder


class SnoozeParams(TypedDict):
    """`reminder.snooze`: exactly one of `seconds` (>= 1, from now) and `at`."""

    id: str
    seconds: NotRequired[int]
    at: NotRequired[str | LocalInstant]
    idempotency_key: NotRequired[str]
    session_id: NotRequired[str]
    owner_uid: NotRequired[int]


class Snoozed(TypedDict):
    """The new reminder, a one-shot. With a used key as Created."""

    reminder: NotRequired[Reminder]
    created: bool
    id: NotRequired[str]
    deleted: NotRequired[bool]


class SkipParams(TypedDict):
    """`reminder.skip`; a `session_id` must match."""

    id: str
    session_id: NotRequired[str]
    owner_uid: NotRequired[int]


class Skipped(TypedDict):
    """The reminder at its next target, and the instant of the occurrence that will not come."""

    reminder: Reminder
    skipped_occurrence: str


class RunNowParams(TypedDict):
    """`reminder.run_now`; a `session_id` must match."""

    id: str
    idempotency_key: NotRequired[str]
    session_id: NotRequired[str]
    owner_uid: NotRequired[int]


class RunNow(TypedDict):
    """The occurrence that comes once beside the rule. With a used key that of the first call.

    Where the reminder has been deleted since there is its `id` and `deleted` in its place.
    """

    reminder: NotRequired[Reminder]
    occurrence_id: NotRequired[str]
    created: bool
    id: NotRequired[str]
    deleted: NotRequired[bool]


class PreviewParams(Selector):
    """`reminder.preview`. `count` is 1 to 100 (5)."""

    count: NotRequired[int]
    until: NotRequired[str]
    max_occurrences: NotRequired[int]


class PreviewItem(TypedDict):
    """One coming instant, and the same on the clock of the rule where it has one (RFC 9557)."""

    at: str
    local: NotRequired[str]


class Preview(TypedDict):
    """The next instants of a rule that nobody has stored."""

    items: list[PreviewItem]
    rule_text: str


class HistoryParams(TypedDict, total=False):
    """`reminder.history`: `id` or `session_id` is needed. `limit` is 1 to 1000 (100)."""

    id: str
    session_id: str
    limit: int
    cursor: str
    owner_uid: int | Literal["*"]


class SessionListParams(TypedDict, total=False):
    """`session.list`, by name. `limit` is 1 to 1000 (100)."""

    limit: int
    cursor: str
    owner_uid: int | Literal["*"]


class SessionForgetParams(TypedDict):
    """`session.forget`."""

    session_id: str
    owner_uid: NotRequired[int]


class Forgotten(TypedDict):
    """How many reminders and how many receipts of the Session were removed."""

    reminders: int
    dispatches: int


SessionTransferParams = TypedDict(
    "SessionTransferParams", {"from": str, "to": str, "owner_uid": NotRequired[int]}
)
SessionTransferParams.__doc__ = "`session.transfer`: two Sessions of the same owner."


class Transferred(TypedDict):
    """How many active reminders moved."""

    reminders: int


class WatchParams(TypedDict, total=False):
    """`daemon.watch`: of one Session, or of all."""

    session_id: str
    owner_uid: int | Literal["*"]


class Watching(TypedDict):
    """Nothing but that it began: `reminder.changed` comes from here on."""


class AttachParams(TypedDict):
    """`host.attach`: `"*"` stands for every Session. `max_in_flight` >= 1 (16)."""

    name: str
    sessions: list[str] | Literal["*"]
    max_in_flight: NotRequired[int]


class DetachParams(TypedDict):
    """`host.detach`."""

    sessions: list[str] | Literal["*"]


class Attached(TypedDict):
    """What the connection is attached to now."""

    sessions: list[str] | Literal["*"]


class ReadyParams(TypedDict):
    """`session.ready`, a notification of a host: the Session is free again."""

    session_id: str
