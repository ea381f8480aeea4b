"""The verbs of management against a real daemon: what a person types and what is then true."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scheduler_daemon.cli.stage import Stage
from tests.cli.conftest import Ended

Schedctl = Callable[..., Ended]

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def running() -> Iterator[Stage]:
    with Stage() as here:
        here.start_daemon()
        yield here


@pytest.fixture(autouse=True)
def stage(running: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("SCHEDULER_DAEMON_SOCKET", str(running.socket))
    return running


@pytest.fixture
def session(request: pytest.FixtureRequest) -> str:
    """A Session that no other test has."""
    return str(request.node.name)


@pytest.fixture
def make(schedctl: Schedctl, session: str) -> Callable[..., str]:
    """Make a reminder in the Session of the test; return its id."""

    def make(*words: str, where: str = session) -> str:
        made = schedctl("create", "--session", where, "--json", *words)
        assert made.status == 0, made.err
        return str(json.loads(made.out)["reminder"]["id"])

    return make


@pytest.fixture
def get(schedctl: Schedctl) -> Callable[[str], Any]:
    """A reminder as it is now."""
    return lambda which: json.loads(schedctl("show", which, "--json").out)["reminder"]


Make = Callable[..., str]
Get = Callable[[str], Any]


def test_a_reminder_is_paused_and_resumed(schedctl: Schedctl, make: Make, get: Get) -> None:
    r1 = make("--every", "1h", "x")
    before = get(r1)
    assert schedctl("pause", r1).out.startswith(f"{r1} is paused; `schedctl resume {r1}`")
    assert (get(r1)["state"], get(r1)["waiting_for"]) == ("paused", {"why": "paused"})
    assert "It is paused, and will not come" in schedctl("show", r1).out
    assert schedctl("pause", r1).status == 0
    assert schedctl("resume", r1).out.startswith(f"{r1} will come in ")
    assert get(r1)["scheduled_at"] == before["scheduled_at"]
    assert schedctl("list", "--state", "paused", "--session", before["session_id"]).out == ""


def test_a_snooze_makes_a_one_shot_with_the_same_words(
    schedctl: Schedctl, make: Make, get: Get
) -> None:
    r1 = make("--daily", "09:00", "--tz", "UTC", "--title", "T", "--context", "a=b", "Words")
    said = schedctl("snooze", r1, "10m", "--idempotency-key", "k").out
    assert f"; it has the words of {r1}\n" in said
    new = get(said.partition(" ")[0])
    assert (new["kind"], new["snoozed_from"]) == ("after", r1)
    assert (new["prompt"], new["title"], new["context"]) == ("Words", "T", {"a": "b"})
    assert f"from {r1}\n" in schedctl("show", new["id"]).out
    again = schedctl("snooze", r1, "10m", "--idempotency-key", "k").out
    assert again.startswith(f"nothing new was made: {new['id']} will come in ")
    at = schedctl("snooze", r1, "--at", "2999-12-24 18:00", "--tz", "Europe/Berlin").out
    assert "(2999-12-24 18:00:00 Europe/Berlin)" in at
    assert schedctl("snooze", r1, "--at", "2020-01-01T00:00:00Z").status == 5


def test_a_skip_goes_on_to_the_next_time_and_stands_in_the_history(
    schedctl: Schedctl, make: Make, get: Get
) -> None:
    r1 = make("--daily", "09:00", "--tz", "Europe/Berlin", "x")
    target = get(r1)["scheduled_at"]
    said = schedctl("skip", r1).out
    assert " 09:00:00 Europe/Berlin is skipped: " in said
    assert get(r1)["scheduled_at"] > target
    assert "  skipped  " in schedctl("history", r1).out
    assert " was skipped, " in schedctl("show", r1).out


def test_a_one_shot_cannot_be_skipped(schedctl: Schedctl, make: Make) -> None:
    ended = schedctl("skip", make("--after", "1h", "x"))
    assert (ended.status, ended.out) == (5, "")
    assert ended.err.count("\n") == 1


def test_run_now_brings_it_once_and_leaves_its_target(
    schedctl: Schedctl, make: Make, get: Get, session: str
) -> None:
    r1 = make("--every", "1h", "Look")
    target = get(r1)["scheduled_at"]
    schedctl("pause", r1)
    said = schedctl("run-now", r1, "--idempotency-key", "k").out
    assert said.startswith(f"{r1} comes once more as soon as a host takes it: {r1}@now-")
    occurrence = said.split()[-1]
    assert schedctl("run-now", r1, "--idempotency-key", "k").out == (
        f"nothing new comes: this key has asked for {occurrence} before\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "scheduler_daemon.cli", "host", session],
        stdout=subprocess.PIPE,
        text=True,
    ) as host:
        assert host.stdout is not None
        (due,) = json.loads(host.stdout.readline())["occurrences"]
        host.kill()
    assert (due["occurrence_id"], due["prompt"]) == (occurrence, "Look")
    assert (get(r1)["state"], get(r1)["scheduled_at"]) == ("paused", target)


def test_ends_and_expiry_are_made_shown_changed_and_taken_away(
    schedctl: Schedctl, make: Make, get: Get
) -> None:
    ends = ("--until", "2999-12-24 18:00", "--tz", "Europe/Berlin", "--max-occurrences", "5")
    r1 = make("--every", "1h", *ends, "--expires-after", "30m", "x")
    made = get(r1)
    assert made["until"] == "2999-12-24T17:00:00.000Z"
    assert (made["max_occurrences"], made["expires_after_seconds"]) == (5, 1800)
    shown = schedctl("show", r1).out
    assert "came:      0 of 5 times\n" in shown
    assert "expires:   when it is 30 minutes late\n" in shown
    schedctl("update", r1, "--max-occurrences", "6", "--no-until", "--no-expires-after")
    changed = get(r1)
    assert changed["max_occurrences"] == 6
    assert "until" not in changed
    assert "expires_after_seconds" not in changed


@pytest.mark.parametrize(
    ("words", "member"),
    [
        (["--after", "1h", "--until", "2999-01-01T00:00:00Z"], "until"),
        (["--after", "1h", "--max-occurrences", "2"], "max_occurrences"),
        (["--every", "1h", "--until", "2020-01-01T00:00:00Z"], "until"),
        (["--every", "1h", "--expires-after", "0s"], "expires_after_seconds"),
    ],
)
def test_an_end_that_cannot_be_is_refused(
    schedctl: Schedctl, session: str, words: list[str], member: str
) -> None:
    ended = schedctl("create", "--session", session, *words, "x")
    assert (ended.status, ended.out) == (5, "")
    assert f"[{member}])" in ended.err


def test_a_preview_with_ends_agrees_with_the_daemon(schedctl: Schedctl) -> None:
    rule = {
        "daily": {"time": "09:00", "time_zone": "Europe/Berlin"},
        "until": "2999-01-01T00:00:00Z",
        "max_occurrences": 2,
    }
    theirs = schedctl("rpc", "reminder.preview", json.dumps(rule))
    daily = ("--daily", "09:00", "--tz", "Europe/Berlin", "--max-occurrences", "2")
    ours = schedctl("preview", *daily, "--until", "2999-01-01T00:00:00Z", "--json")
    assert len(json.loads(ours.out)["items"]) == 2
    assert ours.out == theirs.out


def test_a_list_is_filtered(schedctl: Schedctl, make: Make, session: str) -> None:
    r1 = make("--daily", "09:00", "--tz", "UTC", "Read the MAIL")
    r2 = make("--after", "20m", "--title", "Mail", "x")
    r3 = make("--at", "2999-12-24T18:00:00Z", "x")
    schedctl("pause", r3)

    def listed(*words: str) -> list[str]:
        lines = schedctl("list", "--session", session, "--json", *words).out.splitlines()
        return [json.loads(line)["id"] for line in lines]

    assert listed("--kind", "daily") == [r1]
    assert listed("--text", "mail") == [r1, r2]
    assert listed("--state", "paused") == [r3]
    assert listed("--state", "scheduled") == [r1, r2]
    assert listed("--due-before", "2999-01-01 00:00", "--tz", "Europe/Berlin") == [r1, r2]
    assert listed("--kind", "daily", "--text", "nothing like it") == []


def test_a_session_is_listed_moved_emptied_and_forgotten(
    schedctl: Schedctl, make: Make, session: str
) -> None:
    other = f"{session}-2"
    for _ in range(2):
        schedctl("skip", make("--every", "1h", "x"))
    rows = [line for line in schedctl("sessions").out.splitlines() if f" {session} " in line]
    assert [row.split()[:5] for row in rows] == [["cold", "2", "0", "0", "0"]]
    moved = schedctl("sessions", "transfer", session, other)
    assert moved.out == f"2 active reminders moved from Session {session!r} to Session {other!r}\n"
    assert schedctl("delete", "--session", other, "--all").status == 2
    gone = schedctl("delete", "--session", other, "--all", "--yes")
    assert gone.out == f"2 reminders of Session {other!r} deleted\n"
    forgotten = schedctl("sessions", "forget", session, "--yes")
    assert (
        forgotten.out == f"Session {session!r} is forgotten: 0 reminders and 2 receipts are gone\n"
    )
    assert session not in schedctl("sessions").out


@pytest.mark.parametrize(
    "words",
    [["pause"], ["resume"], ["skip"], ["run-now"], ["snooze", "--at", "2999-01-01T00:00:00Z"]],
)
def test_an_act_on_a_reminder_that_is_not_there_is_status_4(
    schedctl: Schedctl, words: list[str]
) -> None:
    ended = schedctl(*words, "r999999")
    assert (ended.status, ended.out) == (4, "")
    assert "you have no reminder r999999" in ended.err
