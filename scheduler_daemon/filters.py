"""Which reminders a list is of, beside owner and Session: decided on columns as they are stored."""

from __future__ import annotations

from scheduler_daemon.errors import InvalidRequest
from scheduler_daemon.model import Instant
from scheduler_daemon.rules import instant_text, parse_at
from scheduler_daemon.store.pages import ListedRow
from scheduler_daemon.wire import params


class Filter:
    """What `reminder.list` asked for, at `now`.

    Raises invalid_request, and invalid_rule or time_out_of_range for `due_before`.
    """

    def __init__(self, asked: params.ListReminders, now: Instant) -> None:
        given = asked.model_fields_set
        if {"state", "status"} <= given:
            raise InvalidRequest("give status or state, not both", field="state")
        self._state = asked.state if "state" in given else None
        self._kind = asked.kind if "kind" in given else None
        self._text = asked.text.casefold()
        self._now = instant_text(now)
        self._due_before = None
        if "due_before" in given:
            self._due_before = instant_text(parse_at(asked.due_before, "due_before"))
        self.status = asked.status
        if self._state is not None:
            self.status = "ended" if self._state == "ended" else "active"
        self.marks = ["list", self.status, self._state, self._kind, self._text, self._due_before]

    @property
    def narrow(self) -> bool:
        """Whether it leaves anything out of what has its status."""
        return any((self._state, self._kind, self._text, self._due_before))

    def wants(self, row: ListedRow) -> bool:
        """Whether a row belongs to the list."""
        return (
            self._kind in (None, row.kind)
            and self._state in (None, self._state_of(row))
            and (self._due_before is None or row.scheduled_at < self._due_before)
            and any(self._text in words.casefold() for words in (row.title or "", row.prompt))
        )

    def _state_of(self, row: ListedRow) -> str:
        if row.status == "ended":
            return "ended"
        if row.paused:
            return "paused"
        return "overdue" if row.scheduled_at <= self._now else "scheduled"
