"""The verbs against a real daemon: what a person types and what is then true."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
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


@pytest.fixture
def stage(running: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setenv("SCHEDULER_DAEMON_SOCKET", str(running.socket))
    return running


@pytest.fixture
def session(request: pytest.FixtureRequest) -> str:
    """A Session that no other test has."""
    return str(request.node.name)


@pytest.mark.usefixtures("stage")
@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--after", "20m"], {"after_seconds": 1200}),
        (["--at", "2999-12-24T18:00:00+01:00"], {"at": "2999-12-24T17:00:00.000Z"}),
        (
            ["--at", "2999-12-24 18:00", "--tz", "Europe/Berlin"],
            {"at": "2999-12-24T17:00:00.000Z"},
        ),
        (["--every", "1h"], {"every_seconds": 3600}),
        (
            ["--daily", "9:00", "--tz", "europe/berlin"],
            {"daily": {"time": "09:00:00.000", "time_zone": "Europe/Berlin"}},
        ),
        (
            ["--weekly", "mon,wed,fri@09:00", "--tz", "UTC"],
            {"weekly": {"time": "09:00:00.000", "time_zone": "UTC", "weekdays": [1, 3, 5]}},
        ),
    ],
)
def test_every_selector_is_taken_as_it_was_meant(
    schedctl: Schedctl, session: str, words: list[str], rule: dict[str, Any]
) -> None:
    said = schedctl("create", "--session", session, *words, "Do it")
    assert said.status == 0
    assert re.match("r[0-9]+ will come in ", said.out)
    listed = schedctl("list", "--session", session, "--json").out.splitlines()
    assert [json.loads(line)["rule"] for line in listed] == [rule]


@pytest.mark.usefixtures("stage")
def test_a_reminder_is_made_shown_changed_and_deleted(schedctl: Schedctl, session: str) -> None:
    cron = ("--cron", "*/15 9-17 * * mon-fri", "--tz", "UTC")
    made = schedctl("create", "--session", session, *cron, "--json", "--", "- look\x1b[2J")
    reminder = json.loads(made.out)["reminder"]
    r1 = reminder["id"]
    assert reminder["prompt"] == "- look\x1b[2J"
    assert "Its time has not come: in" in schedctl("show", r1).out
    assert "\x1b" not in schedctl("list").out
    updated = schedctl("update", r1, "--prompt", "new", "--title", "T", "--after", "2h", "--json")
    assert json.loads(updated.out)["reminder"]["kind"] == "after"
    assert schedctl("update", r1, "--title", "T").out.startswith(f"nothing changed: {r1} will")
    assert schedctl("delete", r1).out == f"{r1} is deleted\n"
    assert schedctl("show", r1).status == 4
    assert schedctl("delete", r1).status == 4


@pytest.mark.usefixtures("stage")
@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["--every", "1m", "x"], 5, "frequency_too_high"),
        (["--after", "1h", " "], 5, "invalid_prompt"),
        (["--daily", "09:00", "--tz", "EST", "x"], 5, "invalid_time_zone"),
        (["--at", "2020-01-01T00:00:00Z", "x"], 5, "not_future"),
        (["--after", "1h", "--owner", "4242", "x"], 0, ""),
    ],
)
def test_what_the_rules_refuse_is_status_5(
    schedctl: Schedctl, session: str, words: list[str], status: int, code: str
) -> None:
    ended = schedctl("create", "--session", session, *words)
    assert ended.status == status
    assert code in ended.err


def made_id(created: Ended) -> str:
    return created.out.partition(" ")[0]


def host(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "scheduler_daemon.cli", "host", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_host(schedctl: Schedctl, name: str) -> None:
    """Return when the daemon lists the host, which has attached then."""
    for _ in range(1000):
        hosts = json.loads(schedctl("status", "--json").out)["hosts"]
        if name in [each["name"] for each in hosts]:
            return
        time.sleep(0.05)
    pytest.fail(f"{name} did not attach")


@pytest.mark.usefixtures("stage")
def test_a_follow_up_is_printed_admitted_and_found_in_the_history(
    schedctl: Schedctl, session: str
) -> None:
    r1 = made_id(schedctl("create", "--session", session, "--after", "1s", "Check the build"))
    with host(session, "--name", "trial") as trial:
        assert trial.stdout is not None
        followup = json.loads(trial.stdout.readline())
        assert [due["prompt"] for due in followup["occurrences"]] == ["Check the build"]
        trial.send_signal(signal.SIGINT)
        _, err = trial.communicate(timeout=60)
    assert trial.returncode == 130
    assert err == f"schedctl: taking the follow-ups of Session {session}; ctrl-C ends it\n"
    shown = schedctl("show", r1).out
    assert "It will not come again: it was delivered" in shown
    assert "Host 'trial' took it" in shown
    assert "Check the build" in schedctl("history", "--session", session).out
    assert json.loads(schedctl("history", r1, "--json").out)["items"][0]["host"] == "trial"


@pytest.mark.usefixtures("stage")
def test_a_busy_host_shows_in_the_reason(schedctl: Schedctl, session: str) -> None:
    r1 = made_id(schedctl("create", "--session", session, "--after", "1s", "x"))
    with host(session, "--busy") as trial:
        assert trial.stdout is not None
        trial.stdout.readline()  # printed before it is answered
        while "the Session is busy, tried" not in (shown := schedctl("show", r1).out):
            assert "its host has not answered yet" in shown
        trial.kill()


def test_a_session_of_another_host_is_refused_without_take_over(
    schedctl: Schedctl, stage: Stage, session: str
) -> None:
    stage.start_host(session)
    for words in ([session], ["another", session]):
        refused = schedctl("host", *words)
        assert refused.status == 1
        assert f"host 'demo-host' takes the follow-ups of Session '{session}'" in refused.err
    with host(session, "--take-over", "--name", "successor") as trial:
        assert trial.stdout is not None
        wait_for_host(schedctl, "successor")
        schedctl("create", "--session", session, "--after", "1s", "x")
        assert json.loads(trial.stdout.readline())["session_id"] == session
        trial.kill()


@pytest.mark.usefixtures("stage")
def test_status_and_rpc_speak_to_the_daemon(schedctl: Schedctl) -> None:
    assert " active, " in schedctl("status").out
    assert json.loads(schedctl("status", "--json").out)["protocol"] == 1
    assert json.loads(schedctl("rpc", "hello").out)["protocol"] == 1
    assert schedctl("rpc", "no.such").status == 5


@pytest.mark.usefixtures("stage")
def test_preview_agrees_with_the_daemon(schedctl: Schedctl) -> None:
    rule = {"daily": {"time": "02:30", "time_zone": "America/New_York"}, "count": 3}
    theirs = schedctl("rpc", "reminder.preview", json.dumps(rule))
    ours = schedctl(
        "preview", "--daily", "02:30", "--tz", "America/New_York", "--count", "3", "--json"
    )
    assert ours.out == theirs.out
