from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from scheduler_daemon.errors import InvalidRule, TimeOutOfRange
from scheduler_daemon.rules.instants import (
    instant_text,
    later,
    parse_at,
    parse_instant_text,
)

FIRST = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (FIRST, "0001-01-01T00:00:00.000Z"),
        (LAST, "9999-12-31T23:59:59.999Z"),
        (dt.datetime(2026, 8, 7, 1, tzinfo=dt.UTC), "2026-08-07T01:00:00.000Z"),
    ],
)
def test_the_canonical_text_has_three_fractional_digits_and_reads_back(
    instant: dt.datetime, text: str
) -> None:
    assert instant_text(instant) == text
    assert parse_instant_text(text) == instant
    assert parse_instant_text(text).tzinfo is dt.UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-08-07",
        "2026-08-07T01:00:00Z",
        "2026-08-07T01:00:00.000",
        "2026-08-07T01:00:00.000z",
        "2026-08-07 01:00:00.000Z",
        "2026-08-07T01:00:00.000+00:00",
        "2026-08-07T01:00:00.000+01:00",
        "2026-08-07T01:00:00.000000Z",
        "2026-08-07T01:00:00.000001Z",
        "2026-02-30T01:00:00.000Z",
        "20260807T010000.000Z",
        "2026-W32-5T01:00:00.000Z",
        "10000-01-01T00:00:00.000Z",
        " 2026-08-07T01:00:00.000Z",
        "2026-08-07T01:00:00.000Z\n",
        "٢٠٢٦-08-07T01:00:00.000Z",
    ],
)
def test_the_database_may_hold_the_canonical_form_only(text: str) -> None:
    with pytest.raises(ValueError):
        parse_instant_text(text)


def test_canonical_texts_sort_as_their_instants() -> None:
    instants = [FIRST, dt.datetime(999, 12, 31, tzinfo=dt.UTC), LAST - dt.timedelta(days=1), LAST]
    assert sorted(map(instant_text, instants)) == list(map(instant_text, instants))


@pytest.mark.parametrize("text", ["2026-03-01T24:00:00Z", "2026-03-01T23:59:60Z"])
def test_an_at_has_neither_hour_24_nor_a_leap_second(text: str) -> None:
    with pytest.raises(InvalidRule, match="at is either text in the form"):
        parse_at(text)


def test_the_offset_minus_zero_says_that_the_offset_is_unknown_and_is_refused() -> None:
    """RFC 3339, section 4.3."""
    with pytest.raises(InvalidRule, match='never "-00:00"'):
        parse_at("2026-03-01T00:00:00-00:00")


@pytest.mark.parametrize("text", ["2026-02-29T00:00:00Z", "0000-01-01T00:00:00Z"])
def test_a_date_that_does_not_exist_is_refused_as_such(text: str) -> None:
    with pytest.raises(InvalidRule, match="does not exist") as caught:
        parse_at(text)
    assert caught.value.field == "at"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01"])
def test_an_offset_that_leads_out_of_the_years_is_out_of_range(text: str) -> None:
    with pytest.raises(TimeOutOfRange):
        parse_at(text)


def test_arithmetic_that_leaves_the_range_gives_none() -> None:
    assert later(FIRST, -1) is None
    assert later(LAST, 1) is None
    assert later(FIRST, 2**70) is None
    assert later(FIRST, (LAST - FIRST) // dt.timedelta(milliseconds=1)) == LAST


def test_the_two_instants_that_a_change_of_clocks_repeats_have_two_texts() -> None:
    """Datetimes of one zone are equal there, whatever their `fold` says."""
    berlin = ZoneInfo("Europe/Berlin")
    first = dt.datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    second = first.replace(fold=1)
    assert first == second
    texts = ["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z"]
    for _ in range(2):
        assert [instant_text(first), instant_text(second)] == texts
