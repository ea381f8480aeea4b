"""A real daemon, a real host, and everything killed: the follow-up comes once, where it belongs."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.exec_host.stage import SESSION, Stage, exists, waiting_for
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance


@pytest.fixture
def daemon(stage: Stage) -> Iterator[DaemonProcess]:
    made = DaemonProcess(stage.home, socket=stage.socket).start()
    yield made
    made.close()


def create(stage: Stage, prompt: str, *words: str, session: str = SESSION) -> None:
    made = stage.schedctl("create", "--session", session, *words, "--", prompt)
    assert made.returncode == 0, made.stderr


CONTEXT = ("--context", "agent=claude", "--context")


def test_a_reminder_of_before_everything_was_killed_comes_once(
    stage: Stage, daemon: DaemonProcess
) -> None:
    stage.agent("claude")
    project = stage.directory("project")
    host = stage.host("--all", "--profile", "claude")
    create(stage, "-rf $(touch gone) 'x' \"y\"\x1b[2J", "--after", "2s", *CONTEXT, f"cwd={project}")
    daemon.kill()
    stage.end(host, signal.SIGKILL)
    daemon.start()
    stage.host("--all", "--profile", "claude")
    stage.settled(1, "done")
    ((directory, arguments, *text),) = stage.runs("claude")
    assert directory == str(project)
    assert arguments.endswith(f"--resume {SESSION}")
    assert r'prompt: "-rf $(touch gone) ' in "\n".join(text)
    assert "\x1b" not in "\n".join(text)
    assert '"message_id": "1"' in stage.schedctl("history", "r1", "--json").stdout


def test_what_came_while_a_turn_went_on_comes_as_one_message_after_it(
    stage: Stage, daemon: DaemonProcess
) -> None:
    go = stage.home / "go"
    stage.agent("agent", f"touch began; {waiting_for(go)}")
    stage.host("s1", "--", "agent", "{session}")
    create(stage, "first", "--after", "1s", session="s1")
    exists(stage.home / "began")
    for words in ("apples", "pears"):
        create(stage, words, "--every", "1h", session="s1")
    daemon.sql("UPDATE reminders SET scheduled_at = '2020-01-01T00:00:00.000Z' WHERE recurring")
    daemon.signal(signal.SIGHUP)
    daemon.logged("followup_not_admitted", outcome="busy")
    go.touch()
    stage.settled(2, "done")
    first, second = ("\n".join(run) for run in stage.runs("agent"))
    assert "apples" not in first
    assert ("apples" in second, "pears" in second) == (True, True)
