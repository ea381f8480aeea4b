"""What the connections of one user may take together; what they do with it is not here."""

from __future__ import annotations

import asyncio
from typing import Protocol

LOOKING_AT_ONCE = 4
"""Requests of one user that look at the same time: all users share one reader, and what it has
read for an answer is memory too."""


class Holder(Protocol):
    """Something that makes the daemon hold bytes; must be hashable."""

    def overheld(self) -> None:
        """It holds the most of a user that has too much: it must let go, and note so."""


class Allowance:
    """Of one user: what its connections hold together is bounded, whatever each may hold.

    Half a line, requests that wait, answers that nobody reads: a connection with its bounds is no
    danger, hundreds of them at those bounds would be. `max_bytes` counts at the next note.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.looking = asyncio.Semaphore(LOOKING_AT_ONCE)
        self._held: dict[Holder, int] = {}
        self._total = 0

    def note(self, holder: Holder, held: int) -> None:
        """`holder` holds so many bytes now, 0 when it is gone."""
        self._total += held - self._held.pop(holder, 0)
        if held:
            self._held[holder] = held
        if self._total > self.max_bytes:
            max(self._held, key=self._held.__getitem__).overheld()
