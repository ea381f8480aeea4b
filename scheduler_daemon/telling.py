"""What watchers hear of the daemon's own acts: what was dispatched, what passed, what ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from scheduler_daemon.log import get_logger
from scheduler_daemon.model import FollowUp, Occurrence, Reminder
from scheduler_daemon.store.receipts import Left
from scheduler_daemon.store.retention import Gone
from scheduler_daemon.troubles import Troubles
from scheduler_daemon.watching import Watchers
from scheduler_daemon.wire.shapes import Change

log = get_logger(__name__)


class Teller:
    """Tells watchers; each method is called when its change is on disk.

    `left_beyond_end` is called when a record stays active beyond its end for now.
    """

    def __init__(
        self, watchers: Watchers, troubles: Troubles, left_beyond_end: Callable[[], None]
    ) -> None:
        self._watchers = watchers
        self._troubles = troubles
        self._left_beyond_end = left_beyond_end

    def dispatched(self, followup: FollowUp, left: Left) -> None:
        """The receipts of a follow-up were written; its reminders may have moved meanwhile."""
        for each in followup.occurrences:
            reminder = each.reminder
            now_in = left.sessions.get(reminder.id, followup.session_id)
            also = now_in if now_in != followup.session_id else None
            self._tell(followup.owner_uid, followup.session_id, reminder.id, "dispatched", also)
        self._follow_up([each.reminder for each in followup.occurrences], left)

    def settled(self, occurrences: Sequence[Occurrence], left: Left) -> None:
        """Records went on without a message: too old, dispatched before, or beyond their end."""
        for each in occurrences:
            reminder = each.reminder
            if reminder.id not in left.sessions:
                continue  # it was changed before this could be written
            log.info(
                "occurrence_passed",
                occurrence_id=each.occurrence_id,
                owner_uid=reminder.owner_uid,
                session_id=reminder.session_id,
            )
            if reminder.id in left.moved:
                self._tell(reminder.owner_uid, reminder.session_id, reminder.id, "updated")
        self._follow_up([each.reminder for each in occurrences], left)

    def ended(self, reminder: Reminder) -> None:
        """A record ended by itself."""
        self._tell(reminder.owner_uid, reminder.session_id, reminder.id, "ended")

    def removed(self, gone: Gone) -> None:
        """An ended reminder was kept for long enough."""
        self._tell(gone.owner_uid, gone.session_id, f"r{gone.number}", "deleted")

    def _follow_up(self, reminders: Sequence[Reminder], left: Left) -> None:
        if left.beyond_end:
            self._left_beyond_end()
        for reminder in reminders:
            if reminder.id in left.ended:
                self.ended(replace(reminder, session_id=left.sessions[reminder.id]))

    def _tell(
        self, owner: int, session: str, reminder_id: str, change: Change, also: str | None = None
    ) -> None:
        """What goes wrong with telling must not harm what is told of."""
        with self._troubles.caught("telling_failed", owner_uid=owner, session_id=session):
            self._watchers.tell(owner, session, reminder_id, change, also=also)
