"""`schedctl pause`: keep a reminder from coming until it is resumed."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import connection, exits, output
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of

USAGE = "ID [options]"
ABOUT = """\
Keep a reminder from coming until `schedctl resume`. Its words and its rule
stay as they are."""
EXAMPLES = """\
  schedctl pause r7"""


def options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the reminder, such as r7")
    add_owner(parser, reading=False)


def run(args: argparse.Namespace) -> int:
    owner = owner_of(args)
    with connection.connect(args) as client:
        result = client.pause(args.id, owner_uid=owner)
    if args.json:
        output.say(output.json_line(result))
    else:
        paused = output.safe(result["reminder"]["id"])
        output.say(f"{paused} is paused; `schedctl resume {paused}` lets it come again")
    return exits.DONE
