"""Which host takes which Session, and one push to it with its answer; when to push is not here."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

from scheduler_daemon.clock import Clock, Handle
from scheduler_daemon.errors import LimitReached
from scheduler_daemon.model import FollowUp, Instant
from scheduler_daemon.wire import messages
from scheduler_daemon.words import name as checked_name

Key: TypeAlias = tuple[int, str]
"""A Session: its owner's uid and its name."""

STALL_SECONDS = 0.25
"""A message unanswered for so long counts as silent while it takes a slot."""

LATE_KEPT = 1000
"""Timed-out pushes remembered per connection, and the most messages it is ever left to answer."""

LAST_SEEN_KEPT = 1000
"""Sessions without a host of which it is remembered when they last had one."""

MOST_NAMES_OF_OWNER = 50_000
"""Sessions that all hosts of one owner may name; more would be memory that it takes at will."""

_ALL = "*"
"""Stands for every Session of an owner; no Session is named so."""


class Admitted(NamedTuple):
    """The host has the message durably; `message_id` is its own name for it."""

    message_id: str | None


class Busy(NamedTuple):
    """Not now; `retry_after_seconds` is None where the host did not say when."""

    retry_after_seconds: int | None


class Gone(NamedTuple):
    """The host does not know the Session."""


class Refused(NamedTuple):
    """An error answer, or one that is not of the protocol; `reason` is for people."""

    reason: str


class Silent(NamedTuple):
    """No answer within the time-out."""


class Closed(NamedTuple):
    """The connection ended before the answer."""


Outcome: TypeAlias = Admitted | Busy | Gone | Refused | Silent | Closed


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

    async def push(self, followup: FollowUp, params: Mapping[str, object], slot: Slot) -> Push:
        """Send a follow-up and return when it was answered, timed out or lost its connection.

        The slot is free from then on.
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
            await push.answer
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


class Hosts:
    """Every host, in line per Session: exact names before `*`, then the latest first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_name: dict[Key, list[Host]] = {}
        self._stars: dict[int, list[Host]] = {}
        self._last_seen: OrderedDict[Key, Instant] = OrderedDict()
        self._names: Counter[int] = Counter()

    def check_names(self, owner: int, more: int) -> None:
        """Refuse that an owner's hosts name so many Sessions more. Raises limit_reached."""
        if self._names[owner] + more > MOST_NAMES_OF_OWNER:
            raise LimitReached(
                f"all connections of a user may name {MOST_NAMES_OF_OWNER} Sessions together; "
                'take "*"',
                field="sessions",
            )

    def attach(self, host: Host, sessions: list[str] | Literal["*"]) -> None:
        """Put the host first in the line of each Session; what it called gone is forgotten."""
        if sessions == "*":
            host.star = True
            host.gone.clear()
            _put_first(self._stars.setdefault(host.uid, []), host)
            return
        for session in sessions:
            self._names[host.uid] += session not in host.sessions
            host.sessions[session] = None
            host.gone.discard(session)
            _put_first(self._by_name.setdefault((host.uid, session), []), host)

    def detach(self, host: Host, sessions: Iterable[str] | Literal["*"]) -> list[Key]:
        """Take the host out of lines; `*` takes back everything. Gives the names taken back."""
        if sessions == "*":
            if host.star:
                host.star = False
                _drop(self._stars, host.uid, host)
                if host.uid not in self._stars:
                    self._saw((host.uid, _ALL))
            sessions = list(host.sessions)
        keys = [(host.uid, s) for s in dict.fromkeys(sessions) if s in host.sessions]
        self._names[host.uid] -= len(keys)
        for key in keys:
            del host.sessions[key[1]]
            _drop(self._by_name, key, host)
            if key not in self._by_name:
                self._saw(key)
        return keys

    def line(self, key: Key) -> list[Host]:
        """The hosts attached to a Session, first in line first."""
        return [*self._by_name.get(key, ()), *self._stars.get(key[0], ())]

    def first(self, key: Key) -> Host | None:
        """The host that gets the Session's next follow-up."""
        return next((host for host in self.line(key) if host.takes(key[1])), None)

    def named(self, key: Key) -> bool:
        """Whether some host is attached to the Session by its name."""
        return key in self._by_name

    def names(self, owner: int) -> list[Key]:
        """The Sessions of an owner that are live by name."""
        return [key for key in self._by_name if key[0] == owner]

    def told_apart(self, owner: int) -> set[Key]:
        """Sessions of an owner that are live by name, or that one of its `*` hosts called gone."""
        gone = {(owner, session) for host in self.stars(owner) for session in host.gone}
        return gone.union(self.names(owner))

    @property
    def count(self) -> int:
        """How many hosts are attached to anything, of all owners."""
        lines = [*self._by_name.values(), *self._stars.values()]
        return len({host for line in lines for host in line})

    def star_owners(self) -> list[int]:
        """Owners with a host for all their Sessions."""
        return list(self._stars)

    def stars(self, owner: int) -> list[Host]:
        """The hosts for all Sessions of an owner, first in line first."""
        return self._stars.get(owner, [])

    def forget_gone(self, key: Key) -> None:
        """The Session has something new: whoever called it gone is asked again."""
        for host in self.line(key):
            host.gone.discard(key[1])

    def last_seen(self, key: Key) -> Instant | None:
        """When a Session that has no host lost its last one; None when that is not known."""
        seen = [self._last_seen.get(key), self._last_seen.get((key[0], _ALL))]
        return max((at for at in seen if at is not None), default=None)

    def of_owner(self, owner: int) -> list[Host]:
        """Every attached host of an owner, by the time it attached."""
        hosts = {host for key in self.names(owner) for host in self._by_name[key]}
        return sorted(hosts | set(self.stars(owner)), key=lambda host: host.attached_at)

    def _saw(self, key: Key) -> None:
        self._last_seen.pop(key, None)
        self._last_seen[key] = self._clock.now()
        if len(self._last_seen) > LAST_SEEN_KEPT:
            self._last_seen.popitem(last=False)


def _put_first(line: list[Host], host: Host) -> None:
    if host in line:
        line.remove(host)
    line.insert(0, host)


def _drop(lines: dict[Key, list[Host]] | dict[int, list[Host]], key: object, host: Host) -> None:
    line = lines[key]  # type: ignore[index]  # both kinds of key, one act
    line.remove(host)
    if not line:
        del lines[key]  # type: ignore[arg-type]


def outcome_of(value: object) -> Outcome:
    """What a host's result means. Unknown members are ignored, a strange one is a refusal."""
    answer = value if isinstance(value, dict) else {}
    match answer.get("status"):
        case "admitted":
            # The message is in its queue, whatever it is called there: a name that cannot be
            # kept must not undo the admission.
            return Admitted(_kept_name(answer.get("message_id")))
        case "busy":
            retry = answer.get("retry_after_seconds")
            if isinstance(retry, bool) or not isinstance(retry, int):
                return Busy(None)
            return Busy(min(max(retry, 1), 300))
        case "gone":
            return Gone()
    return Refused('the host must answer {"status": "admitted"}, "busy" or "gone"')


def refusal_of(error: object) -> Refused:
    """What a host's error answer means."""
    text = messages.error_from(error).message
    return Refused("the host answered with an error: " + text[:200])


def _kept_name(message_id: object) -> str | None:
    try:
        return checked_name(message_id) if isinstance(message_id, str) else None
    except ValueError:
        return None
