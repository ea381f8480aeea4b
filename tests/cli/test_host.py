"""schedctl host: which Sessions it takes, what it prints and what it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from scheduler_daemon.errors import PermissionDenied
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]

FOLLOWUP: dict[str, Any] = {"followup_id": "f1", "session_id": "s1", "text": "do\x1b it"}


@pytest.fixture
def hosts(daemon: ScriptedDaemon) -> list[dict[str, Any]]:
    """The hosts that the daemon has already; ours is refused when it attaches a second time."""
    others: list[dict[str, Any]] = []

    def attach(params: dict[str, Any]) -> object:
        if len(daemon.params_of("host.attach")) > 1:
            raise PermissionDenied("once is enough")
        return {"sessions": params["sessions"]}

    daemon.answers["daemon.status"] = lambda params: shapes.status(hosts=others)
    daemon.answers["host.attach"] = attach
    daemon.followups = [FOLLOWUP]
    return others


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ([], {"status": "admitted"}),
        (["--busy"], {"status": "busy"}),
        (["--gone", "--json"], {"status": "gone"}),
    ],
)
def test_it_prints_each_follow_up_as_a_json_line_and_answers_as_told(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], answer: dict[str, Any]
) -> None:
    ended = schedctl("host", "s1", "s2", "--name", "trial", *words)
    assert daemon.params_of("host.attach")[0] == {"name": "trial", "sessions": ["s1", "s2"]}
    assert json.loads(ended.out) == FOLLOWUP
    assert "\x1b" not in ended.out
    assert daemon.admissions == [answer]
    assert "taking the follow-ups of Session s1, s2" in ended.err
    assert "connection lost" in ended.err
    assert (ended.status, "permission_denied" in ended.err) == (5, True)


@pytest.mark.usefixtures("hosts")
def test_a_delay_comes_before_the_answer(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    started = time.monotonic()
    schedctl("host", "s1", "--delay", "0.2s")
    assert daemon.admissions == [{"status": "admitted"}]
    assert time.monotonic() - started >= 0.2


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize("words", [["--all"], ["*", "--all"]])
def test_every_session_is_taken_only_with_all(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str]
) -> None:
    schedctl("host", *words)
    assert daemon.params_of("host.attach")[0]["sessions"] == "*"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name the Sessions"),
        (["*"], "add --all if you mean it"),
        (["s1", "--all"], "not both"),
        (["s1", "--busy", "--gone"], "not allowed with"),
        (["s1", "--delay=-1"], "--delay takes a duration such as 90s"),
        (["s1", "--delay", "soon"], "--delay takes a duration such as 90s"),
        (["s1", "--delay", "nan"], "--delay takes a duration such as 90s"),
        (["s1", "--delay", "25h"], "--delay: takes at most a day"),
    ],
)
def test_what_it_should_take_has_to_be_said(
    schedctl: Schedctl, words: list[str], message: str
) -> None:
    ended = schedctl("host", *words)
    assert ended.status == 2
    assert message in ended.err


MANY = [f"m{number:03}" for number in range(100)]


@pytest.mark.parametrize(
    ("words", "other", "reason"),
    [
        (["s1", "s2"], shapes.host("editor", ["s2", "s3"]), "Session 's2' now"),
        (["s1"], shapes.host("editor", "*"), "every Session now"),
        (["--all"], shapes.host("editor", "*"), "every Session now"),
        (["s1"], shapes.host("editor", MANY, session_count=101), "more Sessions than can be"),
    ],
)
def test_a_session_that_another_host_holds_is_not_taken(
    schedctl: Schedctl,
    daemon: ScriptedDaemon,
    hosts: list[dict[str, Any]],
    words: list[str],
    other: dict[str, Any],
    reason: str,
) -> None:
    hosts.append(other)
    ended = schedctl("host", *words)
    assert (ended.status, ended.out) == (1, "")
    assert f"host 'editor' takes the follow-ups of {reason}" in ended.err
    assert "--take-over" in ended.err
    assert daemon.params_of("host.attach") == []
    schedctl("host", *words, "--take-over")
    assert daemon.admissions == [{"status": "admitted"}]


@pytest.mark.parametrize(
    ("words", "other"),
    [
        (["s1"], shapes.host("editor", ["s2"])),
        (["a1"], shapes.host("editor", MANY, session_count=101)),
        (["--all"], shapes.host("editor", ["s2"])),
    ],
)
def test_a_session_that_nobody_else_holds_is_taken(
    schedctl: Schedctl,
    daemon: ScriptedDaemon,
    hosts: list[dict[str, Any]],
    words: list[str],
    other: dict[str, Any],
) -> None:
    hosts.append(other)
    schedctl("host", *words)
    assert daemon.admissions == [{"status": "admitted"}]


def test_more_hosts_than_are_listed_may_hold_anything(
    schedctl: Schedctl, hosts: list[dict[str, Any]]
) -> None:
    hosts.extend(shapes.host(f"h{number}", ["x"]) for number in range(100))
    ended = schedctl("host", "s1")
    assert ended.status == 1
    assert "too many hosts" in ended.err


@pytest.mark.usefixtures("hosts")
@pytest.mark.parametrize(("device", "status"), [("pipe", 141), ("/dev/full", 1)])
def test_what_cannot_be_printed_is_not_admitted(
    daemon: ScriptedDaemon, device: str, status: int
) -> None:
    daemon.answers["hello"] = lambda params: {}
    read_end, write_end = os.pipe()
    os.close(read_end)
    if device != "pipe":
        os.close(write_end)
        write_end = os.open(device, os.O_WRONLY)
    ended = subprocess.run(
        [sys.executable, "-m", "scheduler_daemon.cli", "host", "s1"],
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(write_end)
    assert ended.returncode == status
    assert daemon.admissions == []
    assert len(daemon.refusals) == 1
    last = ended.stderr.splitlines()[-1]
    assert status != 1 or last == b"schedctl: cannot write the output: No space left on device"


def test_without_a_stdout_it_takes_nothing(daemon: ScriptedDaemon) -> None:
    command = f"exec {sys.executable} -m scheduler_daemon.cli host s1 >&-"
    ended = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"schedctl: stdout is closed")
    assert daemon.calls == []


@pytest.mark.parametrize("words", [[""], ["s1", ""], ["s1", "--name="]])
def test_an_empty_name_is_refused_before_anything_is_asked(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str]
) -> None:
    ended = schedctl("host", *words)
    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert daemon.calls == []
