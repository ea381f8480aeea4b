"""Plugin, metrics and calendar against a real daemon: well, in want of a host, stopped, killed."""

from __future__ import annotations

import datetime as dt
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from scheduler_daemon.cli.stage import Stage
from scheduler_daemon.cli.verbs import status
from scheduler_daemon.rules import parse_instant_text
from tests.cli.conftest import Ended
from tests.cli.reading_back import moving, our_zone_data, ours, strict

Schedctl = Callable[..., Ended]

pytestmark = pytest.mark.acceptance

CHECK = ("status", "--check", "--warn-disk", "0", "--critical-disk", "0")
"""How much disk is free where the tests run is not what they are about."""

parse_prometheus: Callable[[str], Any] = parser.text_string_to_metric_families
parse_openmetrics: Callable[[str], Any] = openmetrics_parser.text_string_to_metric_families


def values(families: Any) -> dict[str, float]:
    return {sample.name: sample.value for family in families for sample in family.samples}


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with Stage() as here:
        monkeypatch.setenv("SCHEDULER_DAEMON_SOCKET", str(here.socket))
        here.start_daemon()
        yield here


def eventually(schedctl: Schedctl, words: tuple[str, ...], state: int) -> str:
    """The line of the check once it has this state."""
    for _ in range(1000):
        ended = schedctl(*words)
        if ended.status == state:
            return ended.out
        time.sleep(0.02)
    pytest.fail(f"the last state is {ended}")


def test_the_check_follows_the_daemon(
    schedctl: Schedctl, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = eventually(schedctl, CHECK, 0)
    assert line.startswith("SCHEDULER OK - 0 active, 0 overdue, nothing to wake for | active=0;;")
    assert " failures=0c;0;;0" in line
    schedctl("create", "--session", "nobody's", "--after", "1s", "x")
    line = eventually(schedctl, CHECK, 1)
    assert line.startswith("SCHEDULER WARNING - 1 overdue without a host | ")
    assert schedctl(*CHECK, "--warn-without-host", "1").status == 0
    assert stage.daemon is not None
    monkeypatch.setattr(status, "_PATIENCE", 0.2)
    stage.daemon.send_signal(signal.SIGSTOP)
    silent = schedctl(*CHECK)
    stage.daemon.send_signal(signal.SIGCONT)
    assert silent == (2, "SCHEDULER CRITICAL - the daemon did not answer in time\n", "")
    stage.kill_daemon()
    killed = schedctl(*CHECK)
    assert (killed.status, killed.err) == (2, "")
    assert killed.out.startswith("SCHEDULER CRITICAL - no daemon answers")


def test_metrics_follow_the_daemon(schedctl: Schedctl, stage: Stage) -> None:
    schedctl("create", "--session", "s", "--after", "1h", "x")
    told = values(parse_openmetrics(schedctl("metrics").out))
    assert told["scheduler_daemon_up"] == 1
    assert told["scheduler_daemon_reminders_active"] == 1
    assert told["scheduler_daemon_failures_total"] == 0
    path = stage.folder / "scheduler.prom"
    assert schedctl("metrics", "--textfile", str(path)).status == 0
    assert values(parse_prometheus(path.read_text()))["scheduler_daemon_reminders_active"] == 1
    stage.kill_daemon()
    assert schedctl("metrics", "--textfile", str(path)).status == 3
    assert values(parse_prometheus(path.read_text())) == {"scheduler_daemon_up": 0}


@pytest.mark.parametrize(
    "words",
    [
        ["--after", "3d"],
        ["--every", "7h", "--max-occurrences", "9"],
        ["--daily", "02:30", "--tz", "America/New_York"],
        ["--weekly", "sun@01:30", "--tz", "Europe/Berlin", "--until", "2999-01-01T00:00:00Z"],
        ["--cron", "30 2,4 1,15 * sun", "--tz", "Europe/Berlin", "--max-occurrences", "40"],
    ],
)
def test_an_exported_calendar_has_the_instants_of_the_daemon(
    schedctl: Schedctl, stage: Stage, words: list[str]
) -> None:
    made = schedctl("create", "--session", "s", *words, "Look")
    assert made.status == 0, made.err
    paused = schedctl("create", "--session", "s", "--daily", "12:00", "--tz", "UTC", "not this")
    schedctl("pause", paused.out.split()[0])
    (reminder,) = (
        each
        for each in map(json.loads, schedctl("list", "--json").out.splitlines())
        if not each["paused"]
    )
    path: Path = stage.folder / "s.ics"
    assert schedctl("export", "--ics", str(path), "--session", "s") == (0, "", "")
    start = parse_instant_text(reminder["scheduled_at"]).replace(microsecond=0)
    end = start + dt.timedelta(days=400)
    # A one-shot is one instant; its rule counts from its creation, which only the daemon knows.
    expected = [start] if reminder["kind"] == "after" else ours(reminder, end)
    with our_zone_data():
        assert moving(path.read_bytes(), start, end) == expected
        assert strict(path.read_bytes(), end) == expected
