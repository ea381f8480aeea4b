"""Which host takes which Session: for each a line of hosts. When to push is not here."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Literal

from scheduler_daemon.clock import Clock
from scheduler_daemon.errors import LimitReached
from scheduler_daemon.hosts.host import Host
from scheduler_daemon.model import Instant, Key

LAST_SEEN_KEPT = 1000
"""Sessions without a host of which it is remembered when they last had one."""

MOST_NAMES_OF_OWNER = 50_000
"""Sessions that all hosts of one owner may name; more would be memory that it takes at will."""

_ALL = "*"
"""Stands for every Session of an owner; no Session is named so."""


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
