"""schedctl preview: when a rule would come, without a daemon."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Ended

Schedctl = Callable[..., Ended]

NEW_YORK = ("--daily", "02:30", "--tz", "america/new_york", "--from", "2026-03-07T12:00:00Z")


def test_a_rule_on_a_local_clock_shows_that_clock_over_a_change_of_the_hour(
    schedctl: Schedctl,
) -> None:
    ended = schedctl("preview", *NEW_YORK, "--count", "3")
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "every day at 02:30 New York time:"
    assert lines[1].split() == ["AT", "THAT", "IS", "IN", "UTC"]
    assert lines[2].split("  ") == [
        "2026-03-08 03:30:00 America/New_York",
        "in 19 hours 30 minutes",
        "2026-03-08T07:30:00.000Z",
    ]
    assert lines[3].startswith("2026-03-09 02:30:00 America/New_York  in 1 day 18 hours")
    assert len(lines) == 5


def test_in_json_it_is_the_result_of_the_method(schedctl: Schedctl) -> None:
    ended = schedctl("preview", *NEW_YORK, "--count", "1", "--json")
    assert json.loads(ended.out) == {
        "items": [
            {
                "at": "2026-03-08T07:30:00.000Z",
                "local": "2026-03-08T03:30:00-04:00[America/New_York]",
            }
        ],
        "rule_text": "every day at 02:30 New York time",
    }


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        (["--after", "20m"], 1),
        (["--at", "2026-03-08 12:00", "--tz", "UTC"], 1),
        (["--every", "1h"], 5),
        (["--cron", "0 9 * * mon-fri", "--tz", "Europe/Berlin"], 5),
    ],
)
def test_a_one_shot_comes_once_and_everything_else_five_times(
    schedctl: Schedctl, selector: list[str], count: int
) -> None:
    ended = schedctl("preview", *selector, "--from", "2026-03-07T12:00:00+00:00", "--json")
    items = json.loads(ended.out)["items"]
    assert len(items) == count
    assert ("local" in items[0]) == ("--cron" in selector)


def test_it_counts_from_now_where_nothing_else_is_said(schedctl: Schedctl) -> None:
    assert "  in 1 hour  " in schedctl("preview", "--every", "1h").out


def test_the_calendar_ends(schedctl: Schedctl) -> None:
    rule = ("--daily", "12:00", "--tz", "UTC", "--from", "9999-12-30T00:00:00Z")
    assert len(json.loads(schedctl("preview", *rule, "--json").out)["items"]) == 2


@pytest.mark.parametrize(
    ("ends", "count"),
    [
        (["--until", "2026-03-07T14:00:00Z"], 2),
        (["--until", "2026-03-07 15:59:59.999", "--tz", "Europe/Berlin"], 2),
        (["--until", "2026-03-08T12:00:00Z"], 5),
        (["--max-occurrences", "1"], 1),
        (["--max-occurrences", "7"], 5),
        (["--max-occurrences", "4", "--until", "2026-03-07T15:00:00Z"], 3),
    ],
)
def test_a_rule_with_an_end_comes_up_to_it_and_no_more_than_was_asked_for(
    schedctl: Schedctl, ends: list[str], count: int
) -> None:
    rule = ("--every", "1h", "--from", "2026-03-07T12:00:00Z")
    ended = schedctl("preview", *rule, *ends, "--json")
    assert len(json.loads(ended.out)["items"]) == count


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--every", "1m"], 5, "(frequency_too_high"),
        (["--daily", "09:00", "--tz", "EST"], 5, "(invalid_time_zone"),
        (["--cron", "* * * * *", "--tz", "UTC"], 5, "(frequency_too_high"),
        (["--at", "2020-01-01T00:00:00Z"], 5, "(not_future"),
        (["--after", "1h", "--max-occurrences", "2"], 5, "(invalid_rule [max_occurrences])"),
        (["--every", "1h", "--until", "2020-01-01T00:00:00Z"], 5, "(time_out_of_range [until])"),
        (["--every", "1h", "--until", "2026-13-01T00:00:00Z"], 5, "(invalid_rule [until])"),
        (["--every", "1h", "--expires-after", "1h"], 2, "there is no option --expires-after"),
        (["--every", "1h", "--count", "0"], 2, "--count: takes a whole number, 1 to 100"),
        (["--every", "1h", "--count", "101"], 2, "--count: takes a whole number, 1 to 100"),
        (["--every", "1h", "--from", "2026-03-07 12:00"], 2, "--from takes an instant"),
        (["--every", "1h", "--from", "2026-13-07T12:00:00Z"], 2, "--from 2026-13-07T12:00:00Z: "),
    ],
)
def test_what_cannot_be_previewed_says_why(
    schedctl: Schedctl, words: list[str], status: int, message: str
) -> None:
    ended = schedctl("preview", *words)
    assert (ended.status, ended.out) == (status, "")
    assert message in ended.err
