"""sessions: the list, forget and transfer, against a scripted daemon."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from scheduler_daemon.errors import LimitReached
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]


def two_pages(params: dict[str, Any]) -> object:
    if "cursor" in params:
        cold = shapes.session("z\n", live=False, hosts=[], set_aside=2, runs=3)
        del cold["next_target_at"], cold["waiting_for"]
        return {"items": [cold]}
    return {"items": [shapes.session("a")], "next_cursor": "c"}


@pytest.fixture(autouse=True)
def _answers(daemon: ScriptedDaemon) -> None:
    daemon.answers["session.list"] = two_pages
    daemon.answers["session.forget"] = lambda params: {"reminders": 5, "dispatches": 1}
    daemon.answers["session.transfer"] = lambda params: {"reminders": 3}


def test_sessions_are_a_table_of_all_pages_with_counts_and_what_they_wait_for(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    ended = schedctl("sessions")
    assert (ended.status, ended.err) == (0, "")
    head, live, cold = (line.split() for line in ended.out.splitlines())
    assert head == [
        *("HOST", "ACTIVE", "PAUSED", "OVERDUE", "ENDED", "NEXT", "SESSION", "WAITS", "FOR")
    ]
    assert live[:5] == ["live", "4", "1", "2", "3"]
    assert ended.out.splitlines()[1].endswith("  a        a busy host, tried 3 times")
    words = ["3", "asked", "for", "by", "hand;", "2", "set", "aside"]
    assert cold == ["cold", "4", "1", "2", "3", "z\\n", *words]


@pytest.mark.parametrize("width", [100, 80])
def test_sessions_fit_the_terminal_and_keep_their_counts(
    schedctl: Schedctl, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    daemon.answers["session.list"] = lambda params: {"items": [shapes.session("x" * 200)]}
    monkeypatch.setenv("COLUMNS", str(width))
    head, row = schedctl("sessions").out.splitlines()
    assert max(len(head), len(row)) <= width
    assert head.split()[:6] == ["HOST", "ACTIVE", "PAUSED", "OVERDUE", "ENDED", "NEXT"]
    assert row.split()[:5] == ["live", "4", "1", "2", "3"]


def test_sessions_in_json_are_one_a_line(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    lines = schedctl("sessions", "--json").out.splitlines()
    assert [json.loads(line)["session_id"] for line in lines] == ["a", "z\n"]


def test_sessions_of_everybody_say_whose(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    out = schedctl("sessions", "--all-owners").out
    assert daemon.params_of("session.list")[0] == {"owner_uid": "*"}
    assert [line.split()[0] for line in out.splitlines()] == ["OWNER", "1000", "1000"]


def test_no_session_is_said_beside_the_data(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    daemon.answers["session.list"] = lambda params: {"items": []}
    ended = schedctl("sessions")
    assert (ended.status, ended.out) == (0, "")
    assert "no Session has a reminder" in ended.err
    assert schedctl("sessions", "--json") == (0, "", "")


def test_forget_counts_what_it_removed(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    ended = schedctl("sessions", "forget", "a\x1b", "--yes", "--owner", "12")
    assert daemon.calls == [("session.forget", {"session_id": "a\x1b", "owner_uid": 12})]
    assert ended == (0, "Session 'a\\x1b' is forgotten: 5 reminders and 1 receipt are gone\n", "")
    ended = schedctl("sessions", "forget", "a", "--yes", "--json")
    assert ended == (0, '{"reminders": 5, "dispatches": 1}\n', "")


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("a", "Forget Session 'a': 7 reminders (4 active) and their history?"),
        ("x", "Forget Session 'x', which has no reminder, and its history?"),
    ],
)
def test_forget_without_a_terminal_needs_yes_and_says_what_would_go(
    schedctl: Schedctl, daemon: ScriptedDaemon, name: str, question: str
) -> None:
    ended = schedctl("sessions", "forget", name)
    assert (ended.status, ended.out) == (2, "")
    assert f"{question} There is no terminal to ask on: add --yes" in ended.err
    assert daemon.params_of("session.forget") == []


def test_transfer_counts_what_it_moved(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    ended = schedctl("sessions", "transfer", "a", "b\n")
    assert daemon.calls == [("session.transfer", {"from": "a", "to": "b\n"})]
    assert ended == (0, "3 active reminders moved from Session 'a' to Session 'b\\n'\n", "")
    assert schedctl("sessions", "transfer", "a", "b", "--json").out == '{"reminders": 3}\n'


def test_a_transfer_over_a_limit_is_refused(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    def refuse(params: dict[str, Any]) -> object:
        raise LimitReached("1000 active reminders are the most of one Session")

    daemon.answers["session.transfer"] = refuse
    ended = schedctl("sessions", "transfer", "a", "b")
    assert (ended.status, ended.out) == (5, "")
    assert "limit_reached" in ended.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["foget", "a"], "sessions takes nothing, forget or transfer, not 'foget'"),
        (["forget"], "it is `schedctl sessions forget NAME`"),
        (["forget", "a", "b"], "it is `schedctl sessions forget NAME`"),
        (["transfer", "a"], "it is `schedctl sessions transfer FROM TO`"),
        (["forget", "a", "--all-owners"], "--all-owners only shows Sessions"),
        (["--owner", "no-such-user-here"], "no user of this machine"),
    ],
)
def test_what_sessions_does_not_know_is_misuse_and_is_not_sent(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], message: str
) -> None:
    ended = schedctl("sessions", *words)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err
    assert daemon.calls == []
