"""The test build itself: its points are refused elsewhere, known by name, and all are tried."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import test_crash_changes as changes
from tests.faults import test_crash_delivery as delivery
from tests.faults import test_crash_start_stop as start_stop
from tests.faults.crashing import CLOCK_VARIABLE
from tests.faults.points import COMMITS, POINTS, UPKEEP
from tests.support.process import DaemonProcess, environment

pytestmark = pytest.mark.acceptance

CRASH_AT = "SCHEDULER_DAEMON_CRASH_AT"


def run(folder: Path, module: str, at: str) -> subprocess.CompletedProcess[str]:
    """Start the daemon or its test build, as a process of an interpreter of its own."""
    paths = [f"--state-directory={folder / 'state'}", f"--socket={folder / 's.sock'}"]
    return subprocess.run(
        [sys.executable, "-P", "-m", module, "run", *paths],
        env=environment(folder) | {CRASH_AT: at},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("at", ["before_ready", ""])
def test_the_production_daemon_refuses_to_start_where_a_crash_is_asked_for(
    folder: Path, at: str
) -> None:
    ended = run(folder, "scheduler_daemon", at)
    assert (ended.returncode, ended.stdout) == (6, "")
    assert ended.stderr == (
        "scheduler-daemon: SCHEDULER_DAEMON_CRASH_AT is for the test build of the daemon;"
        " unset it\n"
    )
    assert not (folder / "state").exists()


def test_the_production_daemon_knows_no_clock_that_is_driven(folder: Path) -> None:
    daemon = DaemonProcess(folder, environ={CLOCK_VARIABLE: "2026-01-01T12:00:00.000Z"})
    assert daemon.refused().returncode == 6


def test_the_test_build_kills_itself_at_the_point_that_is_named(folder: Path) -> None:
    ended = run(folder, "tests.faults.crashing", "before_ready")
    assert ended.returncode == -signal.SIGKILL
    assert (folder / "s.sock").exists()
    assert "daemon_started" not in ended.stderr


def test_the_test_build_refuses_a_point_that_it_does_not_have(folder: Path) -> None:
    for at in ("nowhere", "before_ready:0"):
        ended = run(folder, "tests.faults.crashing", at)
        assert ended.returncode == 1
        assert ended.stderr.startswith(f"no such point: {at}; known are admission_read, ")


def test_every_point_is_tried() -> None:
    tried = {
        *(delivery.REPEAT + delivery.NO_REPEAT),
        *(start_stop.STARTING + start_stop.STOPPING + start_stop.MIGRATING),
        "migration_statement",
    }
    own = ("create", "settle", "set_aside", *UPKEEP)  # tests of their own in the same modules
    tried |= {
        f"{side}_commit.{act}" for side in ("before", "after") for act in (*changes.ACTS, *own)
    }
    assert {point.partition(":")[0] for point in tried} == POINTS
    assert {*changes.ACTS, "create", "receipt", "settle", "set_aside"} == set(COMMITS)
