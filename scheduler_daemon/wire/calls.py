"""Params and result of each method, one TypedDict each, in the order of the protocol's tables.

For type checkers and readers, as shapes.py. `session_id` beside an `id` must match it;
`owner_uid` is for admins only.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from scheduler_daemon.wire.shapes import Reminder, Selector


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
    """`reminder.create`; exactly one member of Selector. `owner_uid` is for admins only."""

    session_id: str
    prompt: str
    title: NotRequired[str]
    context: NotRequired[dict[str, str]]
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
    """`reminder.list`. `limit` is 1 to 1000 (100); `status` is `active` and `order` `created`."""

    session_id: str
    status: Literal["active", "ended", "all"]
    order: Literal["created", "target"]
    limit: int
    cursor: str
    owner_uid: int | Literal["*"]


class UpdateParams(Selector):
    """`reminder.update`: any of the words, and at most one member of Selector."""

    id: str
    revision: int
    session_id: NotRequired[str]
    prompt: NotRequired[str]
    title: NotRequired[str | None]
    context: NotRequired[dict[str, str]]
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


class PreviewParams(Selector):
    """`reminder.preview`. `count` is 1 to 100 (5)."""

    count: NotRequired[int]


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
