"""Due records into occurrences, and occurrences into as few frames as they fit, in order."""

from __future__ import annotations

import dataclasses
import datetime as dt
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_daemon.delivery.framing import followup_params
from scheduler_daemon.delivery.plan import (
    ENVELOPE_BYTES,
    LATE_BYTES,
    Packer,
    exact_bytes,
    most_bytes,
    occurrence,
)
from scheduler_daemon.model import (
    After,
    At,
    Cron,
    Daily,
    Every,
    FollowUp,
    Occurrence,
    Reminder,
    Rule,
    Weekly,
)
from scheduler_daemon.wire.frames import MAX_FRAME_BYTES, encode
from scheduler_daemon.wire.messages import request

NOW = dt.datetime(2026, 3, 9, 13, 0, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)
EVERY = Every(600, NOW - 35 * MINUTE)
LONG_CRON = Cron(
    ",".join(str(n) for n in range(0, 60, 5))
    + " "
    + ",".join(str(n) for n in range(0, 24, 2))
    + " "
    + ",".join(str(n) for n in range(1, 32, 2))
    + " 1,3,5,7,9,11 1,3,5",
    "America/Argentina/ComodRivadavia",
)
RULES: list[Rule] = [
    After(1200),
    At(NOW - MINUTE),
    EVERY,
    Daily(dt.time(9, 0, 0, 123000), "America/Argentina/ComodRivadavia"),
    Weekly(dt.time(9, 30, 1), (1, 2, 3, 4, 5, 6, 7), "America/North_Dakota/New_Salem"),
    LONG_CRON,
]


def reminder(rule: Rule = EVERY, target: dt.datetime = NOW - MINUTE, **more: Any) -> Reminder:
    values: dict[str, Any] = {
        "number": 42,
        "owner_uid": 1000,
        "session_id": "s",
        "rule": rule,
        "title": None,
        "prompt": "p",
        "context": None,
        "scheduled_at": target,
        "after_at": NOW,
        "computed_at": NOW,
        "last_occurrence_at": None,
        "generation": 0,
        "status": "active",
        "ended_at": None,
        "ended_reason": None,
        "revision": 1,
        "timing_revision": 1,
        "words_revision": 1,
        "created_at": NOW,
    }
    return Reminder(**{**values, **more})


# --- one occurrence


@pytest.mark.parametrize("rule", [After(1200), At(NOW - MINUTE)])
def test_a_one_shot_occurs_at_its_target_and_ends(rule: Rule) -> None:
    each = occurrence(reminder(rule, NOW - 90 * MINUTE), NOW, trusted=True)
    assert each.occurrence_at == NOW - 90 * MINUTE
    assert (each.next_at, each.missed_from) == (None, None)


def test_a_recurring_record_has_its_latest_occurrence_and_since_when_it_missed() -> None:
    made = NOW - 60 * MINUTE
    each = occurrence(reminder(target=NOW - 35 * MINUTE, created_at=made), NOW, trusted=True)
    assert each.occurrence_at == NOW - 5 * MINUTE
    assert each.next_at == NOW + 5 * MINUTE
    assert each.missed_from == NOW - 35 * MINUTE


def test_nothing_was_missed_that_was_dispatched_nor_before_the_creation_under_a_slow_clock() -> (
    None
):
    """Whatever target a clock far behind has left; one that was moved by hand counts as it is."""
    target = NOW - 35 * MINUTE
    every = Every(600, target)
    for created, last, missed in [
        (NOW, None, target),
        (NOW, NOW - 65 * MINUTE, None),
        (NOW - 20 * MINUTE, NOW - 65 * MINUTE, NOW - 15 * MINUTE),
        (NOW - 90 * MINUTE, NOW - 65 * MINUTE, target),
        (NOW - 60 * MINUTE, NOW - 15 * MINUTE, None),
        (NOW - 60 * MINUTE, NOW + 60 * MINUTE, target),
    ]:
        record = reminder(every, target, created_at=created, last_occurrence_at=last)
        assert occurrence(record, NOW, trusted=True).missed_from == missed


def test_nothing_was_missed_where_the_target_is_the_latest() -> None:
    each = occurrence(reminder(target=NOW), NOW, trusted=True)
    assert (each.occurrence_at, each.missed_from) == (NOW, None)


def test_an_occurrence_is_named_by_reminder_and_instant_and_never_by_the_decision() -> None:
    record = reminder(target=NOW)
    ids = {occurrence(record, NOW + n * MINUTE, trusted=True).occurrence_id for n in range(10)}
    assert ids == {"r42@2026-03-09T13:00:00.000Z"}


def test_a_generation_other_than_the_first_is_part_of_the_name() -> None:
    each = occurrence(reminder(target=NOW, generation=3), NOW, trusted=True)
    assert each.occurrence_id == "r42.3@2026-03-09T13:00:00.000Z"


# --- how long it is

words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50)
hostile = st.text(st.sampled_from('\x01\x7f\u2028\ufeff\U000e0001\U0001f600"\\\nä一'), max_size=200)
occurrences = st.builds(
    lambda rule, prompt, title, context, late: occurrence(
        reminder(rule, NOW - late, prompt=prompt, title=title, context=context), NOW, trusted=True
    ),
    st.sampled_from(RULES),
    words | hostile,
    st.none() | words | hostile,
    st.none() | st.dictionaries(words, hostile, max_size=3),
    st.integers(0, 10**9).map(lambda seconds: dt.timedelta(seconds=seconds)),
)


def frame_bytes(taken: list[Occurrence], decided_at: dt.datetime = NOW) -> int:
    followup = FollowUp("f" * 17, 1000, "\U0001f600" * 200, True, decided_at, tuple(taken))
    params: Any = followup_params(followup, 10**6)
    return len(encode(request("f" * 17, "session.followup", params)))


@settings(max_examples=40)
@given(occurrences)
def test_the_quick_bound_is_never_below_the_exact_size(each: Occurrence) -> None:
    assert exact_bytes(each) <= most_bytes(each)


@settings(max_examples=40)
@given(st.lists(occurrences, min_size=1, max_size=6))
def test_the_exact_sizes_and_the_envelope_are_never_below_the_frame(taken: list[Any]) -> None:
    assert frame_bytes(taken) <= ENVELOPE_BYTES + sum(map(exact_bytes, taken))


def test_the_longest_delay_there_can_be_still_fits_its_room() -> None:
    year_1 = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
    each = occurrence(reminder(At(year_1), year_1), NOW, trusted=True)
    late = followup_params(FollowUp("", 0, "", True, year_1.replace(year=9999), (each,)), 1)
    on_time = followup_params(FollowUp("", 0, "", True, year_1, (each,)), 1)
    assert 'late by: "3651694 days"' in late["text"]
    assert len(encode(late)) - len(encode(on_time)) <= LATE_BYTES


# --- frames


def pack(all_of_them: list[Occurrence], max_bytes: int) -> list[list[Occurrence]]:
    """Message after message, as the planner does it: what did not fit begins the next."""
    messages: list[list[Occurrence]] = []
    left = all_of_them
    while left:
        packer = Packer(max_bytes)
        for each in left:
            if not packer.add(each):
                break
        messages.append(packer.taken)
        left = left[len(packer.taken) :]
    return messages


@settings(max_examples=40)
@given(st.lists(occurrences, min_size=1, max_size=8), st.integers(6_000, 40_000))
def test_occurrences_are_cut_in_order_into_as_few_frames_as_fit(
    taken: list[Any], max_bytes: int
) -> None:
    """Every frame fits, unless one occurrence alone does not; none could have taken the next."""
    messages = pack(taken, max_bytes)
    assert [each for message in messages for each in message] == taken
    for message in messages:
        assert len(message) == 1 or frame_bytes(message) <= max_bytes
    for message, following in pairwise(messages):
        size = sum(map(exact_bytes, [*message, following[0]]))
        assert size > max_bytes - ENVELOPE_BYTES


def test_short_records_share_a_frame_however_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without measuring each: only what might not fit is measured."""
    measured: list[Occurrence] = []

    def measure(each: Occurrence) -> int:
        measured.append(each)
        return exact_bytes(each)

    monkeypatch.setattr("scheduler_daemon.delivery.plan.exact_bytes", measure)
    packer = Packer(MAX_FRAME_BYTES)
    each = occurrence(reminder(), NOW, trusted=True)
    assert all(packer.add(each) for _ in range(400))
    assert measured == []
    assert all(packer.add(each) for _ in range(400))
    assert len(measured) <= 800


@pytest.mark.parametrize("character", ["a", '"', "\x01", "一", "\U000e0001", "\u2028"])
def test_the_longest_record_allowed_always_fits_a_frame(character: str) -> None:
    """Whatever its characters, with the longest title and context."""
    room = 4096 // len(character.encode()) - 10
    longest = reminder(
        LONG_CRON,
        prompt=character * 32768,
        title=character * 120,
        context={"key": character * room},
        session_id="\U0001f600" * 200,
    )
    each = occurrence(longest, NOW, trusted=True)
    packer = Packer(MAX_FRAME_BYTES)
    assert packer.add(each)
    assert frame_bytes([each]) <= MAX_FRAME_BYTES
    assert not packer.add(dataclasses.replace(each)) or frame_bytes([each] * 2) <= MAX_FRAME_BYTES
