"""`schedctl run-now`: let a reminder come once more at once, beside its rule."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import connection, exits, made, output
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from scheduler_daemon.wire.calls import RunNow

USAGE = "ID [options]"
ABOUT = """\
Let a reminder come once more at once, a paused one too. When it comes by its
rule does not change."""
EXAMPLES = """\
  schedctl run-now r7"""


def options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the reminder, such as r7")
    made.add_key(parser, "the same key lets it come only once")
    add_owner(parser, reading=False)


def run(args: argparse.Namespace) -> int:
    owner = owner_of(args)
    with connection.connect(args) as client:
        result = client.run_now(args.id, idempotency_key=args.idempotency_key, owner_uid=owner)
    output.say(output.json_line(result) if args.json else output.safe(_sentence(result)))
    return exits.DONE


def _sentence(result: RunNow) -> str:
    if "occurrence_id" not in result or "reminder" not in result:
        return f"nothing comes: this key was for {result['id']}, which has been deleted since"
    occurrence = result["occurrence_id"]
    if not result["created"]:
        return f"nothing new comes: this key has asked for {occurrence} before"
    return f"{result['reminder']['id']} comes once more as soon as a host takes it: {occurrence}"
