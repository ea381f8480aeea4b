"""Long lines of all connections: one is read in each round of the loop, users in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

LONG_BYTES = 8 * 1024
"""Lines up to this length are read as they come; a longer one may take milliseconds."""


class Turns:
    """Who may read a long line next.

    What one connection sends is bounded, but hundreds of connections at that bound would keep the
    loop busy for seconds. So they take turns: the users first, then the connections of each.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Callable[[], None]]] = {}

    def ask(self, uid: int, take: Callable[[], None]) -> None:
        """Let `take` be called, once, when it is the turn of this user's connection."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        self._waiting.setdefault(uid, deque()).append(take)

    def _next(self) -> None:
        uid, of_user = next(iter(self._waiting.items()))
        take = of_user.popleft()
        del self._waiting[uid]
        if of_user:
            self._waiting[uid] = of_user  # behind the others
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        take()
