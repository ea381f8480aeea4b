"""`schedctl restore`: a backup in the place of the file, while no daemon runs."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import database, exits, output
from scheduler_daemon.cli.parser import Parser

USAGE = "FILE [options]"
ABOUT = """\
Put the backup FILE in the place of the database. Stop the daemon first, and
the socket unit that starts it:
systemctl --user stop scheduler-daemon.socket scheduler-daemon.service
The backup is checked, and the file that it replaces is kept beside it. Ids of
new reminders are 1,000,000 higher, so that one that somebody remembers never
means another reminder. What was sent since the backup is due again."""
EXAMPLES = """\
  schedctl restore scheduler-backup.db
  schedctl restore b.db --database /var/lib/scheduler-daemon/scheduler.db"""


def options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that `schedctl backup` wrote")
    database.add_database(parser)


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from scheduler_daemon.store import backup  # only here: SQLite comes with it

    place = database.locate(args)
    _, stamp = database.stamp()
    with database.refusing():
        kept = backup.restore(Path(args.file), place, stamp)
    if args.json:
        result = {"database": str(place)} | ({"kept": str(kept)} if kept else {})
        output.say(output.json_line(result))
        return exits.DONE
    was = f"; what it held is in {kept}" if kept else ""
    output.say(output.safe(f"restored {place}{was}"))
    return exits.DONE
