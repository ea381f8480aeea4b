"""`schedctl metrics`: what a status becomes, read back by parsers, and the file for a collector."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from scheduler_daemon.errors import PermissionDenied
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]

parse_prometheus: Callable[[str], Any] = parser.text_string_to_metric_families
parse_openmetrics: Callable[[str], Any] = openmetrics_parser.text_string_to_metric_families

FULL: dict[str, Any] = {
    "database": "/var/lib/x.db",
    "failures": 2,
    "free_disk_bytes": 123456,
    "last_scan_at": "2026-12-24T12:00:01.500Z",
    "next_wake_at": "2026-12-24T13:00:00.000Z",
    "hosts": [shapes.host(in_flight=2), shapes.host("b", "*", in_flight=1)],
    "retrying": [
        {"session_id": "s1", "why": "busy", "attempts": 1},
        {"session_id": "s2", "why": "busy", "attempts": 1},
        {"session_id": "s3", "why": "no_answer", "attempts": 1},
    ],
    "last_persistence_error": {
        "at": "2026-12-24T12:30:00.000Z",
        "code": "persistence_failed",
        "over": False,
    },
}
EXPECTED = {
    "scheduler_daemon_up": 1,
    "scheduler_daemon_info": 1,
    "scheduler_daemon_start_time_seconds": 1798113600,
    "scheduler_daemon_last_scan_timestamp_seconds": 1798113601.5,
    "scheduler_daemon_next_wake_timestamp_seconds": 1798117200,
    "scheduler_daemon_reminders_active": 3,
    "scheduler_daemon_reminders_overdue": 2,
    "scheduler_daemon_reminders_overdue_without_host": 1,
    "scheduler_daemon_reminders_paused": 0,
    "scheduler_daemon_reminders_ended": 4,
    "scheduler_daemon_reminders_set_aside": 0,
    "scheduler_daemon_runs_by_hand": 0,
    "scheduler_daemon_hosts": 2,
    "scheduler_daemon_followups_in_flight": 3,
    "scheduler_daemon_followups_retrying busy": 2,
    "scheduler_daemon_followups_retrying no_answer": 1,
    "scheduler_daemon_failures_total": 2,
    "scheduler_daemon_persistence_failing": 1,
    "scheduler_daemon_last_persistence_error_timestamp_seconds": 1798115400,
    "scheduler_daemon_disk_free_bytes": 123456,
}


def samples(families: Any) -> dict[str, float]:
    return {
        " ".join([sample.name, *([sample.labels["why"]] if "why" in sample.labels else [])]): (
            sample.value
        )
        for family in families
        for sample in family.samples
    }


def test_a_whole_status_reads_back_as_openmetrics(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["daemon.status"] = lambda params: shapes.status(**FULL)
    ended = schedctl("metrics")
    assert (ended.status, ended.err) == (0, "")
    families = {family.name: family for family in parse_openmetrics(ended.out)}
    assert samples(families.values()) == EXPECTED
    assert families["scheduler_daemon"].type == "info"
    assert families["scheduler_daemon"].samples[0].labels == {
        "server": "scheduler-daemon 0.1.0",
        "python": "3.13.1",
        "sqlite": "3.46.1",
        "zone_data": "tzdata 2025.2",
        "clock": "timerfd",
        "schema": "1",
    }
    units = {family.unit for family in families.values()}
    assert units == {"", "seconds", "bytes"}


def test_the_number_of_metrics_does_not_grow_with_sessions(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    rows = [{"session_id": f"s{n}", "why": "busy", "attempts": n} for n in range(100)]
    hosts = [shapes.host(f"h{n}") for n in range(100)]
    daemon.answers["daemon.status"] = lambda params: shapes.status(retrying=rows, hosts=hosts)
    out = schedctl("metrics").out
    assert "s99" not in out
    assert "h99" not in out
    assert samples(parse_openmetrics(out))["scheduler_daemon_followups_retrying busy"] == 100


def test_what_a_status_does_not_tell_is_left_out(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["daemon.status"] = lambda params: shapes.status()
    found = samples(parse_openmetrics(schedctl("metrics").out))
    absent = ("last_scan", "next_wake", "failures", "disk", "last_persistence")
    assert not [name for name in found if any(word in name for word in absent)]
    assert found["scheduler_daemon_persistence_failing"] == 0
    daemon.answers["daemon.status"] = lambda params: shapes.status(database="/x")
    found = samples(parse_openmetrics(schedctl("metrics").out))
    assert found["scheduler_daemon_failures_total"] == 0


def test_the_file_for_the_collector_is_in_the_older_format_and_readable_by_all(
    schedctl: Schedctl, daemon: ScriptedDaemon, short_path: Path
) -> None:
    daemon.answers["daemon.status"] = lambda params: shapes.status(**FULL)
    path = short_path / "scheduler.prom"
    before = os.umask(0o077)
    try:
        assert schedctl("metrics", "--textfile", str(path)) == (0, "", "")
    finally:
        os.umask(before)
    text = path.read_text()
    assert samples(parse_prometheus(text)) == EXPECTED
    kinds = {line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
    assert kinds == {"gauge", "counter"}  # the collector knows no info
    assert {line.split()[1] for line in text.splitlines() if line.startswith("#")} == {
        "HELP",
        "TYPE",
    }
    assert text.endswith("\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert {each.name for each in short_path.glob("*.prom*")} == {"scheduler.prom"}


def test_a_daemon_that_is_not_there_is_down_in_text_and_file(
    schedctl: Schedctl, short_path: Path
) -> None:
    ended = schedctl("metrics")
    assert ended.status == 3
    assert samples(parse_openmetrics(ended.out)) == {"scheduler_daemon_up": 0}
    assert "no daemon answers" in ended.err
    path = short_path / "scheduler.prom"
    path.write_text("old\n")
    ended = schedctl("metrics", "--textfile", str(path))
    assert (ended.status, ended.out) == (3, "")
    assert samples(parse_prometheus(path.read_text())) == {"scheduler_daemon_up": 0}


def test_a_daemon_that_refuses_gave_no_status(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    def refuse(params: object) -> object:
        raise PermissionDenied("no")

    daemon.answers["daemon.status"] = refuse
    ended = schedctl("metrics")
    assert ended.status == 5
    assert samples(parse_openmetrics(ended.out)) == {"scheduler_daemon_up": 0}


@pytest.mark.parametrize("words", [["--json"], ["--textfile", "/tmp/x.txt"], ["--textfile="]])
def test_what_no_collector_would_read_is_misuse(schedctl: Schedctl, words: list[str]) -> None:
    ended = schedctl("metrics", *words)
    assert (ended.status, ended.out) == (2, "")
    assert "schedctl status --json" in ended.err or ".prom" in ended.err


def test_a_missing_package_is_told_with_the_way_to_it(
    schedctl: Schedctl, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    ended = schedctl("metrics")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == (
        "schedctl: this needs the package prometheus-client, which the extra `metrics` brings: "
        "pip install prometheus-client\n"
    )
    assert json.dumps(daemon.calls) == "[]"
