"""The few lines that make a program an agent host: attach, receive, answer, and come back.

async def deliver(followup):
    print(followup["text"])

asyncio.run(AgentHost("my-agent", ["conversation-1"], deliver).run())
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

from scheduler_daemon.client.aio import AsyncClient, Pause
from scheduler_daemon.client.answers import Accept, Admitted, Busy, Deliver, Gone
from scheduler_daemon.client.finding import DaemonUnreachable, SocketPath
from scheduler_daemon.client.link import Link
from scheduler_daemon.client.params import given
from scheduler_daemon.errors import InternalError, Overloaded, SchedulerError
from scheduler_daemon.wire.frames import encode
from scheduler_daemon.wire.messages import notification
from scheduler_daemon.wire.shapes import Followup, FollowupAnswer

if TYPE_CHECKING:
    from scheduler_daemon.client.spool import Spool

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
"""Seconds before the host looks for a daemon that is gone again, doubling from try to try."""

NAMES_PER_CALL = 1000
"""So that no attach passes the longest frame: a name has at most 200 characters."""

_LOGGER = logging.getLogger("scheduler_daemon.client")


class AgentHost:
    """Takes the follow-ups of `sessions` and gives each to `deliver`.

    `name` shows in receipts and in the daemon's status. `sessions` are names, or `"*"` for every
    Session of this user. `max_in_flight` is how many follow-ups may ever be unanswered at once;
    None lets the daemon choose, which begins with 16 and goes on past those that stay silent.

    `deliver` is called with the params of `session.followup` and puts the message durably into
    the queue of its Session before it returns: None or Admitted means that this was done. Busy
    and Gone refuse it, an exception is logged and answered as an error, and the daemon tries
    again. It runs side by side for different Sessions and never twice at once for one; a plain
    function must be quick, for it holds up all others. The same occurrence may come again after
    a crash: `occurrence_id` tells.

    With a `spool` the host keeps that queue itself: a follow-up is admitted once it is on disk,
    repeats are dropped, and a Session that still has one waiting is busy. `deliver` is then the
    turn of the agent, and may take as long as it takes: in order, one at a time in each Session
    and at most `max_parallel` at once. None or Admitted means that it was taken; Busy lets it come
    again soon; Gone and NotDelivered let `schedctl spool` show it; after NotDelivered, or any other
    exception, it comes again with growing pauses, MAX_FAILURES times. `attempt` counts. What was
    under way when the process ended comes again with the same `followup_id` and `attempt`.
    `accept` decides before anything is queued: it returns the messages that a follow-up becomes,
    most often itself, or Busy or Gone.

    `client` makes calls on the same connection, also from within `deliver`.
    """

    def __init__(
        self,
        name: str,
        sessions: Iterable[str] | Literal["*"],
        deliver: Deliver,
        *,
        socket: SocketPath | None = None,
        max_in_flight: int | None = None,
        spool: Spool | None = None,
        accept: Accept | None = None,
        max_parallel: int = 4,
        pause: Pause = asyncio.sleep,
    ) -> None:
        if isinstance(sessions, str) and sessions != "*":
            raise ValueError('sessions is a list of names, or "*" for every Session')
        self._name = name
        self._sessions = dict.fromkeys(sessions)
        self._spooling = None
        if spool is not None:
            from scheduler_daemon.client.spooling import Spooling  # only here: SQLite comes with it

            self._spooling = Spooling(spool, accept, deliver, max_parallel, self.ready)
        self._deliver = deliver if self._spooling is None else self._spooling.admit
        self._max_in_flight = max_in_flight
        self._pause = pause
        self._changing = asyncio.Lock()
        self._link: Link | None = None
        self._failures = 0
        self._delivering: set[str] = set()
        self._turned_away: set[str] = set()
        handlers = {"session.followup": self._followup}
        self.client = AsyncClient(socket, handlers=handlers, pause=pause)

    async def run(self) -> NoReturn:
        """Serve until cancelled, through restarts of the daemon, for ever.

        Raises the SchedulerError with which the daemon refuses this host, such as
        PermissionDenied, and SpoolRefused where another host has the queue. On the way out what
        `deliver` is doing is cancelled.
        """
        async with AsyncExitStack() as stack:
            if self._spooling is not None:
                await stack.enter_async_context(self._spooling.running())
            stack.push_async_callback(self.client.close)
            while True:
                await self._attend()
                await self._pause(self._next_pause())

    async def attach(self, *sessions: str) -> None:
        """Take these Sessions too, now and after each reconnection; `"*"` means every one.

        Without a connection they are taken with the next one. Raises the daemon's refusal.
        """
        async with self._changing:
            new = set(sessions) - set(self._sessions)
            self._sessions.update(dict.fromkeys(sessions))
            try:
                await self._tell("host.attach", self._attachments(sessions))
            except SchedulerError:
                for name in new:
                    del self._sessions[name]
                raise

    async def detach(self, *sessions: str) -> None:
        """Take these Sessions no longer. What is in flight is still to be answered."""
        async with self._changing:
            for name in sessions:
                self._sessions.pop(name, None)
            await self._tell("host.detach", ({"sessions": part} for part in _parts(sessions)))

    def ready(self, session_id: str) -> None:
        """Say that a busy Session is free again: what is due for it comes at once.

        Without a connection there is nothing to say: attaching does the same.
        """
        if self._link is not None:
            self._link.send(encode(notification("session.ready", {"session_id": session_id})))

    async def _attend(self) -> None:
        """Attach, then wait until the connection is lost; or return because that failed."""
        try:
            link = await self.client.connect()
            async with self._changing:
                try:
                    for params in self._attachments(self._sessions):
                        await link.call("host.attach", params)
                except BaseException:
                    await link.close()
                    raise
                self._link = link
            if self._failures:
                _LOGGER.info("attached again")
            self._failures = 0
            await link.lost.wait()
            _LOGGER.info("connection lost, connecting again")
        except (DaemonUnreachable, Overloaded, InternalError) as error:
            if not self._failures:
                _LOGGER.warning("not attached, trying again: %s", error)
            self._failures += 1
        finally:
            self._link = None

    async def _tell(self, method: str, calls: Iterable[dict[str, object]]) -> None:
        """Make the calls where there is a connection; one that breaks is attached anew whole."""
        if self._link is None:
            return
        try:
            for params in calls:
                await self._link.call(method, params)
        except DaemonUnreachable:
            await self._link.close()

    def _attachments(self, sessions: Iterable[str]) -> Iterator[dict[str, object]]:
        for part in _parts(sessions):
            yield given(name=self._name, sessions=part, max_in_flight=self._max_in_flight)

    def _next_pause(self) -> float:
        # The exponent is bounded, for a float is too small after a thousand failures.
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 10))
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads hosts, guards nothing

    async def _followup(self, params: dict[str, Any]) -> FollowupAnswer:
        """Answer one follow-up. While one of its Session is being delivered another is busy."""
        session_id = params["session_id"]
        if session_id in self._delivering:
            self._turned_away.add(session_id)
            return {"status": "busy"}
        self._delivering.add(session_id)
        try:
            outcome = self._deliver(cast("Followup", params))
            answer = _answer(await outcome if inspect.isawaitable(outcome) else outcome)
            if session_id in self._turned_away and answer["status"] == "admitted":
                # After the answer, which goes out when this returns: it may settle both.
                asyncio.get_running_loop().call_soon(self.ready, session_id)
            return answer
        finally:
            self._delivering.discard(session_id)
            self._turned_away.discard(session_id)


def _parts(sessions: Iterable[str]) -> Iterator[list[str] | str]:
    """`sessions` as the values of calls that fit a frame."""
    names = list(sessions)
    if "*" in names:
        names.remove("*")
        yield "*"
    for start in range(0, len(names), NAMES_PER_CALL):
        yield names[start : start + NAMES_PER_CALL]


def _answer(outcome: object) -> FollowupAnswer:
    if outcome is None:
        return {"status": "admitted"}
    if isinstance(outcome, Admitted):
        answer = given(status="admitted", message_id=outcome.message_id)
    elif isinstance(outcome, Busy):
        answer = given(status="busy", retry_after_seconds=outcome.retry_after_seconds)
    elif isinstance(outcome, Gone):
        answer = {"status": "gone"}
    else:
        raise TypeError(f"deliver returns None, Admitted, Busy or Gone, not {outcome!r}")
    return cast("FollowupAnswer", answer)
