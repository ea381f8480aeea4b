"""What a Session's next follow-up is, read from the file; what becomes of it is in sending.py."""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, TypeVar

from scheduler_daemon.clock import Clock, trusted
from scheduler_daemon.delivery.plan import Packer, occurrence, run_by_hand
from scheduler_daemon.model import FollowUp, Instant, Occurrence, OneShot, Reminder
from scheduler_daemon.rules import has_expired, is_beyond
from scheduler_daemon.sessions import MessageKey, SessionState, message_of, record_of
from scheduler_daemon.store.lookups import place
from scheduler_daemon.store.reader import Due, Rows
from scheduler_daemon.store.store import Left, Store
from scheduler_daemon.store.upkeep import moved_target, put_one_back, was_corrected_by_mistake

CHUNK = 100
"""Recurring records read at once while a batch is put together."""

T = TypeVar("T")


class Then(enum.Enum):
    """What the loop does with the Session next."""

    LOOK = enum.auto()
    """Read its earliest target again."""
    WAIT = enum.auto()
    """Leave it until something that is under way calls for it: a pause, a receipt."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing can be sent now; `again_at` is the Session's next target, None where it has none."""

    again_at: Instant | None


Next: TypeAlias = Then | Nothing


class Unbuilt(Exception):
    """A message could not be put together; `message` says which, the cause why.

    `of_batch`: it is one record of the Session's batch, whose others can go without it.
    """

    def __init__(self, message: MessageKey, *, of_batch: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.of_batch = of_batch


class Planner:
    """Plans one follow-up at a time.

    `zone_mark` is the number above which targets may still rest on older zone data, None when
    all were computed again; only those that lay ahead at `started_at` are. `settled` hears of
    occurrences that passed without a message, and what became of their records.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        settled: Callable[[Sequence[Occurrence], Left], None],
        *,
        max_frame_bytes: int,
    ) -> None:
        self._clock = clock
        self._store = store
        self._settled = settled
        self._max_frame_bytes = max_frame_bytes
        self.started_at = clock.now()
        self.zone_mark: int | None = None

    async def plan(self, state: SessionState) -> FollowUp | Next:
        """The follow-up to push at once, without waiting for anything in between.

        Raises Unbuilt, and whatever reading and writing the file raise.
        """
        while True:
            epoch = state.epoch
            planned = await self._plan(state)
            if state.recording:
                # A late admission came: what was read does not know its receipt.
                return Then.WAIT
            if state.epoch == epoch:
                return planned

    async def _plan(self, state: SessionState) -> FollowUp | Next:
        now = self._clock.now()
        aside = state.set_aside(self._clock.monotonic())
        due = await self._store.reader.due(state.key, now, len(aside) + 1, CHUNK)
        for rows in (due.one_shots, due.recurring):
            if await self._mend(rows, now, aside):
                return Then.LOOK
        for message, build in self._singles(due, now):
            if message not in aside:
                return _followup(state, False, now, [_built(message, build)])
        planned = None
        if due.recurring.reminders and None not in aside:
            planned = await self._plan_batch(state, now, due.recurring, aside)
        return planned or Nothing(await self._store.reader.next_target_of_session(state.key, now))

    def _singles(self, due: Due, now: Instant) -> list[tuple[MessageKey, Callable[[], Occurrence]]]:
        """What comes alone, each with what builds it: by instant, one-shots first among equals."""
        found: list[tuple[Instant, MessageKey, Callable[[], Occurrence]]] = [
            (one.scheduled_at, message_of(one), partial(self._occurrence, one, now))
            for one in due.one_shots.reminders
        ]
        found += [
            (due_at, occurrence_id, partial(run_by_hand, reminder, occurrence_id, due_at))
            for occurrence_id, due_at, reminder in due.runs
        ]
        found.sort(key=lambda each: each[0])
        return [(message, occurrence) for _, message, occurrence in found]

    def _occurrence(self, reminder: Reminder, now: Instant) -> Occurrence:
        return occurrence(reminder, now, trusted=trusted(self._clock))

    def _built_one(self, reminder: Reminder, now: Instant) -> Occurrence:
        act = partial(self._occurrence, reminder, now)
        return _built(record_of(reminder), act, of_batch=not isinstance(reminder.rule, OneShot))

    async def _mend(self, rows: Rows, now: Instant, aside: Container[MessageKey]) -> bool:
        """Whether the file had to be changed before anything can be planned."""
        if rows.bad:
            await self._store.set_aside(rows.bad)
            return True
        if any([await self._put_back(reminder, now) for reminder in rows.reminders]):
            return True
        if self.zone_mark is not None:
            mark = self.zone_mark
            if any([await self._recompute(reminder, mark) for reminder in rows.reminders]):
                return True
        return await self._settle(rows, now, aside)

    async def _settle(self, rows: Rows, now: Instant, aside: Container[MessageKey]) -> bool:
        """Whether records had to go on without a message: too old, or beyond their end."""
        beyond, old = [], []
        for reminder in rows.reminders:
            if record_of(reminder) in aside:
                continue
            if is_beyond(reminder, reminder.scheduled_at):
                beyond.append(self._built_one(reminder, now))
            elif (each := await self._expired(reminder, now)) is not None:
                old.append(_missed(each))
        if beyond:
            self._settled(beyond, await self._store.settle(beyond, now, None))
        if old:
            self._settled(old, await self._store.settle(old, now, "missed"))
        return bool(beyond or old)

    async def _expired(self, reminder: Reminder, now: Instant) -> Occurrence | None:
        """What is due of a record, if it is too old to be sent and was not sent before."""
        if reminder.expires_after_seconds is None or not trusted(self._clock):
            return None
        each = self._built_one(reminder, now)
        if not has_expired(reminder, each.occurrence_at, now):
            return None
        recurs = not isinstance(reminder.rule, OneShot)
        return None if recurs and await self._dispatched(each, now) else each

    async def _put_back(self, reminder: Reminder, now: Instant) -> bool:
        """Whether a record is due only because a clock was behind: it gets its target back."""
        if not was_corrected_by_mistake(reminder, now):
            return False
        await self._store.upkeep(put_one_back(reminder, now))
        return True

    async def _recompute(self, reminder: Reminder, mark: int) -> bool:
        """Whether a record has another target under the zone data of now, which it then gets."""
        if reminder.number <= mark or reminder.scheduled_at <= self.started_at:
            return False
        target = moved_target(reminder)
        if target is None:
            return False
        await self._store.retarget(reminder, target, reminder.after_at, reminder.computed_at)
        return True

    async def _plan_batch(
        self, state: SessionState, now: Instant, rows: Rows, aside: Container[MessageKey]
    ) -> FollowUp | Next | None:
        """The batch; None where all that is due stands aside."""
        packer = Packer(self._max_frame_bytes)
        passed: list[Occurrence] = []
        while (
            not await self._pack(packer, passed, rows, now, aside) and len(rows.reminders) == CHUNK
        ):
            after = place(rows.reminders[-1])
            rows = await self._store.reader.due_recurring(state.key, now, after, CHUNK)
            if await self._mend(rows, now, aside):
                return Then.LOOK
        if passed:
            self._settled(passed, await self._store.settle(passed, now, None))
        if packer.taken:
            return _followup(state, True, now, packer.taken)
        return Then.LOOK if passed else None

    async def _pack(
        self,
        packer: Packer,
        passed: list[Occurrence],
        rows: Rows,
        now: Instant,
        aside: Container[MessageKey],
    ) -> bool:
        """Whether the message is full; occurrences that were dispatched before only pass."""
        for reminder in rows.reminders:
            record = record_of(reminder)
            if record in aside:
                continue
            each = self._built_one(reminder, now)
            if await self._dispatched(each, now):
                passed.append(each)
            elif not _built(record, partial(packer.add, each), of_batch=True):
                return True
        return False

    async def _dispatched(self, each: Occurrence, now: Instant) -> bool:
        """Whether the occurrence lies behind what was dispatched under a clock like ours."""
        last = each.reminder.last_occurrence_at
        if last is None or each.occurrence_at > last:
            return False
        number = each.reminder.number
        decided_at = await self._store.reader.decided_at(number, last)
        if decided_at is None or decided_at <= now:
            return True
        # The newest was sent under a clock that ran ahead; an older one perhaps was not.
        return await self._store.reader.dispatched_by(number, each.occurrence_at, now)


def _missed(each: Occurrence) -> Occurrence:
    """The occurrence as one that is not sent; a one-shot ends with it."""
    one_shot = isinstance(each.reminder.rule, OneShot)
    return replace(each, end_reason="missed") if one_shot else each


def _built(message: MessageKey, build: Callable[[], T], *, of_batch: bool = False) -> T:
    """What `build` gives; whatever it raises is the message's fault, not the file's."""
    try:
        return build()
    except Exception as error:
        raise Unbuilt(message, of_batch=of_batch) from error


def _followup(
    state: SessionState, batch: bool, now: Instant, occurrences: list[Occurrence]
) -> FollowUp:
    return FollowUp(
        followup_id=f"f{secrets.token_hex(8)}",
        owner_uid=state.key[0],
        session_id=state.key[1],
        batch=batch,
        decided_at=now,
        occurrences=tuple(occurrences),
    )
