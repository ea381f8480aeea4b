"""Whatever a host answers, or does not: nothing is lost, nothing is sent again without need."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.acceptance.conftest import running
from tests.acceptance.steps import (
    let_pass,
    make_due,
    make_soon,
    overdue,
    receipts,
    wait_for_receipt,
    wait_for_refusal,
)
from tests.support.peer import ADMITTED, BUSY, ERROR, GONE, HANG_UP, SILENCE, Followup, Peer, Reply
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

TIMEOUT_SECONDS = 0.5


@pytest.fixture(scope="module")
def impatient() -> Iterator[DaemonProcess]:
    """Waits half a second for an answer."""
    with running({"followup_timeout_seconds": TIMEOUT_SECONDS}) as daemon:
        yield daemon


def host_of(daemon: DaemonProcess, session: str, reply: Reply) -> Peer:
    """A host that is attached to the Session and answers so."""
    host = daemon.peer()
    host.reply = reply
    host.attach([session])
    return host


def timed_out(daemon: DaemonProcess, host: Peer) -> Followup:
    """The host's next follow-up, once the daemon has given up waiting for its answer."""
    followup = host.next_followup()
    wait_for_refusal(daemon, followup, "silent")
    return followup


# --- an admission after the time-out


@pytest.mark.parametrize("kind", ["one-shot", "batch"])
def test_an_admission_after_the_time_out_has_its_receipt_and_nothing_comes_again(
    impatient: DaemonProcess, session: str, kind: str
) -> None:
    make_due(impatient, session, kind)
    host = host_of(impatient, session, SILENCE)
    followup = timed_out(impatient, host)
    host.answer(followup)
    wait_for_receipt(impatient, followup)
    assert receipts(impatient, session) == followup.occurrences
    assert overdue(impatient, session) == []
    host.ready(session)
    host.attach([session])
    host.nothing_comes(1.2)  # longer than the pause after a first silence


def test_a_late_admission_while_its_repeat_is_in_flight_settles_both(
    impatient: DaemonProcess, session: str
) -> None:
    make_due(impatient, session, "one-shot")
    host = host_of(impatient, session, SILENCE)
    first = timed_out(impatient, host)
    second = host.next_followup()
    host.answer(first)
    host.answer(second, BUSY)
    assert second.occurrences == first.occurrences
    assert (first.params["attempt"], second.params["attempt"]) == (1, 2)
    wait_for_receipt(impatient, first)
    host.ready(session)
    host.nothing_comes(0.5)
    assert receipts(impatient, session) == first.occurrences
    sent = impatient.sql("SELECT followup_id FROM dispatches WHERE session_id = ?", session)
    assert sent == [(first.params["followup_id"],)]


def test_a_late_admission_of_a_reminder_that_was_re_timed_leaves_the_new_time(
    impatient: DaemonProcess, session: str
) -> None:
    made = make_due(impatient, session, "one-shot")
    host = host_of(impatient, session, SILENCE)
    followup = timed_out(impatient, host)
    changed = host.call("reminder.update", id=made, revision=1, after_seconds=1000)["reminder"]
    host.answer(followup)
    wait_for_receipt(impatient, followup)
    reminder = host.call("reminder.get", id=made)["reminder"]
    assert (reminder["state"], reminder["scheduled_at"]) == ("scheduled", changed["scheduled_at"])
    assert receipts(impatient, session) == followup.occurrences


def test_a_time_out_without_an_admission_is_tried_again_under_the_same_occurrence_id(
    impatient: DaemonProcess, session: str
) -> None:
    make_due(impatient, session, "one-shot")
    host = host_of(impatient, session, SILENCE)
    first = timed_out(impatient, host)
    host.reply = ADMITTED
    second = host.next_followup()
    assert second.at - first.at >= 2 * TIMEOUT_SECONDS - 0.1  # it, then at least half a second
    assert second.occurrences == first.occurrences
    wait_for_receipt(impatient, second)


# --- errors


def test_a_one_shot_refused_every_time_lets_the_others_pass_and_is_never_given_up(
    shared: DaemonProcess, session: str
) -> None:
    maker = shared.peer()
    bad = maker.create(session, "bad", after_seconds=1000)["id"]
    good = [maker.create(session, "good", after_seconds=2000)["id"] for _ in range(2)]
    often = maker.create(session, "often", every_seconds=3600)["id"]
    let_pass(shared, "-1 days", f"session_id = '{session}'")
    host = host_of(shared, session, SILENCE)
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
        wait_for_receipt(shared, followup)
    assert retrying(host, session) == ["set_aside"]

    again = host.next_followup()
    assert (again.reminders, again.params["attempt"]) == ([bad], 4)
    host.answer(again)
    wait_for_receipt(shared, again)
    assert overdue(shared, session) == []
    assert retrying(host, session) == []


def retrying(peer: Peer, session: str) -> list[str]:
    """Why the Session's messages are being retried, as the daemon's status has it."""
    rows = peer.call("daemon.status")["retrying"]
    return [row["why"] for row in rows if row["session_id"] == session]


# --- gone


def test_a_gone_session_that_makes_a_new_reminder_is_asked_again_for_all(
    shared: DaemonProcess, session: str
) -> None:
    peer = shared.peer()
    host = host_of(shared, session, GONE)
    old = make_soon(peer, session, "old")
    refused = host.next_followup()
    wait_for_refusal(shared, refused, "gone")
    waiting = peer.call("reminder.get", id=old)["reminder"]["waiting_for"]
    assert waiting == {"why": "host_gone"}
    host.nothing_comes(1.2)

    host.reply = ADMITTED
    new = make_soon(peer, session, "new")
    first, second = host.next_followup(), host.next_followup()
    assert first.occurrences == refused.occurrences
    assert (first.reminders, second.reminders) == ([old], [new])
    wait_for_receipt(shared, second)
    assert overdue(shared, session) == []


def test_gone_passes_the_message_to_the_next_host_in_line_at_once(
    shared: DaemonProcess, session: str
) -> None:
    second, first = shared.peer(), shared.peer()
    second.attach([session], name="second")
    first.reply = GONE
    first.attach([session], name="first")
    make_soon(shared.peer(), session, "once")
    refused, taken = first.next_followup(), second.next_followup()
    assert taken.at - refused.at < 1
    assert taken.occurrences == refused.occurrences
    wait_for_receipt(shared, taken)
    took = shared.sql("SELECT host FROM dispatches WHERE session_id = ?", session)
    assert took == [("second",)]


@pytest.mark.parametrize("how", ["attach", "ready"])
def test_gone_is_forgotten_when_the_host_speaks_of_the_session_again(
    shared: DaemonProcess, session: str, how: str
) -> None:
    host = host_of(shared, session, GONE)
    make_soon(shared.peer(), session, "once")
    first = host.next_followup()
    wait_for_refusal(shared, first, "gone")
    host.reply = ADMITTED
    if how == "attach":
        host.attach([session])
    else:
        host.ready(session)
    assert host.next_followup().occurrences == first.occurrences


# --- a connection that breaks, and a host that stays busy


def test_a_host_that_hangs_up_before_its_answer_gets_the_message_when_it_comes_back(
    shared: DaemonProcess, session: str
) -> None:
    peer = shared.peer()
    host = host_of(shared, session, HANG_UP)
    made = make_soon(peer, session, "once")
    first = host.next_followup()
    host.hung_up()
    wait_for_refusal(shared, first, "closed")
    assert peer.call("reminder.get", id=made)["reminder"]["waiting_for"]["why"] == "no_host"
    attached = time.monotonic()
    back = host_of(shared, session, ADMITTED)
    again = back.next_followup()
    assert again.at - attached < 1
    assert again.occurrences == first.occurrences
    wait_for_receipt(shared, again)


def test_a_busy_session_is_left_alone_until_it_says_that_it_is_ready(
    shared: DaemonProcess, session: str
) -> None:
    """The host asked for five minutes; what is behind waits as well, other Sessions do not."""
    peer = shared.peer()
    other = f"other-{session}"
    host = shared.peer()
    host.script = {session: BUSY}
    host.attach([session, other])
    first = make_soon(peer, session, "first")
    asked = host.next_followup()
    behind = make_soon(peer, session, "behind")
    make_soon(peer, other, "other")
    assert host.next_followup().session == other
    host.nothing_comes(1.2)
    listed = peer.call("reminder.list", session_id=session)["items"]
    why = {each["id"]: each["waiting_for"]["why"] for each in listed}
    assert why == {first: "busy", behind: "behind"}
    host.script = {}
    host.ready(session)
    again = host.next_followup()
    assert again.occurrences == asked.occurrences
    assert host.next_followup().reminders == [behind]


def test_a_busy_session_is_tried_at_once_when_another_host_attaches(
    shared: DaemonProcess, session: str
) -> None:
    make_due(shared, session, "one-shot")
    busy = host_of(shared, session, BUSY)
    asked = busy.next_followup()
    wait_for_refusal(shared, asked, "busy")
    attached = time.monotonic()
    taken = host_of(shared, session, ADMITTED).next_followup()
    assert taken.at - attached < 1
    assert taken.occurrences == asked.occurrences
    wait_for_receipt(shared, taken)
