"""Which targets the loop waits for: by Session where it knows the Session, else by scan."""

from __future__ import annotations

import heapq

from scheduler_daemon.model import Instant, Key
from scheduler_daemon.rules import instant_text

_FIRST = ("", "")
_LAST_NAME = chr(0x10FFFF)


class Targets:
    """The next target of every Session that is known, none of them due when it was noted."""

    def __init__(self) -> None:
        self._of: dict[Key, Instant] = {}
        self._heap: list[tuple[Instant, Key]] = []

    def note(self, key: Key, target: Instant | None) -> None:
        """The Session's next target is this one now; None to wait for it no longer."""
        if target is None:
            self._of.pop(key, None)
        elif self._of.get(key) != target:
            self._of[key] = target
            heapq.heappush(self._heap, (target, key))
            if len(self._heap) > 2 * len(self._of) + 1000:
                self._heap = sorted((at, each) for each, at in self._of.items())

    def take_due(self, now: Instant) -> list[Key]:
        """The Sessions whose target has come, in the order of targets; they are forgotten."""
        keys = []
        while (first := self.first()) is not None and first <= now:
            _, key = heapq.heappop(self._heap)
            del self._of[key]
            keys.append(key)
        return keys

    def first(self) -> Instant | None:
        """The earliest target, None where there is none."""
        while self._heap:
            target, key = self._heap[0]
            if self._of.get(key) == target:
                return target
            heapq.heappop(self._heap)  # it moved since
        return None

    def first_of(self, owner: int) -> Instant | None:
        """The earliest target of one owner's Sessions; looks at every Session that is known."""
        return min((at for key, at in self._of.items() if key[0] == owner), default=None)


class Scan:
    """How far an owner's due Sessions were read for its `*` hosts, in the order of targets.

    A Session up to `place` is known (in flight, waiting for a slot, pausing) or cannot be sent,
    so that what is parked is passed over once, not at every wake. `next_at` is the first target
    after it, None where there is none; unless it is `sure` that one may have moved.
    """

    __slots__ = ("next_at", "place", "sure")

    def __init__(self, now: Instant) -> None:
        self.place = _FIRST
        self.next_at: Instant | None = now
        self.sure = True

    def learn(self, target: Instant | None) -> None:
        """A Session of the owner has this target now, None for none: it may have been the first."""
        if target is None or (self.next_at is not None and target > self.next_at):
            self.sure = False
        if target is not None:
            self.expect(target)

    def expect(self, target: Instant) -> None:
        """There is something at this target: the scan has to come by there."""
        if self.next_at is None or target < self.next_at:
            self.next_at = target
        # Targets behind the place exist when the clock went back by less than is noticed.
        self.place = min(self.place, (instant_text(target), ""))

    def passed(self, now: Instant) -> None:
        """Everything up to `now` was read."""
        self.place = max(self.place, (instant_text(now), _LAST_NAME))
