"""pause, resume, snooze, skip and run-now against a scripted daemon."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from scheduler_daemon.errors import ReminderEnded, ReminderNotFound
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]

OCCURRENCE = "r7@now-2026-12-24T13:00:00.000Z"
ACTS = (
    (["pause", "r7"], "reminder.pause"),
    (["resume", "r7"], "reminder.resume"),
    (["skip", "r7"], "reminder.skip"),
    (["snooze", "r7", "10m"], "reminder.snooze"),
    (["run-now", "r7"], "reminder.run_now"),
)


@pytest.fixture(autouse=True)
def _answers(daemon: ScriptedDaemon) -> None:
    recurring = shapes.reminder(kind="daily", rule_text="every day at 09:00 UTC")
    daemon.answers["reminder.pause"] = lambda params: {
        "reminder": shapes.reminder(state="paused", paused=True)
    }
    daemon.answers["reminder.resume"] = lambda params: {"reminder": recurring}
    daemon.answers["reminder.skip"] = lambda params: {
        "reminder": recurring,
        "skipped_occurrence": "2026-12-24T13:00:00.000Z",
    }
    daemon.answers["reminder.snooze"] = lambda params: {
        "reminder": shapes.reminder(9, snoozed_from="r7"),
        "created": True,
    }
    daemon.answers["reminder.run_now"] = lambda params: {
        "reminder": recurring,
        "occurrence_id": OCCURRENCE,
        "created": True,
    }


@pytest.mark.parametrize(("words", "method"), ACTS)
def test_in_json_an_act_prints_the_result_of_its_method(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], method: str
) -> None:
    daemon.answers[method] = lambda params: {"new": ["é\x1b", params["owner_uid"]]}
    ended = schedctl(*words, "--owner", "12", "--json")
    assert (ended.status, ended.err) == (0, "")
    assert json.loads(ended.out) == {"new": ["é\x1b", 12]}


@pytest.mark.parametrize(("words", "method"), ACTS)
def test_an_act_on_what_is_not_there_is_status_4_and_one_that_is_refused_says_so(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], method: str
) -> None:
    def miss(params: dict[str, Any]) -> object:
        raise ReminderNotFound("no")

    def refuse(params: dict[str, Any]) -> object:
        raise ReminderEnded("r7 has ended")

    daemon.answers[method] = miss
    ended = schedctl(*words)
    assert (ended.status, ended.out) == (4, "")
    assert "you have no reminder r7: `schedctl list --status all` shows all" in ended.err
    daemon.answers[method] = refuse
    ended = schedctl(*words)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == "schedctl: r7 has ended (reminder_ended)\n"


def test_a_paused_one_is_said_to_be_and_how_to_resume_it(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    ended = schedctl("pause", "r7")
    assert ended == (0, "r7 is paused; `schedctl resume r7` lets it come again\n", "")
    assert daemon.calls == [("reminder.pause", {"id": "r7"})]


def test_a_resumed_one_says_when_it_will_come(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    ended = schedctl("resume", "r7")
    assert daemon.calls == [("reminder.resume", {"id": "r7"})]
    assert ended.out.startswith("r7 will come in ")
    assert ended.out.endswith(", and then every day at 09:00 UTC\n")


def test_a_skip_names_what_will_not_come_on_the_clock_of_the_rule(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    skipped = schedctl("skip", "r7")
    assert daemon.calls == [("reminder.skip", {"id": "r7"})]
    assert " is skipped: r7 will come in " in skipped.out
    daemon.answers["reminder.skip"] = lambda params: {
        "reminder": shapes.reminder(
            kind="daily", scheduled_at_local="2999-12-24T14:20:00+01:00[Europe/Berlin]"
        ),
        "skipped_occurrence": "2026-07-24T13:00:00.000Z",
    }
    assert schedctl("skip", "r7").out.startswith(
        "2026-07-24 15:00:00 Europe/Berlin is skipped: r7 will come in "
    )


@pytest.mark.parametrize(
    ("words", "when"),
    [
        (["1h30m"], {"seconds": 5400}),
        (["--at", "2999-12-24T18:00+01:00"], {"at": "2999-12-24T18:00:00+01:00"}),
        (
            ["--at", "2999-12-24 18:00", "--tz", "Europe/Berlin", "--idempotency-key", "k"],
            {
                "at": {"date": "2999-12-24", "time": "18:00:00", "time_zone": "Europe/Berlin"},
                "idempotency_key": "k",
            },
        ),
    ],
)
def test_snooze_takes_a_duration_or_a_time(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], when: dict[str, Any]
) -> None:
    ended = schedctl("snooze", "r7", *words)
    assert daemon.params_of("reminder.snooze") == [{"id": "r7", **when}]
    assert ended.out.startswith("r9 will come in ")
    assert ended.out.endswith("; it has the words of r7\n")
    assert ("Europe/Berlin" in ended.out) == ("--tz" in words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "say when: a duration such as 10m, or --at WHEN, one of them"),
        (["10m", "--at", "2999-12-24T18:00:00Z"], "one of them"),
        (["10"], "DURATION 10 lacks a unit: write 10s, 10m"),
        (["soon"], "DURATION takes a duration such as 90s"),
        (["10m", "--tz", "UTC"], "--tz goes with --at"),
        (["--at", "2999-12-24 18:00"], "--at without an offset (Z or +01:00) needs --tz"),
        (["--at", "tomorrow"], "--at takes a date and a time"),
    ],
)
def test_a_snooze_that_does_not_say_when_is_misuse_and_not_sent(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], message: str
) -> None:
    ended = schedctl("snooze", "r7", *words)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err
    assert daemon.calls == []


def test_a_snooze_under_a_key_used_before_makes_nothing(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["reminder.snooze"] = lambda params: {
        "reminder": shapes.reminder(9),
        "created": False,
    }
    assert schedctl("snooze", "r7", "10m").out.startswith("nothing new was made: r9 will come in ")
    daemon.answers["reminder.snooze"] = lambda params: {
        "id": "r9",
        "deleted": True,
        "created": False,
    }
    assert schedctl("snooze", "r7", "10m").out == (
        "nothing was made: this key made r9, which has been deleted since\n"
    )


def test_run_now_names_the_occurrence_that_comes(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    ended = schedctl("run-now", "r7", "--idempotency-key", "k")
    assert daemon.calls == [("reminder.run_now", {"id": "r7", "idempotency_key": "k"})]
    assert ended == (0, f"r7 comes once more as soon as a host takes it: {OCCURRENCE}\n", "")


def test_run_now_under_a_key_used_before_brings_nothing_new(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["reminder.run_now"] = lambda params: {
        "reminder": shapes.reminder(),
        "occurrence_id": OCCURRENCE,
        "created": False,
    }
    assert schedctl("run-now", "r7").out == (
        f"nothing new comes: this key has asked for {OCCURRENCE} before\n"
    )
    daemon.answers["reminder.run_now"] = lambda params: {
        "id": "r7",
        "deleted": True,
        "created": False,
    }
    assert schedctl("run-now", "r7").out == (
        "nothing comes: this key was for r7, which has been deleted since\n"
    )
