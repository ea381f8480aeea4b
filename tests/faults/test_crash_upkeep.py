"""The crash matrix of what the daemon writes by itself: what passed, upkeep, rows set aside."""

from __future__ import annotations

import pytest

from scheduler_daemon.rules import instant_text
from tests.acceptance.steps import let_pass
from tests.faults.lives import TestBuild, occurrences
from tests.faults.seeds import KINDS, RECURRING, START, check_target, seed

pytestmark = pytest.mark.acceptance

SIDES = pytest.mark.parametrize("side", ["before", "after"])
STEADY = 901.0
"""After so many seconds the clock can be trusted; five minutes after the last occurrence of any."""


@SIDES
@pytest.mark.parametrize("kind", KINDS)
def test_killed_when_an_occurrence_is_missed_it_is_missed_or_comes_and_never_both(
    build: TestBuild, kind: str, side: str
) -> None:
    made, *others = seed(build.state, [("s", kind), *((f"o {each}", each) for each in KINDS)])
    build.sql("UPDATE reminders SET expires_after_seconds = 60 WHERE session_id = 's'")
    build.crash_at = f"{side}_commit.settle"
    build.start()
    assert build.turn("advance", STEADY)
    host = build.peer()
    host.begin("host.attach", name="scripted", sessions=["s"])
    build.crashed()
    assert occurrences(host) == []
    receipts = build.table("dispatches")
    assert [row["outcome"] for row in receipts] == ["missed"] * (side == "after")
    build.crash_at = ""
    # A clock that has just been started ends nothing: what is late is sent.
    came = occurrences(build.start().healed())
    build.stop()
    own = [each for each in came if each.startswith(f"{made}@")]
    assert len(own) == (side == "before")
    assert not set(came) & {row["occurrence_id"] for row in receipts}
    assert len(came) == len(others) + len(own)
    for row in build.table("reminders"):
        check_target(row, build.now)


@SIDES
def test_killed_while_targets_of_a_fast_clock_are_corrected_they_are_corrected_after_all(
    build: TestBuild, side: str
) -> None:
    kinds = [kind for kind in KINDS if kind != "at"]
    ids = seed(build.state, [(f"s {kind}", kind) for kind in kinds])
    let_pass(build, "+3652 days")
    build.crash_at = f"{side}_commit.correct_ahead"
    build.begin()
    build.crashed()
    build.crash_at = ""
    host = build.start().healed()
    # Until they are corrected they lie far ahead, so nothing is overdue; the clock waits for that.
    ahead = instant_text(START.replace(year=START.year + 1))
    build.until(
        lambda: not build.table("reminders", "status = 'active' AND computed_at > ?", ahead)
    )
    assert build.turn("advance", 86_400)
    build.until(lambda: len(set(occurrences(host))) == len(ids) and not build.overdue())
    build.stop()
    assert {each.split("@")[0] for each in occurrences(host)} == set(ids)
    for row in build.table("reminders"):
        check_target(row, build.now)


@SIDES
def test_killed_while_targets_are_computed_for_other_zone_data_each_still_comes_once(
    build: TestBuild, side: str
) -> None:
    ids = seed(build.state, [(f"s {kind}", kind) for kind in KINDS])
    build.sql("INSERT INTO meta VALUES ('zone_data', '1999a')")
    # One lies ahead, on data by which the sun rose an hour later.
    later = instant_text(START.replace(hour=13, minute=30))
    build.sql(
        "UPDATE reminders SET scheduled_at = ?, after_at = computed_at WHERE kind = 'daily'", later
    )
    build.sql("UPDATE reminders SET after_at = ? WHERE kind = 'daily'", instant_text(START))
    build.crash_at = f"{side}_commit.recompute_zones"
    build.begin()
    build.crashed()
    build.crash_at = ""
    host = build.start().healed()
    # Only then does the file say what is due.
    build.until(lambda: not build.table("meta", "name = 'zone_recompute_from'"))
    assert build.turn("advance", 1800)
    build.until(lambda: not build.overdue())
    build.stop()
    came = occurrences(host)
    assert len(set(came)) == len(came)
    assert {each.split("@")[0] for each in came} == set(ids)
    assert f"{ids[list(KINDS).index('daily')]}@2026-01-01T12:30:00.000Z" in came


@SIDES
@pytest.mark.parametrize("kind", RECURRING)
def test_killed_while_what_lies_beyond_its_end_is_ended_it_ends_and_nothing_more_comes(
    build: TestBuild, kind: str, side: str
) -> None:
    (made,) = seed(build.state, [("s", kind)], until=START)
    build.crash_at = f"{side}_commit.end_beyond"
    host = build.start().healed()
    (row,) = build.table("reminders")
    assert row["status"] == "active"  # under a clock that cannot be trusted yet
    build.turn("advance", STEADY)
    build.crashed()
    build.crash_at = ""
    again = build.start().healed()
    assert build.turn("advance", STEADY)
    build.until(lambda: build.table("reminders", "status = 'ended'"))
    assert build.turn("advance", 86_400)
    build.stop()
    assert len(occurrences(host)) == 1
    assert occurrences(again) == []
    (row,) = build.table("reminders")
    assert (row["id"], row["ended_reason"]) == (made, "until")


@SIDES
@pytest.mark.parametrize("slice_number", [1, 2])
def test_killed_while_what_is_old_is_removed_it_goes_after_all_and_nothing_else_does(
    build: TestBuild, slice_number: int, side: str
) -> None:
    """The receipts of what has ended go in one slice, what has ended in another."""
    ids = seed(build.state, [(f"s {kind}", kind) for kind in KINDS])
    sent = occurrences(build.start().healed())
    build.stop()
    build.sql("UPDATE reminders SET ended_at = '2025-01-01T12:00:00.000Z' WHERE status = 'ended'")
    build.sql("UPDATE dispatches SET admitted_at = '2025-01-01T12:00:00.000Z'")
    left = build.table("reminders", "status = 'active'")
    build.crash_at = f"{side}_commit.retention:{slice_number}"
    build.start().turn("advance", STEADY)
    build.crashed()
    assert build.table("reminders", "status = 'active'") == left
    build.crash_at = ""
    build.start()
    assert build.turn("advance", STEADY)
    build.until(
        lambda: len(build.table("reminders")) == len(left) == len(build.table("dispatches"))
    )
    host = build.healed()
    assert build.turn("advance", 86_400)
    build.until(lambda: not build.overdue())
    build.stop()
    came = occurrences(host)
    assert not set(came) & set(sent)
    assert {each.split("@")[0] for each in came} == {row["id"] for row in left} < set(ids)


@SIDES
@pytest.mark.parametrize("kind", ["daily", "weekly", "cron"])
def test_killed_while_a_row_is_set_aside_it_is_and_the_others_of_its_session_come(
    build: TestBuild, kind: str, side: str
) -> None:
    ids = seed(build.state, [("s", each) for each in KINDS])
    bad = ids[list(KINDS).index(kind)]
    build.sql("UPDATE reminders SET time_zone = 'No/Where' WHERE id = ?", bad)
    build.crash_at = f"{side}_commit.set_aside"
    host = build.start().peer()
    host.begin("host.attach", name="scripted", sessions=["s"])
    build.crashed()
    build.crash_at = ""
    again = build.start().peer()
    again.attach("*")
    build.until(lambda: len(set(occurrences(host) + occurrences(again))) == len(ids) - 1)
    build.until(lambda: not build.overdue())
    build.stop()
    (row,) = build.table("reminders", "status = 'set_aside'")
    assert row["id"] == bad
    came = occurrences(host) + occurrences(again)
    assert sorted({each.split("@")[0] for each in came}) == sorted(set(ids) - {bad})
