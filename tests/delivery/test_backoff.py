"""The growing, jittered pause between tries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_daemon.delivery.backoff import pause

ATTEMPTS = st.integers(min_value=1, max_value=10**9)
JITTER = st.floats(min_value=0, max_value=1, exclude_max=True)


def test_without_jitter_the_pause_is_one_second_doubling_to_five_minutes() -> None:
    pauses = [pause(attempts, 0.0) for attempts in range(1, 12)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


@given(attempts=ATTEMPTS, jitter=JITTER)
def test_jitter_takes_away_up_to_half_and_adds_nothing(attempts: int, jitter: float) -> None:
    full = pause(attempts, 0.0)
    assert full / 2 <= pause(attempts, jitter) <= full


@given(attempts=ATTEMPTS, jitter=JITTER)
def test_with_equal_jitter_the_pause_never_shrinks(attempts: int, jitter: float) -> None:
    assert pause(attempts, jitter) <= pause(attempts + 1, jitter)


def test_a_session_that_failed_a_billion_times_still_waits_five_minutes_at_most() -> None:
    assert pause(10**9, 0.0) == pytest.approx(300)
