"""The client for asyncio: many calls at once on one connection, which the daemon may call too."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from scheduler_daemon.client.aio_acts import AsyncActs
from scheduler_daemon.client.aio_watch import AsyncChanges
from scheduler_daemon.client.finding import DaemonUnreachable, SocketPath, connect
from scheduler_daemon.client.link import Link
from scheduler_daemon.client.params import FULL, TIMEOUT, changed, check_timeout, given
from scheduler_daemon.errors import InternalError, SchedulerError
from scheduler_daemon.wire.frames import METHOD_NOT_FOUND, WireError, encode
from scheduler_daemon.wire.messages import PROTOCOL, Request, error, result

if TYPE_CHECKING:
    from types import EllipsisType, TracebackType
    from typing import Literal, Self

    from scheduler_daemon.wire import calls, shapes

Handler: TypeAlias = Callable[[dict[str, Any]], Awaitable[object]]
Pause: TypeAlias = Callable[[float], Awaitable[None]]

_LOGGER = logging.getLogger("scheduler_daemon.client")


class AsyncClient(AsyncActs):
    """As Client, for one event loop; its calls may run side by side.

    A cancelled call leaves the connection in order; whether it took effect is unknown. More than
    link.MAX_WAITING calls wait in line. `handlers` answers requests of the daemon by method: the
    result is what the handler returns, a SchedulerError is passed on, any other exception is
    logged and answered as `internal_error`. Without a handler the answer is that there is no such
    method. `pause` waits so many seconds.
    """

    def __init__(
        self,
        socket: SocketPath | None = None,
        *,
        timeout: float | None = TIMEOUT,
        handlers: Mapping[str, Handler] | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._where = socket
        self._timeout = check_timeout(timeout)
        self._handlers = handlers or {}
        self._pause = pause
        self._connecting = asyncio.Lock()
        self._link: Link | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel the handlers that run and close the connection. A later call opens a new one."""
        for task in self._answering:
            task.cancel()
        if self._link is not None:
            await self._link.close()
            self._link = None
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def call(self, method: str, params: Mapping[str, object] | None = None) -> Any:
        """Call any method of the protocol and return its result."""
        link = await self.connect()
        return await link.call(method, params or {})

    async def connect(self) -> Link:
        """The connection, opened now where there is none. Raises DaemonUnreachable."""
        async with self._connecting:
            if self._link is None or not self._link.open:
                self._link = Link(await self._connected(), self._serve, self._timeout)
            return self._link

    async def _connected(self) -> socket.socket:
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    try:
                        return connect(self._where, 0)
                    except BlockingIOError:
                        await self._pause(0.05)
        except TimeoutError:
            raise DaemonUnreachable(FULL) from None

    def _serve(self, link: Link, request: Request) -> None:
        handler = self._handlers.get(request.method)
        if handler is None:
            unknown = WireError(METHOD_NOT_FOUND, "this client has no such method")
            link.send(encode(error(request.id, unknown)))
            return
        task = asyncio.create_task(_answer(link, request, handler))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def hello(self, client: str | None = None) -> calls.Hello:
        """Who answers and what this user may call. `client` is a name for the daemon's log."""
        return cast(
            "calls.Hello", await self.call("hello", given(protocol=PROTOCOL, client=client))
        )

    async def create(
        self,
        session_id: str,
        prompt: str,
        *,
        after_seconds: int | None = None,
        at: str | shapes.LocalInstant | None = None,
        every_seconds: int | None = None,
        daily: shapes.DailyRule | None = None,
        weekly: shapes.WeeklyRule | None = None,
        cron: shapes.CronRule | None = None,
        title: str | None = None,
        context: Mapping[str, str] | None = None,
        until: str | None = None,
        max_occurrences: int | None = None,
        expires_after_seconds: int | None = None,
        idempotency_key: str | None = None,
        owner_uid: int | None = None,
    ) -> calls.Created:
        """Make a reminder that brings `prompt` back into the Session when it is due.

        Exactly one of the six selectors says when (shapes.Selector). `context` is kept and
        handed back with each occurrence. Repeating a call with the same `idempotency_key` in
        the same Session gives the reminder that was made first.

        A recurring one ends after `until` (RFC 3339 with an offset) and after `max_occurrences`
        deliveries. What is later than `expires_after_seconds` is not sent any more.
        """
        members = given(
            session_id=session_id,
            prompt=prompt,
            after_seconds=after_seconds,
            at=at,
            every_seconds=every_seconds,
            daily=daily,
            weekly=weekly,
            cron=cron,
            title=title,
            context=context,
            until=until,
            max_occurrences=max_occurrences,
            expires_after_seconds=expires_after_seconds,
            idempotency_key=idempotency_key,
            owner_uid=owner_uid,
        )
        return cast("calls.Created", await self.call("reminder.create", members))

    async def get(
        self,
        reminder_id: str,
        *,
        session_id: str | None = None,
        owner_uid: int | Literal["*"] | None = None,
    ) -> calls.Got:
        """One reminder; a `session_id` must be its own. Raises ReminderNotFound."""
        members = given(id=reminder_id, session_id=session_id, owner_uid=owner_uid)
        return cast("calls.Got", await self.call("reminder.get", members))

    async def list(
        self,
        session_id: str | None = None,
        *,
        status: Literal["active", "ended", "all"] | None = None,
        state: Literal["scheduled", "overdue", "paused", "ended"] | None = None,
        kind: shapes.Kind | None = None,
        due_before: str | None = None,
        text: str | None = None,
        order: Literal["created", "target"] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        owner_uid: int | Literal["*"] | None = None,
    ) -> shapes.Page[shapes.Reminder]:
        """One page of reminders: active ones in the order they were made, unless said otherwise.

        `state` takes the place of `status`. `due_before` (RFC 3339 with an offset) keeps to those
        whose target is earlier, `text` to those whose title or prompt contain it in any case.
        `limit` is 1 to 1000 (100); a page may hold fewer though more follow: only a missing
        `next_cursor` means the end. `cursor` is good for the same filters only.
        """
        members = given(
            session_id=session_id,
            status=status,
            state=state,
            kind=kind,
            due_before=due_before,
            text=text,
            order=order,
            limit=limit,
            cursor=cursor,
            owner_uid=owner_uid,
        )
        return cast("shapes.Page[shapes.Reminder]", await self.call("reminder.list", members))

    async def reminders(
        self,
        session_id: str | None = None,
        *,
        status: Literal["active", "ended", "all"] | None = None,
        state: Literal["scheduled", "overdue", "paused", "ended"] | None = None,
        kind: shapes.Kind | None = None,
        due_before: str | None = None,
        text: str | None = None,
        order: Literal["created", "target"] | None = None,
        owner_uid: int | Literal["*"] | None = None,
    ) -> AsyncIterator[shapes.Reminder]:
        """Every reminder of `list`, page by page."""
        cursor: str | None = None
        while True:
            page = await self.list(
                session_id,
                status=status,
                state=state,
                kind=kind,
                due_before=due_before,
                text=text,
                order=order,
                cursor=cursor,
                owner_uid=owner_uid,
            )
            for item in page["items"]:
                yield item
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def update(
        self,
        reminder_id: str,
        revision: int,
        *,
        prompt: str | None = None,
        title: str | EllipsisType | None = ...,
        context: Mapping[str, str] | None = None,
        after_seconds: int | None = None,
        at: str | shapes.LocalInstant | None = None,
        every_seconds: int | None = None,
        daily: shapes.DailyRule | None = None,
        weekly: shapes.WeeklyRule | None = None,
        cron: shapes.CronRule | None = None,
        until: str | EllipsisType | None = ...,
        max_occurrences: int | EllipsisType | None = ...,
        expires_after_seconds: int | EllipsisType | None = ...,
        session_id: str | None = None,
        owner_uid: int | None = None,
    ) -> calls.Updated:
        """Change words or timing of a reminder; what is not given stays as it is.

        `revision` is the one last seen: ReminderConflict is raised, with the current reminder in
        `data`, when somebody changed it since. Of title, ends and expiry None clears one, `...`
        leaves it.
        """
        members = given(
            id=reminder_id,
            revision=revision,
            prompt=prompt,
            context=context,
            after_seconds=after_seconds,
            at=at,
            every_seconds=every_seconds,
            daily=daily,
            weekly=weekly,
            cron=cron,
            session_id=session_id,
            owner_uid=owner_uid,
        )
        members |= changed(
            title=title,
            until=until,
            max_occurrences=max_occurrences,
            expires_after_seconds=expires_after_seconds,
        )
        return cast("calls.Updated", await self.call("reminder.update", members))

    async def delete(
        self, reminder_id: str, *, session_id: str | None = None, owner_uid: int | None = None
    ) -> calls.Deleted:
        """Delete a reminder; `deleted` is false when there was none."""
        members = given(id=reminder_id, session_id=session_id, owner_uid=owner_uid)
        return cast("calls.Deleted", await self.call("reminder.delete", members))

    async def preview(
        self,
        *,
        count: int | None = None,
        after_seconds: int | None = None,
        at: str | shapes.LocalInstant | None = None,
        every_seconds: int | None = None,
        daily: shapes.DailyRule | None = None,
        weekly: shapes.WeeklyRule | None = None,
        cron: shapes.CronRule | None = None,
        until: str | None = None,
        max_occurrences: int | None = None,
    ) -> calls.Preview:
        """The next `count` (5, at most 100) instants of a rule. Nothing is made."""
        members = given(
            count=count,
            after_seconds=after_seconds,
            at=at,
            every_seconds=every_seconds,
            daily=daily,
            weekly=weekly,
            cron=cron,
            until=until,
            max_occurrences=max_occurrences,
        )
        return cast("calls.Preview", await self.call("reminder.preview", members))

    async def history(
        self,
        reminder_id: str | None = None,
        *,
        session_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        owner_uid: int | Literal["*"] | None = None,
    ) -> shapes.Page[shapes.Dispatch]:
        """One page of receipts of a reminder or of a whole Session, newest first.

        Those of deleted reminders are found by Session. Pages are as those of `list`.
        """
        members = given(
            id=reminder_id,
            session_id=session_id,
            limit=limit,
            cursor=cursor,
            owner_uid=owner_uid,
        )
        return cast("shapes.Page[shapes.Dispatch]", await self.call("reminder.history", members))

    async def dispatches(
        self,
        reminder_id: str | None = None,
        *,
        session_id: str | None = None,
        owner_uid: int | Literal["*"] | None = None,
    ) -> AsyncIterator[shapes.Dispatch]:
        """Every receipt of `history`, page by page."""
        cursor: str | None = None
        while True:
            page = await self.history(
                reminder_id, session_id=session_id, cursor=cursor, owner_uid=owner_uid
            )
            for item in page["items"]:
                yield item
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def status(self) -> shapes.Status:
        """How the daemon is: versions, counts of this user's reminders, what is being retried."""
        return cast("shapes.Status", await self.call("daemon.status"))

    async def watch(
        self, session_id: str | None = None, *, owner_uid: int | Literal["*"] | None = None
    ) -> AsyncChanges:
        """Hear of every change from now on, of one Session or of all; see Changes.

        A watch has a connection of its own, which ends with it; calls go on beside it.
        """
        members = given(session_id=session_id, owner_uid=owner_uid)
        return await AsyncChanges(await self._connected(), self._timeout).begin(members)


async def _answer(link: Link, request: Request, handler: Handler) -> None:
    try:
        frame = encode(result(request.id, await handler(request.params)))
    except SchedulerError as refusal:
        frame = encode(error(request.id, refusal))
    except Exception as defect:
        _LOGGER.exception("%s failed", request.method)
        what = f"{type(defect).__name__} in the handler of {request.method}"
        frame = encode(error(request.id, InternalError(what)))
    link.send(frame)
