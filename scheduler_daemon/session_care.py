"""Listing, forgetting and moving whole Sessions, as use cases."""

from __future__ import annotations

from scheduler_daemon.cursors import Cursor
from scheduler_daemon.desk import Caller, Desk, any_owner, one_owner
from scheduler_daemon.errors import InvalidRequest
from scheduler_daemon.model import Instant
from scheduler_daemon.store.pages import SessionRow
from scheduler_daemon.views import session_view
from scheduler_daemon.wire import calls, params, shapes

START = ("", -1)
"""Before every Session: no name is empty, no uid negative."""


class SessionCare:
    """Sessions with reminders, for one caller at a time; every method raises SchedulerError."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def list_sessions(
        self, caller: Caller, asked: params.ListSessions
    ) -> shapes.Page[shapes.Session]:
        """A page of Sessions, by name."""
        owner = any_owner(caller, asked.owner_uid)
        now = self._desk.clock.now()
        filters = ["sessions", owner]
        place = Cursor.read(asked.cursor, filters, start=START).place
        rows = await self._desk.store.reader.sessions(owner, place, now, asked.limit + 1)
        items = await self._desk.fitting(self._view(row, now) for row in rows[: asked.limit])
        result: shapes.Page[shapes.Session] = {"items": items}
        if len(items) < len(rows):
            last_owner, last_session = rows[len(items) - 1].key
            result["next_cursor"] = Cursor((last_session, last_owner)).text(filters)
        return result

    def _view(self, row: SessionRow, now: Instant) -> shapes.Session:
        scheduler = self._desk.scheduler
        monotonic = self._desk.clock.monotonic()
        return session_view(row, scheduler.state(row.key), scheduler.hosts, now, monotonic)

    async def forget(self, caller: Caller, asked: params.Forget) -> calls.Forgotten:
        """Remove the reminders and receipts of a Session."""
        owner = one_owner(caller, asked.owner_uid)
        key = (owner, asked.session_id)
        gone = await self._desk.written(self._desk.store.forget(*key, self._desk.clock.now()))
        counts: calls.Forgotten = {
            "reminders": len(gone.reminders),
            "dispatches": gone.dispatches,
        }
        if any(counts.values()):
            self._desk.logged("session_forgotten", caller, key, **counts)
        for reminder_id in gone.reminders:
            self._desk.tell(key, reminder_id, "deleted")
        self._desk.scheduler.changed(key)
        return counts

    async def transfer(self, caller: Caller, asked: params.Transfer) -> calls.Transferred:
        """Move the active reminders of a Session to another of the same owner."""
        owner = one_owner(caller, asked.owner_uid)
        key, to_key = (owner, asked.from_), (owner, asked.to)
        if key == to_key:
            raise InvalidRequest("from and to are the same Session; give another", field="to")
        scheduler, limits = self._desk.scheduler, self._desk.bounds.limits
        moved = await self._desk.written(
            self._desk.store.transfer(owner, asked.from_, asked.to, limits)
        )
        scheduler.changed(key)
        scheduler.changed(to_key, revives=True)
        if moved:
            self._desk.logged(
                "session_transferred", caller, key, to_session_id=asked.to, reminders=len(moved)
            )
        for reminder_id in moved:
            self._desk.tell(to_key, reminder_id, "updated", also=asked.from_)
        return {"reminders": len(moved)}
