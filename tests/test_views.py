"""Values as the wire shows them, and why a reminder waits."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from scheduler_daemon.delivery.plan import occurrence
from scheduler_daemon.hosts.host import Host
from scheduler_daemon.hosts.lines import Hosts
from scheduler_daemon.model import After, Daily, Dispatch, Every, FollowUp, Reminder
from scheduler_daemon.sessions import Aside, Pause, SessionState, message_of
from scheduler_daemon.store.lookups import Beside
from scheduler_daemon.views import dispatch_view, later, reminder_view, waiting_for
from tests.delivery.test_plan import reminder
from tests.server.test_hosts import Floor
from tests.support.clock import START

KEY = (1000, "s")
MINUTE = dt.timedelta(minutes=1)
ONCE = reminder(After(60), START - MINUTE, number=1)
OFTEN = reminder(Every(600, START), START - MINUTE, number=2)

DISPATCH = Dispatch(
    number=9,
    followup_id="f1",
    occurrence_id="r1@2026-01-01T12:00:00.000Z",
    reminder_id="r1",
    session_id="s",
    occurrence_at=START,
    decided_at=START + MINUTE,
    admitted_at=START + 2 * MINUTE,
    host="codex",
    message_id=None,
    outcome="admitted",
    title=None,
    prompt="p",
)
SUMMARY = {
    "followup_id": "f1",
    "occurrence_id": "r1@2026-01-01T12:00:00.000Z",
    "reminder_id": "r1",
    "session_id": "s",
    "occurrence_at": "2026-01-01T12:00:00.000Z",
    "decided_at": "2026-01-01T12:01:00.000Z",
    "admitted_at": "2026-01-01T12:02:00.000Z",
    "host": "codex",
    "outcome": "admitted",
}


# --- reminders and dispatches


def test_optional_members_are_left_out_and_never_null() -> None:
    view = reminder_view(ONCE, Beside(), {"why": "behind"}, START)
    assert view == {
        "id": "r1",
        "owner_uid": 1000,
        "session_id": "s",
        "kind": "after",
        "rule": {"after_seconds": 60},
        "prompt": "p",
        "scheduled_at": "2026-01-01T11:59:00.000Z",
        "rule_text": "once, 1 minute after it was set",
        "status": "active",
        "paused": False,
        "state": "overdue",
        "revision": 1,
        "created_at": "2026-03-09T13:00:00.000Z",
        "waiting_for": {"why": "behind"},
    }


def test_optional_members_are_shown_where_they_are() -> None:
    full = reminder(
        Daily(dt.time(9), "Europe/Berlin"),
        START - MINUTE,
        title="t",
        context={"a": "b"},
        status="ended",
        ended_at=START,
        ended_reason="range",
    )
    view = reminder_view(full, Beside(DISPATCH, 2), {"why": "ended"}, START)
    assert view["scheduled_at_local"] == "2026-01-01T12:59:00+01:00[Europe/Berlin]"
    assert (view["title"], view["context"]) == ("t", {"a": "b"})
    assert (view["ended_at"], view["ended_reason"]) == ("2026-01-01T12:00:00.000Z", "range")
    assert (view["status"], view["state"]) == ("ended", "ended")
    assert (view["last_dispatch"], view["runs"]) == (SUMMARY, 2)


def test_ends_and_age_are_shown_with_how_many_occurrences_were_admitted() -> None:
    full = replace(
        OFTEN,
        until=START + MINUTE,
        max_occurrences=5,
        dispatch_count=2,
        expires_after_seconds=90,
        snoozed_from=7,
    )
    view = reminder_view(full, Beside(), {"why": "behind"}, START)
    assert (view["until"], view["expires_after_seconds"]) == ("2026-01-01T12:01:00.000Z", 90)
    assert (view["max_occurrences"], view["dispatch_count"]) == (5, 2)
    assert view["snoozed_from"] == "r7"
    counted = reminder_view(replace(OFTEN, dispatch_count=2), Beside(), {"why": "behind"}, START)
    assert "dispatch_count" not in counted


@pytest.mark.parametrize(
    ("status", "target", "state"),
    [
        ("active", START - MINUTE, "paused"),
        ("active", START + MINUTE, "paused"),
        ("ended", START - MINUTE, "ended"),
    ],
)
def test_a_paused_reminder_is_active_and_neither_scheduled_nor_overdue(
    status: str, target: dt.datetime, state: str
) -> None:
    record = replace(OFTEN, paused=True, status=status, scheduled_at=target)
    view = reminder_view(record, Beside(), {"why": "paused"}, START)
    assert (view["status"], view["state"], view["paused"]) == (status, state, status == "active")


@pytest.mark.parametrize(("seconds", "state"), [(1, "scheduled"), (0, "overdue"), (-1, "overdue")])
def test_an_active_reminder_is_scheduled_or_overdue(seconds: int, state: str) -> None:
    record = replace(ONCE, scheduled_at=START + dt.timedelta(seconds=seconds))
    assert reminder_view(record, Beside(), {"why": "target"}, START)["state"] == state


def test_a_dispatch_has_the_words_that_were_sent() -> None:
    assert dispatch_view(DISPATCH) == {**SUMMARY, "prompt": "p"}
    full = replace(DISPATCH, title="t", message_id="m")
    assert dispatch_view(full) == {**SUMMARY, "prompt": "p", "title": "t", "message_id": "m"}


def test_a_dispatch_of_what_was_not_sent_has_no_follow_up_and_no_host() -> None:
    view = dispatch_view(replace(DISPATCH, followup_id="", host="", outcome="missed"))
    assert (view["followup_id"], view["host"], view["outcome"]) == ("", "", "missed")


def test_a_later_instant_is_in_whole_milliseconds_and_never_in_the_past() -> None:
    assert later(START, 1.0004) == "2026-01-01T12:00:01.000Z"
    assert later(START, 0.0006) == "2026-01-01T12:00:00.001Z"
    assert later(START, -5) == "2026-01-01T12:00:00.000Z"


# --- why a reminder waits


class Waiting:
    """What is known of one Session at the start of the clock."""

    def __init__(self) -> None:
        self.floor = Floor()
        self.hosts: Hosts = self.floor.hosts
        self.state = SessionState(KEY)

    def host(self) -> Host:
        return self.floor.host("s")

    def pushed(self, *reminders: Reminder) -> FollowUp:
        occurrences = tuple(occurrence(each, START, trusted=True) for each in reminders)
        followup = FollowUp("f1", *KEY, reminders != (ONCE,), START, occurrences)
        self.state.begin(message_of(reminders[0]))
        return followup

    def pause(self, message: Any, attempts: int, error: str | None = None) -> None:
        timer = self.floor.clock.call_later(9, lambda: None)
        self.state.pause = Pause("busy", message, attempts, error, 9.0, timer)

    def why(self, record: Reminder, known: bool = True) -> Any:
        state = self.state if known else None
        return waiting_for(record, state, self.hosts, START, self.floor.clock.monotonic())


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


def test_an_ended_reminder_waits_for_nothing(waiting: Waiting) -> None:
    waiting.state.pushed = waiting.pushed(ONCE)
    assert waiting.why(replace(ONCE, status="ended")) == {"why": "ended"}


def test_what_is_not_due_waits_for_its_target(waiting: Waiting) -> None:
    record = replace(ONCE, scheduled_at=START + MINUTE)
    waiting.pause((1, 1), 3)
    for known in (True, False):
        assert waiting.why(record, known) == {"why": "target"}


def test_without_a_host_it_waits_for_one(waiting: Waiting) -> None:
    assert waiting.why(ONCE, known=False) == {"why": "no_host"}
    waiting.hosts.detach(waiting.host(), "*")
    seen = {"why": "no_host", "last_host_seen_at": "2026-01-01T12:00:00.000Z"}
    assert waiting.why(ONCE) == seen


def test_where_every_host_called_the_session_gone_it_waits_for_one_that_knows_it(
    waiting: Waiting,
) -> None:
    waiting.host().gone.add("s")
    assert waiting.why(ONCE) == {"why": "host_gone"}


def test_what_was_pushed_waits_for_its_answer(waiting: Waiting) -> None:
    waiting.host()
    waiting.state.pushed = waiting.pushed(OFTEN)
    assert waiting.why(OFTEN) == {"why": "in_flight", "attempts": 1}
    assert waiting.why(ONCE) == {"why": "behind"}
    assert waiting.why(replace(OFTEN, revision=7, words_revision=7))["why"] == "in_flight"
    assert waiting.why(replace(OFTEN, timing_revision=2)) == {"why": "behind"}


def test_what_was_admitted_waits_for_its_receipt(waiting: Waiting) -> None:
    """Also while it is pushed once more, and without a host."""
    followup = waiting.pushed(OFTEN)
    waiting.state.read_admission(followup)
    assert waiting.why(OFTEN) == {"why": "receipt"}
    waiting.state.pushed = followup
    assert waiting.why(OFTEN) == {"why": "receipt"}


def test_a_pause_holds_up_the_message_that_was_tried_and_the_others_are_behind(
    waiting: Waiting,
) -> None:
    waiting.host()
    waiting.pause((1, 1), 3, "no room")
    assert waiting.why(ONCE) == {
        "why": "busy",
        "attempts": 3,
        "next_try_at": "2026-01-01T12:00:09.000Z",
        "last_error": "no room",
    }
    assert waiting.why(OFTEN) == {"why": "behind"}


def test_a_pause_that_no_message_is_to_blame_for_holds_up_all(waiting: Waiting) -> None:
    waiting.host()
    waiting.pause(None, 0)
    for record in (ONCE, OFTEN):
        assert waiting.why(record) == {
            "why": "busy",
            "attempts": 0,
            "next_try_at": "2026-01-01T12:00:09.000Z",
        }


def test_a_message_that_stands_aside_says_so_until_its_pause_is_over(waiting: Waiting) -> None:
    waiting.host()
    timer = waiting.floor.clock.call_later(5, lambda: None)
    waiting.state.begin((1, 1)).aside = Aside("no room", 5.0, timer)
    waiting.pause(None, 2)
    assert waiting.why(ONCE) == {
        "why": "set_aside",
        "attempts": 1,
        "last_error": "no room",
        "next_try_at": "2026-01-01T12:00:05.000Z",
    }
    waiting.floor.clock.advance(5)
    assert waiting.why(ONCE) == {"why": "behind"}


def test_with_a_host_and_nothing_known_it_is_behind_what_goes_first(waiting: Waiting) -> None:
    waiting.host()
    for known in (True, False):
        assert waiting.why(ONCE, known) == {"why": "behind"}
