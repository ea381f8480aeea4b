"""What is made once though it was asked for twice, and what is made twice because it was meant."""

from __future__ import annotations

import datetime as dt

from scheduler_daemon.mcp.keys import MEMORY, MOST, Keys

NOW = dt.datetime(2026, 8, 7, 1, 0, tzinfo=dt.UTC)
MOMENT = dt.timedelta(milliseconds=1)


def test_a_call_of_unknown_outcome_is_repeated_with_its_key_once() -> None:
    keys = Keys()
    keys.keep("call", "key", NOW)
    assert keys.take("other", NOW) is None
    assert keys.take("call", NOW + MEMORY) == "key"
    assert keys.take("call", NOW + MEMORY) is None


def test_after_a_while_or_under_a_clock_that_was_set_it_is_a_second_wish() -> None:
    for later in (MEMORY + MOMENT, -MEMORY - MOMENT):
        keys = Keys()
        keys.keep("call", "key", NOW)
        assert keys.take("call", NOW + later) is None


def test_only_the_latest_are_remembered() -> None:
    keys = Keys()
    for number in range(MOST + 1):
        keys.keep(f"call {number}", f"key {number}", NOW)
    assert keys.take("call 0", NOW) is None
    assert keys.take("call 1", NOW) == "key 1"
