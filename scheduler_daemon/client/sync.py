"""The client for plain programs: one call at a time over a plain socket, no event loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler_daemon.client.acts import Acts
from scheduler_daemon.client.connection import Connection
from scheduler_daemon.client.finding import DaemonUnreachable, SocketPath, connect
from scheduler_daemon.client.params import FULL, TIMEOUT, changed, check_timeout, given
from scheduler_daemon.wire.messages import PROTOCOL, Error, Result, error_from

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import EllipsisType, TracebackType
    from typing import Any, Literal, Self

    from scheduler_daemon.client.watch import Changes
    from scheduler_daemon.wire import calls, shapes


class Client(Acts):
    """A connection to the daemon, opened by the first call and opened anew after it was lost.

    `socket` is the path of the daemon's socket; None looks in the usual places. `timeout` is how
    many seconds of the daemon's silence a call bears before it raises NoAnswer, None for ever.

    Every call raises the SchedulerError subclass of the daemon's refusal, DaemonUnreachable when
    nobody is there (nothing happened), or its subclass ConnectionLost when the connection ended
    before the answer (unknown what happened). Results are those of the protocol, unchanged. Not
    for use by several threads at once.

    `owner_uid` is for root and the daemon's own user: whose reminders are meant, `"*"` for
    everybody's where a call only reads.
    """

    def __init__(
        self, socket: SocketPath | None = None, *, timeout: float | None = TIMEOUT
    ) -> None:
        self._where = socket
        self._timeout = check_timeout(timeout)
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, method: str, params: Mapping[str, object] | None = None) -> Any:
        """Call any method of the protocol and return its result."""
        return _value(self._connected().call(method, params or {}))

    def _connected(self) -> Connection:
        if self._connection is not None and self._connection.ended():
            self.close()
        if self._connection is None:
            self._connection = self._new()
        return self._connection

    def _new(self) -> Connection:
        try:
            return Connection(connect(self._where, self._timeout))
        except BlockingIOError:
            raise DaemonUnreachable(FULL) from None

    def hello(self, client: str | None = None) -> calls.Hello:
        """Who answers and what this user may call. `client` is a name for the daemon's log."""
        hello: calls.Hello = self.call("hello", given(protocol=PROTOCOL, client=client))
        return hello

    def create(
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
        created: calls.Created = self.call("reminder.create", members)
        return created

    def get(
        self,
        reminder_id: str,
        *,
        session_id: str | None = None,
        owner_uid: int | Literal["*"] | None = None,
    ) -> calls.Got:
        """One reminder; a `session_id` must be its own. Raises ReminderNotFound."""
        members = given(id=reminder_id, session_id=session_id, owner_uid=owner_uid)
        got: calls.Got = self.call("reminder.get", members)
        return got

    def list(
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
        page: shapes.Page[shapes.Reminder] = self.call("reminder.list", members)
        return page

    def reminders(
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
    ) -> Iterator[shapes.Reminder]:
        """Every reminder of `list`, page by page."""
        cursor: str | None = None
        while True:
            page = self.list(
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
            yield from page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def update(
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
        updated: calls.Updated = self.call("reminder.update", members)
        return updated

    def delete(
        self, reminder_id: str, *, session_id: str | None = None, owner_uid: int | None = None
    ) -> calls.Deleted:
        """Delete a reminder; `deleted` is false when there was none."""
        members = given(id=reminder_id, session_id=session_id, owner_uid=owner_uid)
        deleted: calls.Deleted = self.call("reminder.delete", members)
        return deleted

    def preview(
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
        preview: calls.Preview = self.call("reminder.preview", members)
        return preview

    def history(
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
        page: shapes.Page[shapes.Dispatch] = self.call("reminder.history", members)
        return page

    def dispatches(
        self,
        reminder_id: str | None = None,
        *,
        session_id: str | None = None,
        owner_uid: int | Literal["*"] | None = None,
    ) -> Iterator[shapes.Dispatch]:
        """Every receipt of `history`, page by page."""
        cursor: str | None = None
        while True:
            page = self.history(
                reminder_id, session_id=session_id, cursor=cursor, owner_uid=owner_uid
            )
            yield from page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def status(self) -> shapes.Status:
        """How the daemon is: versions, counts of this user's reminders, what is being retried."""
        status: shapes.Status = self.call("daemon.status")
        return status

    def watch(
        self, session_id: str | None = None, *, owner_uid: int | Literal["*"] | None = None
    ) -> Changes:
        """Hear of every change from now on, of one Session or of all; see Changes.

        A watch has a connection of its own, which ends with it; calls go on beside it.
        """
        from scheduler_daemon.client.watch import Changes  # only for those who watch

        connection = self._new()
        try:
            members = given(session_id=session_id, owner_uid=owner_uid)
            _value(connection.call("daemon.watch", members))
        except BaseException:
            connection.close()
            raise
        return Changes(connection)


def _value(answer: Result | Error) -> Any:
    if isinstance(answer, Error):
        raise error_from(answer.error)
    return answer.value
