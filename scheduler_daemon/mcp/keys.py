"""Idempotency keys of creations of unknown outcome, for the call that repeats them."""

from __future__ import annotations

import datetime as dt

MEMORY = dt.timedelta(minutes=10)
"""How long the same words count as a repetition, and not as a second wish."""

MOST = 64
"""How many creations of unknown outcome are remembered."""


class Keys:
    """Which key a call was sent with whose outcome nobody knows; calls are told apart by text."""

    def __init__(self) -> None:
        self._unknown: dict[str, tuple[str, dt.datetime]] = {}

    def take(self, call: str, now: dt.datetime) -> str | None:
        """The key of an equal call of unknown outcome, which is forgotten now; None without one."""
        key, since = self._unknown.pop(call, (None, now))
        return key if abs(now - since) <= MEMORY else None

    def keep(self, call: str, key: str, now: dt.datetime) -> None:
        """Remember that nobody knows whether `call` was carried out with `key`."""
        self._unknown[call] = (key, now)
        if len(self._unknown) > MOST:
            del self._unknown[next(iter(self._unknown))]
