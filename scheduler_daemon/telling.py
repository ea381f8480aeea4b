"""What watchers hear of the daemon's own acts: what was dispatched, what passed, what ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler_daemon.log import get_logger
from scheduler_daemon.model import FollowUp, Occurrence, Reminder
from scheduler_daemon.store.receipts import Left
from scheduler_daemon.watching import Watchers
from scheduler_daemon.wire import shapes

log = get_logger(__name__)


class Teller:
    """Tells watchers; each method is called when its change is on disk.

    `left_beyond_end` is called when a record stays active beyond its end for now.
    """

    def __init__(self, watchers: Watchers, left_beyond_end: Callable[[], None]) -> None:
        self._watchers = watchers
        self._left_beyond_end = left_beyond_end

    def dispatched(self, followup: FollowUp, left: Left) -> None:
        """The receipts of a follow-up were written."""
        for each in followup.occurrences:
            self._tell(followup.session_id, each.reminder, "dispatched")
        self._follow_up(followup.occurrences, left)

    def settled(self, occurrences: Sequence[Occurrence], left: Left) -> None:
        """Records went on without a message: too old, dispatched before, or beyond their end."""
        for each in occurrences:
            reminder = each.reminder
            log.info(
                "occurrence_passed",
                occurrence_id=each.occurrence_id,
                owner_uid=reminder.owner_uid,
                session_id=reminder.session_id,
            )
            if reminder.id not in left.ended:
                self._tell(reminder.session_id, reminder, "updated")
        self._follow_up(occurrences, left)

    def ended(self, reminder: Reminder) -> None:
        """A record ended by itself."""
        self._tell(reminder.session_id, reminder, "ended")

    def _follow_up(self, occurrences: Sequence[Occurrence], left: Left) -> None:
        for each in occurrences:
            if each.reminder.id in left.ended:
                self.ended(each.reminder)
        if left.beyond_end:
            self._left_beyond_end()

    def _tell(self, session: str, reminder: Reminder, change: shapes.Change) -> None:
        self._watchers.tell(reminder.owner_uid, session, reminder.id, change)
