from __future__ import annotations

import datetime as dt

from scheduler_daemon.rules.every import last_until, next_after

BASE = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)


def test_the_next_point_lies_strictly_after() -> None:
    assert next_after(BASE, 300, BASE) == BASE + 300 * SECOND
    assert next_after(BASE, 300, BASE + 299 * SECOND) == BASE + 300 * SECOND
    assert next_after(BASE, 300, BASE + 300 * SECOND) == BASE + 600 * SECOND


def test_the_grid_runs_before_its_base_too() -> None:
    """A clock that ran ahead when a rule was made must not silence it."""
    before = BASE - dt.timedelta(days=365 * 20, seconds=1)
    assert next_after(BASE, 86400, before) == BASE - dt.timedelta(days=365 * 20)
    assert next_after(BASE, 300, BASE - SECOND) == BASE


def test_the_latest_point_may_be_the_instant_itself() -> None:
    assert last_until(BASE, 300, BASE) == BASE
    assert last_until(BASE, 300, BASE + 300 * SECOND) == BASE + 300 * SECOND
    assert last_until(BASE, 300, BASE + 599.999 * SECOND) == BASE + 300 * SECOND


def test_a_grid_ends_with_the_range_of_instants() -> None:
    end = dt.datetime(9999, 12, 31, 23, 59, tzinfo=dt.UTC)
    assert next_after(BASE, 2**53 - 1, BASE) is None
    assert next_after(end, 300, end) is None
    start = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
    assert next_after(end, 2**53 - 1, start) == end
    assert last_until(end, 2**53 - 1, start) is None
