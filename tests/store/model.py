"""What the file should hold, in plain Python: each act as the design has it, one after another."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scheduler_daemon.model import (
    At,
    EndedReason,
    FollowUp,
    Instant,
    Occurrence,
    OneShot,
    Reminder,
)
from scheduler_daemon.rules import first, instant_text

Key = tuple[int, str]

MILLISECOND = dt.timedelta(milliseconds=1)
AHEAD = dt.timedelta(hours=24)


class Asked(NamedTuple):
    """What an idempotency key stands for; `of` is the reminder that was snoozed or run."""

    request_hash: str
    number: int
    of: int | None = None
    occurrence_id: str | None = None


class Receipt(NamedTuple):
    reminder_id: str
    owner: int
    session: str
    followup_id: str
    outcome: str
    title: str | None
    prompt: str


class Run(NamedTuple):
    occurrence_id: str
    number: int
    due_at: Instant


class Decided(NamedTuple):
    occurrence_at: Instant | None
    next_at: Instant | None
    reason: EndedReason | None


class NothingLeft(Exception):
    """There is no occurrence to skip."""


@dataclass
class Model:
    """`beyond` are those that an untrusted clock has left active beyond their end."""

    reminders: dict[int, Reminder] = field(default_factory=dict)
    aside: set[int] = field(default_factory=set)
    keys: dict[tuple[int, str, str], Asked] = field(default_factory=dict)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    beyond: set[int] = field(default_factory=set)
    newest: int = 0

    # --- looking

    def active(self, owner: int, session: str | None = None) -> list[Reminder]:
        return [
            each
            for each in self.reminders.values()
            if each.status == "active"
            and each.number not in self.aside
            and each.owner_uid == owner
            and session in (None, each.session_id)
        ]

    def due(self, key: Key, now: Instant) -> list[Reminder]:
        found = [each for each in self.active(*key) if not each.paused and each.scheduled_at <= now]
        return sorted(found, key=lambda each: (each.scheduled_at, each.number))

    def runs_of(self, key: Key) -> list[Run]:
        """All that wait in a Session, also those of what was set aside."""
        found = [run for run in self.runs if self.key_of(run.number) == key]
        return sorted(found, key=lambda run: run.due_at)

    def due_runs(self, key: Key, now: Instant) -> list[Run]:
        return [
            run for run in self.runs_of(key) if run.due_at <= now and run.number not in self.aside
        ]

    def next_target(self, key: Key) -> Instant | None:
        targets = [each.scheduled_at for each in self.active(*key) if not each.paused]
        targets += [run.due_at for run in self.runs_of(key) if run.number not in self.aside]
        return min(targets, default=None)

    def key_of(self, number: int) -> Key:
        return self.reminders[number].owner_uid, self.reminders[number].session_id

    def asked_before(self, of: int, key: tuple[str, str] | None) -> Asked | None:
        """What the same request to snooze or run made, wherever that is now."""
        for (_, _, name), asked in self.keys.items():
            if asked.of == of and key == (name, asked.request_hash):
                return asked
        return None

    # --- what callers do

    def remove(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            del self.reminders[number]
            self.aside.discard(number)
            self.runs = [run for run in self.runs if run.number != number]

    def pause(self, old: Reminder) -> Reminder:
        return old if old.paused else replace(old, paused=True, revision=old.revision + 1)

    def resume(self, old: Reminder, now: Instant, trusted: bool) -> Reminder:
        if not old.paused:
            return old
        new = replace(old, paused=False, revision=old.revision + 1)
        if isinstance(old.rule, OneShot) or old.scheduled_at > now:
            return new
        return self.retimed(new, left_after(old, now), now, trusted)

    def skip(
        self, old: Reminder, in_flight: Occurrence | None, now: Instant, trusted: bool
    ) -> tuple[Reminder, Instant]:
        """The record, and the instant that is skipped."""
        new = replace(old, revision=old.revision + 1)
        if in_flight is not None and as_it_was(in_flight.reminder, old):
            low, high = old.skips or (in_flight.occurrence_at,) * 2
            at = first(old.rule, max(high, in_flight.occurrence_at))
            if at is None or is_beyond(old, at):
                raise NothingLeft
            return replace(new, skips=(max(low, in_flight.occurrence_at), at)), at
        target = old.scheduled_at
        if is_beyond(old, target):
            raise NothingLeft
        last = max(old.last_occurrence_at or target, target)
        new = replace(new, last_occurrence_at=last)
        return self.retimed(new, left_after(old, target), now, trusted), target

    def retimed(
        self, old: Reminder, target: Instant | None, now: Instant, trusted: bool
    ) -> Reminder:
        """A caller has moved a record to another target."""
        new = replace(old, timing_revision=old.timing_revision + 1)
        if target is None or (trusted and is_beyond(old, target)):
            return ended(new, now, "range" if target is None else "until")
        if is_beyond(old, target):
            self.beyond.add(old.number)
        back = old.last_occurrence_at is not None and target <= old.last_occurrence_at
        new = replace(new, generation=old.generation + back)
        return moved(new, target, now)

    def transfer(self, key: Key, to: str) -> list[str]:
        moving = self.active(*key)
        for each in moving:
            self.reminders[each.number] = replace(each, session_id=to)
        return [each.id for each in moving]

    # --- receipts

    def receive(self, each: Occurrence, session: str, followup_id: str, outcome: str) -> bool:
        """Whether it is the first for this occurrence; that one stays."""
        planned = each.reminder
        if each.occurrence_id in self.receipts:
            return False
        self.receipts[each.occurrence_id] = Receipt(
            planned.id,
            planned.owner_uid,
            session,
            followup_id,
            outcome,
            planned.title,
            planned.prompt,
        )
        return True

    def record(self, sent: FollowUp, now: Instant) -> None:
        for each in sent.occurrences:
            new = self.receive(each, sent.session_id, sent.followup_id, "admitted")
            if each.by_hand:
                self.runs = [run for run in self.runs if run.occurrence_id != each.occurrence_id]
                continue
            number = each.reminder.number
            if number in self.reminders:
                self.consume(each, sent.decided_at, now)
                self.note(number, each.occurrence_at, counts=new)
                record = self.reminders[number]
                if self.is_live(number) and record.dispatch_count >= (
                    record.max_occurrences or 10**9
                ):
                    target = min(record.scheduled_at, each.reminder.scheduled_at)
                    last = replace(record, scheduled_at=target)
                    self.reminders[number] = ended(last, now, "count")

    def settle(self, occurrences: Iterable[Occurrence], now: Instant, outcome: str | None) -> None:
        """Only what is still as it was when it was looked at."""
        for each in occurrences:
            record = self.reminders.get(each.reminder.number)
            if record is None or record.paused or not self.is_live(record.number):
                continue
            if not as_it_was(each.reminder, record) or limits(each.reminder) != limits(record):
                continue
            if outcome is not None:
                self.receive(each, each.reminder.session_id, "", outcome)
            self.consume(each, now, now)
            if outcome is not None:
                self.note(record.number, each.occurrence_at, counts=False)

    def consume(self, each: Occurrence, decided: Instant, now: Instant) -> None:
        """The record goes on unless its timing was changed or it has gone on already."""
        record = self.reminders[each.reminder.number]
        if not self.is_live(record.number) or not consumes(each.reminder, record):
            return
        next_at, reason = each.next_at, each.end_reason
        if limits(each.reminder) != limits(record):
            _, next_at, reason = decision(record, decided, trusted=False)
        if next_at is None:
            assert reason is not None
            self.reminders[record.number] = ended(record, now, reason)
            return
        if is_beyond(record, next_at):
            self.beyond.add(record.number)
        self.reminders[record.number] = moved(record, next_at, decided)

    def note(self, number: int, occurrence_at: Instant, *, counts: bool) -> None:
        record = self.reminders[number]
        record = replace(record, dispatch_count=record.dispatch_count + counts)
        last = record.last_occurrence_at
        if last is None or last < occurrence_at:
            back = self.is_live(number) and record.scheduled_at <= occurrence_at
            record = replace(
                record, last_occurrence_at=occurrence_at, generation=record.generation + back
            )
        self.reminders[number] = record

    def is_live(self, number: int) -> bool:
        return self.reminders[number].status == "active" and number not in self.aside

    # --- upkeep

    def end_beyond(self, now: Instant) -> None:
        for number, each in self.reminders.items():
            if self.is_live(number) and is_beyond(each, each.scheduled_at):
                self.reminders[number] = ended(each, now, "until")

    def correct_ahead(self, now: Instant) -> None:
        self.runs = [run._replace(due_at=min(run.due_at, now)) for run in self.runs]
        for number, each in self.reminders.items():
            ahead = each.computed_at > now + AHEAD and not isinstance(each.rule, At)
            if self.is_live(number) and ahead:
                target = first(each.rule, now)
                assert target is not None
                self.reminders[number] = recomputed(each, target, now)


def decision(record: Reminder, now: Instant, *, trusted: bool) -> Decided:
    """What is due at `now` and what comes next, one occurrence after another."""
    if isinstance(record.rule, OneShot):
        return Decided(record.scheduled_at, None, "delivered")
    due, each = None, first(record.rule, record.scheduled_at - MILLISECOND)
    while each is not None and (each <= now or is_skipped(record, each)):
        if not is_skipped(record, each) and not is_beyond(record, each):
            due = each
        each = first(record.rule, each)
    if each is None:
        return Decided(due, None, "range")
    return (
        Decided(due, None, "until")
        if trusted and is_beyond(record, each)
        else Decided(due, each, None)
    )


def left_after(record: Reminder, instant: Instant) -> Instant | None:
    """The first occurrence after an instant that is not skipped."""
    each = first(record.rule, instant)
    while each is not None and is_skipped(record, each):
        each = first(record.rule, each)
    return each


def is_skipped(record: Reminder, each: Instant) -> bool:
    return record.skips is not None and record.skips[0] < each <= record.skips[1]


def is_beyond(record: Reminder, each: Instant) -> bool:
    return record.until is not None and each > record.until


def consumes(planned: Reminder, record: Reminder) -> bool:
    """A one-shot's one occurrence was sent also where its target was corrected meanwhile."""
    if isinstance(planned.rule, OneShot):
        return planned.timing_revision == record.timing_revision
    return as_it_was(planned, record)


def as_it_was(planned: Reminder, record: Reminder) -> bool:
    return (planned.timing_revision, planned.scheduled_at) == (
        record.timing_revision,
        record.scheduled_at,
    )


def limits(record: Reminder) -> tuple[object, ...]:
    return record.until, record.skips


def ended(record: Reminder, at: Instant, reason: EndedReason) -> Reminder:
    return replace(
        record, status="ended", ended_at=at, ended_reason=reason, paused=False, skips=None
    )


def moved(record: Reminder, target: Instant, computed: Instant) -> Reminder:
    """At another target; skips that lie behind it are over."""
    skips = record.skips if record.skips and record.skips[1] > target else None
    rule = At(target) if isinstance(record.rule, At) else record.rule
    return replace(record, rule=rule, scheduled_at=target, computed_at=computed, skips=skips)


def recomputed(record: Reminder, target: Instant, computed: Instant) -> Reminder:
    """The daemon computed the target anew, from another instant."""
    last = record.last_occurrence_at
    back = last is not None and target <= last
    new = replace(record, scheduled_at=target, computed_at=computed, skips=None)
    return replace(new, generation=record.generation + back)


def missed_from(record: Reminder, at: Instant) -> Instant | None:
    """The first occurrence before `at` that was missed.

    The target as it stands, until one before `at` was dispatched: from then on what came after
    that, and after the creation.
    """
    each: Instant | None = record.scheduled_at
    last = record.last_occurrence_at
    while each is not None and each < at:
        if last is None or last >= at or each > max(last, record.created_at):
            return each
        each = first(record.rule, each)
    return None


def occurrence_id(record: Reminder, at: Instant) -> str:
    generation = f".{record.generation}" if record.generation else ""
    return f"{record.id}{generation}@{instant_text(at)}"
