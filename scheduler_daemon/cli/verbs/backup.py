"""`schedctl backup`: a consistent copy of the file, also while the daemon runs."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import database, exits, output
from scheduler_daemon.cli.parser import Parser

USAGE = "FILE [options]"
ABOUT = """\
Copy the database to FILE, for yourself alone (0600). The daemon may run: a
change that is made meanwhile is wholly in the copy or not at all. It holds
everybody's words. You need the rights of the daemon's user."""
EXAMPLES = """\
  schedctl backup scheduler-backup.db
  schedctl backup /srv/b.db --database /var/lib/scheduler-daemon/scheduler.db"""


def options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="where to")
    parser.add_argument("--force", action="store_true", help="replace what FILE holds")
    database.add_database(parser)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from scheduler_daemon.store import backup  # only here: SQLite comes with it

    source = database.locate(args)
    with database.refusing():
        backup.backup(source, Path(args.file), overwrite=args.force)
    if args.json:
        output.say(output.json_line({"database": str(source), "file": args.file}))
    else:
        output.say(output.safe(f"copied {source} to {args.file}"))
    return exits.DONE
