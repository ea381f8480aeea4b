"""`schedctl export`: everything for another database, or what is coming for a calendar."""

from __future__ import annotations

import argparse
from pathlib import Path

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, database, exits, extras, files, output
from scheduler_daemon.cli.exits import FailedError, MisuseError
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of

USAGE = "[FILE] [options], or --ics [FILE] [options]"
ABOUT = """\
Write the whole database as JSON lines, which `schedctl import` reads, also
that of another version (docs/export.md has the form). The daemon may run; you
need the rights of its user. It holds everybody's words: FILE is for yourself
alone (0600).

With --ics: write what is coming as iCalendar, so that a calendar shows it. It
holds each active reminder from its target on, rules as rules, on the clocks of
their zones; opened again, a later export takes the place of an earlier one.
Paused reminders are left out: they do not come. The words of reminders stand
in the file. Needs the package icalendar."""
EXAMPLES = """\
  schedctl export reminders.jsonl
  schedctl export --ics reminders.ics
  schedctl export --ics s1.ics --session s1"""


def options(parser: Parser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="where to; - or nothing is stdout"
    )
    database.add_database(parser)
    parser.add_argument("--force", action="store_true", help="replace FILE where it is there")
    parser.add_argument("--ics", action="store_true", help="as iCalendar (RFC 5545)")
    parser.add_argument("--session", metavar="NAME", help="only what this Session has; with --ics")
    add_owner(parser, reading=True)


def run(args: argparse.Namespace) -> int:
    if args.json:
        raise MisuseError("what is written is JSON lines, or a calendar with --ics; leave --json")
    if args.ics:
        if args.database is not None or args.config is not None:
            raise MisuseError("--ics asks the daemon; leave --database and --config")
        return _calendar(args)
    if args.session is not None or args.owner is not None or args.all_owners:
        raise MisuseError("everything is exported; --session and --owner go with --ics")
    return _lines(args)


def _lines(args: argparse.Namespace) -> int:
    from scheduler_daemon.store import carry  # only here: SQLite comes with it

    if args.file != "-" and Path(args.file).is_file() and not args.force:
        raise FailedError(f"{args.file} is there already; it is replaced with --force")
    source = database.locate(args)
    now, _ = database.stamp()
    with database.refusing():
        lines = map(output.safe_json, carry.export(source, now))
        if args.file == "-":
            for line in lines:
                output.say(line)
        else:
            files.write_lines(args.file, lines, 0o600)
    return exits.DONE


def _calendar(args: argparse.Namespace) -> int:
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
