"""`schedctl delete`: delete a reminder for good."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import connection, exits, output
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of
from scheduler_daemon.errors import ReminderNotFound

USAGE = "ID [options]"
ABOUT = """\
Delete a reminder for good. What was delivered of it stays in the history of
its Session."""
EXAMPLES = """\
  schedctl delete r7"""


def options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the reminder, such as r7")
    add_owner(parser, reading=False)


def run(args: argparse.Namespace) -> int:
    owner = owner_of(args)
    with connection.connect(args) as client:
        result = client.delete(args.id, owner_uid=owner)
    if args.json:
        output.say(output.json_line(result))
    elif result["deleted"]:
        output.say(output.safe(f"{result['id']} is deleted"))
    if not result["deleted"]:
        raise ReminderNotFound(f"there is no reminder {args.id} to delete")
    return exits.DONE
