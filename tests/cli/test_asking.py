"""The question before what cannot be undone, on a real terminal and without one."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from scheduler_daemon.cli import asking
from scheduler_daemon.cli.exits import MisuseError
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]

DELETE = ("delete", "--session", "s1", "--all")


def reminders(params: dict[str, Any]) -> object:
    if "cursor" in params:
        return {"items": [shapes.reminder(9, status="ended", state="ended")]}
    return {"items": [shapes.reminder(7), shapes.reminder(8)], "next_cursor": "c"}


@pytest.fixture(autouse=True)
def _answers(daemon: ScriptedDaemon) -> None:
    daemon.answers["reminder.list"] = reminders
    daemon.answers["reminder.delete"] = lambda params: {
        "id": params["id"],
        "deleted": params["id"] != "r8",  # somebody else was faster
    }


def on_a_terminal(typed: bytes, *words: str) -> tuple[int, str, str]:
    """The status, the data, and what a terminal shows to somebody who types this."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "scheduler_daemon.cli", *words],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as running:
        os.write(ours, typed)
        out, _ = running.communicate(timeout=60)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # EIO: all was read that the other side wrote
        while more := os.read(ours, 1 << 16):
            shown += more
    os.close(ours)
    return running.returncode, out.decode(), shown.decode(errors="replace")


QUESTION = "Delete 3 reminders of Session 's1' (2 active)? [y/N] "


@pytest.mark.parametrize("answer", [b"y\n", b"YES\n"])
def test_all_reminders_of_a_session_go_after_a_yes(daemon: ScriptedDaemon, answer: bytes) -> None:
    status, out, shown = on_a_terminal(answer, *DELETE)
    assert QUESTION in shown
    assert (status, out) == (0, "2 reminders of Session 's1' deleted\n")
    assert daemon.params_of("reminder.list")[0] == {"session_id": "s1", "status": "all"}
    assert daemon.params_of("reminder.delete") == [
        {"id": each, "session_id": "s1"} for each in ("r7", "r8", "r9")
    ]


@pytest.mark.parametrize("answer", [b"\n", b"n\n", b"\xff\n", b"yesterday\n", b"\x04"])
def test_any_other_answer_changes_nothing(daemon: ScriptedDaemon, answer: bytes) -> None:
    status, out, shown = on_a_terminal(answer, *DELETE)
    assert QUESTION in shown
    assert shown.endswith("schedctl: nothing was changed\r\n")
    assert (status, out) == (1, "")
    assert daemon.params_of("reminder.delete") == []


def test_without_a_terminal_nothing_is_asked_or_deleted(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    ended = schedctl(*DELETE)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith(
        "schedctl: Delete 3 reminders of Session 's1' (2 active)? There is no terminal to ask on: "
        "add --yes if you mean it"
    )
    assert daemon.params_of("reminder.delete") == []


def test_yes_is_the_answer_where_nobody_can_be_asked(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    assert schedctl(*DELETE, "--yes") == (0, "2 reminders of Session 's1' deleted\n", "")
    ended = schedctl(*DELETE, "--yes", "--json")
    assert [json.loads(line) for line in ended.out.splitlines()] == [
        {"id": "r7", "deleted": True},
        {"id": "r8", "deleted": False},
        {"id": "r9", "deleted": True},
    ]


def test_a_session_without_reminders_is_no_question(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["reminder.list"] = lambda params: {"items": []}
    assert schedctl(*DELETE) == (0, "0 reminders of Session 's1' deleted\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "say which: an ID such as r7, or --session NAME --all"),
        (["--session", "s1"], "say which"),
        (["--all"], "--all goes with --session NAME and without an ID"),
        (["r7", "--session", "s1", "--all"], "without an ID"),
        (["r7", "r8"], "unrecognized arguments: r8"),
    ],
)
def test_a_deletion_that_does_not_say_what_is_misuse(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], message: str
) -> None:
    ended = schedctl("delete", *words)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err
    assert daemon.calls == []


def test_one_reminder_may_be_deleted_by_its_session_too(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    assert schedctl("delete", "r8", "--session", "s1").err.startswith(
        "schedctl: you have no reminder r8 in Session 's1': "
    )
    assert daemon.calls == [("reminder.delete", {"id": "r8", "session_id": "s1"})]


def test_a_closed_stdin_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(MisuseError, match="no terminal"):
        asking.agree("Do it", yes=False)
