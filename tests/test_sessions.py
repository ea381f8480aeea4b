"""What is remembered of a Session between two looks at the file."""

from __future__ import annotations

import dataclasses

from scheduler_daemon.delivery.plan import occurrence
from scheduler_daemon.model import After, Every, FollowUp
from scheduler_daemon.sessions import Aside, Pause, SessionState, message_in, message_of
from tests.delivery.test_plan import reminder
from tests.support.clock import START, ManualClock

ONCE = reminder(After(1), START, number=1)
OFTEN = reminder(Every(600, START), START, number=2)


def followup(*reminders: object, batch: bool = False) -> FollowUp:
    each = tuple(occurrence(record, START, trusted=True) for record in reminders)  # type: ignore[arg-type]
    return FollowUp("f1", 1000, "s", batch, START, each)


def aside(clock: ManualClock, seconds: float) -> Aside:
    return Aside("no", clock.monotonic() + seconds, clock.call_later(seconds, lambda: None))


def pause(clock: ManualClock) -> Pause:
    return Pause("busy", None, 1, None, 9.0, clock.call_later(9, lambda: None))


def test_a_one_shot_is_a_message_of_its_own_and_all_that_recurs_is_one() -> None:
    assert message_of(ONCE) == (1, 1)
    assert message_of(dataclasses.replace(ONCE, revision=5)) == (1, 5)
    assert message_of(OFTEN) is None
    assert message_in(followup(ONCE)) == (1, 1)
    assert message_in(followup(OFTEN, batch=True)) is None


def test_attempts_are_counted_per_message_until_it_is_recorded() -> None:
    state = SessionState((1000, "s"))
    assert [state.begin((1, 1)).attempts for _ in range(3)] == [1, 2, 3]
    assert state.begin(None).attempts == 1
    assert state.begin((1, 1)).attempts == 4
    assert (state.attempts((1, 1)), state.attempts(None), state.attempts((9, 9))) == (4, 1, 0)
    sent = followup(ONCE)
    state.read_admission(sent)
    state.recorded(sent)
    assert (state.attempts((1, 1)), state.attempts(None)) == (0, 1)


def test_an_admission_that_was_read_keeps_a_session_busy_until_it_is_recorded() -> None:
    state = SessionState((1000, "s"), failures=3, silent=True)
    one, two = followup(ONCE), followup(OFTEN, batch=True)
    assert (state.busy, state.idle) == (False, True)
    state.read_admission(one)
    state.read_admission(two)
    state.recorded(one)
    assert (state.busy, state.idle, state.recording) == (True, False, [two])
    state.recorded(two)
    assert (state.busy, state.idle) == (False, True)
    assert (state.failures, state.silent, state.epoch) == (0, False, 2)


def test_a_recorded_message_stands_aside_no_longer() -> None:
    clock, state = ManualClock(), SessionState((1000, "s"))
    state.begin(None).aside = aside(clock, 100)
    sent = followup(OFTEN, batch=True)
    state.read_admission(sent)
    state.recorded(sent)
    assert (state.tried, clock.pending_calls) == ({}, 0)


def test_resuming_ends_the_pause_and_lets_the_next_one_be_short() -> None:
    clock = ManualClock()
    state = SessionState((1000, "s"), pause=pause(clock), failures=5)
    for _ in range(2):
        state.resume()
        assert (state.failures, clock.pending_calls, state.idle) == (0, 0, True)


def test_what_stands_aside_is_remembered_and_what_does_not_can_be_forgotten() -> None:
    clock, state = ManualClock(), SessionState((1000, "s"))
    state.begin((1, 1))
    idle = [state.idle]
    state.begin((2, 1)).aside = aside(clock, 5)
    state.begin(None).aside = aside(clock, 10)
    clock.advance(5)
    assert list(state.set_aside(clock.monotonic())) == [None]
    state.forget_tried(clock.monotonic())
    assert list(state.tried) == [None]
    assert [*idle, state.idle] == [True, False]


def test_dropping_it_cancels_its_timers() -> None:
    clock = ManualClock()
    state = SessionState((1000, "s"), pause=pause(clock))
    state.begin(None).aside = aside(clock, 5)
    state.drop()
    assert (clock.pending_calls, state.tried, state.pause) == (0, {}, None)
