"""A reminder's own turn uses the daemon before its follow-up is answered."""

from __future__ import annotations

import pytest

from tests.acceptance.steps import make_due, make_soon, overdue, receipts, wait_for_receipt
from tests.support.peer import SILENCE, Peer
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance


@pytest.fixture
def host(shared: DaemonProcess) -> Peer:
    """Says nothing to a follow-up until the test does."""
    peer = shared.peer()
    peer.reply = SILENCE
    return peer


@pytest.mark.parametrize("on", ["the same connection", "another connection"])
@pytest.mark.parametrize("kind", ["one-shot", "batch"])
def test_a_turn_creates_lists_and_deletes_before_its_follow_up_is_answered(
    shared: DaemonProcess, host: Peer, session: str, on: str, kind: str
) -> None:
    made = make_due(shared, session, kind)
    host.attach([session])
    followup = host.next_followup()
    assert followup.reminders == [made]

    caller = host if on == "the same connection" else shared.peer()
    later = caller.create(session, "later", after_seconds=1000)["id"]
    unwanted = caller.create(session, "unwanted", every_seconds=300)["id"]
    listed = {
        each["id"]: each for each in caller.call("reminder.list", session_id=session)["items"]
    }
    assert list(listed) == [made, later, unwanted]
    assert listed[made]["waiting_for"] == {"why": "in_flight", "attempts": 1}
    assert caller.call("reminder.delete", id=unwanted) == {"id": unwanted, "deleted": True}
    left = caller.call("reminder.list", session_id=session)["items"]
    assert [each["id"] for each in left] == [made, later]
    soon = make_soon(caller, session, "soon")

    host.nothing_comes(0.4)  # one message at a time: the new one is due, and waits
    host.answer(followup)
    assert host.next_followup().reminders == [soon]
    wait_for_receipt(shared, followup)
    assert receipts(shared, session) == followup.occurrences
    assert len(host.followups) == 2


@pytest.mark.parametrize("kind", ["one-shot", "batch"])
def test_a_turn_that_deletes_its_own_reminder_ends_it_for_good(
    shared: DaemonProcess, host: Peer, session: str, kind: str
) -> None:
    made = make_due(shared, session, kind)
    host.attach([session])
    followup = host.next_followup()
    assert host.call("reminder.delete", id=made)["deleted"] is True
    host.answer(followup)
    wait_for_receipt(shared, followup)
    history = host.call("reminder.history", session_id=session)["items"]
    assert [(each["reminder_id"], each["outcome"]) for each in history] == [(made, "admitted")]
    assert shared.sql("SELECT id FROM reminders WHERE session_id = ?", session) == []
    host.nothing_comes(0.5)
    assert overdue(shared, session) == []


def test_a_turn_that_makes_the_next_reminder_each_time_goes_on(
    shared: DaemonProcess, host: Peer, session: str
) -> None:
    """A chain: each turn makes the one after it, and the next one's time comes meanwhile."""
    host.attach([session])
    expected = make_soon(host, session, "turn 0")
    for turn in range(1, 6):
        followup = host.next_followup()
        assert followup.reminders == [expected]
        expected = make_soon(host, session, f"turn {turn}")
        host.answer(followup)
    assert host.next_followup().prompts == ["turn 5"]
    assert len(receipts(shared, session)) == 5
