"""`schedctl create`: make a reminder, and say in plain words when it will come."""

from __future__ import annotations

import argparse

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, exits, output, sentences
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of
from scheduler_daemon.cli.when import add_selectors, selector_of, typed_clock
from scheduler_daemon.cli.words import add_context, context_of, prompt_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from scheduler_daemon.wire.calls import Created

USAGE = "--session NAME WHEN [options] PROMPT"
ABOUT = """\
Make a reminder for a Session, and say when it will come. The words are
delivered to the agent host of that Session when they are due, as a message of
the same conversation."""
EXAMPLES = """\
  schedctl create --session s1 --after 20m "Check the build"
  schedctl create --session s1 --at "2026-12-24 18:00" --tz Europe/Berlin "Light the tree"
  schedctl create --session s1 --cron "*/15 9-17 * * mon-fri" --tz UTC "Look at the queue"
  git log -1 | schedctl create --session s1 --every 1h --title "Last commit" -"""


def options(parser: Parser) -> None:
    parser.add_argument(
        "prompt", metavar="PROMPT", help="the words to be delivered; - reads them from stdin"
    )
    parser.add_argument(
        "--session", required=True, metavar="NAME", help="the Session that it comes back into"
    )
    parser.add_argument("--title", help="a short name for lists, at most 120 characters")
    add_context(parser)
    parser.add_argument(
        "--idempotency-key",
        metavar="KEY",
        help="the same key makes the same reminder only once, however often it is sent",
    )
    add_selectors(parser, required=True)
    add_owner(parser, reading=False)


def run(args: argparse.Namespace) -> int:
    selector, context, owner = selector_of(args), context_of(args), owner_of(args)
    prompt = prompt_of(args.prompt)
    with connection.connect(args) as client:
        connection.warn_of_a_second(args)
        result = client.create(
            args.session,
            prompt,
            title=args.title,
            context=context,
            idempotency_key=args.idempotency_key,
            owner_uid=owner,
            **selector,
        )
    if args.json:
        output.say(output.json_line(result))
    else:
        output.say(_sentence(args, result))
    return exits.DONE


def _sentence(args: argparse.Namespace, result: Created) -> str:
    reminder = result.get("reminder")
    if reminder is None:
        key_of = output.safe(result["id"])
        return f"nothing was made: this key made {key_of}, which has been deleted since"
    clock = typed_clock(args, reminder["scheduled_at"])
    coming = sentences.coming(reminder, wall.now(), clock_name(), clock)
    return coming if result["created"] else f"nothing new was made: {coming}"
