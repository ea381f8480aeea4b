"""Somebody has the file open with sqlite3, reading for long or writing, while requests go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.conftest import NewDaemon
from tests.acceptance.steps import (
    LONG,
    answer_seconds,
    check_quick,
    in_seconds,
    make_soon,
    overdue,
    receipts,
    transaction,
)
from tests.support.peer import SILENCE, Peer, Refused
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

READING_SECONDS = 60.0 if LONG else 3.0
WRITING_SECONDS = 9.0 if LONG else 2.0
"""Less than the time that a creation waits for a foreign lock, 10 s."""

Act = Callable[[], Any]


def looks(peer: Peer, made: str) -> list[Act]:
    """Every request that only reads."""
    return [
        lambda: peer.call("hello"),
        lambda: peer.call("reminder.get", id=made),
        lambda: peer.call("reminder.list", session_id="s1", status="all"),
        lambda: peer.call("reminder.history", session_id="s1"),
        lambda: peer.call("reminder.preview", every_seconds=300),
        lambda: peer.call("daemon.status"),
    ]


def test_a_reader_with_a_long_transaction_costs_nobody_anything(
    daemon: DaemonProcess, peer: Peer
) -> None:
    """Creations, changes, deletions, deliveries and every look go on; the reader sees none."""
    host = daemon.peer()
    host.attach("*")
    made = peer.create("s1", "first", after_seconds=1000)["id"]
    delivered = 0
    seconds: list[float] = []
    with transaction(daemon, "DEFERRED"):
        end = time.monotonic() + READING_SECONDS
        while time.monotonic() < end:
            seconds += [answer_seconds(daemon, look) for look in looks(peer, made)]
            unwanted = peer.create("s2", "unwanted", every_seconds=300)
            peer.call("reminder.update", id=unwanted["id"], revision=1, prompt="changed")
            peer.call("reminder.delete", id=unwanted["id"])
            make_soon(peer, "s3", "soon")
            delivered += 1
            host.next_followup()
    check_quick(seconds)
    daemon.stop()
    assert len(receipts(daemon, "s3")) == delivered
    assert daemon.sql("SELECT id FROM reminders WHERE status = 'active'") == [(made,)]


def test_while_a_writer_holds_the_lock_looks_are_answered_and_changes_wait_for_it(
    daemon: DaemonProcess, peer: Peer
) -> None:
    made = peer.create("s1", "first", after_seconds=1000)["id"]
    reader = daemon.peer()
    with transaction(daemon, "IMMEDIATE"):
        create = peer.begin("reminder.create", session_id="s1", prompt="new", every_seconds=300)
        update = peer.begin("reminder.update", id=made, revision=1, prompt="changed")
        end = time.monotonic() + WRITING_SECONDS
        seconds: list[float] = []
        while time.monotonic() < end:
            seconds += [answer_seconds(daemon, look) for look in looks(reader, made)]
        assert not create.done()
        assert not update.done()
        page = reader.call("reminder.list", session_id="s1")["items"]
        assert [each["prompt"] for each in page] == ["first"]
    check_quick(seconds)
    new = create.result(10)["reminder"]["id"]
    assert update.result(10)["updated"] is True
    daemon.restart()
    stored = daemon.sql("SELECT id, prompt FROM reminders ORDER BY number")
    assert stored == [(made, "changed"), (new, "new")]


def test_a_lock_held_for_too_long_is_answered_truly_that_nothing_was_stored(
    new_daemon: NewDaemon,
) -> None:
    daemon = new_daemon({"write_wait_seconds": 0.5}).start()
    peer = daemon.peer()
    made = peer.create("s1", "first", after_seconds=1000)["id"]
    with transaction(daemon, "IMMEDIATE"):
        answers = [
            peer.begin("reminder.create", session_id="s1", prompt="new", every_seconds=300),
            peer.begin("reminder.update", id=made, revision=1, prompt="changed"),
            peer.begin("reminder.delete", id=made),
        ]
        for answer in answers:
            with pytest.raises(Refused) as refused:
                answer.result(10)
            assert refused.value.code == "persistence_failed"
    assert peer.call("daemon.status")["last_persistence_error"]["code"] == "persistence_failed"
    after = peer.create("s1", "after", after_seconds=1000)["id"]
    daemon.restart()
    stored = daemon.sql("SELECT id, prompt, revision FROM reminders ORDER BY number")
    assert stored == [(made, "first", 1), (after, "after", 1)]


def test_an_admission_under_a_foreign_lock_waits_for_its_receipt_without_end(
    new_daemon: NewDaemon,
) -> None:
    """Longer than a creation would wait; nothing is pushed again meanwhile."""
    daemon = new_daemon({"write_wait_seconds": 0.2}).start()
    host, peer = daemon.peer(), daemon.peer()
    host.reply = SILENCE
    host.attach(["s1"])
    made = make_soon(peer, "s1", "once")
    followup = host.next_followup()
    with transaction(daemon, "IMMEDIATE"):
        host.answer(followup)
        host.ready("s1")
        host.attach(["s1"])
        host.nothing_comes(1.2)
        assert peer.call("reminder.get", id=made)["reminder"]["waiting_for"]["why"] == "receipt"
        assert receipts(daemon, "s1") == []
    daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])
    assert receipts(daemon, "s1") == followup.occurrences
    assert overdue(daemon) == []
    host.nothing_comes(0.3)


def test_what_is_due_while_the_lock_is_held_is_pushed_all_the_same(
    daemon: DaemonProcess, peer: Peer
) -> None:
    """Pushing writes nothing, so a foreign lock delays the receipt only."""
    host = daemon.peer()
    host.attach("*")
    for session in ("s1", "s2"):
        peer.create(session, "soon", at=in_seconds(0.5))
    with transaction(daemon, "IMMEDIATE"):
        first, second = host.next_followup(), host.next_followup()
    for followup in (first, second):
        daemon.logged("followup_admitted", followup_id=followup.params["followup_id"])
        assert receipts(daemon, followup.session) == followup.occurrences


def test_after_an_edit_by_hand_sighup_makes_it_look_again(
    daemon: DaemonProcess, peer: Peer
) -> None:
    host = daemon.peer()
    host.attach(["s1"])
    made = peer.create("s1", "in a while", after_seconds=1000)["id"]
    daemon.sql("UPDATE reminders SET scheduled_at = ? WHERE id = ?", in_seconds(0.2), made)
    daemon.signal(signal.SIGHUP)
    assert host.next_followup().reminders == [made]


def test_a_daemon_starts_while_somebody_writes_and_is_ready_when_they_are_done(
    new_daemon: NewDaemon,
) -> None:
    daemon = new_daemon().start()
    made = daemon.peer().create("s1", "words", after_seconds=1000)["id"]
    daemon.stop()
    daemon.sql("UPDATE meta SET value = 'older' WHERE name = 'zone_data'")
    with transaction(daemon, "IMMEDIATE"):
        daemon.begin()
        time.sleep(1.5)
    daemon.logged("daemon_started")
    assert daemon.peer().call("reminder.get", id=made)["reminder"]["prompt"] == "words"
