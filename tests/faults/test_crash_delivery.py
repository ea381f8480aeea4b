"""The crash matrix of delivery: every point on the way of an occurrence, every kind of rule."""

from __future__ import annotations

import pytest

from tests.faults.lives import TestBuild, occurrences
from tests.faults.seeds import KINDS, RECURRING, check_target, seed

pytestmark = pytest.mark.acceptance

NO_REPEAT = ["before_push", "after_commit.receipt"]
REPEAT = [
    "after_push",
    "admission_read",
    "before_receipt_row",
    "after_receipt_row",
    "before_commit.receipt",
]
"""Between these the host has it and the file does not know."""

DAY = 86_400


def check_whole(build: TestBuild, ids: list[str]) -> None:
    """Each reminder is there once and stands where it should; every occurrence has one receipt."""
    rows = build.table("reminders")
    assert [row["id"] for row in rows] == ids
    for row in rows:
        check_target(row, build.now)
    receipts = [row["occurrence_id"] for row in build.table("dispatches")]
    assert len(receipts) == len(set(receipts))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("point", "later"), [(p, s) for p in REPEAT for s in (0, DAY)] + [(p, 0) for p in NO_REPEAT]
)
def test_killed_on_the_way_of_an_occurrence_it_comes_and_only_a_lost_receipt_repeats_it(
    build: TestBuild, point: str, later: int, kind: str
) -> None:
    ids = seed(build.state, [("s", kind), *((f"other {each}", each) for each in KINDS)])
    untouched = build.facts()
    build.crash_at = point
    host = build.start().peer()
    host.begin("host.attach", name="scripted", sessions=["s"])
    build.crashed()
    taken = occurrences(host)
    assert len(taken) == (point != "before_push")
    receipts = [row["occurrence_id"] for row in build.table("dispatches")]
    if point == "after_commit.receipt":
        assert receipts == taken
        assert build.table("reminders")[1:] == untouched["reminders"][1:]
    else:
        assert build.facts() == untouched

    build.crash_at = ""
    again = occurrences(build.start(later).healed())
    build.stop()
    check_whole(build, ids)
    assert len(again) == len(set(again))
    assert {each.split("@")[0] for each in again} >= set(ids[1:])
    of_it = [each for each in again if each.startswith(f"{ids[0]}@")]
    if point == "after_commit.receipt":
        assert not set(of_it) & set(taken)
        assert len(of_it) == 0
    elif kind in RECURRING and later:
        # A later occurrence has come due since: it stands for the earlier one.
        assert len(of_it) == 1
        assert of_it > taken
    else:
        assert len(of_it) == 1
        assert not taken or of_it == taken


@pytest.mark.parametrize("row", range(1, len(RECURRING) + 1))
@pytest.mark.parametrize("point", ["before_receipt_row", "after_receipt_row"])
def test_killed_between_the_receipts_of_a_batch_none_is_written_and_all_come_again(
    build: TestBuild, point: str, row: int
) -> None:
    ids = seed(build.state, [("s", kind) for kind in RECURRING])
    untouched = build.facts()
    build.crash_at = f"{point}:{row}"
    host = build.start().peer()
    host.begin("host.attach", name="scripted", sessions=["s"])
    build.crashed()
    taken = occurrences(host)
    assert sorted(each.split("@")[0] for each in taken) == ids
    assert build.facts() == untouched

    build.crash_at = ""
    assert occurrences(build.start().healed()) == taken
    build.stop()
    check_whole(build, ids)
    assert [row["occurrence_id"] for row in build.table("dispatches")] == taken
