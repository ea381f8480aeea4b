"""One follow-up of one Session: push it, write its receipt, or pause; the loop decides when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import random
from typing import Literal

from scheduler_daemon.clock import Clock
from scheduler_daemon.delivery.backoff import pause
from scheduler_daemon.delivery.framing import followup_params
from scheduler_daemon.hosts.host import Host, Push, Slot
from scheduler_daemon.hosts.lines import Hosts
from scheduler_daemon.hosts.outcomes import Admitted, Busy, Closed, Gone, Outcome, Refused, Silent
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import FollowUp, Instant, Occurrence
from scheduler_daemon.planning import Next, Planner, Then, Unbuilt
from scheduler_daemon.sessions import (
    REFUSALS_BEFORE_ASIDE,
    SILENT,
    Aside,
    MessageKey,
    Pause,
    SessionState,
    Tried,
    message_in,
    record_of,
)
from scheduler_daemon.store.store import Left, Store
from scheduler_daemon.troubles import Troubles, Unfailing, asked_to_end
from scheduler_daemon.under_way import UnderWay, carries

UNBUILT = "the daemon could not put the message together; its log says why"
TROUBLE = "the daemon met an error of its own; its log says which, and it tries again"
CLOSED = "the host's connection closed before its answer"

log = get_logger(__name__)


class Sender:
    """Sends what is due in one Session at a time.

    `changed` is called with a Session's state when its pause or that of one of its messages
    ends, `dispatched`, which must not raise, when the receipts of a follow-up are on disk. Once
    `stopping` is set nothing more is pushed.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        hosts: Hosts,
        planner: Planner,
        under_way: UnderWay,
        troubles: Troubles,
        unfailing: Unfailing,
        changed: Callable[[SessionState], None],
        dispatched: Callable[[FollowUp, Left], None],
    ) -> None:
        self._clock = clock
        self._store = store
        self._hosts = hosts
        self._planner = planner
        self._under_way = under_way
        self._troubles = troubles
        self._unfailing = unfailing
        self._changed = changed
        self._dispatched = dispatched
        self.stopping = False

    async def send_next(self, state: SessionState, host: Host, slot: Slot) -> Next:
        """Send the Session's next follow-up to `host` and deal with what comes of it."""
        try:
            with self._under_way.ending() as ended:
                planned = await self._planner.plan(state)
            if not isinstance(planned, FollowUp):
                return planned
            if carries(planned, ended):
                return Then.LOOK
            if self.stopping or self._under_way.keeps(planned):
                return Then.WAIT
            if self._hosts.first(state.key) is not host:
                return Then.LOOK
            return await self._push(state, host, slot, planned)
        except Unbuilt as error:
            cause = error.__cause__ or error
            message = str(error.message)
            self._troubles.met("followup_not_built", cause, message=message, **_whose(state))
            tried = state.begin(error.message)
            if error.of_batch:
                return self._step_aside(state, tried, UNBUILT)
            return self._refused(state, error.message, tried, UNBUILT)
        except (Exception, asyncio.CancelledError) as error:
            if asked_to_end(error):
                raise
            self._troubles.met("sending_failed", error, **_whose(state))
            self._pause(state, "refused", None, 0, TROUBLE)
            return Then.WAIT

    async def _push(self, state: SessionState, host: Host, slot: Slot, followup: FollowUp) -> Next:
        message = message_in(followup)
        try:
            params = followup_params(followup, state.attempts(message) + 1)
        except Exception as error:  # noqa: BLE001  whatever it is, it speaks of the message
            self._troubles.met("followup_not_built", error, **_ids(followup))
            return self._unframed(state, message, followup)
        tried = state.begin(message)
        log.debug("followup_pushed", host=host.name, attempt=tried.attempts, **_ids(followup))
        state.pushed = followup
        self._under_way.begin(followup)
        try:
            push = await host.push(followup, params, slot)
            outcome = push.answer.result()
            if not isinstance(outcome, Admitted):
                return self._not_admitted(state, host, push, tried, outcome)
            state.read_admission(followup)
            # With the instant of the answer, however long writing it takes.
            receipt = (state, followup, self._clock.now(), host.name, outcome.message_id)
            await self._unfailing.run("receipt_not_written", partial(self.record, *receipt))
            return Then.LOOK
        finally:
            state.pushed = None
            self._unfailing.call("not_ended", partial(self._under_way.end, followup))
            self._unfailing.call("not_ended", partial(host.written, followup))

    def _unframed(self, state: SessionState, message: MessageKey, followup: FollowUp) -> Next:
        """Those of a batch that cannot be framed step aside, and the others go without them."""
        culprits = [each for each in followup.occurrences if not _can_be_framed(followup, each)]
        if not followup.batch or not culprits:
            return self._refused(state, message, state.begin(message), UNBUILT)
        for each in culprits:
            self._step_aside(state, state.begin(record_of(each.reminder)), UNBUILT)
        return Then.LOOK

    def _not_admitted(
        self, state: SessionState, host: Host, push: Push, tried: Tried, outcome: Outcome
    ) -> Next:
        log.info(
            "followup_not_admitted",
            outcome=type(outcome).__name__.lower(),
            host=host.name,
            **_ids(push.followup),
        )
        message = message_in(push.followup)
        state.silent = isinstance(outcome, Silent)
        if isinstance(outcome, Refused):
            return self._refused(state, message, tried, outcome.reason)
        tried.refusals = 0
        if push.ready and isinstance(outcome, Busy | Gone):
            return Then.LOOK  # the host's session.ready overtook this answer and counts for it
        if isinstance(outcome, Gone):
            host.gone.add(state.key[1])
            return Then.LOOK
        if isinstance(outcome, Closed) and self._hosts.first(state.key):
            return Then.LOOK  # the next in line; each that closes leaves the line
        if isinstance(outcome, Busy):
            seconds = outcome.retry_after_seconds
            self._pause(state, "busy", message, tried.attempts, None, seconds)
        else:
            error = SILENT if state.silent else CLOSED
            self._pause(state, "no_answer", message, tried.attempts, error)
        return Then.WAIT

    def _refused(self, state: SessionState, message: MessageKey, tried: Tried, reason: str) -> Next:
        """The message is to blame: after three in a row it lets the others of its Session pass."""
        tried.refusals += 1
        if tried.refusals < REFUSALS_BEFORE_ASIDE:
            self._pause(state, "refused", message, tried.attempts, reason)
            return Then.WAIT
        state.failures = 0
        return self._step_aside(state, tried, reason)

    def _step_aside(self, state: SessionState, tried: Tried, reason: str) -> Next:
        """It lets the others of its Session pass, for a pause of its own that grows."""
        seconds = pause(tried.attempts, random())  # noqa: S311  jitter, no secret
        tried.aside = Aside(
            last_error=reason,
            until=self._clock.monotonic() + seconds,
            timer=self._clock.call_later(seconds, lambda: self._changed(state)),
        )
        return Then.LOOK

    def _pause(
        self,
        state: SessionState,
        why: Literal["busy", "no_answer", "refused"],
        message: MessageKey,
        attempts: int,
        error: str | None,
        retry: int | None = None,
    ) -> None:
        state.failures += 1
        jittered = pause(state.failures, random())  # noqa: S311  jitter, no secret
        seconds = float(retry) if retry is not None else jittered
        state.pause = Pause(
            why=why,
            message=message,
            attempts=attempts,
            last_error=error,
            until=self._clock.monotonic() + seconds,
            timer=self._clock.call_later(seconds, lambda: self._end_pause(state)),
        )

    def _end_pause(self, state: SessionState) -> None:
        state.pause = None
        self._changed(state)

    async def record(
        self,
        state: SessionState,
        followup: FollowUp,
        admitted_at: Instant,
        host: str,
        message_id: str | None,
    ) -> None:
        """Write the receipt of an admission that `state` knows of; repeat it until it raises not.

        Nothing of it is pushed again while the process lives.
        """
        left = await self._store.record(followup, admitted_at, host, message_id)
        ids = _ids(followup)
        state.recorded(followup)
        # Nothing from here on raises: it would be done twice.
        self._dispatched(followup, left)
        log.info("followup_admitted", host=host, message_id=message_id, **ids)


def _whose(state: SessionState) -> dict[str, object]:
    return {"owner_uid": state.key[0], "session_id": state.key[1]}


def _can_be_framed(followup: FollowUp, each: Occurrence) -> bool:
    try:
        followup_params(replace(followup, occurrences=(each,)), 1)
    except Exception:  # noqa: BLE001  whatever it is, it was logged for the whole
        return False
    return True


def _ids(followup: FollowUp) -> dict[str, object]:
    return {
        "followup_id": followup.followup_id,
        "owner_uid": followup.owner_uid,
        "session_id": followup.session_id,
        "occurrences": [each.occurrence_id for each in followup.occurrences],
    }
