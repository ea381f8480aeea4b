"""`schedctl export`: what is coming, in a form that other programs read."""

from __future__ import annotations

import argparse

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, exits, extras, files
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of

USAGE = "--ics [FILE] [options]"
ABOUT = """\
Write what is coming as iCalendar, so that a calendar shows it. It holds each
active reminder from its target on, rules as rules, on the clocks of their
zones; opened again, a later export takes the place of an earlier one. Paused
reminders are left out: they do not come. The words of reminders stand in the
file. Needs the package icalendar."""
EXAMPLES = """\
  schedctl export --ics reminders.ics
  schedctl export --ics s1.ics --session s1"""


def options(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="where to; - or nothing is stdout"
    )
    parser.add_argument("--ics", action="store_true", help="as iCalendar (RFC 5545)")
    parser.add_argument("--session", metavar="NAME", help="only what this Session has")
    add_owner(parser, reading=True)


def run(args: argparse.Namespace) -> int:
    if not args.ics or args.json:
        raise MisuseError("say in which form: --ics, and no --json")
    extras.need("icalendar", "icalendar", "ics")
    from scheduler_daemon.cli import ics  # only here: it needs what may be missing

    owner = owner_of(args)
    with connection.connect(args) as client:
        reminders = client.reminders(args.session, owner_uid=owner)
        data = ics.calendar((each for each in reminders if not each["paused"]), wall.now())
    if args.file == "-":
        print(data.decode(), end="")
    else:
        files.write(args.file, data)
    return exits.DONE
