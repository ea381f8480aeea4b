"""`schedctl update`: change the words or the time of a reminder as it is now."""

from __future__ import annotations

import argparse

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, exits, output, sentences, times
from scheduler_daemon.cli.ends import add_ends, cleared_ends_of, ends_of
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of
from scheduler_daemon.cli.when import add_selectors, selector_of, typed_clock
from scheduler_daemon.cli.words import add_context, context_of, prompt_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

USAGE = "ID [WHEN] [options]"
ABOUT = """\
Change the words, the time or the end of a reminder as it is now. What is not
named stays as it is; a new time may be of another kind, and --after counts
from now."""
EXAMPLES = """\
  schedctl update r7 --after 1h
  schedctl update r7 --daily 08:30 --tz Europe/Berlin
  schedctl update r7 --until "2026-12-24 18:00" --tz Europe/Berlin --no-expires-after
  schedctl update r7 --prompt "Check the build, then the tests" --no-title"""


def options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the reminder, such as r7")
    parser.add_argument("--prompt", metavar="TEXT", help="new words; - reads them from stdin")
    title = parser.add_mutually_exclusive_group()
    title.add_argument("--title", help="a new title")
    title.add_argument("--no-title", action="store_true", help="no title any more")
    add_context(parser)
    add_selectors(parser, required=False)
    add_ends(parser, clearing=True)
    add_owner(parser, reading=False)


def run(args: argparse.Namespace) -> int:
    changes, owner = _changes(args), owner_of(args)
    with connection.connect(args) as client:
        # A person means the reminder as it is now. Whoever changes it between these two lines
        # makes this a conflict, which is shown rather than decided for them.
        revision = client.get(args.id, owner_uid=owner)["reminder"]["revision"]
        result = client.update(args.id, revision, owner_uid=owner, **changes)
    if args.json:
        output.say(output.json_line(result))
        return exits.DONE
    now, zone = wall.now(), clock_name()
    clock = typed_clock(args, result["reminder"]["scheduled_at"])
    coming = sentences.coming(result["reminder"], now, zone, clock)
    output.say(coming if result["updated"] else f"nothing changed: {coming}")
    if "dropped_occurrence" in result:
        dropped = times.clock(times.moment(result["dropped_occurrence"], None, zone))
        output.note(f"the occurrence of {dropped} was overdue and will not be delivered any more")
    return exits.DONE


def _changes(args: argparse.Namespace) -> dict[str, Any]:
    """What was given to be changed, as keywords of Client.update. Raises MisuseError."""
    changes: dict[str, Any] = selector_of(args) | ends_of(args) | cleared_ends_of(args)
    if (context := context_of(args)) is not None:
        changes["context"] = context
    if args.no_title or args.title is not None:
        changes["title"] = args.title
    if args.prompt is not None:
        changes["prompt"] = prompt_of(args.prompt)
    if not changes:
        raise MisuseError(
            "say what should change: --prompt, --title, --context, a new time or an end"
        )
    return changes
