"""The shapes of the protocol that have a name; params and results by method are in calls.py.

Only for type checkers and readers: the command line imports this module for types alone, since
building the classes costs milliseconds. A member typed `NotRequired` is left out, never null.
Instants are canonical: RFC 3339 UTC with three fractional digits, `2026-08-07T01:00:00.000Z`.
"""

from __future__ import annotations

from typing import Generic, Literal, NotRequired, TypedDict, TypeVar

Kind = Literal["after", "at", "every", "daily", "weekly", "cron"]
Why = Literal[
    "target",
    "paused",
    "no_host",
    "host_gone",
    "busy",
    "no_answer",
    "refused",
    "in_flight",
    "behind",
    "set_aside",
    "receipt",
    "ended",
]
EndedReason = Literal["delivered", "until", "count", "range", "missed"]
Change = Literal["created", "updated", "paused", "resumed", "dispatched", "ended", "deleted"]


class LocalInstant(TypedDict):
    """A one-shot on a local clock: `date` YYYY-MM-DD, `time` HH:MM:SS[.f{1,3}], IANA zone."""

    date: str
    time: str
    time_zone: str


class DailyRule(TypedDict):
    """Every local date; `time` HH:MM[:SS[.f{1,3}]]."""

    time: str
    time_zone: str


class WeeklyRule(TypedDict):
    """As daily, on `weekdays` only: Monday = 1 to Sunday = 7."""

    time: str
    time_zone: str
    weekdays: list[int]


class CronRule(TypedDict):
    """Five cron fields on a local clock."""

    expression: str
    time_zone: str


class Selector(TypedDict, total=False):
    """When: exactly one of the six, as a member of `params` itself."""

    after_seconds: int
    """Once, this long from now, >= 1."""
    at: str | LocalInstant
    """Once, at an RFC 3339 instant with an offset, or at a time on a local clock."""
    every_seconds: int
    """Again and again at this fixed distance, >= 300."""
    daily: DailyRule
    weekly: WeeklyRule
    cron: CronRule


class WaitingFor(TypedDict):
    """Why a reminder has not been sent.

    `target`: not due yet. `no_host`: nobody takes the Session. `host_gone`: every host said that
    it does not know the Session. `busy`, `no_answer`, `refused`: how the last attempt ended.
    `in_flight`: sent and not answered yet. `behind`: an earlier one of its Session goes first.
    `receipt`: admitted, the receipt is not on disk yet.
    """

    why: Why
    attempts: NotRequired[int]
    last_error: NotRequired[str]
    next_try_at: NotRequired[str]
    last_host_seen_at: NotRequired[str]


class DispatchSummary(TypedDict):
    """The receipt of one occurrence, without its words."""

    followup_id: str
    occurrence_id: str
    reminder_id: str
    session_id: str
    occurrence_at: str
    decided_at: str
    admitted_at: str
    host: str
    message_id: NotRequired[str]
    outcome: Literal["admitted", "skipped", "missed"]


class Dispatch(DispatchSummary):
    """The receipt of one occurrence with the words that were sent."""

    title: NotRequired[str]
    prompt: str


class Reminder(TypedDict):
    """One reminder as its owner sees it.

    `rule` is the selector as it would be sent again. `scheduled_at` is the earliest occurrence
    not yet dispatched, `scheduled_at_local` (RFC 9557) the same on the clock of its rule.
    `revision` counts changes by callers; `reminder.update` wants the one last seen.
    `dispatch_count` is there beside `max_occurrences`: how many occurrences were admitted.
    `runs` counts occurrences asked for by hand that no host has admitted yet, where there are any.
    """

    id: str
    owner_uid: int
    session_id: str
    kind: Kind
    rule: Selector
    title: NotRequired[str]
    prompt: str
    context: NotRequired[dict[str, str]]
    scheduled_at: str
    scheduled_at_local: NotRequired[str]
    rule_text: str
    until: NotRequired[str]
    max_occurrences: NotRequired[int]
    dispatch_count: NotRequired[int]
    expires_after_seconds: NotRequired[int]
    snoozed_from: NotRequired[str]
    status: Literal["active", "ended"]
    paused: bool
    state: Literal["scheduled", "overdue", "paused", "ended"]
    revision: int
    created_at: str
    ended_at: NotRequired[str]
    ended_reason: NotRequired[EndedReason]
    last_dispatch: NotRequired[DispatchSummary]
    runs: NotRequired[int]
    waiting_for: WaitingFor


class Session(TypedDict):
    """One Session with reminders: its counts, its next target, and why that waits.

    `active` counts paused reminders too, `overdue` those that are due and could be sent, `runs`
    the occurrences asked for by hand that no host has admitted yet.
    `next_target_at` is left out where nothing is to come. `live` is whether a host takes it.
    """

    session_id: str
    owner_uid: int
    active: int
    paused: int
    overdue: int
    ended: int
    set_aside: int
    runs: int
    next_target_at: NotRequired[str]
    live: bool
    hosts: list[str]
    waiting_for: NotRequired[WaitingFor]


class ReminderChanged(TypedDict):
    """`reminder.changed`, a notification to watchers, after the change is on disk.

    `reminder` is as it is then; it is left out of `dispatched`, `ended` and `deleted`.
    """

    id: str
    owner_uid: int
    session_id: str
    change: Change
    reminder: NotRequired[Reminder]


class Lagged(TypedDict):
    """`watch.lagged`, a notification without members: changes were left out, list again."""


Item = TypeVar("Item")


class Page(TypedDict, Generic[Item]):
    """Part of a list. Only a missing `next_cursor` means the end, however few the items."""

    items: list[Item]
    next_cursor: NotRequired[str]


class FollowupOccurrence(TypedDict):
    """One due instant of one reminder.

    `occurrence_id` is opaque and the same however often it is pushed. `missed_from` is the
    earliest occurrence that this one stands for as well.
    """

    occurrence_id: str
    reminder_id: str
    occurrence_at: str
    occurrence_local: NotRequired[str]
    missed_from: NotRequired[str]
    kind: Kind
    rule_text: str
    title: NotRequired[str]
    prompt: str
    context: NotRequired[dict[str, str]]


class Followup(TypedDict):
    """`session.followup`, a request of the daemon to a host: one message for one Session.

    `text` is the message ready for the model; `occurrences` are the same facts for a host that
    makes its own. `followup_id` is new at each push, `attempt` counts from 1. `batch` is true
    for recurring reminders, of which all that are overdue come in one message.
    """

    followup_id: str
    session_id: str
    batch: bool
    decided_at: str
    attempt: int
    text: str
    occurrences: list[FollowupOccurrence]


class AdmittedAnswer(TypedDict):
    """The message stands durably in the Session's queue."""

    status: Literal["admitted"]
    message_id: NotRequired[str]


class BusyAnswer(TypedDict):
    """Not now; `retry_after_seconds` (1 to 300) replaces the daemon's own pause once."""

    status: Literal["busy"]
    retry_after_seconds: NotRequired[int]


class GoneAnswer(TypedDict):
    """This host does not know the Session."""

    status: Literal["gone"]


FollowupAnswer = AdmittedAnswer | BusyAnswer | GoneAnswer


class Counts(TypedDict):
    """Reminders of the caller's own; `overdue_without_host` is part of `overdue`.

    `runs` counts what was asked for by hand and no host has admitted yet.
    """

    active: int
    overdue: int
    overdue_without_host: int
    paused: int
    ended: int
    set_aside: int
    runs: int


class HostStatus(TypedDict):
    """One attached connection.

    `sessions` is `"*"` or the first 100 of its Sessions by name, `session_count` how many it
    names in all (not there with `"*"`). `in_flight` counts messages that wait for its answer.
    """

    name: str
    sessions: list[str] | Literal["*"]
    session_count: NotRequired[int]
    in_flight: int
    max_in_flight: int
    attached_at: str


class RetryStatus(TypedDict):
    """One Session whose follow-up is tried again."""

    session_id: str
    why: Why
    attempts: int
    next_try_at: NotRequired[str]
    last_error: NotRequired[str]


class PersistenceFault(TypedDict):
    """The last time that something could not be written; `code` is one of errors.py.

    `over` is whether something was written since.
    """

    at: str
    code: str
    over: bool


class Status(TypedDict):
    """`daemon.status`; lists hold the first 100 each.

    `database`, `last_scan_at`, `failures` and `restart_wanted_for` are for admins: what the loop
    does tells of others. `next_wake_at` is left out when nothing is due ever, `last_scan_at` before
    the first look, `free_disk_bytes` where the folder of the database cannot be asked.
    """

    server: str
    python: str
    sqlite: str
    protocol: int
    schema: int
    zone_data: str
    clock: str
    database: NotRequired[str]
    started_at: str
    last_scan_at: NotRequired[str]
    next_wake_at: NotRequired[str]
    counts: Counts
    hosts: list[HostStatus]
    retrying: list[RetryStatus]
    free_disk_bytes: NotRequired[int]
    last_persistence_error: NotRequired[PersistenceFault]
    last_accept_failure_at: NotRequired[str]
    failures: NotRequired[int]
    restart_wanted_for: NotRequired[list[str]]
