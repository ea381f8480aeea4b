"""A Session as the wire shows it: its counts, who takes it, and why its earliest waits."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from scheduler_daemon.delivery.plan import run_by_hand
from scheduler_daemon.model import FollowUp
from scheduler_daemon.sessions import SILENT, Aside
from scheduler_daemon.store.pages import SessionRow
from scheduler_daemon.views import session_view
from tests.support.clock import START
from tests.test_views import KEY, MINUTE, OFTEN, ONCE, Waiting

ROW = SessionRow(
    key=KEY,
    active=5,
    paused=2,
    ended=3,
    set_aside=1,
    overdue=1,
    runs=4,
    next_target_at=START - MINUTE,
)


class Looking(Waiting):
    """The view of a Session of which these things are known."""

    def view(self, row: SessionRow = ROW, known: bool = True) -> Any:
        state = self.state if known else None
        return session_view(row, state, self.hosts, START, self.floor.clock.monotonic())

    def waits(self, row: SessionRow = ROW, known: bool = True) -> Any:
        return self.view(row, known)["waiting_for"]

    def aside(self, message: Any, error: str, seconds: float) -> None:
        timer = self.floor.clock.call_later(seconds, lambda: None)
        self.state.begin(message).aside = Aside(error, seconds, timer)


@pytest.fixture
def looking() -> Looking:
    return Looking()


def test_a_session_has_its_counts_and_its_next_target(looking: Looking) -> None:
    assert looking.view(known=False) == {
        "session_id": "s",
        "owner_uid": 1000,
        "active": 5,
        "paused": 2,
        "overdue": 1,
        "ended": 3,
        "set_aside": 1,
        "runs": 4,
        "live": False,
        "hosts": [],
        "next_target_at": "2026-01-01T11:59:00.000Z",
        "waiting_for": {"why": "no_host"},
    }


def test_one_with_nothing_to_come_waits_for_nothing(looking: Looking) -> None:
    """Whether all of it has ended or is paused."""
    looking.host()
    view = looking.view(replace(ROW, overdue=0, next_target_at=None))
    assert not view.keys() & {"next_target_at", "waiting_for"}
    assert view["live"]


def test_its_hosts_are_those_that_take_it_in_the_order_of_the_line(looking: Looking) -> None:
    star, old, gone, new = (looking.floor.host(each) for each in ("*", "s", "s", "s"))
    looking.floor.host("s", uid=2000)
    looking.floor.host("t")
    for host, name in ((star, "star"), (old, "old"), (gone, "gone"), (new, "new")):
        host.name = name
    gone.gone.add("s")
    view = looking.view()
    assert (view["live"], view["hosts"]) == (True, ["new", "old", "star"])


def test_one_that_every_host_called_gone_is_cold(looking: Looking) -> None:
    looking.host().gone.add("s")
    view = looking.view()
    assert (view["live"], view["hosts"]) == (False, [])
    assert view["waiting_for"] == {"why": "host_gone"}


def test_what_is_not_due_waits_for_its_target_also_behind_a_pause(looking: Looking) -> None:
    looking.pause(None, 1)
    row = replace(ROW, next_target_at=START + dt.timedelta(milliseconds=1))
    for known in (True, False):
        assert looking.waits(row, known) == {"why": "target"}
    looking.host()
    assert looking.waits(row) == {"why": "target"}
    assert looking.waits(replace(row, next_target_at=START))["why"] == "busy"


def test_without_a_host_it_says_when_the_last_one_left(looking: Looking) -> None:
    looking.hosts.detach(looking.host(), "*")
    seen = {"why": "no_host", "last_host_seen_at": "2026-01-01T12:00:00.000Z"}
    assert looking.waits() == seen


@pytest.mark.parametrize("target", [START - MINUTE, START + MINUTE])
def test_a_message_of_it_on_its_way_goes_before_all_other_reasons(
    looking: Looking, target: dt.datetime
) -> None:
    """Also when what is next lies ahead, and when its host has left since."""
    row = replace(ROW, next_target_at=target)
    looking.state.pushed = followup = looking.pushed(OFTEN)
    assert looking.waits(row) == {"why": "in_flight", "attempts": 1}
    looking.state.read_admission(followup)
    assert looking.waits(row) == {"why": "receipt"}


def test_one_that_was_run_by_hand_is_on_its_way_too(looking: Looking) -> None:
    run = run_by_hand(OFTEN, "r2@now-2026-01-01T12:00:00.000Z", START)
    looking.state.begin(run.occurrence_id)
    looking.state.begin(run.occurrence_id)
    looking.state.pushed = FollowUp("f1", *KEY, False, START, (run,))
    assert looking.waits() == {"why": "in_flight", "attempts": 2}
    looking.host()
    assert looking.why(OFTEN) == {"why": "behind"}


def test_a_pause_says_how_the_last_attempt_ended_whatever_its_message_was(
    looking: Looking,
) -> None:
    looking.host()
    looking.pause((7, 1), 3, "no room")
    assert looking.waits() == {
        "why": "busy",
        "attempts": 3,
        "next_try_at": "2026-01-01T12:00:09.000Z",
        "last_error": "no room",
    }


def test_a_message_that_stands_aside_is_named_until_its_pause_is_over(looking: Looking) -> None:
    """The first of several, and not while the Session itself pauses."""
    looking.host()
    looking.aside((1, 1), "no room", 5.0)
    looking.aside(None, "no words", 7.0)
    first = {
        "why": "set_aside",
        "attempts": 1,
        "last_error": "no room",
        "next_try_at": "2026-01-01T12:00:05.000Z",
    }
    assert looking.waits() == first
    looking.pause(None, 2)
    assert looking.waits()["why"] == "busy"
    looking.state.resume()
    looking.floor.clock.advance(5)
    assert looking.waits()["last_error"] == "no words"
    looking.floor.clock.advance(2)
    assert looking.waits() == {"why": "behind"}


def test_one_that_met_silence_says_so_after_its_pause_until_it_is_tried_again(
    looking: Looking,
) -> None:
    """Of what was never tried in it nothing is said but that others go first."""
    looking.host()
    looking.state.silent = True
    assert looking.waits() == {"why": "behind"}
    looking.state.begin((1, 1))
    looking.state.begin((1, 1))
    silence = {"why": "no_answer", "attempts": 2, "last_error": SILENT}
    assert looking.waits() == silence
    assert looking.why(ONCE) == silence
    assert looking.why(OFTEN) == {"why": "behind"}
    looking.pause((1, 1), 2)
    assert looking.waits()["why"] == "busy"


def test_with_a_host_and_nothing_known_it_is_about_to_go(looking: Looking) -> None:
    looking.host()
    for known in (True, False):
        assert looking.waits(known=known) == {"why": "behind"}


def test_a_reminder_that_was_paused_says_so_once_nothing_of_it_is_on_its_way(
    looking: Looking,
) -> None:
    looking.host()
    paused = replace(ONCE, paused=True)
    assert looking.why(paused) == {"why": "paused"}
    assert looking.why(replace(paused, scheduled_at=START + MINUTE)) == {"why": "paused"}
    looking.state.pushed = looking.pushed(ONCE)
    assert looking.why(paused) == {"why": "in_flight", "attempts": 1}
