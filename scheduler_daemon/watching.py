"""Who watches which reminders, and who hears of a change; how it reaches them is not here."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from scheduler_daemon.wire import messages, shapes
from scheduler_daemon.wire.encoding import encode


class Watch(NamedTuple):
    """What is watched: one owner's reminders or (None) everybody's, in one Session or in all."""

    owner_uid: int | None
    session_id: str | None


class Watcher(Protocol):
    """Somebody who watches; must be hashable."""

    def hear(self, frame: bytes) -> None:
        """Take the encoded notification of one change. Must neither wait nor raise."""


class Watchers:
    """Everybody who watches, found by what they watch: a change costs only those who hear it."""

    def __init__(self) -> None:
        self._by_watch: dict[Watch, dict[Watcher, None]] = {}

    @property
    def anybody(self) -> bool:
        """Whether anybody watches at all: where nobody does, nothing need be made to tell."""
        return bool(self._by_watch)

    def add(self, watcher: Watcher, watch: Watch) -> None:
        """Let `watcher` hear of this as well; nothing changes where it does already."""
        self._by_watch.setdefault(watch, {})[watcher] = None

    def remove(self, watcher: Watcher, watch: Watch) -> None:
        """Let `watcher`, which was added so, hear of this no more."""
        hearers = self._by_watch[watch]
        del hearers[watcher]
        if not hearers:
            del self._by_watch[watch]

    def tell(
        self,
        owner_uid: int,
        session_id: str,
        reminder_id: str,
        change: shapes.Change,
        reminder: shapes.Reminder | None = None,
        *,
        also: str | None = None,
    ) -> None:
        """Send `reminder.changed` to everybody whom it concerns, once each.

        Call it in the event loop when the change is on disk. `also` is a second Session whose
        watchers hear of it: the one that a reminder was moved out of.
        """
        sessions = (session_id, None) if also is None else (session_id, also, None)
        if not self._by_watch:
            return
        hearers = dict.fromkeys(
            watcher
            for owner in (owner_uid, None)
            for session in sessions
            for watcher in self._by_watch.get(Watch(owner, session), ())
        )
        if not hearers:
            return
        event: shapes.ReminderChanged = {
            "id": reminder_id,
            "owner_uid": owner_uid,
            "session_id": session_id,
            "change": change,
        }
        if reminder is not None:
            event["reminder"] = reminder
        frame = encode(messages.notification("reminder.changed", event))
        for watcher in hearers:
            watcher.hear(frame)
