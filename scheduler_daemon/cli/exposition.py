"""A status as metrics, in OpenMetrics text or in the older text format of Prometheus. Pure.

The only module that imports prometheus_client, which comes with the extra `metrics`. No metric is
about one Session or reminder: their number has no bound.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics import exposition
from prometheus_client.registry import Collector

from scheduler_daemon.wire.shapes import Status

_generate: Callable[[CollectorRegistry], bytes] = exposition.generate_latest  # it has no types

_PREFIX = "scheduler_daemon"
_COUNTS = {
    "active": "Active reminders of this user, paused and overdue ones included.",
    "overdue": "Active reminders whose target has come and that are not dispatched yet.",
    "overdue_without_host": "Overdue reminders whose Session no host takes.",
    "paused": "Paused reminders.",
    "ended": "Ended reminders that are kept.",
    "set_aside": "Reminders that are set aside because they cannot be read.",
}


class _Once(Collector):
    """Metrics that are there already, as the writers want them."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> list[Metric]:
        return self._metrics


def openmetrics(status: Status | None) -> bytes:
    """What a scrape reads, ending in `# EOF`; None for a daemon that gave no status."""
    return _generate(_registry(status))


def textfile(status: Status | None) -> bytes:
    """What node_exporter's textfile collector reads: the older format, without `info` and EOF."""
    return generate_latest(_registry(status))


def _registry(status: Status | None) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Once(_metrics(status)))
    return registry


def _metrics(status: Status | None) -> Iterator[Metric]:
    yield _gauge("up", "Whether the daemon gave its status.", status is not None)
    if status is not None:
        yield _about(status)
        yield from _times(status)
        yield from _reminders(status)
        yield from _hosts(status)
        yield from _trouble(status)


def _gauge(name: str, text: str, value: float, unit: str = "") -> Metric:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", text, value=value, unit=unit)


def _about(status: Status) -> Metric:
    facts = {
        "server": status["server"],
        "python": status["python"],
        "sqlite": status["sqlite"],
        "schema": str(status["schema"]),
        "zone_data": status["zone_data"],
        "clock": status["clock"],
    }
    return InfoMetricFamily(_PREFIX, "Versions, and where the time comes from.", value=facts)


def _times(status: Status) -> Iterator[Metric]:
    yield _instant("start_time", "When the daemon started.", status["started_at"])
    if "last_scan_at" in status:
        text = "When the loop looked last; with nothing due it does not look for days."
        yield _instant("last_scan_timestamp", text, status["last_scan_at"])
    if "next_wake_at" in status:
        yield _instant("next_wake_timestamp", "When the loop looks next.", status["next_wake_at"])


def _instant(name: str, text: str, at: str) -> Metric:
    return _gauge(name, text, dt.datetime.fromisoformat(at).timestamp(), "seconds")


def _reminders(status: Status) -> Iterator[Metric]:
    counts = cast("Mapping[str, int]", status["counts"])
    for name, text in _COUNTS.items():
        yield _gauge(f"reminders_{name}", text, counts[name])
    text = "Occurrences asked for by hand that no host has admitted yet."
    yield _gauge("runs_by_hand", text, counts["runs"])


def _hosts(status: Status) -> Iterator[Metric]:
    hosts = status["hosts"]
    yield _gauge("hosts", "Connected hosts of this user, 100 at most.", len(hosts))
    waiting = sum(host["in_flight"] for host in hosts)
    yield _gauge("followups_in_flight", "Follow-ups that wait for a host's answer.", waiting)
    text = "Follow-ups that are tried again, 100 at most, by why."
    retrying = GaugeMetricFamily(f"{_PREFIX}_followups_retrying", text, labels=["why"])
    for why, count in sorted(Counter(row["why"] for row in status["retrying"]).items()):
        retrying.add_metric([why], count)
    yield retrying


def _trouble(status: Status) -> Iterator[Metric]:
    if "database" in status:  # an admin is told of failures, where there are any
        text = "Rounds and messages that failed by a defect; all were tried again."
        failures = status.get("failures", 0)
        yield CounterMetricFamily(f"{_PREFIX}_failures", text, value=failures)
    fault = status.get("last_persistence_error")
    failing = fault is not None and not fault["over"]
    yield _gauge("persistence_failing", "Whether the newest write failed.", failing)
    if fault is not None:
        yield _instant("last_persistence_error_timestamp", "When a write failed last.", fault["at"])
    if "free_disk_bytes" in status:
        text = "Free space where the database is."
        yield _gauge("disk_free", text, status["free_disk_bytes"], "bytes")
