"""`schedctl snooze`: what a person means after being reminded, again in ten minutes."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import connection, exits, made, output
from scheduler_daemon.cli.durations import seconds_of
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of
from scheduler_daemon.cli.selectors_input import point
from scheduler_daemon.cli.when import machine_zone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

USAGE = "ID {DURATION | --at WHEN} [options]"
ABOUT = """\
Make a new reminder with the words of one that came or will come. It comes
once; the other one stays as it is."""
EXAMPLES = """\
  schedctl snooze r7 10m
  schedctl snooze r7 --at "2026-12-24 18:00" --tz Europe/Berlin"""


def options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the reminder, such as r7; it may have ended")
    parser.add_argument(
        "duration", metavar="DURATION", nargs="?", help="so long from now: 90s, 20m, 1h30m, 2d"
    )
    parser.add_argument(
        "--at",
        metavar="WHEN",
        help='at 2026-12-24T18:00:00+01:00, or "2026-12-24 18:00" with --tz',
    )
    parser.add_argument("--tz", metavar="ZONE", help="Europe/Berlin, UTC: whose clock --at means")
    made.add_key(parser, "the same key makes the same reminder only once")
    add_owner(parser, reading=False)


def run(args: argparse.Namespace) -> int:
    when, owner = _when(args), owner_of(args)
    with connection.connect(args) as client:
        result = client.snooze(
            args.id, idempotency_key=args.idempotency_key, owner_uid=owner, **when
        )
    if args.json:
        output.say(output.json_line(result))
    else:
        words = f"; it has the words of {output.safe(args.id)}" if result["created"] else ""
        output.say(made.sentence(args, result) + words)
    return exits.DONE


def _when(args: argparse.Namespace) -> dict[str, Any]:
    """When it comes, as keywords of Client.snooze. Raises MisuseError."""
    if (args.duration is None) == (args.at is None):
        raise MisuseError("say when: a duration such as 10m, or --at WHEN, one of them")
    if args.at is not None:
        return {"at": point(args.at, "--at", args.tz, machine_zone)}
    if args.tz is not None:
        raise MisuseError("a duration has no zone: --tz goes with --at")
    return {"seconds": seconds_of(args.duration, "DURATION")}
