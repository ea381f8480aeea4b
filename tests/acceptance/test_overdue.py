"""What became overdue while nobody was there comes as one message per Session, and at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.acceptance.conftest import NewDaemon
from tests.acceptance.steps import (
    ago,
    answer_seconds,
    check_quick,
    in_seconds,
    let_pass,
    overdue,
    receipts,
    recurring,
)
from tests.support.peer import ADMITTED, BUSY, SILENCE, Peer
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

EIGHT = [f"s{number}" for number in range(8)]
WITHIN_SECONDS = 1.0


def forty_overdue(daemon: DaemonProcess) -> dict[str, list[str]]:
    """Five recurring records of every kind in each of 8 Sessions; their ids by Session, in order.

    They are made in turns over the Sessions, then a day passes while the daemon does not run.
    The daemon runs on return.
    """
    daemon.start()
    peer = daemon.peer()
    selectors = recurring(ago(hours=2))
    for selector in selectors:
        for session in EIGHT:
            peer.create(session, f"words of {session}", **selector)
    daemon.stop()
    let_pass(daemon, "-1 days")
    daemon.start()
    order = "SELECT id FROM reminders WHERE session_id = ? ORDER BY scheduled_at, number"
    return {s: [each for (each,) in daemon.sql(order, s)] for s in EIGHT}


def manage(daemon: DaemonProcess, session: str, seconds: float) -> None:
    """Create, look, change and delete for so long, and check that answers are quick."""
    peer = daemon.peer()
    check_quick(
        [
            answer_seconds(daemon, partial(peer.call, method, **params))
            for method, params in _calls(peer, session, time.monotonic() + seconds)
        ]
    )


def _calls(peer: Peer, session: str, end: float) -> Iterator[tuple[str, dict[str, object]]]:
    made = peer.create(session, "meanwhile", after_seconds=1000)["id"]
    revision = 1
    while time.monotonic() < end:
        yield "reminder.create", {"session_id": session, "prompt": "more", "after_seconds": 1000}
        yield "reminder.get", {"id": made}
        yield "reminder.list", {"session_id": session}
        yield "reminder.update", {"id": made, "revision": revision, "prompt": f"{revision}"}
        revision += 1
        yield "daemon.status", {}
        yield "reminder.history", {"session_id": session}
    yield "reminder.delete", {"id": made}


def test_forty_overdue_in_eight_sessions_give_one_message_each_at_once(
    new_daemon: NewDaemon,
) -> None:
    """One Session's host never answers, another's says busy; each has a host of its own."""
    daemon = new_daemon()
    expected = forty_overdue(daemon)
    silent, busy, *others = EIGHT
    hosts = {session: daemon.peer() for session in EIGHT}
    hosts[silent].reply, hosts[busy].reply = SILENCE, BUSY
    attached = time.monotonic()
    for session, host in hosts.items():
        host.attach([session])
    manage(daemon, "s-managed", 1.5)

    for session in others:
        (followup,) = hosts[session].followups
        assert followup.at - attached < WITHIN_SECONDS
        assert followup.params["batch"] is True
        assert followup.reminders == expected[session]
        assert followup.params["occurrences"][0]["missed_from"]
        assert receipts(daemon, session) == followup.occurrences
    assert [f.reminders for f in hosts[silent].followups] == [expected[silent]]
    assert [f.reminders for f in hosts[busy].followups] == [expected[busy]]
    assert receipts(daemon, silent) == receipts(daemon, busy) == []

    first = hosts[busy].next_followup()
    hosts[busy].reply = ADMITTED
    said = time.monotonic()
    hosts[busy].ready(busy)
    again = hosts[busy].next_followup()
    assert again.at - said < WITHIN_SECONDS
    assert again.occurrences == first.occurrences
    daemon.logged("followup_admitted", followup_id=again.params["followup_id"])
    assert receipts(daemon, busy) == again.occurrences
    assert set(overdue(daemon)) == set(expected[silent])
    for session in [busy, *others]:
        assert (
            len(
                daemon.sql(
                    "SELECT DISTINCT decided_at FROM dispatches WHERE session_id = ?", session
                )
            )
            == 1
        )


def test_no_second_round_follows_for_what_was_missed(new_daemon: NewDaemon) -> None:
    """Each record has exactly one receipt, and its next target lies ahead, on its old grid."""
    daemon = new_daemon()
    expected = forty_overdue(daemon)
    host = daemon.peer()
    host.attach("*")
    for _ in EIGHT:
        followup = host.next_followup()
        assert followup.reminders == expected[followup.session]
        daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])
    host.nothing_comes(1)
    assert overdue(daemon) == []
    assert daemon.sql("SELECT count(*), count(DISTINCT reminder_number) FROM dispatches") == [
        (40, 40)
    ]
    off_grid = """SELECT id FROM reminders WHERE kind = 'every' AND
      round((julianday(scheduled_at) - julianday(anchor_at)) * 86400000) % (interval_seconds * 1000)
    """
    assert daemon.sql(off_grid) == []


@pytest.mark.parametrize("attached_by", ["name", "star"])
def test_seventeen_unanswered_sessions_of_a_host_do_not_hold_up_its_other_three(
    new_daemon: NewDaemon, attached_by: str
) -> None:
    """The 17 are due first, and there is one connection with the default number of slots."""
    daemon = new_daemon()
    dead = [f"dead{number}" for number in range(17)]
    live = [f"live{number}" for number in range(3)]
    daemon.start()
    maker = daemon.peer()
    for session in dead + live:
        maker.create(session, "often", every_seconds=3600)
    daemon.stop()
    let_pass(daemon, "-2 hours", "session_id LIKE 'live%'")
    let_pass(daemon, "-5 hours", "session_id LIKE 'dead%'")
    daemon.start()

    host = daemon.peer()
    host.reply = SILENCE
    host.script = dict.fromkeys(live, ADMITTED)
    attached = time.monotonic()
    host.attach(dead + live if attached_by == "name" else "*")
    manage(daemon, "s-managed", 1.5)

    arrived = {followup.session: followup.at - attached for followup in host.followups}
    assert len(arrived) == len(host.followups)
    for session in live:
        assert arrived[session] < WITHIN_SECONDS
        assert len(receipts(daemon, session)) == 1
    assert set(arrived) == set(dead + live)
    assert len(overdue(daemon)) == 17


def test_one_shots_go_first_and_one_by_one_then_one_batch(new_daemon: NewDaemon) -> None:
    daemon = new_daemon().start()
    maker = daemon.peer()
    often = [maker.create("s1", "often", **selector)["id"] for selector in recurring(ago(hours=2))]
    at = in_seconds(3000)
    once = [maker.create("s1", "once", at=at)["id"] for _ in range(3)]
    earlier = maker.create("s1", "once", after_seconds=1000)["id"]
    daemon.stop()
    let_pass(daemon, "-1 days")
    order = "SELECT id FROM reminders WHERE recurring ORDER BY scheduled_at, number"
    batch = [each for (each,) in daemon.sql(order)]
    assert set(batch) == set(often)
    daemon.start()
    host = daemon.peer()
    host.reply = SILENCE
    host.attach(["s1"])
    came = []
    for _ in range(5):
        followup = host.next_followup()
        host.nothing_comes(0.1)  # the next goes only after this one was admitted
        host.answer(followup)
        came.append(followup.reminders)
    assert came == [[earlier], *([each] for each in once), batch]
    host.nothing_comes(0.5)
