"""The options of ends, expiry and filters, against a scripted daemon, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]

EVERY = ("create", "--session", "s1", "--every", "1h", "hi")


@pytest.fixture(autouse=True)
def _answers(daemon: ScriptedDaemon) -> None:
    made = {"reminder": shapes.reminder(revision=3), "created": True, "updated": True}
    daemon.answers["reminder.create"] = lambda params: made
    daemon.answers["reminder.get"] = lambda params: made
    daemon.answers["reminder.update"] = lambda params: made
    daemon.answers["reminder.list"] = lambda params: {"items": [shapes.reminder()]}


ENDS: list[tuple[list[str], dict[str, Any]]] = [
    (["--until", "2999-12-24 18:00Z"], {"until": "2999-12-24T18:00:00Z"}),
    (
        ["--until", "2999-12-24 18:00", "--tz", "Europe/Berlin"],
        {"until": "2999-12-24T17:00:00.000Z"},
    ),
    (["--max-occurrences", "5"], {"max_occurrences": 5}),
    (["--expires-after", "1h30m"], {"expires_after_seconds": 5400}),
]


@pytest.mark.parametrize(("words", "members"), ENDS)
def test_create_and_update_take_ends_and_expiry(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], members: dict[str, Any]
) -> None:
    assert schedctl(*EVERY, *words).status == 0
    made = {"session_id": "s1", "prompt": "hi", "every_seconds": 3600}
    assert daemon.params_of("reminder.create") == [{**made, **members}]
    assert schedctl("update", "r7", *words).status == 0
    assert daemon.params_of("reminder.update") == [{"id": "r7", "revision": 3, **members}]


def test_an_end_with_its_offset_stands_beside_a_rule_on_the_clock_of_a_zone(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daily = ("--daily", "09:00", "--tz", "Europe/Berlin")
    schedctl("update", "r7", *daily, "--until", "2999-12-24T18:00:00+05:00")
    (params,) = daemon.params_of("reminder.update")
    assert params["daily"] == {"time": "09:00", "time_zone": "Europe/Berlin"}
    assert params["until"] == "2999-12-24T18:00:00+05:00"


@pytest.mark.parametrize(
    ("option", "member"),
    [
        ("--no-until", "until"),
        ("--no-max-occurrences", "max_occurrences"),
        ("--no-expires-after", "expires_after_seconds"),
    ],
)
def test_update_takes_an_end_away(
    schedctl: Schedctl, daemon: ScriptedDaemon, option: str, member: str
) -> None:
    assert schedctl("update", "r7", option).status == 0
    assert daemon.params_of("reminder.update") == [{"id": "r7", "revision": 3, member: None}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--until", "2999-12-24"], "--until takes a date and a time"),
        (["--until", "2999-12-24 18:00"], "--until without an offset (Z or +01:00) needs --tz"),
        (
            ["--until", "2999-02-30 18:00", "--tz", "UTC"],
            "--until 2999-02-30 18:00: at.date is a day of the calendar",
        ),
        (["--until", "2999-12-24 18:00", "--tz", "EST"], "--until 2999-12-24 18:00: "),
        (["--until", "2999-12-24T18:00:00Z", "--tz", "UTC"], "leave --tz away"),
        (["--max-occurrences", "0"], "takes a whole number, 1 to 1000000000, not '0'"),
        (["--max-occurrences", "two"], "takes a whole number"),
        (["--expires-after", "5"], "--expires-after 5 lacks a unit"),
    ],
)
def test_an_end_that_cannot_be_sent_is_misuse_and_is_not_sent(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], message: str
) -> None:
    ended = schedctl(*EVERY, *words)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err
    assert daemon.calls == []


@pytest.mark.parametrize("end", ["until", "max-occurrences", "expires-after"])
def test_an_end_is_set_or_taken_away_and_not_both(schedctl: Schedctl, end: str) -> None:
    ended = schedctl("update", "r7", f"--{end}", "1", f"--no-{end}")
    assert ended.status == 2
    assert "not allowed with argument" in ended.err


@pytest.mark.parametrize(
    ("words", "members"),
    [
        (["--kind", "daily"], {"kind": "daily"}),
        (["--state", "paused"], {"state": "paused"}),
        (["--text", "Build"], {"text": "Build"}),
        (["--due-before", "2999-12-24T18:00:00Z"], {"due_before": "2999-12-24T18:00:00Z"}),
        (
            ["--due-before", "2999-12-24 18:00", "--tz", "Europe/Berlin"],
            {"due_before": "2999-12-24T17:00:00.000Z"},
        ),
    ],
)
def test_list_passes_each_filter_on_and_an_empty_answer_says_no_more(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], members: dict[str, Any]
) -> None:
    assert schedctl("list", *words).status == 0
    daemon.answers["reminder.list"] = lambda params: {"items": []}
    assert schedctl("list", *words) == (0, "", "schedctl: there is no such reminder\n")
    assert daemon.params_of("reminder.list") == [members, members]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kind", "hourly"], "invalid choice: 'hourly'"),
        (["--state", "late"], "invalid choice: 'late'"),
        (["--state", "paused", "--status", "all"], "not allowed with argument"),
        (["--tz", "UTC"], "--tz goes with --due-before"),
        (["--due-before", "noon"], "--due-before takes a date and a time"),
        (["--due-before", "2999-12-24T18:00:00Z", "--tz", "UTC"], "leave --tz away, or the offset"),
    ],
)
def test_a_filter_that_means_nothing_is_misuse(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], message: str
) -> None:
    ended = schedctl("list", *words)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err
    assert daemon.calls == []


def test_list_marks_what_is_paused(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    daemon.answers["reminder.list"] = lambda params: {
        "items": [shapes.reminder(state="paused", paused=True)]
    }
    assert schedctl("list").out.splitlines()[1].split()[:2] == ["r7", "paused"]


def test_show_tells_of_ends_expiry_and_where_it_came_from(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    shown = shapes.reminder(
        until="2999-12-25T00:00:00.000Z",
        max_occurrences=5,
        dispatch_count=2,
        expires_after_seconds=5400,
        snoozed_from="r3",
    )
    daemon.answers["reminder.get"] = lambda params: {"reminder": shown}
    lines = schedctl("show", "r7").out.splitlines()
    assert [line for line in lines if line.startswith("until:     2999-12-2")]
    assert "came:      2 of 5 times" in lines
    assert "expires:   when it is 1 hour 30 minutes late" in lines
    assert "snoozed:   from r3" in lines


def test_show_of_what_never_ends_says_nothing_of_ends(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    out = schedctl("show", "r7").out
    assert not {"until:", "came:", "expires:", "snoozed:"} & set(out.split())


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("delivered", "it was delivered"),
        ("until", "it has no time left before its end"),
        ("count", "it came as often as it was meant to"),
        ("range", "there is no later time in the calendar"),
        ("missed", "it could not be sent before it expired"),
    ],
)
def test_show_says_in_a_sentence_why_it_ended(
    schedctl: Schedctl, daemon: ScriptedDaemon, reason: str, words: str
) -> None:
    ended = shapes.reminder(
        state="ended", status="ended", waiting_for={"why": "ended"}, ended_reason=reason
    )
    daemon.answers["reminder.get"] = lambda params: {"reminder": ended}
    assert schedctl("show", "r7").out.splitlines()[1] == f"It will not come again: {words}."


@pytest.mark.parametrize(("runs", "shown"), [({"runs": 2}, True), ({}, False)])
def test_what_was_asked_for_by_hand_and_has_not_come_is_shown(
    schedctl: Schedctl, daemon: ScriptedDaemon, runs: dict[str, Any], shown: bool
) -> None:
    daemon.answers["reminder.get"] = lambda params: {"reminder": shapes.reminder(**runs)}
    assert ("by hand:   2 still to come" in schedctl("show", "r7").out) is shown
