"""What the loop waits for: the earliest target known, and where each scan goes on."""

from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from scheduler_daemon.targets import Scan, Targets
from tests.support.clock import START


def at(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


A, B, C = (1, "a"), (1, "b"), (2, "c")


def test_the_earliest_target_comes_first_and_is_forgotten_when_it_is_due() -> None:
    targets = Targets()
    assert targets.first() is None
    for key, seconds in ((A, 30), (B, 10), (C, 20)):
        targets.note(key, at(seconds))
    assert targets.first() == at(10)
    assert targets.take_due(at(9.999)) == []
    assert targets.take_due(at(20)) == [B, C]
    assert targets.first() == at(30)


def test_a_session_has_one_target_the_last_that_was_noted() -> None:
    targets = Targets()
    targets.note(A, at(10))
    targets.note(A, at(30))
    targets.note(B, at(20))
    targets.note(B, None)
    targets.note(C, None)
    assert targets.first() == at(30)
    assert targets.take_due(at(100)) == [A]


def test_an_owners_earliest_target_is_its_own() -> None:
    targets = Targets()
    targets.note(A, at(30))
    targets.note(B, at(10))
    targets.note(C, at(5))
    assert (targets.first_of(1), targets.first_of(2), targets.first_of(3)) == (at(10), at(5), None)


notes = st.lists(st.tuples(st.sampled_from([A, B, C]), st.none() | st.integers(0, 20)), max_size=60)


@given(notes, st.integers(0, 20))
def test_targets_behave_like_a_plain_dictionary(
    noted: list[tuple[tuple[int, str], int | None]], now: int
) -> None:
    targets, plain = Targets(), {}
    for key, seconds in noted:
        targets.note(key, None if seconds is None else at(seconds))
        plain[key] = seconds
    left = {key: seconds for key, seconds in plain.items() if seconds is not None}
    due = sorted((seconds, key) for key, seconds in left.items() if seconds <= now)
    assert targets.take_due(at(now)) == [key for _, key in due]
    later = [seconds for seconds in left.values() if seconds > now]
    assert targets.first() == (at(min(later)) if later else None)


def test_memory_follows_the_sessions_and_not_the_changes() -> None:
    targets = Targets()
    for number in range(10_000):
        targets.note(A, at(10_000 - number))
        targets.note(B, at(number + 1))
    assert len(targets._heap) < 2000
    assert targets.take_due(at(10_000)) == [A, B]


def test_a_scan_begins_at_the_beginning_and_at_once() -> None:
    scan = Scan(START)
    assert (scan.place, scan.next_at) == (("", ""), START)


def test_a_scan_that_passed_everything_due_waits_for_what_it_expects() -> None:
    scan = Scan(START)
    scan.next_at = None
    scan.passed(START)
    scan.expect(at(20))
    scan.expect(at(10))
    scan.expect(at(30))
    assert scan.next_at == at(10)
    assert scan.place > ("2026-01-01T12:00:00.000Z", "\U0010fffe")
    assert scan.place < ("2026-01-01T12:00:00.001Z", "")


def test_a_scan_is_not_sure_of_its_next_target_when_it_may_have_been_the_one_that_moved() -> None:
    for target, sure, next_at in (
        (None, False, at(10)),
        (at(11), False, at(10)),
        (at(10), True, at(10)),
        (at(9), True, at(9)),
    ):
        scan = Scan(at(10))
        scan.learn(target)
        assert (scan.sure, scan.next_at) == (sure, next_at)
    scan.next_at = None
    scan.learn(at(7))
    assert scan.next_at == at(7)


def test_a_scan_goes_back_for_a_target_behind_its_place() -> None:
    """The clock went back by less than is noticed, and something is due in that moment."""
    scan = Scan(START)
    scan.next_at = None
    scan.passed(at(1))
    scan.expect(at(0.5))
    assert scan.place == ("2026-01-01T12:00:00.500Z", "")
    scan.passed(at(0.7))
    assert scan.place > ("2026-01-01T12:00:00.700Z", "z")


def test_a_scan_never_passes_backwards() -> None:
    scan = Scan(START)
    scan.passed(at(1))
    scan.passed(at(0.5))
    assert scan.place > ("2026-01-01T12:00:01.000Z", "")
