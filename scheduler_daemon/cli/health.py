"""Whether the daemon is well, in the sense of the Monitoring Plugins: a state, and one line. Pure.

The line is `SCHEDULER WARNING - what is wrong | label=value;warn;crit;min …`, after the guidelines
of the Monitoring Plugins, which Nagios, Icinga and others read.
"""

from __future__ import annotations

import datetime as dt

from scheduler_daemon.cli import times
from scheduler_daemon.cli.output import safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from scheduler_daemon.wire.shapes import Status

    Finding: TypeAlias = "tuple[int, str]"

OK, WARNING, CRITICAL, UNKNOWN = range(4)
"""What a plugin exits with."""
_NAMES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")

LATE_WARNING, LATE_CRITICAL = 60, 300
"""Seconds that the loop may be late: it wakes within milliseconds, whatever it has to do then."""
TRIES = 10
"""After so many tries a Session has been tried for some ten minutes: pauses double up to five."""
FAULT_SHOWN = 3600
"""Seconds for which a fault of the file that is over is still a warning."""
MIB = 1 << 20


class Limits:
    """What a user sets: WARNING and CRITICAL beyond so many overdue without a host, or below so
    much free disk, in MiB. None never."""

    __slots__ = ("critical_disk", "critical_without_host", "warn_disk", "warn_without_host")

    def __init__(
        self,
        warn_without_host: int = 0,
        critical_without_host: int | None = None,
        warn_disk: int = 512,
        critical_disk: int = 64,
    ) -> None:
        self.warn_without_host = warn_without_host
        self.critical_without_host = critical_without_host
        self.warn_disk = warn_disk
        self.critical_disk = critical_disk


def report(status: Status, now: dt.datetime, limits: Limits) -> tuple[int, str]:
    """The worst state found, and the line that says everything found, the worst first."""
    found = sorted(
        (*_loop(status, now), *_reminders(status, limits), *_file(status, now, limits)),
        key=lambda finding: -finding[0],
    )
    state = max((state for state, _ in found), default=OK)
    said = "; ".join(text for _, text in found) or _well(status, now)
    return state, line(state, said, _performance(status, now, limits))


def line(state: int, text: str, performance: Iterable[str] = ()) -> str:
    """One line of a plugin; a bar in `text` would start the performance data."""
    data = f" | {' '.join(performance)}" if performance else ""
    return f"SCHEDULER {_NAMES[state]} - {safe(text).replace('|', '/')}{data}"


def _loop(status: Status, now: dt.datetime) -> Iterator[Finding]:
    """With nothing due it rightly does not wake for days: late is only a wake that was promised."""
    late = _late(status, now)
    if late > LATE_WARNING:
        state = CRITICAL if late > LATE_CRITICAL else WARNING
        if "last_scan_at" in status or not _is_admins(status):
            yield state, f"the loop should have woken {times.span(late)} ago"
        else:
            yield state, f"the loop has not looked once since its start {times.span(late)} ago"
    if failures := status.get("failures", 0):
        yield WARNING, f"{failures} rounds or messages failed by a defect; the log says more"


def _late(status: Status, now: dt.datetime) -> float:
    """Seconds since the loop should have woken, or started to; 0 where it need not have."""
    looked = "last_scan_at" in status or not _is_admins(status)
    promised = status.get("next_wake_at") if looked else status["started_at"]
    return 0 if promised is None else _since(promised, now)


def _is_admins(status: Status) -> bool:
    """Whether it was given to an admin: others are not told what the loop does."""
    return "database" in status


def _since(text: str, now: dt.datetime) -> float:
    return max(0, (now - times.instant(text)).total_seconds())


def _reminders(status: Status, limits: Limits) -> Iterator[Finding]:
    counts = status["counts"]
    without = counts["overdue_without_host"]
    critical = limits.critical_without_host
    if critical is not None and without > critical:
        yield CRITICAL, f"{without} overdue without a host"
    elif without > limits.warn_without_host:
        yield WARNING, f"{without} overdue without a host"
    stuck = [row for row in status["retrying"] if row["attempts"] >= TRIES]
    if stuck:
        worst = max(stuck, key=lambda row: row["attempts"])
        what = f"Session {worst['session_id']!r}: {worst['why']}, {worst['attempts']} tries"
        more = f", and {len(stuck) - 1} more" if len(stuck) > 1 else ""
        yield WARNING, f"overdue in a live Session for long ({what}{more})"
    if counts["set_aside"]:
        yield WARNING, f"{counts['set_aside']} set aside because they cannot be read"


def _file(status: Status, now: dt.datetime, limits: Limits) -> Iterator[Finding]:
    fault = status.get("last_persistence_error")
    if fault is not None:
        age = _since(fault["at"], now)
        if not fault["over"]:
            yield CRITICAL, f"{fault['code']} {times.span(age)} ago, and nothing written since"
        elif age < FAULT_SHOWN:
            yield WARNING, f"{fault['code']} {times.span(age)} ago, and written again since"
    free = status.get("free_disk_bytes")
    if free is not None and free < limits.critical_disk * MIB:
        yield CRITICAL, f"{free // MIB} MiB of disk left"
    elif free is not None and free < limits.warn_disk * MIB:
        yield WARNING, f"{free // MIB} MiB of disk left"


def _well(status: Status, now: dt.datetime) -> str:
    counts = status["counts"]
    wake = "nothing to wake for"  # what no host would take wakes nobody
    if "next_wake_at" in status:
        wake = f"next wake {times.relative(times.instant(status['next_wake_at']), now)}"
    return f"{counts['active']} active, {counts['overdue']} overdue, {wake}"


def _performance(status: Status, now: dt.datetime, limits: Limits) -> Iterator[str]:
    counts = status["counts"]
    critical = limits.critical_without_host
    yield _value("active", counts["active"])
    yield _value("paused", counts["paused"])
    yield _value("overdue", counts["overdue"])
    yield _value(
        "overdue_without_host",
        counts["overdue_without_host"],
        limits.warn_without_host,
        "" if critical is None else critical,
    )
    yield _value("set_aside", counts["set_aside"], 0)
    tries = max((row["attempts"] for row in status["retrying"]), default=0)
    yield _value("most_tries", tries, TRIES - 1)
    yield _value("late", f"{_late(status, now):.0f}s", LATE_WARNING, LATE_CRITICAL)
    if "last_scan_at" in status:
        yield _value("scan_age", f"{_since(status['last_scan_at'], now):.0f}s")
    if _is_admins(status):
        yield _value("failures", f"{status.get('failures', 0)}c", 0)
    if "free_disk_bytes" in status:
        warn, critical_below = (f"{mib * MIB}:" for mib in (limits.warn_disk, limits.critical_disk))
        yield _value("free_disk", f"{status['free_disk_bytes']}B", warn, critical_below)


def _value(label: str, value: object, warn: object = "", critical: object = "") -> str:
    """`label=value;warn;crit;min`: all of them start at 0, none has an end."""
    return f"{label}={value};{warn};{critical};0"
