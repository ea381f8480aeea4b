"""`schedctl create`: make a reminder, and say in plain words when it will come."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import connection, exits, made, output
from scheduler_daemon.cli.ends import add_ends, ends_of
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of
from scheduler_daemon.cli.when import add_selectors, selector_of
from scheduler_daemon.cli.words import add_context, context_of, prompt_of

USAGE = "--session NAME WHEN [options] PROMPT"
ABOUT = """\
Make a reminder for a Session, and say when it will come. The words are
delivered to the agent host of that Session when they are due, as a message of
the same conversation."""
EXAMPLES = """\
  schedctl create --session s1 --after 20m "Check the build"
  schedctl create --session s1 --at "2026-12-24 18:00" --tz Europe/Berlin "Light the tree"
  schedctl create --session s1 --cron "*/15 9-17 * * mon-fri" --tz UTC "Look at the queue"
  schedctl create --session s1 --every 1h --max-occurrences 5 --expires-after 30m "Stretch"
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
    made.add_key(parser, "the same key makes the same reminder only once, however often it is sent")
    add_selectors(parser, required=True)
    add_ends(parser)
    add_owner(parser, reading=False)


def run(args: argparse.Namespace) -> int:
    when, context, owner = selector_of(args) | ends_of(args), context_of(args), owner_of(args)
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
            **when,
        )
    if args.json:
        output.say(output.json_line(result))
    else:
        output.say(made.sentence(args, result))
    return exits.DONE
