"""`schedctl resume`: let a paused reminder come again."""

from __future__ import annotations

import argparse

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, exits, output, sentences
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of

USAGE = "ID [options]"
ABOUT = """\
Let a paused reminder come again. Where its time has passed meanwhile, one that
comes again and again goes on with its next time, any other comes at once."""
EXAMPLES = """\
  schedctl resume r7"""


def options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the reminder, such as r7")
    add_owner(parser, reading=False)


def run(args: argparse.Namespace) -> int:
    owner = owner_of(args)
    with connection.connect(args) as client:
        result = client.resume(args.id, owner_uid=owner)
    if args.json:
        output.say(output.json_line(result))
    else:
        output.say(sentences.coming(result["reminder"], wall.now(), clock_name()))
    return exits.DONE
