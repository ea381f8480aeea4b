"""Which due Sessions the hosts for all Sessions of an owner get, some at a time, read from disk."""

from __future__ import annotations

from collections.abc import Callable

from scheduler_daemon.clock import Clock
from scheduler_daemon.hosts.lines import Hosts
from scheduler_daemon.model import Instant, Key
from scheduler_daemon.store.reader import Reader
from scheduler_daemon.targets import Scan

SCAN = 64
"""Sessions with something due that are read in one round for the `*` hosts of an owner."""


class StarScans:
    """One scan for each owner with a host for all its Sessions.

    `offer` is called with each Session that is due, and must not raise.
    """

    def __init__(
        self, clock: Clock, reader: Reader, hosts: Hosts, offer: Callable[[Key], None]
    ) -> None:
        self._clock = clock
        self._reader = reader
        self._hosts = hosts
        self._offer = offer
        self._scans: dict[int, Scan] = {}

    def __contains__(self, owner: int) -> bool:
        return owner in self._scans

    def begin(self, owner: int) -> None:
        """Read everything of an owner that is due, from the start."""
        self._scans[owner] = Scan(self._clock.now())

    def begin_again(self) -> None:
        """Read everything of every owner again: what was known may be wrong."""
        for owner in self._scans:
            self.begin(owner)

    def end(self, owner: int) -> None:
        """The owner has no host for all its Sessions any more."""
        self._scans.pop(owner, None)

    def learn(self, key: Key, target: Instant | None) -> None:
        """A Session has this target now, None for none."""
        if key[0] in self._scans:
            self._scans[key[0]].learn(target)

    def next_of(self, owner: int) -> Instant | None:
        """When an owner's scan goes on: at its next target, once its hosts have slots for it."""
        scan = self._scans.get(owner)
        return scan.next_at if scan is not None and self._has_slots(owner) else None

    def next(self) -> Instant | None:
        """When the first of all goes on, None where none does."""
        wakes = [self.next_of(owner) for owner in self._scans]
        return min((at for at in wakes if at is not None), default=None)

    async def go_on(self) -> None:
        """Offer some of each owner's due Sessions while its `*` hosts have slots for them."""
        failed: list[Exception] = []
        for owner in list(self._scans):
            try:
                await self._go_on(owner)
            except Exception as error:  # noqa: BLE001  the others go on first
                failed.append(error)
        if failed:
            raise failed[0]

    async def _go_on(self, owner: int) -> None:
        at, now = self.next_of(owner), self._clock.now()
        if at is None or (at > now and self._scans[owner].sure):
            return
        scan = self._scans[owner]
        scan.next_at, scan.sure = None, True  # what is learnt while the file is read is kept
        found = await self._reader.sessions_due(owner, now, scan.place, SCAN) if at <= now else []
        more = len(found) == SCAN
        after = now if more else await self._reader.next_target(owner, now)
        for place in found:
            scan.place = place
            self._offer((owner, place[1]))
        if more:
            scan.next_at = now  # the rest in a round of its own: others want to be seen to
        else:
            scan.passed(now)
            if after is not None:
                scan.expect(after)

    def _has_slots(self, owner: int) -> bool:
        hosts = self._hosts.stars(owner)
        queued = max((len(host.waiting) for host in hosts), default=0)
        return queued < SCAN and any(host.has_slot(False) for host in hosts)
