"""One host: its slots, what is on its way to it, and its answers; when to push is not here."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from scheduler_daemon.clock import Clock, Handle
from scheduler_daemon.hosts.outcomes import Admitted, Closed, Outcome, Silent
from scheduler_daemon.model import FollowUp, Instant, Key
from scheduler_daemon.wire import messages

STALL_SECONDS = 0.25
"""A message unanswered for so long counts as silent while it takes a slot."""

UNWRITTEN = 64
"""Receipts of a host's messages that may wait for the disk before it is given another message.

More would not share a commit (store/writer.py), would be memory, and callers would wait behind.
"""

LATE_KEPT = 1000
"""Timed-out pushes remembered per connection, and the most messages it is ever left to answer."""


class Peer(Protocol):
    """The connection of a host."""

    @property
    def uid(self) -> int: ...

    def send(self, message: Mapping[str, object]) -> None: ...


class Slot:
    """One place among the messages that a host is given at once."""

    __slots__ = ("sent", "silent")

    def __init__(self, silent: bool) -> None:
        self.silent = silent
        self.sent = False


class Push:
    """One follow-up on its way; `ready` notes a session.ready that overtook the answer."""

    __slots__ = ("answer", "followup", "ready", "timers")

    def __init__(self, followup: FollowUp) -> None:
        self.followup = followup
        self.answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.ready = False
        self.timers: list[Handle] = []

    def settle(self, outcome: Outcome) -> None:
        for timer in self.timers:
            timer.cancel()
        if not self.answer.done():
            self.answer.set_result(outcome)


class Host:
    """A connection that takes follow-ups.

    `max_in_flight` None: the daemon starts with 16 slots and lends those of silent messages to
    others. A number that the host named is never exceeded. `freed` is called when a slot may
    have become free, `admitted_late` when an admission comes after its time-out.
    """

    DEFAULT_SLOTS = 16

    def __init__(
        self,
        peer: Peer,
        clock: Clock,
        *,
        timeout: float,
        freed: Callable[[Host], None],
        admitted_late: Callable[[Host, FollowUp, str | None], None],
    ) -> None:
        self.peer = peer
        self.name = ""
        self.max_in_flight: int | None = None
        self.attached_at: Instant = clock.now()
        self.star = False
        self.sessions: dict[str, None] = {}
        self.gone: set[str] = set()
        self.waiting: dict[Key, None] = {}
        self.waiting_silent: dict[Key, None] = {}
        self.closed = False
        self._clock = clock
        self._timeout = timeout
        self._freed = freed
        self._admitted_late = admitted_late
        self._slots: set[Slot] = set()
        self._unwritten: set[str] = set()
        self._room, self._held_back = LATE_KEPT, False
        self._pushes: dict[str, Push] = {}
        self._late: OrderedDict[str, FollowUp] = OrderedDict()

    @property
    def uid(self) -> int:
        return self.peer.uid

    @property
    def slots(self) -> int:
        """How many messages it is given at once."""
        return self.max_in_flight or self.DEFAULT_SLOTS

    @property
    def in_flight(self) -> int:
        """How many messages wait for its answer."""
        return len(self._pushes)

    def takes(self, session: str) -> bool:
        """Whether it is attached to the Session and has not answered `gone` for it."""
        attached = self.star or session in self.sessions
        return attached and session not in self.gone and not self.closed

    @property
    def preparing(self) -> int:
        """How many messages have a slot and are not sent yet."""
        return sum(not slot.sent for slot in self._slots)

    def set_room(self, frames: int) -> None:
        """So many more frames of any length may be made for it; 0 while it lags with reading."""
        self._room = frames
        self._go_on()

    def _go_on(self) -> None:
        if self._held_back and self.preparing < self._room:
            self._held_back = False
            self._freed(self)

    def has_slot(self, silent: bool) -> bool:
        """Whether a message may go; `silent` where the Session's last attempt met silence.

        Silent ones take at most a quarter of the slots, and where the host named no number, a
        message that it leaves unanswered counts as silent after a moment.
        """
        if len(self._unwritten) >= UNWRITTEN:
            return False
        if self.preparing >= self._room:  # its connection would be dropped for not reading
            self._held_back = True
            return False
        held = sum(slot.silent for slot in self._slots)
        quarter = max(1, self.slots // 4)
        if silent and held >= quarter:
            return False
        if self.max_in_flight is None:
            counted = len(self._slots) - held + min(held, quarter)
            return counted < self.slots and len(self._slots) < LATE_KEPT
        return len(self._slots) < self.slots

    def awaits(self, key: Key) -> bool:
        """Whether a Session waits for a slot here."""
        return key in self.waiting or key in self.waiting_silent

    def take_slot(self, silent: bool) -> Slot:
        slot = Slot(silent)
        self._slots.add(slot)
        return slot

    def free_slot(self, slot: Slot) -> None:
        """Give a slot back; nothing when it was."""
        if slot in self._slots:
            self._slots.discard(slot)
            self._freed(self)

    def written(self, followup: FollowUp) -> None:
        """What became of a push is on disk, or nothing of it will be."""
        if followup.followup_id in self._unwritten:
            self._unwritten.discard(followup.followup_id)
            if len(self._unwritten) == UNWRITTEN - 1:
                self._freed(self)

    async def push(self, followup: FollowUp, params: Mapping[str, object], slot: Slot) -> Push:
        """Send a follow-up and return when it was answered, timed out or lost its connection.

        The slot is free from then on. An admission counts as unwritten until `written` is called.
        """
        push = Push(followup)
        self._pushes[followup.followup_id] = push
        push.timers = [
            self._clock.call_later(self._timeout, lambda: self._time_out(push)),
            self._clock.call_later(STALL_SECONDS, lambda: self._stall(slot)),
        ]
        slot.sent = True
        try:
            self.peer.send(messages.request(followup.followup_id, "session.followup", params))
            self._go_on()
            if isinstance(await push.answer, Admitted):
                self._unwritten.add(followup.followup_id)
        finally:
            push.settle(Closed())
            self._pushes.pop(followup.followup_id, None)
            self.free_slot(slot)
        return push

    def pushed_to(self, session: str) -> Iterable[Push]:
        """The pushes in flight for a Session of this host."""
        return [p for p in self._pushes.values() if p.followup.session_id == session]

    def answered(self, request_id: messages.RequestId | None, outcome: Outcome) -> None:
        """Take an answer; one to no push that is known is ignored."""
        push = self._pushes.get(str(request_id))
        if push is not None:
            push.settle(outcome)
        elif isinstance(outcome, Admitted):
            self._take_late(str(request_id), outcome)

    def close(self) -> None:
        """The connection ended: nothing of it will be answered any more."""
        self.closed = True
        self._late.clear()
        for push in list(self._pushes.values()):
            push.settle(Closed())

    def _take_late(self, followup_id: str, outcome: Admitted) -> None:
        for session, followup in self._late.items():
            if followup.followup_id == followup_id:
                del self._late[session]
                self._admitted_late(self, followup, outcome.message_id)
                return

    def _time_out(self, push: Push) -> None:
        session = push.followup.session_id
        # From here on an admission is a late one, even in the same moment.
        self._pushes.pop(push.followup.followup_id, None)
        self._late.pop(session, None)
        self._late[session] = push.followup
        if len(self._late) > LATE_KEPT:
            self._late.popitem(last=False)
        push.settle(Silent())

    def _stall(self, slot: Slot) -> None:
        if self.max_in_flight is None and slot in self._slots:
            slot.silent = True
            self._freed(self)
