"""Ends, skips and ages against a slow opinion: every occurrence listed, those taken out that go."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_daemon.errors import InvalidRule, TimeOutOfRange
from scheduler_daemon.model import After, At, Cron, Daily, Every, Instant, Reminder, Rule, Weekly
from scheduler_daemon.rules import (
    Decision,
    check_end,
    due_decision,
    first,
    has_expired,
    is_beyond,
    onward,
    parse_at,
    parse_until,
)
from tests.delivery.test_plan import reminder

from . import reference
from .test_properties import MILLISECOND, near_changes, times, zones

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
DAY = dt.timedelta(days=1)
LAST_MOMENT = dt.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC)

LISTED = 13
dense = st.sampled_from(["*/20 * * * *", "30 * * * *", "0 */2 * * *", "15,45 0-3 * * *"])
sparse = st.sampled_from(["30 2 * * *", "0 0 * * *", "59 23 * * *", "0 3 */1 * *"])
rules: st.SearchStrategy[Rule] = st.one_of(
    st.builds(Every, st.integers(300, 10**6), near_changes),
    st.builds(Daily, times, zones),
    st.builds(Cron, dense | sparse, zones),
)


def listed(rule: Rule, start: Instant) -> list[Instant]:
    """The first occurrences after an instant."""
    if isinstance(rule, Every):
        interval = dt.timedelta(seconds=rule.seconds)
        begin = rule.anchor + ((start - rule.anchor) // interval + 1) * interval
        return [begin + number * interval for number in range(LISTED)]
    assert isinstance(rule, Daily | Cron)
    span = 5 * DAY if isinstance(rule, Cron) and rule.expression[0:2] in ("*/", "15") else 16 * DAY
    return reference.occurrences(rule, start + MILLISECOND, start + span)[:LISTED]


class Case(NamedTuple):
    """A record that is due at `now`, and what its rule has from the target on."""

    record: Reminder
    now: Instant
    occurrences: list[Instant]
    trusted: bool

    def left(self) -> list[Instant]:
        """The occurrences that were not skipped."""
        low, high = self.record.skips or (self.now, self.now)
        return [each for each in self.occurrences if not low < each <= high]

    def exists(self, each: Instant) -> bool:
        return self.record.until is None or each <= self.record.until


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rule = draw(rules)
    occurrences = listed(rule, draw(near_changes))
    assert len(occurrences) == LISTED
    at = draw(st.integers(0, 8))
    gap = occurrences[at + 1] - occurrences[at]
    moments = [occurrences[at], occurrences[at] + gap / 2, occurrences[at + 1] - MILLISECOND]
    now = draw(st.sampled_from(moments))
    until = draw(st.none() | st.sampled_from(occurrences[:10]))
    if until is not None:
        until += draw(st.sampled_from([-1, 0, 1])) * MILLISECOND
    skips = None
    if draw(st.booleans()):
        low = draw(st.integers(0, 9))
        skips = occurrences[low], occurrences[draw(st.integers(low + 1, 10))]
    record = reminder(rule, occurrences[0], until=until, skips=skips)
    return Case(record, now.replace(microsecond=now.microsecond // 1000 * 1000), occurrences, True)


def assert_next(decision: Decision, case: Case, after: Instant) -> None:
    """The next target is the first of what is left; only a trusted clock ends by `until`."""
    following = next(each for each in case.left() if each > after)
    if case.trusted and not case.exists(following):
        assert (decision.next_at, decision.end_reason) == (None, "until")
    else:
        assert (decision.next_at, decision.end_reason) == (following, None)
        assert first(case.record.rule, decision.next_after) == following


@given(cases(), st.booleans())
@settings(deadline=None, max_examples=400)
def test_a_decision_is_that_of_the_listed_occurrences_without_those_that_do_not_come(
    case: Case, trusted: bool
) -> None:
    case = case._replace(trusted=trusted)
    decision = due_decision(case.record, case.now, trusted=trusted)
    due = [each for each in case.left() if each <= case.now and case.exists(each)]
    assert decision.occurrence_at == max(due, default=None)
    assert_next(decision, case, case.now)


@given(cases(), st.booleans())
@settings(deadline=None, max_examples=200)
def test_what_leaves_everything_behind_goes_to_the_first_that_is_left(
    case: Case, trusted: bool
) -> None:
    case = case._replace(trusted=trusted)
    decision = onward(case.record, case.now, trusted=trusted)
    assert decision.occurrence_at is None
    assert_next(decision, case, case.now)


@given(cases())
@settings(deadline=None)
def test_what_is_due_does_not_depend_on_whether_the_clock_is_trusted(case: Case) -> None:
    one, other = (due_decision(case.record, case.now, trusted=each) for each in (True, False))
    assert one.occurrence_at == other.occurrence_at
    assert other.end_reason is None


# --- at the edges


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("rule", [After(60), At(NOW)])
def test_a_one_shot_is_due_once_whatever_the_clock(rule: Rule, trusted: bool) -> None:
    decision = due_decision(reminder(rule, NOW), NOW + DAY, trusted=trusted)
    assert decision == Decision(NOW, None, NOW + DAY, "delivered")


@pytest.mark.parametrize("late", [dt.timedelta(0), MILLISECOND, HOUR, 400 * DAY])
def test_an_occurrence_exactly_at_the_end_is_due_however_late_and_is_the_last(
    late: dt.timedelta,
) -> None:
    record = reminder(Every(3600, NOW), NOW, until=NOW + 2 * HOUR)
    decision = due_decision(record, NOW + 2 * HOUR + late, trusted=True)
    assert (decision.occurrence_at, decision.next_at) == (NOW + 2 * HOUR, None)
    assert decision.end_reason == "until"


def test_a_millisecond_before_its_end_a_rule_still_has_that_one() -> None:
    record = reminder(Every(3600, NOW), NOW, until=NOW + 2 * HOUR)
    decision = due_decision(record, NOW + 2 * HOUR - MILLISECOND, trusted=True)
    assert decision[:2] == (NOW + HOUR, NOW + 2 * HOUR)


def test_a_target_beyond_the_end_is_never_due_and_ends_under_a_trusted_clock() -> None:
    record = reminder(Every(3600, NOW), NOW, until=NOW - MILLISECOND)
    decision = due_decision(record, NOW + 90 * MILLISECOND, trusted=True)
    assert (decision.occurrence_at, decision.next_at, decision.end_reason) == (None, None, "until")
    decision = due_decision(record, NOW + 90 * MILLISECOND, trusted=False)
    assert decision == Decision(None, NOW + HOUR, NOW + 90 * MILLISECOND, None)


def test_skips_that_reach_beyond_the_end_leave_the_former_one_as_the_last() -> None:
    skips = (NOW + HOUR, NOW + 5 * HOUR)
    record = reminder(Every(3600, NOW), NOW, until=NOW + 3 * HOUR, skips=skips)
    decision = due_decision(record, NOW + 4 * HOUR, trusted=True)
    assert (decision.occurrence_at, decision.end_reason) == (NOW + HOUR, "until")
    decision = due_decision(record, NOW + 4 * HOUR, trusted=False)
    assert (decision.occurrence_at, decision.next_at) == (NOW + HOUR, NOW + 6 * HOUR)
    assert decision.next_after == NOW + 5 * HOUR


def test_a_target_made_by_hand_is_what_a_fixed_rate_is_counted_from() -> None:
    target = NOW + HOUR / 2
    record = reminder(Every(3600, NOW), target, until=target + 2 * HOUR)
    decision = due_decision(record, target + HOUR, trusted=True)
    assert decision[:2] == (target + HOUR, target + 2 * HOUR)
    decision = due_decision(record, target + 2 * HOUR, trusted=True)
    assert (decision.occurrence_at, decision.end_reason) == (target + 2 * HOUR, "until")


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("until", [None, LAST_MOMENT])
@pytest.mark.parametrize("rule", [Every(86400, LAST_MOMENT), Daily(dt.time(23), "UTC")], ids=str)
def test_the_last_occurrence_that_there_is_ends_a_rule_by_range(
    rule: Rule, until: Instant | None, trusted: bool
) -> None:
    target = first(rule, LAST_MOMENT - DAY)
    assert target is not None
    record = reminder(rule, target, until=until)
    decision = due_decision(record, LAST_MOMENT, trusted=trusted)
    assert decision[:2] == (target, None)
    assert decision.end_reason == "range"
    assert onward(record, LAST_MOMENT, trusted=trusted).end_reason == "range"


def test_skips_up_to_the_last_occurrence_that_there_is_end_a_rule_by_range() -> None:
    rule = Daily(dt.time(23), "UTC")
    last = LAST_MOMENT.replace(hour=23, minute=0, second=0, microsecond=0)
    record = reminder(rule, last - DAY, skips=(last - DAY, last))
    decision = due_decision(record, last - DAY, trusted=True)
    assert decision == Decision(last - DAY, None, last, "range")


# --- age


@pytest.mark.parametrize(
    ("seconds", "late", "expired"),
    [
        (None, 4000 * DAY, False),
        (60, dt.timedelta(seconds=60), False),
        (60, dt.timedelta(seconds=60) + MILLISECOND, True),
        (1, -DAY, False),
        (2**53 - 1, 4000 * DAY, False),
    ],
)
def test_an_occurrence_is_too_old_once_it_is_older_than_its_age_allows(
    seconds: int | None, late: dt.timedelta, expired: bool
) -> None:
    record = reminder(expires_after_seconds=seconds)
    assert has_expired(record, NOW, NOW + late) is expired


# --- what may be asked for


@given(
    st.sampled_from(["2026-03-01T12:00:00Z", "0001-01-01T00:00:00+01:00"]) | st.text() | st.none()
)
def test_an_end_is_read_as_the_at_string_is_and_speaks_of_itself(value: object) -> None:
    try:
        expected = parse_at(value)
    except (InvalidRule, TimeOutOfRange) as error:
        with pytest.raises(type(error)) as refusal:
            parse_until(value)
        assert refusal.value.field == "until"
        assert refusal.value.message.lower().count("until") >= 1
    else:
        assert parse_until(value) == expected


@pytest.mark.parametrize("text", ["2026-03-01T12:00:00", "2026-03-01T12:00:00-00:00", "tomorrow"])
def test_an_end_without_an_offset_is_refused(text: str) -> None:
    with pytest.raises(InvalidRule, match="until"):
        parse_until(text)


@pytest.mark.parametrize("rule", [After(60), At(NOW)])
def test_a_one_shot_has_no_end_of_its_own(rule: Rule) -> None:
    check_end(rule, NOW, None, None)
    for field, ends in (("until", (NOW, None)), ("max_occurrences", (None, 1))):
        with pytest.raises(InvalidRule, match=f"{field} is for rules that recur") as refusal:
            check_end(rule, NOW, *ends)
        assert refusal.value.field == field


@pytest.mark.parametrize("rule", [Every(300, NOW), Weekly(dt.time(9), (1,), "UTC")])
def test_an_end_has_to_leave_the_next_occurrence(rule: Rule) -> None:
    for until in (None, NOW, NOW + MILLISECOND):
        check_end(rule, NOW, until, None)
        assert not is_beyond(reminder(rule, NOW, until=until), NOW)
    with pytest.raises(TimeOutOfRange, match=r"2026-03-01T12:00:00\.000Z") as refusal:
        check_end(rule, NOW, NOW - MILLISECOND, None)
    assert refusal.value.field == "until"
    assert is_beyond(reminder(rule, NOW, until=NOW - MILLISECOND), NOW)


def test_a_count_has_to_be_larger_than_what_was_delivered() -> None:
    rule = Every(300, NOW)
    for count, delivered in ((1, 0), (3, 2), (None, 7)):
        check_end(rule, NOW, None, count, delivered)
    for count, delivered in ((1, 1), (1, 5)):
        with pytest.raises(TimeOutOfRange, match=f"{delivered} occurrences") as refusal:
            check_end(rule, NOW, None, count, delivered)
        assert refusal.value.field == "max_occurrences"
