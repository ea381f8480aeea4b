"""schedctl watch: what a line says, and what --json says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from scheduler_daemon.errors import ReminderNotFound
from scheduler_daemon.wire.messages import notification
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]

LONG_AGO = "2026-01-01T00:00:00.000Z"
LAGGED = notification("watch.lagged", {})


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


def lines(ended: Ended) -> list[str]:
    """What stands behind the time of each line."""
    found = []
    for line in ended.out.splitlines():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  .*", line), line
        found.append(line[21:])
    return found


def without_relative(ended: Ended) -> list[str]:
    """The same, without what depends on when the test runs."""
    return [
        re.sub(r"(in|overdue) \d+ [a-z]+( \d+ [a-z]+)?", r"\1 …", line) for line in lines(ended)
    ]


def test_a_line_says_session_id_change_and_words(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    watched.changes = [
        shapes.changed(reminder=shapes.reminder()),
        shapes.changed("paused", reminder=shapes.reminder(title="Build", prompt="Check it")),
        shapes.changed("deleted"),
    ]
    ended = schedctl("watch")
    assert without_relative(ended) == [
        "s1  r7  created, comes in … (2999-12-24 13:20:00 UTC)  Check the build",
        "s1  r7  paused  Build: Check it",
        "s1  r7  deleted",
    ]
    assert watched.params_of("daemon.watch")[0] == {}
    assert watched.params_of("reminder.get") == []


@pytest.mark.parametrize(
    ("change", "facts", "what"),
    [
        (
            "updated",
            {"scheduled_at_local": "2999-12-24T14:20:00+01:00[Europe/Berlin]"},
            "updated, comes in … (2999-12-24 14:20:00 Europe/Berlin)",
        ),
        ("updated", {"state": "paused", "paused": True}, "updated, paused"),
        ("updated", {"until": "2999-12-24T13:10:00.000Z"}, "updated, not again"),
        ("updated", {"state": "ended", "status": "ended"}, "updated"),
        ("resumed", {"state": "overdue", "scheduled_at": LONG_AGO}, "resumed, overdue …"),
        (
            "dispatched",
            {"last_dispatch": shapes.receipt(host="ed\x1b")},
            "dispatched to 'ed\\x1b', comes again in … (2999-12-24 13:20:00 UTC)",
        ),
        (
            "dispatched",
            {"last_dispatch": shapes.receipt(), "state": "ended"},
            "dispatched to 'editor'",
        ),
        ("ended", {"state": "ended", "ended_reason": "delivered"}, "ended, it was delivered"),
        (
            "ended",
            {"state": "ended", "ended_reason": "until"},
            "ended, it has no time left before its end",
        ),
    ],
)
def test_a_line_says_what_happened_and_what_comes_next(
    schedctl: Schedctl,
    watched: ScriptedDaemon,
    change: str,
    facts: dict[str, Any],
    what: str,
) -> None:
    watched.changes = [shapes.changed(change, reminder=shapes.reminder(**facts))]
    (line,) = without_relative(schedctl("watch"))
    assert line == f"s1  r7  {what}  Check the build"


def test_it_says_what_it_watches_and_on_whose_clock(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    ended = schedctl("watch", "--session", "s1")
    assert watched.params_of("daemon.watch")[0] == {"session_id": "s1"}
    assert ended.err.splitlines()[0] == (
        "schedctl: watching the reminders of Session 's1', times in UTC; ctrl-C ends it"
    )


def test_without_a_session_it_watches_every_one(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    assert "of every Session, times" in schedctl("watch").err


def test_words_that_a_change_does_not_bring_are_asked_for(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    watched.changes = [shapes.changed("dispatched"), shapes.changed("ended")]
    ended = shapes.reminder(title="Build", state="ended", ended_reason="delivered")
    watched.answers["reminder.get"] = lambda params: {"reminder": ended}
    assert lines(schedctl("watch")) == [
        "s1  r7  dispatched  Build: Check the build",
        "s1  r7  ended, it was delivered  Build: Check the build",
    ]


def test_a_reminder_that_is_gone_meanwhile_has_its_line_without_words(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    def gone(params: dict[str, Any]) -> object:
        raise ReminderNotFound("no such reminder")

    watched.changes = [shapes.changed("dispatched"), shapes.changed("deleted")]
    watched.answers["reminder.get"] = gone
    assert lines(schedctl("watch")) == ["s1  r7  dispatched", "s1  r7  deleted"]


def test_what_acts_on_a_terminal_is_escaped_and_words_are_whole_where_no_terminal_reads(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    watched.changes = [
        shapes.changed("paused", reminder=shapes.reminder(prompt="\x1b[2J\n" + "x" * 5000)),
        shapes.changed("deleted", session_id="s\u202e1"),
    ]
    assert lines(schedctl("watch")) == [
        "s1  r7  paused  \\x1b[2J\\n" + "x" * 5000,
        "s\\u202e1  r7  deleted",
    ]


@pytest.mark.parametrize(("width", "has_clock"), [(100, True), (99, False), (50, False)])
def test_a_line_is_cut_to_the_terminal(
    schedctl: Schedctl,
    watched: ScriptedDaemon,
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    has_clock: bool,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    watched.changes = [shapes.changed(reminder=shapes.reminder(prompt="x" * 5000))]
    (line,) = schedctl("watch").out.splitlines()
    assert len(line) == width
    assert line.endswith("…")
    assert (" UTC)" in line) == has_clock


def test_wide_shows_everything_on_any_terminal(
    schedctl: Schedctl, watched: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    watched.changes = [shapes.changed(reminder=shapes.reminder(prompt="x" * 5000))]
    (line,) = lines(schedctl("watch", "--wide"))
    assert line.endswith(" UTC)  " + "x" * 5000)


def test_changes_that_were_left_out_are_said(schedctl: Schedctl, watched: ScriptedDaemon) -> None:
    watched.changes = [LAGGED]
    (line,) = lines(schedctl("watch"))
    assert "left out" in line
    assert "`schedctl list`" in line


def test_json_is_an_object_a_line_as_it_came(schedctl: Schedctl, watched: ScriptedDaemon) -> None:
    watched.changes = [shapes.changed("dispatched", note="\x1b"), LAGGED]
    ended = schedctl("watch", "--json")
    assert "\x1b" not in ended.out
    assert [json.loads(line) for line in ended.out.splitlines()] == [
        shapes.event("dispatched", note="\x1b"),
        {"lagged": True},
    ]
    assert watched.params_of("reminder.get") == []


def test_with_all_owners_a_line_says_whose(schedctl: Schedctl, watched: ScriptedDaemon) -> None:
    watched.changes = [shapes.changed("dispatched")]
    ended = shapes.reminder(state="ended")
    watched.answers["reminder.get"] = lambda params: {"reminder": ended}
    assert lines(schedctl("watch", "--all-owners")) == ["1000  s1  r7  dispatched  Check the build"]
    assert watched.params_of("daemon.watch")[0] == {"owner_uid": "*"}
    assert watched.params_of("reminder.get") == [{"id": "r7", "owner_uid": "*"}]
