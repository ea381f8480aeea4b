"""schedctl watch: how it goes on when the daemon comes back, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

import pytest

from scheduler_daemon.cli.stage import Stage
from scheduler_daemon.errors import PermissionDenied
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import Answer, ScriptedDaemon
from tests.support.process import Lines

Schedctl = Callable[..., Ended]

WATCH = (sys.executable, "-m", "scheduler_daemon.cli", "watch")
WENT = "schedctl: the daemon closed the connection; this goes on when it is back"


def one_by_one(answers: Iterator[object]) -> Answer:
    """The next of these at each call; an exception is raised."""

    def answer(params: dict[str, Any]) -> object:
        given = next(answers)
        if isinstance(given, Exception):
            raise given
        return given

    return answer


def test_it_goes_on_when_the_daemon_comes_back_and_says_that_changes_may_be_missing(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    unreachable, refused = ConnectionAbortedError(), PermissionDenied("not any more")
    watched.answers["daemon.watch"] = one_by_one(iter(({}, unreachable, {}, refused)))
    watched.changes = [shapes.changed("deleted")]
    ended = schedctl("watch", "--json")
    assert [json.loads(line) for line in ended.out.splitlines()] == [
        shapes.event("deleted"),
        {"lagged": True},
        shapes.event("deleted"),
    ]
    assert ended.status == 5
    assert ended.err.splitlines()[1:] == [
        WENT,
        "schedctl: it is back",
        WENT,
        "schedctl: not any more (permission_denied)",
    ]


def test_a_daemon_that_goes_away_before_the_words_were_asked_for_costs_only_them(
    schedctl: Schedctl, watched: ScriptedDaemon
) -> None:
    def goes(params: dict[str, Any]) -> object:
        raise ConnectionAbortedError

    watched.answers["reminder.get"] = goes
    watched.changes = [shapes.changed("dispatched")]
    ended = schedctl("watch")
    assert ended.out.endswith("  s1  r7  dispatched\n")
    assert ended.status == 5


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
    watched.changes = [shapes.changed("deleted")]
    with subprocess.Popen(
        [*WATCH, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline()) == shapes.event("deleted")
        watching.send_signal(signal.SIGINT)
        out, err = watching.communicate(timeout=60)
    assert (watching.returncode, out) == (130, "")
    assert err.count("\n") == 1


def test_ctrl_c_ends_it_quietly_while_the_daemon_is_away(watched: ScriptedDaemon) -> None:
    answers = chain([{}], repeat(ConnectionAbortedError()))
    watched.answers["daemon.watch"] = one_by_one(answers)
    with subprocess.Popen(
        [*WATCH, "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stderr is not None
        said = [watching.stderr.readline(), watching.stderr.readline()]
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=60)
    assert said[1] == WENT + "\n"
    assert watching.returncode == 130
    assert "Traceback" not in err


def test_a_reader_that_has_read_enough_ends_it_quietly(watched: ScriptedDaemon) -> None:
    watched.changes = [shapes.changed("deleted")] * 10_000
    ended = subprocess.run(
        ["sh", "-c", f"{' '.join(WATCH)} --json | head -1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert json.loads(ended.stdout) == shapes.event("deleted")
    assert ended.stderr.count("\n") == 1


def test_a_closed_stdout_is_refused(watched: ScriptedDaemon) -> None:
    ended = subprocess.run(
        ["sh", "-c", f"exec {' '.join(WATCH)} >&-"], stderr=subprocess.PIPE, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == b"schedctl: stdout is closed: nobody would see what changes\n"


@pytest.mark.acceptance
def test_a_killed_daemon_that_is_started_again_is_watched_again(
    schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = ("create", "--session", "s1", "--after", "1h")
    with Stage() as stage:
        stage.start_daemon()
        monkeypatch.setenv("SCHEDULER_DAEMON_SOCKET", str(stage.socket))
        with subprocess.Popen(WATCH, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
            assert watching.stdout is not None
            assert watching.stderr is not None
            said, shown = Lines(watching.stderr), Lines(watching.stdout)
            try:
                said.wait(lambda line: "watching" in line)
                assert schedctl(*create, "one").status == 0
                shown.wait(lambda line: "  s1  r1  created, comes in " in line)
                stage.kill_daemon()
                stage.start_daemon()
                shown.wait(lambda line: "left out" in line)
                assert schedctl(*create, "two").status == 0
                shown.wait(lambda line: line.endswith("  two"))
            finally:
                watching.send_signal(signal.SIGINT)
            said.finish()
    assert watching.returncode == 130
    assert said.lines[1:3] == [WENT, "schedctl: it is back"]
