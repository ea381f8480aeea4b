"""Which reminders a list is of: kind, state, what they say and when they are due."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_daemon.errors import InvalidRequest, InvalidRule, SchedulerError, TimeOutOfRange
from scheduler_daemon.filters import Filter
from scheduler_daemon.store.pages import ListedRow
from scheduler_daemon.wire import params
from tests.support.clock import START

NOW = "2026-01-01T12:00:00.000Z"
BEFORE = "2026-01-01T11:59:59.999Z"
AFTER = "2026-01-01T12:00:00.001Z"
ROW = ListedRow("daily", "active", 0, AFTER, "Stand-up", "Collect the open pull requests.")


def wanted(**asked: Any) -> Filter:
    return Filter(params.parse(params.ListReminders, asked), START)


def test_without_a_filter_everything_of_the_status_is_wanted() -> None:
    for asked in ({}, {"status": "all"}, {"text": ""}, {"session_id": "s", "order": "target"}):
        assert not wanted(**asked).narrow
        assert wanted(**asked).wants(ROW)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({}, "active"),
        ({"status": "ended"}, "ended"),
        ({"status": "all", "kind": "at"}, "all"),
        ({"state": "scheduled"}, "active"),
        ({"state": "overdue"}, "active"),
        ({"state": "paused"}, "active"),
        ({"state": "ended"}, "ended"),
    ],
)
def test_a_state_says_which_status_is_looked_through(asked: dict[str, str], status: str) -> None:
    assert wanted(**asked).status == status


def test_status_and_state_do_not_go_together_even_where_they_agree() -> None:
    with pytest.raises(InvalidRequest, match="status or state, not both") as refusal:
        wanted(state="paused", status="active")
    assert refusal.value.field == "state"


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (ROW, "scheduled"),
        (ROW._replace(scheduled_at=NOW), "overdue"),
        (ROW._replace(scheduled_at=BEFORE), "overdue"),
        (ROW._replace(paused=1), "paused"),
        (ROW._replace(paused=1, scheduled_at=BEFORE), "paused"),
        (ROW._replace(status="ended"), "ended"),
        (ROW._replace(status="ended", paused=1, scheduled_at=BEFORE), "ended"),
    ],
)
def test_a_row_is_in_exactly_one_state(row: ListedRow, state: str) -> None:
    states = ("scheduled", "overdue", "paused", "ended")
    assert [each for each in states if wanted(state=each).wants(row)] == [state]
    assert all(wanted(state=each).narrow for each in states)


def test_a_kind_is_that_of_the_rule() -> None:
    for kind in ("after", "at", "every", "daily", "weekly", "cron"):
        assert wanted(kind=kind).narrow
        assert wanted(kind=kind).wants(ROW) == (kind == "daily")


@pytest.mark.parametrize(
    ("due_before", "is_wanted"),
    [
        ("2026-01-01T12:00:00.001Z", False),
        ("2026-01-01T12:00:00.002Z", True),
        ("2026-01-01T13:00:00.001+01:00", False),
        ("2026-01-01T13:00:00.002+01:00", True),
        ("0001-01-01T00:00:00Z", False),
        ("9999-12-31T23:59:59.999Z", True),
    ],
)
def test_due_before_leaves_the_instant_itself_out(due_before: str, is_wanted: bool) -> None:
    assert wanted(due_before=due_before).narrow
    assert wanted(due_before=due_before).wants(ROW) is is_wanted


@pytest.mark.parametrize(
    ("due_before", "refusal"),
    [
        ("tomorrow", InvalidRule),
        (None, InvalidRule),
        ({"date": "2026-01-01", "time": "12:00:00", "time_zone": "UTC"}, InvalidRule),
        ("0001-01-01T00:00:00+01:00", TimeOutOfRange),
    ],
)
def test_due_before_is_an_instant_with_an_offset(
    due_before: object, refusal: type[SchedulerError]
) -> None:
    with pytest.raises(refusal) as refused:
        wanted(due_before=due_before)
    assert refused.value.field == "due_before"
    assert refused.value.message.startswith("due_before ")


@pytest.mark.parametrize(
    ("text", "is_wanted"),
    [
        ("pull", True),
        ("PULL REQ", True),
        ("stand-UP", True),
        ("pull  requests", False),
        ("build", False),
        ("\n", False),
    ],
)
def test_text_is_looked_for_in_title_and_prompt_whatever_the_case(
    text: str, is_wanted: bool
) -> None:
    assert wanted(text=text).narrow
    assert wanted(text=text).wants(ROW) is is_wanted


def test_case_is_folded_as_unicode_folds_it() -> None:
    row = ROW._replace(title=None, prompt="Gro\N{LATIN SMALL LETTER SHARP S}e Stra\xdfe")
    for text in ("GROSSE", "stra\N{LATIN CAPITAL LETTER SHARP S}e"):
        assert wanted(text=text).wants(row)
    assert not wanted(text="None").wants(row)


def test_filters_add_up() -> None:
    every = {"kind": "daily", "state": "scheduled", "due_before": "2027-01-01T00:00:00Z"}
    assert wanted(**every, text="pull").wants(ROW)
    for other in ({"kind": "at"}, {"state": "paused"}, {"due_before": "2026-01-01T00:00:00Z"}):
        assert not wanted(**{**every, **other}, text="pull").wants(ROW)
    assert not wanted(**every, text="build").wants(ROW)


def test_the_marks_of_a_cursor_are_those_of_what_is_asked_and_not_of_when() -> None:
    asked = [
        {},
        {"status": "all"},
        {"state": "paused"},
        {"kind": "at"},
        {"text": "x"},
        {"due_before": AFTER},
        {"text": AFTER},
    ]
    marks = [wanted(**each).marks for each in asked]
    assert all(marks.count(each) == 1 for each in marks)
    later = Filter(params.parse(params.ListReminders, {"state": "paused"}), START.replace(day=2))
    assert later.marks == wanted(state="paused").marks
    same = {"due_before": "2026-01-01T13:00:00.001+01:00"}
    assert wanted(**same).marks == wanted(due_before=AFTER).marks
