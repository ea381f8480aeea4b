"""`schedctl metrics`: the status for Prometheus and whatever else reads OpenMetrics."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import connection, exits, extras, files
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.parser import Parser
from scheduler_daemon.client.finding import DaemonUnreachable
from scheduler_daemon.errors import SchedulerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scheduler_daemon.wire.shapes import Status

USAGE = "[options]"
ABOUT = """\
Print how the daemon is as metrics, in OpenMetrics text. Counts are of this
user's own reminders; nothing is told of single ones or of Sessions. Where no
daemon answers, scheduler_daemon_up is 0 and the exit status is 3.

With --textfile it writes the older text format of Prometheus for the textfile
collector of node_exporter, readable by all and in one step, so that a reader
never sees half of it. Needs the package prometheus-client."""
EXAMPLES = """\
  schedctl metrics
  schedctl metrics --textfile /var/lib/prometheus/node-exporter/scheduler.prom"""

_FOR_ALL = 0o644


def options(parser: Parser) -> None:
    parser.add_argument(
        "--textfile", metavar="PATH", help="write PATH, which has to end in .prom, and no output"
    )


def run(args: argparse.Namespace) -> int:
    if args.json:
        raise MisuseError("metrics are no JSON; `schedctl status --json` says the same in JSON")
    if args.textfile is not None and not args.textfile.endswith(".prom"):
        raise MisuseError("--textfile takes a path that ends in .prom: no other file is collected")
    extras.need("prometheus_client", "prometheus-client", "metrics")
    try:
        with connection.connect(args) as client:
            status = client.status()
    except (DaemonUnreachable, SchedulerError):
        _tell(args.textfile, None)
        raise
    _tell(args.textfile, status)
    return exits.DONE


def _tell(path: str | None, status: Status | None) -> None:
    from scheduler_daemon.cli import exposition  # only here: it needs what may be missing

    if path is None:
        print(exposition.openmetrics(status).decode(), end="")
    else:
        files.write(path, exposition.textfile(status), _FOR_ALL)
