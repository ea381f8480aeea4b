"""Which reminders must not be pushed just now, whatever their Session: nothing comes twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from scheduler_daemon.model import FollowUp, Key, Occurrence
from scheduler_daemon.troubles import Unfailing

Mark: TypeAlias = int | str
"""What is pushed once at a time: a reminder by its number, a run by hand by its occurrence."""


class UnderWay:
    """What is with a host, or admitted and not on disk yet, or held by whoever changes it.

    A reminder may move to another Session meanwhile: it is not pushed there before the first
    push has come to an end. `again` is called with each Session that was kept from pushing.
    """

    def __init__(self, again: Callable[[Key], None], unfailing: Unfailing) -> None:
        self._again = again
        self._unfailing = unfailing
        self._carried: dict[Mark, list[tuple[Key, Occurrence]]] = {}
        self._held: dict[Mark, int] = {}
        self._kept: dict[Mark, dict[Key, None]] = {}
        self._watched: list[set[Mark]] = []

    def begin(self, followup: FollowUp) -> None:
        """It is pushed, or its admission was read."""
        key = (followup.owner_uid, followup.session_id)
        for each in followup.occurrences:
            self._carried.setdefault(_mark(each), []).append((key, each))

    def end(self, followup: FollowUp) -> None:
        """It was answered otherwise or not at all, or its receipt is on disk."""
        for each in followup.occurrences:
            mark = _mark(each)
            for ended in self._watched:
                ended.add(mark)
            carried = self._carried[mark]
            # Only one: a push that times out and its late admission carry the same.
            del carried[next(n for n, other in enumerate(carried) if other[1] is each)]
            if not carried:
                del self._carried[mark]
                self._unfailing.call("not_let_go", partial(self._let_go, mark))

    def of(self, number: int) -> tuple[Key, Occurrence] | None:
        """Where an occurrence of a reminder's own is under way, None where none is."""
        return next(iter(self._carried.get(number, ())), None)

    @contextmanager
    def holding(self, number: int) -> Iterator[None]:
        """Let no push of a reminder's own occurrences begin."""
        self._held[number] = self._held.get(number, 0) + 1
        try:
            yield
        finally:
            self._held[number] -= 1
            if not self._held[number]:
                del self._held[number]
                self._unfailing.call("not_let_go", partial(self._let_go, number))

    @contextmanager
    def ending(self) -> Iterator[set[Mark]]:
        """What comes to an end meanwhile: a plan that was read may not know of its receipt."""
        ended: set[Mark] = set()
        self._watched.append(ended)
        try:
            yield ended
        finally:
            self._watched = [each for each in self._watched if each is not ended]

    def keeps(self, followup: FollowUp) -> bool:
        """Whether a follow-up must wait; its Session is called again when it need not."""
        for mark in map(_mark, followup.occurrences):
            if mark in self._carried or mark in self._held:
                key = (followup.owner_uid, followup.session_id)
                self._kept.setdefault(mark, {})[key] = None
                return True
        return False

    def _let_go(self, mark: Mark) -> None:
        if mark not in self._carried and mark not in self._held:
            for key in self._kept.pop(mark, ()):
                self._again(key)


def carries(followup: FollowUp, marks: set[Mark]) -> bool:
    """Whether one of them is in the follow-up."""
    return not marks.isdisjoint(map(_mark, followup.occurrences))


def _mark(each: Occurrence) -> Mark:
    return each.occurrence_id if each.by_hand else each.reminder.number
