from __future__ import annotations

import datetime as dt

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler_daemon.errors import SchedulerError
from scheduler_daemon.model import Cron, Daily, Every, Instant, Weekly
from scheduler_daemon.rules import (
    canonical_cron,
    decide,
    first,
    instant_text,
    parse_instant_text,
    parse_rule,
    selector_of,
)
from scheduler_daemon.rules.cron import FIELDS, parse_cron

from . import reference

MILLISECOND = dt.timedelta(milliseconds=1)
MINUTE = dt.timedelta(minutes=1)

changes = st.sampled_from([dt.datetime.fromisoformat(text) for text in reference.CHANGES])
near_changes = st.builds(
    lambda change, minutes, ms: change + minutes * MINUTE + ms * MILLISECOND,
    changes,
    st.integers(-48 * 60, 48 * 60),
    st.sampled_from([-1, 0, 1]),
)
anywhere = st.integers(-(10**12), 6 * 10**12).map(
    lambda ms: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + ms * MILLISECOND
)
instants = near_changes | anywhere
zones = st.sampled_from(reference.TRICKY_ZONES)
times = st.sampled_from(
    [dt.time(0), dt.time(2, 30), dt.time(23, 59, 59, 999_000)]
) | st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
weekdays = st.sets(st.integers(1, 7), min_size=1).map(lambda days: tuple(sorted(days)))


def spans(low: int, high: int) -> st.SearchStrategy[str]:
    """One item of a field: `n`, `a-b`, `a-b/s`, `*` or `*/s`."""
    number = st.integers(low, high)
    steps = st.integers(1, high - low).map(lambda step: f"/{step}")
    ranges = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    return st.one_of(
        number.map(str), st.builds(str.__add__, ranges | st.just("*"), st.just("") | steps)
    )


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    return st.lists(spans(low, high), min_size=1, max_size=3).map(",".join)


minutes = st.one_of(
    st.integers(0, 59).map(str),
    st.sampled_from(["*/5", "*/6", "1-59/15", "7,22"]),
    st.sets(st.integers(0, 11), min_size=1).map(lambda fives: ",".join(str(5 * n) for n in fives)),
)
texts = st.tuples(
    minutes,
    fields(0, 23),
    st.just("*") | fields(1, 31),
    st.just("*") | fields(1, 12),
    st.just("*") | fields(0, 7),
).map(" ".join)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Canonical forms of accepted expressions."""
    try:
        return canonical_cron(draw(texts))
    except SchedulerError:
        assume(False)
        raise


local_rules = st.one_of(
    st.builds(Daily, times, zones),
    st.builds(Weekly, times, weekdays, zones),
    st.builds(Cron, expressions(), zones),
)


@given(local_rules, instants)
@settings(deadline=None, max_examples=400)
def test_first_is_strictly_after_and_nothing_lies_between(
    rule: Daily | Weekly | Cron, after: Instant
) -> None:
    found = first(rule, after)
    assert found is not None
    assert found > after
    assert found.microsecond % 1000 == 0
    assume(found - after < dt.timedelta(days=500))
    assert reference.occurrences(rule, after + MILLISECOND, found) == [found]


@given(local_rules, instants, st.integers(0, 40))
@settings(deadline=None, max_examples=300)
def test_decide_agrees_with_walking_by_first(
    rule: Daily | Weekly | Cron, after: Instant, steps: int
) -> None:
    target = first(rule, after)
    assert target is not None
    occurrence, following = target, first(rule, target)
    for _ in range(steps):
        assert following is not None
        occurrence, following = following, first(rule, following)
    assert following is not None
    for now in (occurrence, following - MILLISECOND, occurrence + (following - occurrence) / 2):
        assert decide(rule, target, now) == (occurrence, following)


@given(st.integers(300, 10**9), instants, instants)
@settings(deadline=None)
def test_every_never_drifts(seconds: int, anchor: Instant, after: Instant) -> None:
    interval = dt.timedelta(seconds=seconds)
    found = first(Every(seconds, anchor), after)
    assert found is not None
    assert found - interval <= after < found
    assert (found - anchor) % interval == dt.timedelta(0)
    target = min(anchor, after)
    occurrence, following = decide(Every(seconds, anchor), target, after)
    assert (occurrence - target) % interval == dt.timedelta(0)
    assert occurrence <= after < occurrence + interval
    assert following == occurrence + interval


@given(texts)
@settings(deadline=None, max_examples=200)
def test_the_canonical_form_is_a_fixpoint_that_says_the_same(text: str) -> None:
    try:
        fields = parse_cron(text)
    except SchedulerError:
        assume(False)
        raise
    assert parse_cron(fields.canonical) == fields
    assert parse_cron(" ".join(text.upper().split()) + " ") == fields


@given(texts, texts)
@settings(deadline=None, max_examples=200)
def test_the_canonical_form_decides_equality(one: str, other: str) -> None:
    try:
        equal = canonical_cron(one) == canonical_cron(other)
    except SchedulerError:
        assume(False)
        raise
    assert equal == (meaning(one) == meaning(other))


def meaning(text: str) -> list[object]:
    """The definition: the set of values of each field and the star flags of the day fields."""
    said: list[object] = []
    for part, field in zip(text.split(), FIELDS, strict=True):
        said.append({value % 7 if field.high == 7 else value for value in expanded(part, field)})
        if field.name.startswith("day"):
            said.append(part.startswith("*"))
    return said


def expanded(part: str, field: object) -> set[int]:
    low, high = field.low, field.high  # type: ignore[attr-defined] # a named tuple
    found: set[int] = set()
    for item in part.split(","):
        span, _, step = item.partition("/")
        first_value, _, last_value = span.partition("-")
        begin, end = (
            (low, high) if span == "*" else (int(first_value), int(last_value or first_value))
        )
        found |= set(range(begin, end + 1, int(step or 1)))
    return found


@given(local_rules | st.builds(Every, st.integers(300, 2**53 - 1), instants), instants)
@settings(deadline=None)
def test_a_rule_survives_its_selector(rule: Daily | Weekly | Cron | Every, now: Instant) -> None:
    assert parse_rule(selector_of(rule), now) == rule


@given(instants)
def test_an_instant_survives_its_text(instant: Instant) -> None:
    assert parse_instant_text(instant_text(instant)) == instant
