"""What is done to one reminder or one Session as a whole: a part of Client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler_daemon.client.params import given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from scheduler_daemon.wire import calls, shapes


class Acts:
    """Each call raises what Client says."""

    if TYPE_CHECKING:

        def call(self, method: str, params: Mapping[str, object] | None = None) -> Any:
            """What the client has."""

    def pause(
        self, reminder_id: str, *, session_id: str | None = None, owner_uid: int | None = None
    ) -> calls.Paused:
        """Keep a reminder from coming until it is resumed. Raises ReminderEnded."""
        members = given(id=reminder_id, session_id=session_id, owner_uid=owner_uid)
        paused: calls.Paused = self.call("reminder.pause", members)
        return paused

    def resume(
        self, reminder_id: str, *, session_id: str | None = None, owner_uid: int | None = None
    ) -> calls.Resumed:
        """Let a paused reminder come again. Raises ReminderEnded.

        Where its target has passed meanwhile, a recurring one goes on with its first occurrence
        after now, and a one-shot is due at once.
        """
        members = given(id=reminder_id, session_id=session_id, owner_uid=owner_uid)
        resumed: calls.Resumed = self.call("reminder.resume", members)
        return resumed

    def snooze(
        self,
        reminder_id: str,
        *,
        seconds: int | None = None,
        at: str | shapes.LocalInstant | None = None,
        idempotency_key: str | None = None,
        session_id: str | None = None,
        owner_uid: int | None = None,
    ) -> calls.Snoozed:
        """Make a one-shot with the words and context of a reminder, which stays as it is.

        Either `seconds` (>= 1, from now) or `at` says when. The reminder may have ended. With an
        `idempotency_key` as `create`.
        """
        members = given(
            id=reminder_id,
            seconds=seconds,
            at=at,
            idempotency_key=idempotency_key,
            session_id=session_id,
            owner_uid=owner_uid,
        )
        snoozed: calls.Snoozed = self.call("reminder.snooze", members)
        return snoozed

    def skip(
        self, reminder_id: str, *, session_id: str | None = None, owner_uid: int | None = None
    ) -> calls.Skipped:
        """Move a recurring reminder past its target, to the occurrence after it.

        The receipt of what was left out has the outcome `skipped`.
        """
        members = given(id=reminder_id, session_id=session_id, owner_uid=owner_uid)
        skipped: calls.Skipped = self.call("reminder.skip", members)
        return skipped

    def run_now(
        self,
        reminder_id: str,
        *,
        idempotency_key: str | None = None,
        session_id: str | None = None,
        owner_uid: int | None = None,
    ) -> calls.RunNow:
        """Let a reminder come once more, now and beside its rule; its target stays as it is.

        A paused one comes too. Repeating a call with the same `idempotency_key` gives the
        occurrence of the first.
        """
        members = given(
            id=reminder_id,
            idempotency_key=idempotency_key,
            session_id=session_id,
            owner_uid=owner_uid,
        )
        run: calls.RunNow = self.call("reminder.run_now", members)
        return run

    def session_list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        owner_uid: int | Literal["*"] | None = None,
    ) -> shapes.Page[shapes.Session]:
        """One page of Sessions with reminders, by name; pages are as those of `list`."""
        members = given(limit=limit, cursor=cursor, owner_uid=owner_uid)
        page: shapes.Page[shapes.Session] = self.call("session.list", members)
        return page

    def sessions(self, *, owner_uid: int | Literal["*"] | None = None) -> Iterator[shapes.Session]:
        """Every Session of `session_list`, page by page."""
        cursor: str | None = None
        while True:
            page = self.session_list(cursor=cursor, owner_uid=owner_uid)
            yield from page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def session_forget(self, session_id: str, *, owner_uid: int | None = None) -> calls.Forgotten:
        """Remove all reminders and receipts of a Session for good; the result counts them."""
        members = given(session_id=session_id, owner_uid=owner_uid)
        forgotten: calls.Forgotten = self.call("session.forget", members)
        return forgotten

    def session_transfer(
        self, from_session: str, to_session: str, *, owner_uid: int | None = None
    ) -> calls.Transferred:
        """Move the active reminders of one Session to another of the same owner, all or none.

        Receipts and idempotency keys stay. Raises LimitReached where they would be too many.
        """
        members = given(to=to_session, owner_uid=owner_uid, **{"from": from_session})
        transferred: calls.Transferred = self.call("session.transfer", members)
        return transferred
