"""schedctl watch: what a line says, what --json says, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from scheduler_daemon.errors import PermissionDenied, ReminderNotFound
from scheduler_daemon.wire.messages import notification
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]

WATCH = (sys.executable, "-m", "scheduler_daemon.cli", "watch")
LAGGED = notification("watch.lagged", {})
ENDED = "schedctl: the daemon closed the connection\n"


def event(change: str = "created", **more: Any) -> dict[str, Any]:
    return {"id": "r7", "owner_uid": 1000, "session_id": "s1", "change": change, **more}


def changed(change: str = "created", **more: Any) -> dict[str, object]:
    return notification("reminder.changed", event(change, **more))


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


@pytest.fixture
def watched(daemon: ScriptedDaemon) -> ScriptedDaemon:
    daemon.answers["daemon.watch"] = lambda params: {}
    return daemon


def lines(ended: Ended) -> list[str]:
    """What stands behind the time of each line."""
    found = []
    for line in ended.out.splitlines():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  .*", line), line
        found.append(line[21:])
    return found


def test_a_line_says_session_id_change_and_words(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    watched.changes = [
        changed(reminder=shapes.reminder()),
        changed("paused", reminder=shapes.reminder(title="Build", prompt="Check it")),
        changed("deleted"),
    ]
    ended = schedctl("watch")
    assert lines(ended) == [
        "s1  r7  created  Check the build",
        "s1  r7  paused  Build",
        "s1  r7  deleted",
    ]
    assert watched.params_of("daemon.watch") == [{}]
    assert watched.params_of("reminder.get") == []


def test_it_says_what_it_watches_and_on_whose_clock(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    ended = schedctl("watch", "--session", "s1")
    assert watched.params_of("daemon.watch") == [{"session_id": "s1"}]
    assert ended.err.splitlines()[0] == (
        "schedctl: watching the reminders of Session 's1', times in UTC; ctrl-C ends it"
    )
    assert "of every Session, times" in schedctl("watch").err


def test_words_that_a_change_does_not_bring_are_asked_for(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    watched.changes = [changed("dispatched"), changed("ended")]
    watched.answers["reminder.get"] = lambda params: {"reminder": shapes.reminder(title="Build")}
    assert lines(schedctl("watch")) == ["s1  r7  dispatched  Build", "s1  r7  ended  Build"]


def test_a_reminder_that_is_gone_meanwhile_has_its_line_without_words(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    def gone(params: dict[str, Any]) -> object:
        raise ReminderNotFound("no such reminder")

    watched.changes = [changed("dispatched"), changed("deleted")]
    watched.answers["reminder.get"] = gone
    assert lines(schedctl("watch")) == ["s1  r7  dispatched", "s1  r7  deleted"]


def test_long_words_are_cut_and_what_acts_on_a_terminal_is_escaped(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    watched.changes = [
        changed(reminder=shapes.reminder(prompt="\x1b[2J\n" + "x" * 100)),
        changed("deleted", session_id="s\u202e1"),
    ]
    first, second = lines(schedctl("watch"))
    assert first == "s1  r7  created  \\x1b[2J\\n" + "x" * 50 + "…"
    assert second == "s\\u202e1  r7  deleted"


def test_changes_that_were_left_out_are_said(schedctl: Schedctl, watched: ScriptedDaemon) -> None:
    watched.changes = [LAGGED]
    (line,) = lines(schedctl("watch"))
    assert "left out" in line
    assert "`schedctl list`" in line


def test_json_is_an_object_a_line_as_it_came(schedctl: Schedctl, watched: ScriptedDaemon) -> None:
    watched.changes = [changed("dispatched", note="\x1b"), LAGGED]
    ended = schedctl("watch", "--json")
    assert "\x1b" not in ended.out
    assert [json.loads(line) for line in ended.out.splitlines()] == [
        event("dispatched", note="\x1b"),
        {"lagged": True},
    ]
    assert watched.params_of("reminder.get") == []


def test_with_all_owners_a_line_says_whose(schedctl: Schedctl, watched: ScriptedDaemon) -> None:
    watched.changes = [changed("dispatched")]
    watched.answers["reminder.get"] = lambda params: {"reminder": shapes.reminder()}
    ended = schedctl("watch", "--all-owners")
    assert lines(ended) == ["1000  s1  r7  dispatched  Check the build"]
    assert watched.params_of("daemon.watch") == [{"owner_uid": "*"}]
    assert watched.params_of("reminder.get") == [{"id": "r7", "owner_uid": "*"}]


def test_a_daemon_that_stops_is_said_in_one_sentence(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    watched.changes = [changed("deleted")]
    ended = schedctl("watch")
    assert ended.status == 3
    assert ended.err.splitlines(keepends=True)[1:] == [ENDED]


def test_a_refusal_ends_it_before_it_begins(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    def refuse(params: dict[str, Any]) -> object:
        raise PermissionDenied("not yours")

    daemon.answers["daemon.watch"] = refuse
    ended = schedctl("watch", "--owner", "7")
    assert (ended.status, ended.out) == (5, "")
    assert ended.err == "schedctl: not yours (permission_denied)\n"


def test_nobody_there_is_unreachable(schedctl: Schedctl) -> None:
    assert schedctl("watch").status == 3


def test_ctrl_c_ends_it_quietly_and_each_line_was_out_before(watched: ScriptedDaemon) -> None:
    watched.goes_on = True
    watched.changes = [changed("deleted")]
    with subprocess.Popen(
        [*WATCH, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline()) == event("deleted")
        watching.send_signal(signal.SIGINT)
        out, err = watching.communicate(timeout=60)
    assert (watching.returncode, out) == (130, "")
    assert err.count("\n") == 1


def test_a_reader_that_has_read_enough_ends_it_quietly(watched: ScriptedDaemon) -> None:
    watched.changes = [changed("deleted")] * 10_000
    ended = subprocess.run(
        ["sh", "-c", f"{' '.join(WATCH)} --json | head -1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(ended.stdout) == event("deleted")
    assert ended.stderr.count("\n") == 1


def test_a_closed_stdout_is_refused(watched: ScriptedDaemon) -> None:
    ended = subprocess.run(
        ["sh", "-c", f"exec {' '.join(WATCH)} >&-"], stderr=subprocess.PIPE, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == b"schedctl: stdout is closed: nobody would see what changes\n"
