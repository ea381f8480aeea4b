"""`schedctl status`: how the daemon is, which hosts it has, and which Sessions it tries again."""

from __future__ import annotations

import argparse
import datetime as dt

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, exits, health, output, times
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, whole
from scheduler_daemon.client import Client
from scheduler_daemon.client.finding import DaemonUnreachable
from scheduler_daemon.errors import SchedulerError

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from scheduler_daemon.wire.shapes import HostStatus, RetryStatus, Status

USAGE = "[options]"
ABOUT = """\
Show how the daemon is: its versions, how many reminders wait, which hosts are
connected, and which Sessions it tries again.

With --check it is a plugin for Nagios, Icinga and their like: one line with
performance data, and exit status 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (a
wrong option, or this user may not ask). CRITICAL: no daemon answers within 10
seconds, nothing can be written, or the loop is more than 5 minutes late.
WARNING: it is more than 1 minute late, a Session with a host was tried 10
times in vain, a reminder is set aside, something failed by a defect, or
something could not be written within the last hour. What depends on the use
has the options below. Counts are of this user's own reminders."""
EXAMPLES = """\
  schedctl status
  schedctl status --json
  schedctl status --check --warn-without-host 20 --critical-disk 100"""

_PATIENCE = 10.0
"""Seconds, after which whoever runs plugins gives them up."""
_LARGEST = 10**9


def options(parser: Parser) -> None:
    parser.add_argument("--check", action="store_true", help="be a plugin for Nagios or Icinga")
    group = parser.add_argument_group("limits of --check")
    for name, unit, text in (
        ("warn-without-host", "N", "WARNING beyond so many overdue without a host (default 0)"),
        ("critical-without-host", "N", "CRITICAL beyond so many (default: never)"),
        ("warn-disk", "MIB", "WARNING below so much free disk (default 512)"),
        ("critical-disk", "MIB", "CRITICAL below so much free disk (default 64)"),
    ):
        group.add_argument(f"--{name}", type=whole(0, _LARGEST), metavar=unit, help=text)


def run(args: argparse.Namespace) -> int:
    limits = _limits(args)
    if args.check:
        return _check(args, limits)
    with connection.connect(args) as client:
        connection.warn_of_a_second(args)
        status = client.status()
    if args.json:
        output.say(output.json_line(status))
    else:
        _show(status, wall.now(), clock_name())
    return exits.DONE


def _limits(args: argparse.Namespace) -> health.Limits:
    """The limits that were given over those that stand. Raises MisuseError."""
    given = {name: getattr(args, name) for name in health.Limits.__slots__}
    given = {name: value for name, value in given.items() if value is not None}
    if given and not args.check:
        raise MisuseError(f"--{next(iter(given)).replace('_', '-')} goes with --check")
    if args.check and args.json:
        raise MisuseError("--check prints one line, without --json")
    return health.Limits(**given)


def _check(args: argparse.Namespace, limits: health.Limits) -> int:
    """One line on stdout whatever happens: nobody reads a plugin's stderr."""
    try:
        with Client(args.socket, timeout=_PATIENCE) as client:
            state, line = health.report(client.status(), wall.now(), limits)
    except DaemonUnreachable as error:
        state = health.CRITICAL
        line = health.line(state, str(error))
    except SchedulerError as error:
        # The daemon answers and is not to blame, or it does not do what it should.
        refused = error.code == "permission_denied"
        state = health.UNKNOWN if refused else health.CRITICAL
        line = health.line(state, f"{error.message.removesuffix('.')} ({error.code})")
    output.say(line)
    return state


def _show(status: Status, now: dt.datetime, zone: str | None) -> None:
    facts = {
        "daemon": f"{status['server']}, protocol {status['protocol']}, schema {status['schema']}",
        "runs on": f"Python {status['python']}, SQLite {status['sqlite']}",
        "zone data": status["zone_data"],
        "clock": status["clock"],
        "started": _when(status["started_at"], now, zone),
        "next wake": _next_wake(status, now, zone),
        "database": status.get("database"),
        "reminders": ", ".join(
            f"{n} {k.replace('_', ' ')}" for k, n in status["counts"].items() if k != "runs"
        ),
    }
    if status["counts"]["runs"]:
        facts["by hand"] = f"{status['counts']['runs']} asked for and not admitted yet"
    fault = status.get("last_persistence_error")
    if fault is not None:
        since = "written again since" if fault["over"] else "nothing written since"
        facts["last fault"] = f"{fault['code']}, {_when(fault['at'], now, zone)}, {since}"
    if "last_accept_failure_at" in status:
        at = _when(status["last_accept_failure_at"], now, zone)
        facts["refused"] = f"a new connection, for want of descriptors or memory, {at}"
    if "free_disk_bytes" in status:
        facts["free disk"] = f"{status['free_disk_bytes'] // health.MIB} MiB"
    if "restart_wanted_for" in status:
        facts["restart"] = f"wanted for {', '.join(status['restart_wanted_for'])}"
    for name, value in facts.items():
        if value is not None:
            output.say(output.safe(f"{name + ':':<10} {value}"))
    _show_hosts(status["hosts"], now)
    _show_retries(status["retrying"], now)


def _next_wake(status: Status, now: dt.datetime, zone: str | None) -> str:
    if "next_wake_at" in status:
        return _when(status["next_wake_at"], now, zone)
    if status["counts"]["active"]:
        return "none: nothing waits for its time that a connected host of yours would take"
    return "none: you have no active reminder"


def _when(text: str, now: dt.datetime, zone: str | None) -> str:
    at = times.moment(text, None, zone)
    return f"{times.relative(at.local, now)} ({times.clock(at)})"


def _show_hosts(hosts: list[HostStatus], now: dt.datetime) -> None:
    output.say("")
    if not hosts:
        output.say("no agent host of yours is connected: what comes due waits for one")
        return
    rows = [
        (
            output.safe(host["name"]),
            f"{host['in_flight']} of {host['max_in_flight']}",
            times.relative(times.instant(host["attached_at"]), now),
            output.safe(_sessions(host)),
        )
        for host in hosts
    ]
    output.show_table(("HOST", "IN FLIGHT", "ATTACHED", "SESSIONS"), rows, firm=3)


def _sessions(host: HostStatus) -> str:
    names = host["sessions"]
    if names == "*":
        return "every one"
    more = host.get("session_count", 0) - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _show_retries(retries: list[RetryStatus], now: dt.datetime) -> None:
    if not retries:
        return
    output.say("")
    rows = []
    for retry in retries:
        again = retry.get("next_try_at")
        cells = [
            retry["session_id"],
            retry["why"],
            str(retry["attempts"]),
            "" if again is None else times.relative(times.instant(again), now),
            retry.get("last_error", ""),
        ]
        rows.append([output.safe(cell) for cell in cells])
    output.show_table(("SESSION", "WHY IT WAITS", "TRIED", "AGAIN", "LAST ERROR"), rows, firm=0)
