"""schedctl demo with real daemons: it keeps the promise, says so, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon import wall
from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.stage import Stage
from scheduler_daemon.cli.verbs import demo
from tests.cli.conftest import Ended

Schedctl = Callable[..., Ended]

pytestmark = pytest.mark.acceptance


ONE: dict[str, Any] = {"batch": False, "occurrences": [1]}
TWO: dict[str, Any] = {"batch": True, "occurrences": [1, 2]}
RECEIPTS: list[dict[str, Any]] = [{"outcome": "admitted"}] * 3


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, short_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    monkeypatch.setenv("TMPDIR", str(short_path))


def test_it_tells_the_story_and_everything_arrives(schedctl: Schedctl, short_path: Path) -> None:
    ended = schedctl("demo")
    assert (ended.status, ended.err) == (0, "")
    for words in (
        "$ schedctl create --session conversation-1 --after 5s 'Check the build'\n  r1 will come",
        "$ kill -9 ",
        "message 1, one reminder:",
        "message 2, 2 reminders in one:",
        "  reminder_id  occurrence_at ",
        "Everything arrived, once and in order",
    ):
        assert words in ended.out
    assert list(short_path.iterdir()) == []


def test_in_json_it_is_the_outcome_and_nothing_else(
    schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = {"followups": [ONE, TWO], "receipts": RECEIPTS}
    monkeypatch.setattr(demo.Story, "tell", lambda story: outcome)
    ended = schedctl("demo", "--json")
    assert (ended.status, json.loads(ended.out), ended.err) == (0, outcome, "")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_nothing_is_left_when_it_is_stopped_midway(
    short_path: Path, number: signal.Signals, status: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "scheduler_daemon.cli", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as telling:
        assert telling.stdout is not None
        pid = next(int(line.split()[4]) for line in telling.stdout if b"daemon is process" in line)
        telling.send_signal(number)
        _, err = telling.communicate(timeout=60)
    assert (telling.returncode, err) == (status, b"")
    assert list(short_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_machine_that_is_too_slow_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    late = iter([wall.now(), wall.now().replace(year=9999)])
    monkeypatch.setattr(wall, "now", lambda: next(late))
    with Stage() as stage:
        stage.start_daemon()
        with pytest.raises(FailedError, match="too slow"):
            demo.Story(stage, silent=True).make_reminders()


def test_a_follow_up_before_the_kill_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stage, "kill_daemon", lambda stage: None)
    with Stage() as stage, pytest.raises(FailedError, match="one came before the kill"):
        demo.Story(stage, silent=True).tell()


@pytest.mark.parametrize(
    ("followups", "receipts"),
    [([], RECEIPTS), ([ONE], RECEIPTS), ([TWO, ONE], RECEIPTS), ([ONE, TWO, TWO], RECEIPTS)],
)
def test_anything_but_one_message_and_one_batch_breaks_the_promise(
    followups: list[dict[str, Any]], receipts: list[dict[str, Any]]
) -> None:
    with pytest.raises(FailedError, match="what arrived"):
        demo.check(followups, receipts)


def test_each_needs_its_receipt() -> None:
    demo.check([ONE, TWO], RECEIPTS)
    with pytest.raises(FailedError, match="receipts are"):
        demo.check([ONE, TWO], RECEIPTS[:2])
