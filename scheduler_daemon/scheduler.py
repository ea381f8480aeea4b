"""The one loop: wait, find the Sessions with something due and a host, start their next message.

It awaits the file and the clock, never a host: each message is a task of its own (sending.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Literal

from scheduler_daemon.clock import Clock, Handle
from scheduler_daemon.hosts.host import Host, Peer, Slot
from scheduler_daemon.hosts.lines import Hosts
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import FollowUp, Instant, Key, Reminder
from scheduler_daemon.planning import Next, Nothing, Planner, Then
from scheduler_daemon.retention import Retention
from scheduler_daemon.sending import Sender
from scheduler_daemon.sessions import SessionState
from scheduler_daemon.star_scans import StarScans
from scheduler_daemon.store.retention import Keep
from scheduler_daemon.store.store import Store
from scheduler_daemon.targets import Targets
from scheduler_daemon.telling import Teller
from scheduler_daemon.troubles import RETRY_SECONDS, Confined, Troubles, Unfailing, asked_to_end
from scheduler_daemon.unclaimed import Unclaimed
from scheduler_daemon.under_way import UnderWay
from scheduler_daemon.upkeep import Upkeep
from scheduler_daemon.watching import Watchers

LOOKS = 500
"""Sessions whose target is read in one go."""

log = get_logger(__name__)


class Scheduler:
    """Decides what goes to whom, and when to look again.

    `came_round` is called whenever the loop has come round, also when that round failed and is
    tried again; `go_round` makes it. `last_scan_at` is of the last round that did not fail.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        hosts: Hosts,
        watchers: Watchers,
        troubles: Troubles,
        *,
        followup_timeout_seconds: float,
        max_frame_bytes: int,
        unclaimed_warn_seconds: float,
        keep: Keep,
    ) -> None:
        self._clock = clock
        self._store = store
        self.hosts = hosts
        self._timeout = followup_timeout_seconds
        self.troubles = troubles
        teller = Teller(watchers, troubles, self.left_beyond_end)
        settled = troubles.kept_from("telling_failed", teller.settled)
        dispatched = troubles.kept_from("telling_failed", teller.dispatched)
        ended = troubles.kept_from("telling_failed", teller.ended)
        planner = Planner(clock, store, settled, max_frame_bytes=max_frame_bytes)
        self._planner = planner
        self._unfailing = unfailing = Unfailing(clock, troubles)
        self.under_way = UnderWay(self._look_at, unfailing)
        self._sender = Sender(
            clock,
            store,
            hosts,
            planner,
            self.under_way,
            troubles,
            unfailing,
            self._state_changed,
            dispatched,
        )
        self._unclaimed = Unclaimed(clock, store.reader, hosts, unclaimed_warn_seconds)
        self._upkeep = Upkeep(clock, store, planner, unfailing, self.changed, self.rescan, ended)
        removed = troubles.kept_from("telling_failed", teller.removed)
        self._retention = Retention(clock, store, keep, removed)
        self._states: dict[Key, SessionState] = {}
        self._dirty: dict[Key, None] = {}
        self._targets = Targets()
        self._lost = False
        self._retry: Handle | None = None
        self._confined = Confined(clock, troubles, self._look_at)
        self._scans = StarScans(clock, store.reader, hosts, self._offer_found)
        self._woken = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.came_round: Callable[[], None] = lambda: None
        self.scanned = asyncio.Event()
        self.last_scan_at: Instant | None = None
        self.next_wake_at: Instant | None = None

    def change(
        self, *, followup_timeout_seconds: float, unclaimed_warn_seconds: float, keep: Keep
    ) -> None:
        """Other settings from now on; hosts that are there keep their time-out."""
        self._timeout = followup_timeout_seconds
        self._unclaimed.warn_after(unclaimed_warn_seconds)
        self._retention.keep = keep

    # --- what others tell the loop

    def changed(self, key: Key, *, revives: bool = False) -> None:
        """A reminder of the Session was made, changed or deleted, and is committed.

        `revives`: it was made, resumed or re-timed, so hosts that called it gone are asked again.
        """
        # Whoever changed it is answered, whatever happens here: it is on disk.
        with self._confined.to(key):
            state = self._states.get(key)
            if state is not None:
                state.epoch += 1
            if revives:
                self.hosts.forget_gone(key)
            if state is not None or self.hosts.first(key) is not None:
                self._look_at(key)
            elif self._unclaimed.due:
                self._woken.set()

    def left_beyond_end(self) -> None:
        """A record lies beyond its end and is active: it ends once the clock can be trusted."""
        self._begin_upkeep()

    def _begin_upkeep(self) -> None:
        self._unfailing.call("upkeep_failed", self._upkeep.start)

    def rescan(self) -> None:
        """Read everything again: the clock was set, or the file changed in a way not known."""
        self._forget_targets()
        self._woken.set()

    def reread(self) -> None:
        """The file may have been edited by hand: put right what is wrong, and read it again."""
        self._upkeep.check()
        self.rescan()

    def _forget_targets(self) -> None:
        self._scans.begin_again()
        for state in self._states.values():
            state.epoch += 1
            self._dirty[state.key] = None

    def new_host(self, peer: Peer) -> Host:
        """A host that is attached to nothing yet."""
        return Host(
            peer,
            self._clock,
            timeout=self._timeout,
            freed=self._slot_freed,
            admitted_late=self._admitted_late,
        )

    def attach(self, host: Host, sessions: list[str] | Literal["*"]) -> None:
        """The host takes these Sessions from now on; what is overdue goes at once."""
        before = host.star, len(host.sessions)
        self.hosts.attach(host, sessions)
        if (host.star, len(host.sessions)) != before:  # else a host could fill the log
            count = sessions if sessions == "*" else len(sessions)
            log.info("host_attached", host=host.name, owner_uid=host.uid, sessions=count)
        if sessions == "*":
            self._scans.begin(host.uid)
            keys = [key for key in self._states if key[0] == host.uid]
        else:
            keys = [(host.uid, session) for session in sessions]
        for key in keys:
            with self._confined.to(key):
                self._state(key).resume()
                self._look_at(key)
        self._woken.set()

    def detach(self, host: Host, sessions: Iterable[str] | Literal["*"]) -> None:
        """The host no longer takes these Sessions; a message in flight stays where it is."""
        keys = self.hosts.detach(host, sessions)
        if host.uid not in self.hosts.star_owners():
            self._scans.end(host.uid)
        for key in (*keys, *host.waiting, *host.waiting_silent):
            self._look_at(key)
        self._woken.set()

    def close(self, host: Host) -> None:
        """The host's connection ended."""
        log.info("host_left", host=host.name, owner_uid=host.uid)
        host.close()
        self.detach(host, "*")

    def ready(self, host: Host, session: str) -> None:
        """A host says that a Session is free again: it is tried at once."""
        key = (host.uid, session)
        if host not in self.hosts.line(key):
            return
        host.gone.discard(session)
        for push in host.pushed_to(session):
            push.ready = True
        if key in self._states:
            self._states[key].resume()
        self._look_at(key)

    # --- what others ask of it

    def state(self, key: Key) -> SessionState | None:
        """What is remembered of a Session."""
        return self._states.get(key)

    def state_of(self, reminder: Reminder) -> SessionState | None:
        """What is remembered of the Session in which a reminder is under way, else of its own."""
        carried = self.under_way.of(reminder.number)
        return self._states.get(
            carried[0] if carried else (reminder.owner_uid, reminder.session_id)
        )

    def states(self) -> Iterable[SessionState]:
        """Everything that is remembered."""
        return self._states.values()

    def next_wake_of(self, owner: int) -> Instant | None:
        """When the loop looks next for this owner's sake, None when nothing is to come."""
        wakes = [self._targets.first_of(owner), self._scans.next_of(owner)]
        return min((at for at in wakes if at is not None), default=None)

    @property
    def failures(self) -> int:
        """How many defects of ours were met; what they kept from being done is tried again."""
        return self.troubles.count

    # --- the loop

    async def run(self, zone_mark: int | None) -> None:
        """Run until cancelled. `zone_mark` is where computing targets again goes on, if it does."""
        self._planner.zone_mark = zone_mark
        self._begin_upkeep()
        while True:
            self._woken.clear()
            until = None
            try:
                await self._round()
                until = self.next_wake_at
            except (Exception, asyncio.CancelledError) as error:
                if asked_to_end(error):
                    raise
                self._try_again(error)
            self.came_round()
            await self._clock.wait(until, self._woken)

    def _try_again(self, error: BaseException) -> None:
        """A failed read is never taken for an empty store: look again, soon."""
        self.troubles.met("round_failed", error)
        self._lost = True
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._clock.call_later(RETRY_SECONDS, self._woken.set)

    def go_round(self) -> None:
        """Let the loop come round, though nothing calls for it."""
        self._woken.set()

    async def stop(self, seconds: float) -> None:
        """Start nothing more; wait for what is in flight, at most so long, and its receipts."""
        self._sender.stopping = True
        await self._upkeep.stop()
        await self._retention.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for state in self._states.values():
            state.drop()

    async def _round(self) -> None:
        if self._lost:
            self._forget_targets()
            self._lost = False
        self._notice_step()
        await self._look()
        now = self._clock.now()
        for key in self._targets.take_due(now):
            self._offer_it(key)
        await self._scans.go_on()
        with self.troubles.caught("unclaimed_not_seen"):
            await self._unclaimed.look(now)
        with self.troubles.caught("retention_failed"):
            self._retention.look()
        self.last_scan_at = now
        wakes = [self._targets.first(), self._scans.next()]
        self.next_wake_at = min((at for at in wakes if at is not None), default=None)
        self.scanned.set()

    def _notice_step(self) -> None:
        self._clock.steady()  # so that a setting counts from now
        step = self._clock.stepped()
        if step:
            log.warning("clock_was_set", seconds=round(step, 3))
            # Targets that were due may lie ahead again.
            self.rescan()
            self._retention.look_again()
            self._begin_upkeep()
        if step < 0:
            self._unclaimed.forget()

    async def _look(self) -> None:
        """Read the earliest target of every Session of which something changed."""
        changed = list(self._dirty)
        for first in range(0, len(changed), LOOKS):
            keys = changed[first : first + LOOKS]
            for key in keys:
                del self._dirty[key]  # before it is read: what changes meanwhile is read again
            targets = await self._store.reader.targets(keys)
            for key in keys:
                with self._confined.to(key):
                    self._learn(key, targets[key])

    def _learn(self, key: Key, target: Instant | None) -> None:
        state = self._states.get(key)
        due = target is not None and target <= self._clock.now()
        if state is not None or due or self.hosts.named(key):
            self._know(state or self._state(key), target)
        else:
            self._scans.learn(key, target)

    def _know(self, state: SessionState, target: Instant | None) -> None:
        """Offer what is due, wait for what is not, forget a Session without anything."""
        due = target is not None and target <= self._clock.now()
        if not due and not state.busy:
            state.forget_tried(self._clock.monotonic())
        waited_for = not due and (self.hosts.named(state.key) or bool(state.tried))
        self._targets.note(state.key, target if waited_for else None)
        if due:
            self._offer(state)
        else:
            self._scans.learn(state.key, target)
        self._forget_if_idle(state)

    # --- from due to a task

    def _offer_it(self, key: Key) -> None:
        with self._confined.to(key):
            self._offer(self._state(key))

    def _offer_found(self, key: Key) -> None:
        """Offer what was found for the hosts that take all of an owner, unless one has it by name.

        The latter is looked at of its own.
        """
        with self._confined.to(key):
            if not self.hosts.named(key) and self.hosts.first(key) is not None:
                self._offer(self._state(key))

    def _offer(self, state: SessionState) -> None:
        """Start the Session's next message if a host with a free slot takes it."""
        if state.busy or state.pause or self._sender.stopping:
            return
        host = self.hosts.first(state.key)
        if host is None:
            return
        host.waiting.pop(state.key, None)
        host.waiting_silent.pop(state.key, None)
        if not host.has_slot(state.silent):
            (host.waiting_silent if state.silent else host.waiting)[state.key] = None
            return
        slot = host.take_slot(state.silent)
        state.task = asyncio.create_task(self._send(state, host, slot))
        self._tasks.add(state.task)
        state.task.add_done_callback(self._tasks.discard)

    async def _send(self, state: SessionState, host: Host, slot: Slot) -> None:
        with self._confined.to(state.key):
            try:
                following = await self._sender.send_next(state, host, slot)
            finally:
                state.task = None
                host.free_slot(slot)
            self._follow(state, following)

    def _follow(self, state: SessionState, following: Next) -> None:
        if isinstance(following, Nothing):
            self._know(state, following.again_at)
            self._woken.set()
        elif following is Then.LOOK:
            self._look_at(state.key)
        else:
            self._forget_if_idle(state)

    def _slot_freed(self, host: Host) -> None:
        # Whose slot it was has nothing to do with what goes wrong for those that wait for it.
        with self.troubles.caught("slot_not_given"):
            for waiting, silent in ((host.waiting, False), (host.waiting_silent, True)):
                while waiting and host.has_slot(silent):
                    key = next(iter(waiting))
                    del waiting[key]
                    self._offer_it(key)
            if host.uid in self._scans:
                self._woken.set()

    def _admitted_late(self, host: Host, followup: FollowUp, message_id: str | None) -> None:
        """An admission after its time-out counts: its receipt is written before anything else."""
        state = self._state((followup.owner_uid, followup.session_id))
        self.under_way.begin(followup)
        state.read_admission(followup)
        receipt = (state, followup, self._clock.now(), host.name, message_id)
        record = partial(self._sender.record, *receipt)
        task = asyncio.create_task(self._record_late(state, followup, record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _record_late(
        self, state: SessionState, followup: FollowUp, record: Callable[[], Awaitable[None]]
    ) -> None:
        with self._confined.to(state.key):
            try:
                await self._unfailing.run("receipt_not_written", record)
            finally:
                self._unfailing.call("not_ended", partial(self.under_way.end, followup))
            state.resume()
            self._look_at(state.key)

    # --- small things

    def _state(self, key: Key) -> SessionState:
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = SessionState(key)
        return state

    def _state_changed(self, state: SessionState) -> None:
        self._look_at(state.key)

    def _look_at(self, key: Key) -> None:
        self._dirty[key] = None
        self._woken.set()

    def _forget_if_idle(self, state: SessionState) -> None:
        if state.busy:
            return
        if self.hosts.first(state.key) is None:
            state.forget_tried(self._clock.monotonic())
        if not state.idle or self.hosts.named(state.key):
            return
        if any(host.awaits(state.key) for host in self.hosts.line(state.key)):
            return
        state.drop()
        self._targets.note(state.key, None)
        self._states.pop(state.key, None)
