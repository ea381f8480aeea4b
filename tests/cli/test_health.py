"""`schedctl status --check`: which state a status means, and the line that a plugin prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import pytest

from scheduler_daemon.cli import health, times
from scheduler_daemon.cli.health import Limits
from scheduler_daemon.client.finding import NoAnswer
from scheduler_daemon.client.params import SILENT
from scheduler_daemon.client.sync import Client
from scheduler_daemon.errors import ERRORS
from scheduler_daemon.wire.shapes import Status
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]

NOW = "2026-12-24T13:00:00.000Z"
PERFORMANCE = re.compile(r"[a-z_]+=[0-9]+[sBc]?;[0-9:]*;[0-9:]*;0")
"""The guidelines' `label=value[UOM];[warn];[crit];[min]`."""


def well(**changes: Any) -> dict[str, Any]:
    """A status in which nothing is wrong."""
    base = shapes.status(last_scan_at="2026-12-20T12:00:00.000Z")
    counts = {**dict.fromkeys(base["counts"], 0), "active": 3, **changes.get("counts", {})}
    return {**base, **changes, "counts": counts}


def judged(status: dict[str, Any], limits: Limits | None = None) -> tuple[int, str]:
    return health.report(cast("Status", status), times.instant(NOW), limits or Limits())


def test_a_daemon_with_nothing_due_for_days_is_well() -> None:
    state, line = judged(well(next_wake_at="2026-12-28T13:00:00.000Z"))
    assert state == 0
    assert line.startswith("SCHEDULER OK - 3 active, 0 overdue, next wake in 4 days | active=3;")
    assert judged(well())[1].startswith("SCHEDULER OK - 3 active, 0 overdue, nothing to wake for |")


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({"next_wake_at": "2026-12-24T12:59:00.000Z"}, 0, "3 active"),
        (
            {"next_wake_at": "2026-12-24T12:58:59.000Z"},
            1,
            "should have woken 1 minute 1 second ago",
        ),
        (
            {"next_wake_at": "2026-12-24T12:54:59.000Z"},
            2,
            "should have woken 5 minutes 1 second ago",
        ),
        ({"failures": 2}, 1, "2 rounds or messages failed by a defect"),
        ({"counts": {"overdue": 9, "overdue_without_host": 0}}, 0, "9 overdue"),
        ({"counts": {"overdue_without_host": 1}}, 1, "1 overdue without a host"),
        ({"counts": {"set_aside": 2}}, 1, "2 set aside because they cannot be read"),
        ({"free_disk_bytes": 512 << 20}, 0, "3 active"),
        ({"free_disk_bytes": (512 << 20) - 1}, 1, "511 MiB of disk left"),
        ({"free_disk_bytes": (64 << 20) - 1}, 2, "63 MiB of disk left"),
    ],
)
def test_each_thing_that_can_be_wrong_has_its_state_and_words(
    changes: dict[str, Any], state: int, words: str
) -> None:
    found, line = judged(well(**changes))
    assert found == state
    said, _, performance = line.partition(" | ")
    assert words in said
    assert all(PERFORMANCE.fullmatch(each) for each in performance.split(" "))


def test_a_loop_that_never_looked_after_the_start_is_wrong() -> None:
    silent = well(started_at="2026-12-24T12:00:00.000Z", database="/scheduler.db")
    del silent["last_scan_at"]
    state, line = judged(silent)
    assert state == 2
    assert "has not looked once since its start 1 hour ago" in line
    assert "scan_age" not in line
    assert judged({**silent, "started_at": NOW})[0] == 0
    del silent["database"]  # whoever is no admin is not told when it looked
    assert judged(silent)[0] == 0


@pytest.mark.parametrize(
    ("over", "at", "state", "words"),
    [
        (False, "2026-12-01T00:00:00.000Z", 2, "nothing written since"),
        (True, "2026-12-24T12:30:00.000Z", 1, "30 minutes ago, and written again since"),
        (True, "2026-12-24T12:00:00.000Z", 0, "3 active"),
    ],
)
def test_a_fault_of_the_file_is_an_alarm_until_it_is_over_and_a_warning_for_a_while(
    over: bool, at: str, state: int, words: str
) -> None:
    fault = {"at": at, "code": "persistence_failed", "over": over}
    found, line = judged(well(last_persistence_error=fault))
    assert found == state
    assert words in line


def test_a_session_that_was_tried_for_long_is_a_warning_with_the_worst_of_them() -> None:
    rows = [
        {"session_id": "brief", "why": "busy", "attempts": 9},
        {"session_id": "a|b\n", "why": "no_answer", "attempts": 12},
        {"session_id": "c", "why": "refused", "attempts": 10},
    ]
    assert judged(well(retrying=rows[:1]))[0] == 0
    state, line = judged(well(retrying=rows))
    assert state == 1
    assert "(Session 'a/b\\n': no_answer, 12 tries, and 1 more)" in line
    assert " more)" not in judged(well(retrying=rows[:2]))[1]


def test_the_worst_is_said_first_and_the_performance_data_holds_the_limits() -> None:
    wrong = well(
        counts={"overdue_without_host": 7, "set_aside": 1},
        free_disk_bytes=1000,
        database="/x",
        failures=3,
    )
    state, line = judged(wrong, Limits(5, 6, 2, 1))
    assert state == 2
    said, _, performance = line.partition(" | ")
    assert said == (
        "SCHEDULER CRITICAL - 7 overdue without a host; 0 MiB of disk left; 3 rounds or messages "
        "failed by a defect; the log says more; 1 set aside because they cannot be read"
    )
    assert performance.split(" ") == [
        "active=3;;;0",
        "paused=0;;;0",
        "overdue=0;;;0",
        "overdue_without_host=7;5;6;0",
        "set_aside=1;0;;0",
        "most_tries=0;9;;0",
        "late=0s;60;300;0",
        "scan_age=349200s;;;0",
        "failures=3c;0;;0",
        "free_disk=1000B;2097152:;1048576:;0",
    ]


def test_the_check_prints_one_line_and_exits_with_its_state(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["daemon.status"] = lambda params: shapes.status(last_scan_at=NOW)
    ended = schedctl("status", "--check")
    assert (ended.status, ended.err) == (1, "")
    assert ended.out.startswith("SCHEDULER WARNING - 1 overdue without a host | active=3;")
    assert ended.out.count("\n") == 1
    assert schedctl("status", "--check", "--warn-without-host", "1").status == 0
    assert schedctl("status", "--check", "--critical-without-host=0").status == 2


def test_a_daemon_that_is_not_there_is_critical_in_one_line_on_stdout(schedctl: Schedctl) -> None:
    ended = schedctl("status", "--check")
    assert (ended.status, ended.err) == (2, "")
    assert ended.out.startswith("SCHEDULER CRITICAL - no daemon answers. Tried: ")
    assert ended.out.count("\n") == 1


def test_a_daemon_that_does_not_answer_is_critical(
    schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(self: Client) -> Status:
        raise NoAnswer(SILENT)

    monkeypatch.setattr(Client, "status", silent)
    assert schedctl("status", "--check").out == f"SCHEDULER CRITICAL - {SILENT}\n"


@pytest.mark.parametrize(("code", "state"), [("permission_denied", 3), ("internal_error", 2)])
def test_a_refusal_is_unknown_where_the_daemon_is_not_to_blame(
    schedctl: Schedctl, daemon: ScriptedDaemon, code: str, state: int
) -> None:
    def refuse(params: object) -> object:
        raise ERRORS[code]("no | never.")

    daemon.answers["daemon.status"] = refuse
    ended = schedctl("status", "--check")
    name = health._NAMES[state]
    assert ended == (state, f"SCHEDULER {name} - no / never ({code})\n", "")


@pytest.mark.parametrize(
    "words", [["--warn-disk", "x"], ["--warn"], ["--json"], ["--critical-disk"], ["r7"]]
)
def test_a_wrong_option_of_the_check_is_unknown(schedctl: Schedctl, words: list[str]) -> None:
    ended = schedctl("status", "--check", *words)
    assert (ended.status, ended.err) == (3, "")
    assert ended.out.startswith("SCHEDULER UNKNOWN - ")
    assert ended.out.endswith("; see `schedctl status --help`\n")


def test_limits_go_with_the_check(schedctl: Schedctl) -> None:
    ended = schedctl("status", "--warn-disk", "3")
    assert ended.status == 2
    assert "--warn-disk goes with --check" in ended.err


@pytest.mark.parametrize("answer", [{}, [], None, {"counts": 3}])
def test_an_answer_that_is_no_status_is_one_critical_line_and_no_traceback(
    schedctl: Schedctl, daemon: ScriptedDaemon, answer: Any
) -> None:
    daemon.answers["daemon.status"] = lambda params: answer
    ended = schedctl("status", "--check")
    assert (ended.status, ended.err) == (2, "")
    assert ended.out.startswith("SCHEDULER CRITICAL - this failed inside schedctl (")
    ended = schedctl("status")
    assert (ended.status, ended.out) == (1, "")
    assert "what answers on the socket may be no scheduler-daemon" in ended.err
