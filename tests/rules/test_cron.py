from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

import pytest

from scheduler_daemon.errors import (
    FrequencyTooHigh,
    InvalidRule,
    SchedulerError,
    TimeOutOfRange,
)
from scheduler_daemon.rules import canonical_cron
from scheduler_daemon.rules.cron import LONGEST_EXPRESSION, MACROS, parse_cron, times_of_day
from scheduler_daemon.rules.month_dates import MonthDates

FOUR_CENTURIES = dt.date(401, 1, 1).toordinal() - 1


def ordinal(*date: int) -> int:
    return dt.date(*date).toordinal()


def dates(expression: str) -> MonthDates:
    return MonthDates(parse_cron(expression))


def quickest_ms(call: Callable[[], object]) -> float:
    """The least of some tries, so that a busy machine does not count."""
    tries = []
    for _ in range(5):
        begin = time.perf_counter()
        call()
        tries.append(time.perf_counter() - begin)
    return min(tries) * 1000


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("*/15 9-17 * * mon-fri", "*/15 9-17 * * 1-5"),
        ("0 0 1,2,4,5,6 * *", "0 0 1,2,4-6 * *"),
        ("0,30 0,12 * 1,7 *", "0,30 0,12 * 1,7 *"),
        ("0 0 1-31 * 0-7", "0 0 1-31 * 0-6"),
        ("0 0 */2,4 * *", "0 0 */31,3-5,7,9,11,13,15,17,19,21,23,25,27,29,31 * *"),
        ("0 0 */31,1 * *", "0 0 */31 * *"),
        ("0 0 */20,*/30 * *", "0 0 */31,21,31 * *"),
        ("0 0 *,5 * *", "0 0 * * *"),
        ("0 0 5,* * *", "0 0 1-31 * *"),
        ("0 0 * * */7", "0 0 * * */7"),
        ("0 0 * * */3,1", "0 0 * * */7,1,3,6"),
        ("  0\t0  * * sun ", "0 0 * * 0"),
        (" @daily ", "0 0 * * *"),
    ],
)
def test_the_canonical_form_writes_sets_in_one_way_and_keeps_stars(
    text: str, canonical: str
) -> None:
    assert canonical_cron(text) == canonical
    assert canonical_cron(canonical) == canonical


@pytest.mark.parametrize("macro", MACROS)
def test_every_macro_is_its_five_fields_and_is_written_in_lower_case(macro: str) -> None:
    assert canonical_cron(macro) == MACROS[macro]
    with pytest.raises(InvalidRule, match=f"macros are lower-case: write {macro};"):
        canonical_cron(macro.capitalize().replace(macro[1], macro[1].upper(), 1))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("0 0 * * 1#2", 'day-of-week field of a cron expression does not accept "1#2"'),
        ("0 0 * * 8", "0 and 7 are Sunday. Names: sun, mon, tue"),
        ("0 0 * 13 *", "values 1 to 12, ranges that ascend and steps 1 to 12. Names: jan, feb"),
        ("*/90 * * * *", "every_seconds"),
        ("0 24 * * *", "values 0 to 23"),
        ("0 0\n* * * *", '"0\\n*"'),
        ("0 0 * * 1\n", '"1\\n"'),
        ("0\u00a00 * * * *", "minute"),
        ("0 9 * *", "five fields, minute hour day-of-month month day-of-week"),
        ("0 0 * * ſun", "day-of-week"),
        ("0 0 * * 1/2/3", "day-of-week"),
        ("0 0 * * 1-2-3", "day-of-week"),
        ("0 0 " + "1" * 30 + " * *", "day-of-month"),
    ],
)
def test_a_refusal_names_the_field_and_says_what_is_allowed(text: str, part: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        canonical_cron(text)
    assert part in caught.value.message
    assert caught.value.field == "cron.expression"


@pytest.mark.parametrize(
    ("item", "written"),
    [("mon-sun", "1-7"), ("fri-SUN", "5-7"), ("6-0", "6-7"), ("2-sun/2", "2-7")],
)
def test_a_range_up_to_sunday_is_told_to_end_with_seven(item: str, written: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        canonical_cron(f"0 0 * * {item}")
    assert "sun is 0" in caught.value.message
    assert caught.value.message.endswith(f"write {written}.")
    assert canonical_cron(f"0 0 * * {written}")


@pytest.mark.parametrize("value", [None, 5, ["0 0 * * *"], {}])
def test_an_expression_is_text(value: object) -> None:
    with pytest.raises(InvalidRule, match="text with five fields"):
        canonical_cron(value)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("0,5 * * * *", None),
        ("0,56 * * * *", "frequency_too_high"),
        ("0,56 1,3 * * *", None),  # no two of its hours are neighbours
        ("0,56 0,23 * * *", "frequency_too_high"),  # 23:56 and 00:00
        ("0,56 0,23 1 1 *", "frequency_too_high"),  # on the clock face, whatever the dates
        ("0,4 12 * * *", "frequency_too_high"),
    ],
)
def test_neighbouring_times_of_day_lie_five_minutes_apart(text: str, code: str | None) -> None:
    if code is None:
        assert canonical_cron(text) == text
    else:
        with pytest.raises(FrequencyTooHigh, match=r"\*/5"):
            canonical_cron(text)


@pytest.mark.parametrize(
    "text",
    ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30 2 */7", "0 0 30-31 feb *"],
)
def test_a_rule_that_never_matches_is_refused_within_five_milliseconds(text: str) -> None:
    def refuse() -> None:
        with pytest.raises(TimeOutOfRange, match="never matches"):
            canonical_cron(text)

    assert quickest_ms(refuse) < 5


@pytest.mark.parametrize(
    "text",
    ["0 0 29 2 *", "0 0 29 2 */7", "0 0 30 2 1", "0 0 31 2,3 *", "0 0 30 */2 */6"],
)
def test_a_rule_that_matches_seldom_is_accepted(text: str) -> None:
    assert canonical_cron(text)


@pytest.mark.parametrize(
    "text",
    ["9" * 2**20, "1," * 2**19, " " * 2**20, "*" * 2**20, "0 0 * * " + "1" * 2**20],
    ids=["digits", "items", "blanks", "stars", "field"],
)
def test_a_huge_expression_is_refused_at_once_in_a_short_message(text: str) -> None:
    def refuse() -> None:
        with pytest.raises(SchedulerError) as caught:
            canonical_cron(text)
        assert len(caught.value.message) < 400

    assert quickest_ms(refuse) < 5


def test_the_longest_expression_is_accepted() -> None:
    text = "0 0 * * 1" + ",1" * ((LONGEST_EXPRESSION - 9) // 2)
    assert canonical_cron(text) == "0 0 * * 1"
    with pytest.raises(InvalidRule, match=f"at most {LONGEST_EXPRESSION} characters"):
        canonical_cron(text + ",1,1")


def test_times_of_day_ascend() -> None:
    times = times_of_day(parse_cron("30,0 23,0 * * *"))
    assert times == [dt.timedelta(minutes=m) for m in (0, 30, 1380, 1410)]


@pytest.mark.parametrize(
    ("expression", "start", "found"),
    [
        ("0 0 * * *", (2026, 3, 1), (2026, 3, 1)),
        ("0 0 31 * *", (2026, 4, 1), (2026, 5, 31)),
        ("0 0 1 1 *", (2026, 1, 2), (2027, 1, 1)),
        ("0 0 29 2 *", (2097, 1, 1), (2104, 2, 29)),  # 2100 is no leap year
        ("0 0 29 2 */7", (2088, 3, 1), (2128, 2, 29)),  # a Sunday, the longest wait there is
        ("0 0 13 * 5", (2026, 3, 7), (2026, 3, 13)),  # either
        ("0 0 13 * 5", (2026, 3, 14), (2026, 3, 20)),
        ("0 0 */13 * 5", (2026, 3, 1), (2026, 3, 27)),  # both
        ("0 0 1-7 * */7", (2026, 3, 2), (2026, 4, 5)),
    ],
)
def test_the_next_date_is_found_month_by_month(
    expression: str, start: tuple[int, ...], found: tuple[int, ...]
) -> None:
    assert dates(expression).on_or_after(ordinal(*start)) == ordinal(*found)


@pytest.mark.parametrize(
    ("expression", "start", "found"),
    [
        ("0 0 * * *", (2026, 3, 1), (2026, 3, 1)),
        ("0 0 31 * *", (2026, 5, 30), (2026, 3, 31)),
        ("0 0 1 1 *", (2026, 1, 1), (2026, 1, 1)),
        ("0 0 31 12 *", (2026, 1, 1), (2025, 12, 31)),
        ("0 0 29 2 */7", (2128, 2, 28), (2088, 2, 29)),
        ("0 0 13 * 5", (2026, 3, 12), (2026, 3, 6)),
        ("0 0 */13 * 5", (2026, 3, 26), (2026, 2, 27)),
    ],
)
def test_the_date_before_is_found_likewise(
    expression: str, start: tuple[int, ...], found: tuple[int, ...]
) -> None:
    assert dates(expression).on_or_before(ordinal(*start)) == ordinal(*found)


@pytest.mark.parametrize(
    "expression", ["0 0 * * *", "0 0 1 1 *", "0 0 29 2 *", "0 0 31 12 *", "0 0 13 * 5", "0 0 * * 0"]
)
def test_dates_before_year_1_and_after_year_9999_are_those_400_years_away(expression: str) -> None:
    days = dates(expression)
    for date in (-800, -366, -1, 0, 1):
        later = date + FOUR_CENTURIES
        assert days.on_or_before(date) == days.on_or_before(later) - FOUR_CENTURIES
        assert days.on_or_after(date) == days.on_or_after(later) - FOUR_CENTURIES
    for date in (ordinal(9999, 12, 31) + n for n in (-1, 0, 1, 2, 800)):
        earlier = date - FOUR_CENTURIES
        assert days.on_or_before(date) == days.on_or_before(earlier) + FOUR_CENTURIES
        assert days.on_or_after(date) == days.on_or_after(earlier) + FOUR_CENTURIES
