"""Against cronsim, another reading of the same dialect, away from changes of the clock."""

from __future__ import annotations

import datetime as dt
import itertools

from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_daemon.model import Cron, Instant
from scheduler_daemon.rules import decide, first
from scheduler_daemon.rules.zones import load_zone

from .test_properties import expressions

ZONES_WITHOUT_CHANGES = ("UTC", "Asia/Tokyo", "America/Phoenix", "Asia/Kathmandu")
modern = st.integers(0, 13 * 10**12).map(
    lambda ms: dt.datetime(1990, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)
)


@given(expressions(), st.sampled_from(ZONES_WITHOUT_CHANGES), modern)
@settings(deadline=None, max_examples=300)
def test_the_next_occurrences_are_those_of_cronsim(
    expression: str, zone: str, after: Instant
) -> None:
    theirs = CronSim(expression, after.astimezone(load_zone(zone)))
    instant = after
    for other in itertools.islice(theirs, 4):
        found = first(Cron(expression, zone), instant)
        assert found == other
        assert found is not None
        instant = found


@given(expressions(), modern)
@settings(deadline=None, max_examples=200)
def test_the_latest_occurrence_is_that_of_cronsim_backwards(expression: str, now: Instant) -> None:
    """Its backward search excludes the start, so it starts a millisecond late."""
    theirs = next(CronSim(expression, now + dt.timedelta(milliseconds=1), reverse=True))
    assert decide(Cron(expression, "UTC"), theirs, now)[0] == theirs
