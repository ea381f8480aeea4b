"""Requests of one connection that wait or are carried out, and in which order they may start."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from scheduler_daemon.server.methods import Method
from scheduler_daemon.wire import messages


class Asked(NamedTuple):
    """A request, the method that it names and how many bytes it came in."""

    request: messages.Request
    method: Method
    size: int


class Requests:
    """Keeps the order of reads and writes. Those that write may overlap, which shares commits.

    Those that look go one at a time: all connections share one reader, and a flood of looks on one
    connection must not fill it.
    `may_start` is asked before each one; `carry_out` answers it, `done` is called after it, when
    others were started in its place.
    """

    def __init__(
        self,
        may_start: Callable[[], bool],
        carry_out: Callable[[Asked], Coroutine[Any, Any, None]],
        done: Callable[[], None],
    ) -> None:
        self._may_start = may_start
        self._carry_out = carry_out
        self._done = done
        self._waiting: deque[Asked] = deque()
        self._running: dict[asyncio.Task[None], Method] = {}
        self.unanswered = 0
        self.held_bytes = 0

    @property
    def any(self) -> bool:
        """Whether something waits or runs."""
        return bool(self._waiting or self._running)

    @property
    def running(self) -> bool:
        return bool(self._running)

    @property
    def looking(self) -> int:
        """How many run that only look."""
        return sum(method.access == "read" for method in self._running.values())

    def add(self, asked: Asked) -> None:
        self.unanswered += 1
        self.held_bytes += asked.size
        self._waiting.append(asked)
        self.go_on()

    def go_on(self) -> None:
        """Start what may run beside that which runs, in the order sent."""
        while self._waiting and self._fits(self._waiting[0].method) and self._may_start():
            asked = self._waiting.popleft()
            task = asyncio.create_task(self._carry_out(asked))
            self._running[task] = asked.method
            task.add_done_callback(self._ended)

    def _fits(self, method: Method) -> bool:
        return not self._running or (method.access == "write" and not self.looking)

    def answered(self, asked: Asked) -> None:
        """It has its answer, or is about to: the peer may send another in its place."""
        self.unanswered -= 1
        self.held_bytes -= asked.size

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self.go_on()
        self._done()

    def forget(self) -> None:
        """Start nothing more."""
        self._waiting.clear()

    def cancel(self) -> None:
        """End what runs; it may still take effect."""
        for task in self._running:
            task.cancel()
