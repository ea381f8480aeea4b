"""`schedctl skip`: let the next time of a recurring reminder pass."""

from __future__ import annotations

import argparse

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, exits, output, sentences, times
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of
from scheduler_daemon.cli.when import on_its_clock

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from scheduler_daemon.wire.calls import Skipped

USAGE = "ID [options]"
ABOUT = """\
Let the next time of a reminder pass that comes again and again; it goes on
with the one after it. The history has it as skipped."""
EXAMPLES = """\
  schedctl skip r7"""


def options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the reminder, such as r7")
    add_owner(parser, reading=False)


def run(args: argparse.Namespace) -> int:
    owner = owner_of(args)
    with connection.connect(args) as client:
        result = client.skip(args.id, owner_uid=owner)
    output.say(output.json_line(result) if args.json else _sentence(result))
    return exits.DONE


def _sentence(result: Skipped) -> str:
    reminder, skipped, zone = result["reminder"], result["skipped_occurrence"], clock_name()
    at = times.moment(skipped, on_its_clock(skipped, reminder.get("scheduled_at_local")), zone)
    coming = sentences.coming(reminder, wall.now(), zone)
    return output.safe(f"{times.clock(at)} is skipped: ") + coming
