"""A reminder's own turn uses the daemon before its follow-up is answered."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import NewDaemon
from tests.acceptance.steps import let_pass, make_soon, overdue, receipts
from tests.support.peer import SILENCE
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("on", ["the same connection", "another connection"])
@pytest.mark.parametrize("kind", ["one-shot", "batch"])
def test_a_turn_creates_lists_and_deletes_before_its_follow_up_is_answered(
    new_daemon: NewDaemon, on: str, kind: str
) -> None:
    daemon = new_daemon().start()
    made = make_due(daemon, kind)
    host = daemon.peer()
    host.reply = SILENCE
    host.attach(["s1"])
    followup = host.next_followup()
    assert followup.reminders == [made]

    caller = host if on == "the same connection" else daemon.peer()
    later = caller.create("s1", "later", after_seconds=1000)["id"]
    unwanted = caller.create("s1", "unwanted", every_seconds=300)["id"]
    listed = {each["id"]: each for each in caller.call("reminder.list", session_id="s1")["items"]}
    assert list(listed) == [made, later, unwanted]
    assert listed[made]["waiting_for"] == {"why": "in_flight", "attempts": 1}
    assert caller.call("reminder.delete", id=unwanted) == {"id": unwanted, "deleted": True}
    assert [each["id"] for each in caller.call("reminder.list", session_id="s1")["items"]] == [
        made,
        later,
    ]
    soon = make_soon(caller, "s1", "soon")

    host.nothing_comes(0.4)  # one message at a time: the new one is due, and waits
    host.answer(followup)
    assert host.next_followup().reminders == [soon]
    daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])
    assert receipts(daemon, "s1")[0] == followup.occurrences[0]
    assert len(host.followups) == 2


def make_due(daemon: DaemonProcess, kind: str) -> str:
    """One reminder of Session s1 that is due, or soon will be; its id."""
    peer = daemon.peer()
    if kind == "one-shot":
        return make_soon(peer, "s1", "once")
    made: str = peer.create("s1", "often", every_seconds=3600)["id"]
    daemon.stop()
    let_pass(daemon, "-1 hours")
    daemon.start()
    return made


@pytest.mark.parametrize("kind", ["one-shot", "batch"])
def test_a_turn_that_deletes_its_own_reminder_ends_it_for_good(
    new_daemon: NewDaemon, kind: str
) -> None:
    daemon = new_daemon().start()
    made = make_due(daemon, kind)
    host = daemon.peer()
    host.reply = SILENCE
    host.attach(["s1"])
    followup = host.next_followup()
    assert host.call("reminder.delete", id=made)["deleted"] is True
    host.answer(followup)
    daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])
    history = host.call("reminder.history", session_id="s1")["items"]
    assert [(each["reminder_id"], each["outcome"]) for each in history] == [(made, "admitted")]
    assert daemon.sql("SELECT count(*) FROM reminders") == [(0,)]
    host.nothing_comes(0.5)
    assert overdue(daemon) == []


def test_a_turn_that_makes_the_next_reminder_each_time_goes_on(new_daemon: NewDaemon) -> None:
    """A chain: each turn makes the one after it, and the next one's time comes meanwhile."""
    daemon = new_daemon().start()
    host = daemon.peer()
    host.reply = SILENCE
    host.attach(["s1"])
    expected = make_soon(host, "s1", "turn 0")
    for turn in range(1, 6):
        followup = host.next_followup()
        assert followup.reminders == [expected]
        expected = make_soon(host, "s1", f"turn {turn}")
        host.answer(followup)
    assert host.next_followup().prompts == ["turn 5"]
    assert len(receipts(daemon, "s1")) == 5
