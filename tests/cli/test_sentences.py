"""What is said about one reminder."""

from __future__ import annotations

import datetime as dt
from typing import Any, cast, get_args

import pytest

from scheduler_daemon.cli import sentences, times
from scheduler_daemon.cli.times import Moment
from scheduler_daemon.wire.shapes import DispatchSummary, Reminder, WaitingFor, Why
from tests.cli import shapes

NOW = dt.datetime(2026, 12, 24, 13, 0, tzinfo=dt.UTC)
NEXT = "2026-12-24T13:20:00.000Z"
PAST = "2026-12-24T12:50:00.000Z"


def reminder(**changes: Any) -> Reminder:
    return cast("Reminder", shapes.reminder(**{"scheduled_at": NEXT, **changes}))


def waits(why: str, **members: Any) -> str:
    waiting = cast("WaitingFor", {"why": why, **members})
    overdue = reminder(scheduled_at=PAST, state="overdue", waiting_for=waiting)
    return sentences.why(overdue, NOW, "UTC")


def test_a_one_shot_says_when_it_will_come() -> None:
    local = "2026-12-24T14:20:00+01:00[Europe/Berlin]"
    assert sentences.coming(reminder(scheduled_at_local=local), NOW, "UTC") == (
        "r7 will come in 20 minutes, at 14:20 (2026-12-24 14:20:00 Europe/Berlin)"
    )


def test_a_recurring_one_says_its_rule_too() -> None:
    every = reminder(kind="every", rule_text="every 2 hours")
    assert sentences.coming(every, NOW, "UTC").endswith(", and then every 2 hours")


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"until": "2026-12-31T00:00:00.000Z"}, ", and then every 2 hours, until 2026-12-3"),
        ({"max_occurrences": 5, "dispatch_count": 3}, ", and then every 2 hours, 5 times in all"),
        ({"max_occurrences": 5, "dispatch_count": 4}, ", for the last time"),
        ({"max_occurrences": 1}, ", once only"),
    ],
)
def test_a_recurring_one_says_how_it_ends(end: dict[str, Any], words: str) -> None:
    every = reminder(kind="every", rule_text="every 2 hours", **end)
    assert words in sentences.coming(every, NOW, "UTC")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scheduled_at": PAST, "state": "overdue"}, "r7 was due 10 minutes ago, at"),
        ({"state": "paused"}, "r7 is paused"),
        ({"state": "ended"}, "r7 has ended"),
        ({"until": PAST}, "r7 has no time left before its end"),
    ],
)
def test_one_that_will_not_simply_come_says_so(changes: dict[str, Any], words: str) -> None:
    assert sentences.coming(reminder(**changes), NOW, "UTC").startswith(words)


def test_before_its_time_it_waits_for_its_time() -> None:
    assert sentences.why(reminder(), NOW, "UTC").startswith("Its time has not come: in 20 minutes")


def test_what_lies_beyond_its_end_is_not_said_to_come() -> None:
    assert sentences.why(reminder(until=PAST), NOW, "UTC").startswith("It has no time left")


def test_a_paused_one_waits_to_be_resumed() -> None:
    assert "resumed" in waits("paused")


@pytest.mark.parametrize("why", [*get_args(Why), "something_new"])
def test_every_reason_has_a_sentence_of_its_own(why: str) -> None:
    sentence = waits(why)
    assert sentence.endswith(".")
    assert ("(something_new)" in sentence) == (why == "something_new")
    assert f"({why})" not in sentence or why == "something_new"


@pytest.mark.parametrize("why", get_args(Why))
def test_what_a_session_waits_for_is_said_in_short(why: Why) -> None:
    assert sentences.waiting({"why": why}, NOW) not in ("", why)


def test_what_a_session_waits_for_says_how_often_it_was_tried_and_when_again() -> None:
    waiting: Any = {"why": "new\n", "attempts": 1, "next_try_at": NEXT, "last_error": "\x1b"}
    assert sentences.waiting(waiting, NOW) == "new\\n: '\\x1b', tried 1 time, again in 20 minutes"


def test_a_missing_host_is_named_by_its_session() -> None:
    sentence = waits("no_host", last_host_seen_at="2026-12-24T12:00:00.000Z")
    assert sentence.startswith("It has been due for 10 minutes: no host is connected for Session")
    assert "'s1'" in sentence
    assert "a host was last seen 1 hour ago" in sentence


def test_attempts_are_counted_and_the_next_one_announced() -> None:
    soon = "2026-12-24T13:00:08.000Z"
    sentence = waits("refused", attempts=3, last_error="out of\x1b memory", next_try_at=soon)
    assert "its host answered with an error: 'out of\\x1b memory', tried 3 times" in sentence
    assert sentence.endswith(", again in 8 seconds.")
    assert waits("busy", attempts=1).endswith("busy, tried 1 time.")
    assert waits("busy", next_try_at=soon).endswith("busy, again in 8 seconds.")


def test_one_that_ended_says_why_and_when() -> None:
    ended = reminder(
        state="ended",
        waiting_for={"why": "ended"},
        ended_reason="delivered",
        ended_at="2026-12-24T12:59:00.000Z",
    )
    assert sentences.why(ended, NOW, "UTC").startswith(
        "It will not come again: it was delivered, 1 minute ago (2026-12-24 "
    )
    bare = reminder(state="ended", waiting_for={"why": "ended"})
    assert sentences.why(bare, NOW, "UTC") == "It will not come again: it has ended."


def receipt(**changes: Any) -> DispatchSummary:
    return cast("DispatchSummary", shapes.receipt(**changes))


def test_a_receipt_says_which_host_took_it_and_when() -> None:
    sentence = sentences.taken(receipt(message_id="m\n1"), NOW, "UTC")
    assert sentence.startswith("Host 'editor' took it as message 'm\\n1' 1 second ago (2026-12-24 ")
    assert sentence.endswith(", 9 minutes 59 seconds after its time.")


def test_one_that_came_on_time_is_not_called_late() -> None:
    assert "after its time" not in sentences.taken(
        receipt(admitted_at="2026-12-24T12:50:00.020Z"), NOW, "UTC"
    )


def test_what_was_skipped_was_not_taken_by_anybody() -> None:
    sentence = sentences.taken(receipt(outcome="skipped"), NOW, "UTC")
    assert sentence.startswith("The time 2026-12-24 ")
    assert " was skipped, 1 second ago" in sentence


@pytest.mark.parametrize(
    ("local", "words"),
    [
        ("2026-12-24T14:20:00+01:00", "at 14:20"),
        ("2026-12-24T14:20:05+01:00", "at 14:20:05"),
        ("2026-12-24T14:20:05.250+01:00", "at 14:20:05"),
        ("2026-12-25T09:00:00+01:00", "tomorrow at 09:00"),
        ("2026-12-23T09:00:00+01:00", "yesterday at 09:00"),
        ("2026-12-30T09:00:00+01:00", "on Wednesday at 09:00"),
        ("2026-12-31T09:00:00+01:00", "on Thursday 31 December at 09:00"),
        ("2026-12-20T09:00:00+01:00", "on Sunday 20 December at 09:00"),
        ("2027-01-04T09:00:00+01:00", "on Monday 4 January 2027 at 09:00"),
    ],
)
def test_the_day_is_named_as_near_as_it_is(local: str, words: str) -> None:
    at = Moment(dt.datetime.fromisoformat(local), "Europe/Berlin")
    assert sentences.day_and_time(at, NOW) == words


def test_days_are_those_of_the_clock_that_is_shown() -> None:
    late = dt.datetime(2026, 12, 24, 23, 30, tzinfo=dt.UTC)
    at = times.moment("2026-12-25T00:00:00.000Z", "2026-12-25T09:00:00+09:00[Asia/Tokyo]", None)
    assert sentences.day_and_time(at, late) == "at 09:00"


def test_a_whole_instant_says_when_and_on_whose_clock() -> None:
    local = "2026-12-24T14:20:00+01:00[Europe/Berlin]"
    at = times.moment("2026-12-24T13:20:00.000Z", local, "Asia/Tokyo")
    assert sentences.in_words(at, NOW) == (
        "in 20 minutes, at 14:20 (2026-12-24 14:20:00 Europe/Berlin)"
    )
