"""One follow-up of one Session: plan it, push it, write its receipt; the loop decides when."""

from __future__ import annotations

import asyncio
import enum
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from random import random
from typing import Literal, TypeAlias

from scheduler_daemon.clock import Clock
from scheduler_daemon.delivery.backoff import pause
from scheduler_daemon.delivery.framing import followup_params
from scheduler_daemon.delivery.plan import Packer, occurrence
from scheduler_daemon.errors import SchedulerError
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import FollowUp, Instant, Occurrence, Reminder
from scheduler_daemon.server.hosts import (
    Admitted,
    Busy,
    Closed,
    Gone,
    Host,
    Hosts,
    Outcome,
    Push,
    Refused,
    Silent,
    Slot,
)
from scheduler_daemon.sessions import (
    REFUSALS_BEFORE_ASIDE,
    Aside,
    MessageKey,
    Pause,
    SessionState,
    message_of,
)
from scheduler_daemon.store.reader import Place, Rows, place
from scheduler_daemon.store.store import Store
from scheduler_daemon.store.upkeep import moved_target

CHUNK = 100
"""Recurring records read at once while a batch is put together."""

UNPREPARED = "the daemon could not prepare the message; its log says why"
UNREAD = "the daemon could not read or write its file; it tries again"

log = get_logger(__name__)


class Then(enum.Enum):
    """What the loop does with the Session next."""

    LOOK = enum.auto()
    """Read its earliest target again."""
    WAIT = enum.auto()
    """Leave it until its pause ends or something changes."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing can be sent now; `again_at` is the Session's next target, None where it has none."""

    again_at: Instant | None


Next: TypeAlias = Then | Nothing


class Sender:
    """Sends what is due in one Session at a time.

    `changed` is called with a Session's state when its pause or that of one of its messages
    ends. `zone_mark` is the number above which targets may still rest on older zone data, None
    when all were computed again; only those that lay ahead at `started_at` are.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        hosts: Hosts,
        *,
        max_frame_bytes: int,
        changed: Callable[[SessionState], None],
    ) -> None:
        self._clock = clock
        self._store = store
        self._hosts = hosts
        self._max_frame_bytes = max_frame_bytes
        self._changed = changed
        self.started_at = clock.now()
        self.zone_mark: int | None = None

    async def send_next(self, state: SessionState, host: Host, slot: Slot) -> Next:
        """Send the Session's next follow-up to `host` and deal with what comes of it."""
        try:
            planned = await self._plan(state)
        except Exception:
            log.exception("followup_not_planned", owner_uid=state.key[0], session_id=state.key[1])
            self._pause(state, "refused", UNREAD)
            return Then.WAIT
        if not isinstance(planned, FollowUp):
            return planned
        if not host.takes(planned.session_id):
            return Then.LOOK
        return await self._push(state, host, slot, planned)

    async def _plan(self, state: SessionState) -> FollowUp | Next:
        """The follow-up to push at once, without waiting for anything in between."""
        while True:
            epoch = state.epoch
            planned = await self._plan_once(state)
            if state.epoch == epoch:
                return planned

    async def _plan_once(self, state: SessionState) -> FollowUp | Next:
        now = self._clock.now()
        aside = state.set_aside(self._clock.monotonic())
        rows = await self._store.reader.due(state.key, now, len(aside) + 1, CHUNK)
        for found in rows:
            if await self._mend(found):
                return Then.LOOK
        one_shots, recurring = rows
        for reminder in one_shots.reminders:
            if message_of(reminder) not in aside:
                return self._followup(state, False, now, [occurrence(reminder, now)])
        if recurring.reminders and None not in aside:
            return await self._plan_batch(state, now, recurring)
        state.forget_asides(self._clock.monotonic())
        return Nothing(await self._store.reader.next_target_of_session(state.key, now))

    async def _mend(self, rows: Rows) -> bool:
        """Whether the file had to be changed before anything can be planned."""
        if rows.bad:
            for bad in rows.bad:
                log.error("row_set_aside", reminder_id=f"r{bad.number}", reason=bad.reason)
            await self._store.set_aside(rows.bad)
            return True
        moved = False
        for reminder in rows.reminders if self.zone_mark is not None else ():
            moved |= await self._recompute(reminder)
        return moved

    async def _recompute(self, reminder: Reminder) -> bool:
        """Whether a record has another target under the zone data of now, which it then gets."""
        if self.zone_mark is None or reminder.number <= self.zone_mark:
            return False
        if reminder.scheduled_at <= self.started_at:
            return False
        target = moved_target(reminder)
        if target is None:
            return False
        await self._store.retarget(reminder, target, reminder.after_at, reminder.computed_at)
        return True

    async def _plan_batch(self, state: SessionState, now: Instant, rows: Rows) -> FollowUp | Next:
        packer = Packer(self._max_frame_bytes)
        passed: list[Occurrence] = []
        while rows.reminders:
            full = await self._pack(packer, passed, rows.reminders, now)
            if full or len(rows.reminders) < CHUNK:
                break
            rows = await self._more(state, now, place(rows.reminders[-1]))
        if passed:
            await self._store.advance(passed, now)
        if not packer.taken:
            return Then.LOOK
        return self._followup(state, True, now, packer.taken)

    async def _more(self, state: SessionState, now: Instant, after: Place) -> Rows:
        rows = await self._store.reader.due_recurring(state.key, now, after, CHUNK)
        # What has to be mended is left to the plan that begins with it.
        return Rows() if rows.bad else rows

    async def _pack(
        self, packer: Packer, passed: list[Occurrence], reminders: Iterable[Reminder], now: Instant
    ) -> bool:
        """Whether the message is full; occurrences that were dispatched before only pass."""
        for reminder in reminders:
            each = occurrence(reminder, now)
            if await self._dispatched(each, now):
                passed.append(each)
            elif not packer.add(each):
                return True
        return False

    async def _dispatched(self, each: Occurrence, now: Instant) -> bool:
        """Whether the occurrence lies behind what was dispatched under a clock like ours."""
        last = each.reminder.last_occurrence_at
        if last is None or each.occurrence_at > last:
            return False
        decided_at = await self._store.reader.decided_at(each.reminder.number, last)
        return decided_at is None or decided_at <= now

    def _followup(
        self, state: SessionState, batch: bool, now: Instant, occurrences: list[Occurrence]
    ) -> FollowUp:
        return FollowUp(
            followup_id=f"f{secrets.token_hex(8)}",
            owner_uid=state.key[0],
            session_id=state.key[1],
            batch=batch,
            decided_at=now,
            occurrences=tuple(occurrences),
        )

    async def _push(self, state: SessionState, host: Host, slot: Slot, followup: FollowUp) -> Next:
        message = None if followup.batch else message_of(followup.occurrences[0].reminder)
        attempt = state.begin(message)
        try:
            params = followup_params(followup, attempt)
        except Exception:
            log.exception("followup_not_built", **_ids(followup))
            return self._refused(state, message, UNPREPARED)
        log.debug("followup_pushed", host=host.name, attempt=attempt, **_ids(followup))
        state.pushed = followup
        try:
            push = await host.push(followup, params, slot)
            return await self._settle(state, host, message, push)
        finally:
            state.pushed = None

    async def _settle(
        self, state: SessionState, host: Host, message: MessageKey, push: Push
    ) -> Next:
        outcome = push.answer.result()
        if isinstance(outcome, Admitted):
            await self.record(state, push.followup, host.name, outcome.message_id)
            state.admitted(message)
            return Then.LOOK
        return self._not_admitted(state, host, message, push, outcome)

    def _not_admitted(
        self,
        state: SessionState,
        host: Host,
        message: MessageKey,
        push: Push,
        outcome: Outcome,
    ) -> Next:
        log.info(
            "followup_not_admitted",
            outcome=type(outcome).__name__.lower(),
            host=host.name,
            **_ids(push.followup),
        )
        match outcome:
            case Gone():
                host.gone.add(state.key[1])
                return Then.LOOK
            case Refused(reason):
                return self._refused(state, message, reason)
            case Busy(retry):
                state.refusals = 0
                if push.ready:  # it overtook this answer and counts for it
                    return Then.LOOK
                self._pause(state, "busy", None, retry)
            case Silent():
                state.refusals, state.silent = 0, True
                self._pause(state, "no_answer", "the host did not answer in time")
            case Closed():
                state.refusals = 0
                if self._hosts.first(state.key):
                    return Then.LOOK  # the next in line; each that closes leaves the line
                self._pause(state, "no_answer", "the host's connection closed before its answer")
            case Admitted():  # pragma: no cover  # _settle takes it; here for the type checker
                raise AssertionError
        return Then.WAIT

    def _refused(self, state: SessionState, message: MessageKey, reason: str) -> Next:
        """The message is to blame: after three in a row it lets the others of its Session pass."""
        state.refusals += 1
        if state.refusals < REFUSALS_BEFORE_ASIDE:
            self._pause(state, "refused", reason)
            return Then.WAIT
        seconds = pause(state.attempts, random())  # noqa: S311  jitter, no secret
        former = state.asides.get(message)
        if former:
            former.timer.cancel()
        state.asides[message] = Aside(
            attempts=state.attempts,
            last_error=reason,
            until=self._clock.monotonic() + seconds,
            timer=self._clock.call_later(seconds, lambda: self._changed(state)),
        )
        state.failures = state.attempts = state.refusals = 0
        return Then.LOOK

    def _pause(
        self,
        state: SessionState,
        why: Literal["busy", "no_answer", "refused"],
        error: str | None,
        retry: int | None = None,
    ) -> None:
        state.failures += 1
        state.last_error = error
        jittered = pause(state.failures, random())  # noqa: S311  jitter, no secret
        seconds = float(retry) if retry is not None else jittered
        state.pause = Pause(
            why=why,
            until=self._clock.monotonic() + seconds,
            timer=self._clock.call_later(seconds, lambda: self._end_pause(state)),
        )

    def _end_pause(self, state: SessionState) -> None:
        state.pause = None
        self._changed(state)

    async def record(
        self, state: SessionState, followup: FollowUp, host: str, message_id: str | None
    ) -> None:
        """Write the receipt of an admission that was read, however often it takes.

        From here on nothing of it is pushed again while the process lives.
        """
        admitted_at = self._clock.now()
        state.recording += 1
        state.epoch += 1
        try:
            await self._without_end(
                lambda: self._store.record(followup, admitted_at, host, message_id), followup
            )
        finally:
            state.recording -= 1
            state.epoch += 1
        log.info("followup_admitted", host=host, message_id=message_id, **_ids(followup))

    async def _without_end(self, write: Callable[[], Awaitable[None]], followup: FollowUp) -> None:
        attempts = 0
        while True:
            try:
                return await write()
            except SchedulerError as error:
                log.warning("receipt_not_written", code=error.code, **_ids(followup))
            except Exception:
                log.exception("receipt_not_written", **_ids(followup))
            attempts += 1
            over = asyncio.get_running_loop().create_future()
            self._clock.call_later(
                pause(attempts, random()),  # noqa: S311  jitter, no secret
                lambda over=over: over.done() or over.set_result(None),  # type: ignore[misc]
            )
            await over


def _ids(followup: FollowUp) -> dict[str, object]:
    return {
        "followup_id": followup.followup_id,
        "owner_uid": followup.owner_uid,
        "session_id": followup.session_id,
        "occurrences": [each.occurrence_id for each in followup.occurrences],
    }
