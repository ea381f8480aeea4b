"""What watchers hear of what passed without a message."""

from __future__ import annotations

from scheduler_daemon.model import Instant, Reminder
from scheduler_daemon.store.receipts import Left
from scheduler_daemon.telling import Teller
from scheduler_daemon.troubles import Troubles
from scheduler_daemon.watching import Watch, Watchers
from tests.support.clock import START, ManualClock
from tests.test_views import OFTEN


class Ear:
    """Counts what it hears."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def hear(self, frame: bytes) -> None:
        self.heard.append(frame)


def passed(reminder: Reminder, now: Instant, left: Left) -> list[bytes]:
    from scheduler_daemon.delivery.plan import occurrence

    watchers, ear = Watchers(), Ear()
    watchers.add(ear, Watch(None, None))
    teller = Teller(watchers, Troubles(ManualClock().monotonic), lambda: None)
    teller.settled([occurrence(reminder, now, trusted=True)], left)
    return ear.heard


def test_of_a_record_that_changed_before_it_could_pass_nothing_is_told() -> None:
    nothing = Left({}, set(), set(), beyond_end=False)
    assert passed(OFTEN, START, nothing) == []
    went_on = Left({OFTEN.id: OFTEN.session_id}, {OFTEN.id}, set(), beyond_end=False)
    assert len(passed(OFTEN, START, went_on)) == 1
