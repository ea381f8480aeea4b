"""The values that everything else passes around: frozen, without behaviour beyond naming itself.

An `Instant` is a timezone-aware `datetime` in UTC with whole milliseconds, years 1 to 9999.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

Instant: TypeAlias = dt.datetime

Key: TypeAlias = tuple[int, str]
"""A Session: its owner's uid and its name."""

EndedReason: TypeAlias = Literal["delivered", "until", "count", "range", "missed"]


@dataclass(frozen=True, slots=True)
class After:
    """One-shot, a delay after its creation or change of timing. `seconds` >= 1."""

    kind: ClassVar[Literal["after"]] = "after"
    seconds: int


@dataclass(frozen=True, slots=True)
class At:
    """One-shot at an instant; the offset or zone it was given in is not kept."""

    kind: ClassVar[Literal["at"]] = "at"
    instant: Instant


@dataclass(frozen=True, slots=True)
class Every:
    """Fixed rate: `anchor` + k x `seconds` for every integer k. `seconds` >= 300.

    The anchor is the creation or last change of timing; two rules with equal intervals are equal.
    """

    kind: ClassVar[Literal["every"]] = "every"
    seconds: int
    anchor: Instant = field(compare=False)


@dataclass(frozen=True, slots=True)
class Daily:
    """Every local date of `time_zone` at the local `time` (whole milliseconds, no tzinfo)."""

    kind: ClassVar[Literal["daily"]] = "daily"
    time: dt.time
    time_zone: str


@dataclass(frozen=True, slots=True)
class Weekly:
    """As daily, on local `weekdays` only: Monday = 1 to Sunday = 7, sorted, unique, not empty."""

    kind: ClassVar[Literal["weekly"]] = "weekly"
    time: dt.time
    weekdays: tuple[int, ...]
    time_zone: str


@dataclass(frozen=True, slots=True)
class Cron:
    """Five cron fields in their canonical form, on the local clock of `time_zone`."""

    kind: ClassVar[Literal["cron"]] = "cron"
    expression: str
    time_zone: str


OneShot: TypeAlias = After | At
Recurring: TypeAlias = Every | Daily | Weekly | Cron
Rule: TypeAlias = OneShot | Recurring


@dataclass(frozen=True, slots=True)
class Reminder:
    """One stored reminder.

    `scheduled_at` is its target; for an ended one, the last target it had. For recurring rules
    `scheduled_at == first(rule, after_at)` holds, but while it is corrected for a clock that lies
    far behind `after_at`: then it is counted from `computed_at` (store/upkeep.py). `computed_at`
    is what the clock showed when the target was computed, `last_occurrence_at` the newest
    occurrence dispatched. `revision` counts changes by callers, `timing_revision` those of timing,
    `words_revision` those of title and prompt. `generation` rises when the target moves back past
    an instant that was dispatched.

    A paused one is active and never due. Of a recurring rule no occurrence after `until` exists,
    and it ends when `dispatch_count`, its admitted occurrences, reaches `max_occurrences`. An
    occurrence older than `expires_after_seconds` at its decision is not sent. `snoozed_from` is
    the number of the reminder whose words it repeats. `skips` are occurrences that do not come,
    after the first instant and up to the second: a skip that met an occurrence in flight.
    """

    number: int
    owner_uid: int
    session_id: str
    rule: Rule
    title: str | None
    prompt: str
    context: Mapping[str, str] | None
    scheduled_at: Instant
    after_at: Instant
    computed_at: Instant
    last_occurrence_at: Instant | None
    generation: int
    status: str  # "active" or "ended"; a set-aside row is never decoded
    ended_at: Instant | None
    ended_reason: EndedReason | None
    revision: int
    timing_revision: int
    words_revision: int
    created_at: Instant
    paused: bool = False
    snoozed_from: int | None = None
    until: Instant | None = None
    max_occurrences: int | None = None
    dispatch_count: int = 0
    expires_after_seconds: int | None = None
    skips: tuple[Instant, Instant] | None = None

    @property
    def id(self) -> str:
        return f"r{self.number}"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One due instant of one reminder, as a follow-up carries it.

    `occurrence_id` is its identity, the same however often it is pushed. `occurrence_at` is the
    latest instant at or before the decision, `missed_from` the earliest one that it stands for
    as well (None when there was none). `next_at` is the target after it, the first after
    `next_after`; None ends the reminder for `end_reason`. One that was asked for `by_hand` stands
    beside the rule: it moves and ends nothing.
    """

    occurrence_id: str
    reminder: Reminder
    occurrence_at: Instant
    next_at: Instant | None
    next_after: Instant
    end_reason: EndedReason | None
    missed_from: Instant | None
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What is pushed to one Session at once: one one-shot, or a batch of recurring occurrences."""

    followup_id: str
    owner_uid: int
    session_id: str
    batch: bool
    decided_at: Instant
    occurrences: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A durable receipt; title and prompt are the words that were sent.

    What was skipped or missed was sent to no host in no follow-up: both are empty then.
    """

    number: int
    followup_id: str
    occurrence_id: str
    reminder_id: str
    session_id: str
    occurrence_at: Instant
    decided_at: Instant
    admitted_at: Instant
    host: str
    message_id: str | None
    outcome: Literal["admitted", "skipped", "missed"]
    title: str | None
    prompt: str
