"""`schedctl status`: how the daemon is, which hosts it has, and which Sessions it tries again."""

from __future__ import annotations

import argparse
import datetime as dt

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, exits, output, times
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from scheduler_daemon.wire.shapes import HostStatus, RetryStatus, Status

USAGE = "[options]"
ABOUT = """\
Show how the daemon is: its versions, how many reminders wait, which hosts are
connected, and which Sessions it tries again."""
EXAMPLES = """\
  schedctl status
  schedctl status --json"""


def options(parser: Parser) -> None:
    del parser  # nothing of its own


def run(args: argparse.Namespace) -> int:
    with connection.connect(args) as client:
        connection.warn_of_a_second(args)
        status = client.status()
    if args.json:
        output.say(output.json_line(status))
    else:
        _show(status, wall.now(), clock_name())
    return exits.DONE


def _show(status: Status, now: dt.datetime, zone: str | None) -> None:
    facts = {
        "daemon": f"{status['server']}, protocol {status['protocol']}, schema {status['schema']}",
        "runs on": f"Python {status['python']}, SQLite {status['sqlite']}",
        "zone data": status["zone_data"],
        "clock": status["clock"],
        "started": _when(status["started_at"], now, zone),
        "next wake": _next_wake(status, now, zone),
        "database": status.get("database"),
        "reminders": ", ".join(f"{n} {k.replace('_', ' ')}" for k, n in status["counts"].items()),
    }
    fault = status.get("last_persistence_error")
    if fault is not None:
        facts["last fault"] = f"{fault['code']}, {_when(fault['at'], now, zone)}"
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
