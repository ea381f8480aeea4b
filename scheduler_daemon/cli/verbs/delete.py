"""`schedctl delete`: delete a reminder for good, or all of a Session."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import asking, connection, exits, output, sentences
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of
from scheduler_daemon.errors import ReminderNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from scheduler_daemon.client import Client

USAGE = "{ID | --session NAME --all} [options]"
ABOUT = """\
Delete a reminder for good, or all reminders of a Session. What was delivered
stays in the history of the Session."""
EXAMPLES = """\
  schedctl delete r7
  schedctl delete --session s1 --all
  schedctl delete --session s1 --all --yes"""


def options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", help="the reminder, such as r7")
    parser.add_argument("--session", metavar="NAME", help="the Session that it belongs to")
    parser.add_argument(
        "--all", action="store_true", help="all reminders of --session, ended ones too"
    )
    asking.add_yes(parser)
    add_owner(parser, reading=False)


def run(args: argparse.Namespace) -> int:
    if args.all and (args.id is not None or args.session is None):
        raise MisuseError("--all goes with --session NAME and without an ID")
    if args.id is None and not args.all:
        raise MisuseError("say which: an ID such as r7, or --session NAME --all")
    owner = owner_of(args)
    with connection.connect(args) as client:
        if args.all:
            _delete_all(args, client, owner)
        else:
            _delete(args, client, owner)
    return exits.DONE


def _delete(args: argparse.Namespace, client: Client, owner: Any) -> None:
    result = client.delete(args.id, session_id=args.session, owner_uid=owner)
    if args.json:
        output.say(output.json_line(result))
    elif result["deleted"]:
        output.say(output.safe(f"{result['id']} is deleted"))
    if not result["deleted"]:
        raise ReminderNotFound(f"there is no reminder {args.id} to delete")


def _delete_all(args: argparse.Namespace, client: Client, owner: Any) -> None:
    of = f"of Session {args.session!r}"
    ids = []
    active = 0
    for reminder in client.reminders(args.session, status="all", owner_uid=owner):
        ids.append(reminder["id"])
        active += reminder["status"] == "active"
    if ids:
        count = sentences.counted(len(ids), "reminder")
        asking.agree(f"Delete {count} {of} ({active} active)", yes=args.yes)
    deleted = 0
    for each in ids:
        result = client.delete(each, session_id=args.session, owner_uid=owner)
        deleted += result["deleted"]
        if args.json:
            output.say(output.json_line(result))
    if not args.json:
        output.say(output.safe(f"{sentences.counted(deleted, 'reminder')} {of} deleted"))
