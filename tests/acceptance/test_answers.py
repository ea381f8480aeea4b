"""Whatever a host answers, or does not: nothing is lost, nothing is sent again without need."""

from __future__ import annotations

import time

import pytest

from tests.acceptance.conftest import NewDaemon
from tests.acceptance.steps import let_pass, make_soon, overdue, receipts
from tests.support.peer import ADMITTED, BUSY, ERROR, GONE, HANG_UP, SILENCE, Followup, Peer
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

IMPATIENT = {"followup_timeout_seconds": 0.5}


def wait_for_receipt(daemon: DaemonProcess, followup: Followup) -> None:
    daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])


def silent_host(daemon: DaemonProcess, *sessions: str) -> Peer:
    host = daemon.peer()
    host.reply = SILENCE
    host.attach(list(sessions))
    return host


def timed_out(daemon: DaemonProcess, host: Peer) -> Followup:
    """The host's next follow-up, once the daemon has given up waiting for its answer."""
    followup = host.next_followup()
    named = {"followup_id": followup.params["followup_id"]}
    daemon.logged("followup_not_admitted", outcome="silent", **named)
    return followup


# --- an admission after the time-out


@pytest.mark.parametrize("kind", ["one-shot", "batch"])
def test_an_admission_after_the_time_out_has_its_receipt_and_nothing_comes_again(
    new_daemon: NewDaemon, kind: str
) -> None:
    daemon = new_daemon(IMPATIENT).start()
    if kind == "one-shot":
        make_soon(daemon.peer(), "s1", "once")
    else:
        daemon.peer().create("s1", "often", every_seconds=3600)
        daemon.stop()
        let_pass(daemon, "-1 hours")
        daemon.start()
    host = silent_host(daemon, "s1")
    followup = timed_out(daemon, host)
    host.answer(followup)
    wait_for_receipt(daemon, followup)
    assert receipts(daemon, "s1") == followup.occurrences
    assert overdue(daemon) == []
    host.ready("s1")
    host.attach(["s1"])
    host.nothing_comes(1.2)  # longer than the pause after a first silence


def test_a_late_admission_while_its_repeat_is_in_flight_settles_both(
    new_daemon: NewDaemon,
) -> None:
    daemon = new_daemon({"followup_timeout_seconds": 2}).start()
    make_soon(daemon.peer(), "s1", "once")
    host = silent_host(daemon, "s1")
    first = timed_out(daemon, host)
    second = host.next_followup()
    assert second.occurrences == first.occurrences
    assert (first.params["attempt"], second.params["attempt"]) == (1, 2)
    host.answer(first)
    wait_for_receipt(daemon, first)
    host.answer(second, BUSY)
    host.ready("s1")
    host.nothing_comes(0.5)
    assert receipts(daemon, "s1") == first.occurrences
    assert daemon.sql("SELECT followup_id FROM dispatches") == [(first.params["followup_id"],)]


def test_a_late_admission_of_a_reminder_that_was_re_timed_leaves_the_new_time(
    new_daemon: NewDaemon,
) -> None:
    daemon = new_daemon(IMPATIENT).start()
    made = make_soon(daemon.peer(), "s1", "once")
    host = silent_host(daemon, "s1")
    followup = timed_out(daemon, host)
    changed = host.call("reminder.update", id=made, revision=1, after_seconds=1000)["reminder"]
    host.answer(followup)
    wait_for_receipt(daemon, followup)
    reminder = host.call("reminder.get", id=made)["reminder"]
    assert (reminder["state"], reminder["scheduled_at"]) == ("scheduled", changed["scheduled_at"])
    assert receipts(daemon, "s1") == followup.occurrences


def test_a_time_out_without_an_admission_is_tried_again_under_the_same_occurrence_id(
    new_daemon: NewDaemon,
) -> None:
    daemon = new_daemon(IMPATIENT).start()
    make_soon(daemon.peer(), "s1", "once")
    host = silent_host(daemon, "s1")
    first = timed_out(daemon, host)
    host.reply = ADMITTED
    second = host.next_followup()
    assert second.at - first.at >= 1  # the time-out, then half a second to a second
    assert second.occurrences == first.occurrences
    wait_for_receipt(daemon, second)


# --- errors


def test_a_one_shot_refused_every_time_lets_the_others_pass_and_is_never_given_up(
    new_daemon: NewDaemon,
) -> None:
    daemon = new_daemon().start()
    maker = daemon.peer()
    bad = maker.create("s1", "bad", after_seconds=1000)["id"]
    good = [maker.create("s1", "good", after_seconds=2000)["id"] for _ in range(2)]
    often = maker.create("s1", "often", every_seconds=3600)["id"]
    daemon.stop()
    let_pass(daemon, "-1 days")
    host = silent_host(daemon.start(), "s1")
    for attempt in (1, 2, 3):
        followup = host.next_followup()
        assert (followup.reminders, followup.params["attempt"]) == ([bad], attempt)
        host.answer(followup, ERROR)
    for behind in (*good, often):
        followup = host.next_followup()
        assert followup.reminders == [behind]
        waiting = host.call("reminder.get", id=bad)["reminder"]["waiting_for"]
        assert waiting["why"] == "set_aside"
        assert "this one breaks me" in waiting["last_error"]
        host.answer(followup)
        wait_for_receipt(daemon, followup)
    (retrying,) = host.call("daemon.status")["retrying"]
    assert (retrying["session_id"], retrying["why"]) == ("s1", "set_aside")

    again = host.next_followup()
    assert (again.reminders, again.params["attempt"]) == ([bad], 4)
    host.answer(again)
    wait_for_receipt(daemon, again)
    assert overdue(daemon) == []
    assert host.call("daemon.status")["retrying"] == []


# --- gone


def test_a_gone_session_that_makes_a_new_reminder_is_asked_again_for_all(
    daemon: DaemonProcess, peer: Peer
) -> None:
    host = daemon.peer()
    host.reply = GONE
    host.attach(["s1"])
    old = make_soon(peer, "s1", "old")
    refused = host.next_followup()
    daemon.logged("followup_not_admitted", outcome="gone")
    waiting = peer.call("reminder.get", id=old)["reminder"]["waiting_for"]
    assert waiting == {"why": "host_gone"}
    host.nothing_comes(1.2)

    host.reply = ADMITTED
    new = make_soon(peer, "s1", "new")
    first, second = host.next_followup(), host.next_followup()
    assert first.occurrences == refused.occurrences
    assert (first.reminders, second.reminders) == ([old], [new])
    wait_for_receipt(daemon, second)
    assert overdue(daemon) == []


def test_gone_passes_the_message_to_the_next_host_in_line_at_once(
    daemon: DaemonProcess, peer: Peer
) -> None:
    second, first = daemon.peer(), daemon.peer()
    second.attach("*", name="second")
    first.reply = GONE
    first.attach(["s1"], name="first")
    make_soon(peer, "s1", "once")
    refused, taken = first.next_followup(), second.next_followup()
    assert taken.at - refused.at < 1
    assert taken.occurrences == refused.occurrences
    wait_for_receipt(daemon, taken)
    assert daemon.sql("SELECT host FROM dispatches") == [("second",)]


@pytest.mark.parametrize("how", ["attach", "ready"])
def test_gone_is_forgotten_when_the_host_speaks_of_the_session_again(
    daemon: DaemonProcess, peer: Peer, how: str
) -> None:
    host = daemon.peer()
    host.reply = GONE
    host.attach(["s1"])
    make_soon(peer, "s1", "once")
    first = host.next_followup()
    daemon.logged("followup_not_admitted", outcome="gone")
    host.reply = ADMITTED
    if how == "attach":
        host.attach(["s1"])
    else:
        host.ready("s1")
    assert host.next_followup().occurrences == first.occurrences


# --- a connection that breaks, and a host that stays busy


def test_a_host_that_hangs_up_before_its_answer_gets_the_message_when_it_comes_back(
    daemon: DaemonProcess, peer: Peer
) -> None:
    host = daemon.peer()
    host.reply = HANG_UP
    host.attach(["s1"])
    made = make_soon(peer, "s1", "once")
    first = host.next_followup()
    host.hung_up()
    daemon.logged("followup_not_admitted", outcome="closed")
    assert peer.call("reminder.get", id=made)["reminder"]["waiting_for"]["why"] == "no_host"
    back = daemon.peer()
    attached = time.monotonic()
    back.attach(["s1"])
    again = back.next_followup()
    assert again.at - attached < 1
    assert again.occurrences == first.occurrences
    wait_for_receipt(daemon, again)


def test_a_busy_session_is_left_alone_until_it_says_that_it_is_ready(
    daemon: DaemonProcess, peer: Peer
) -> None:
    """The host asked for five minutes; what is behind waits as well, other Sessions do not."""
    host = daemon.peer()
    host.script = {"s1": BUSY}
    host.attach(["s1", "s2"])
    first = make_soon(peer, "s1", "first")
    asked = host.next_followup()
    behind = make_soon(peer, "s1", "behind")
    make_soon(peer, "s2", "other")
    assert host.next_followup().session == "s2"
    host.nothing_comes(1.2)
    why = {each["id"]: each["waiting_for"]["why"] for each in peer.call("reminder.list")["items"]}
    assert why == {first: "busy", behind: "behind"}
    host.script = {}
    host.ready("s1")
    again = host.next_followup()
    assert again.occurrences == asked.occurrences
    assert host.next_followup().reminders == [behind]
