"""`schedctl import`: an export into a new database, while no daemon runs."""

from __future__ import annotations

import argparse
import sys

from scheduler_daemon.cli import database, exits, output
from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

USAGE = "FILE [options]"
ABOUT = """\
Put what `schedctl export` wrote into a database that holds nothing: all of it
or, where a line is not understood, nothing. No daemon may run on it. Ids and
targets stay as they were; ids of new reminders are 1,000,000 higher."""
EXAMPLES = """\
  schedctl import --dry-run reminders.jsonl
  schedctl import reminders.jsonl"""


def options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the export; - is stdin")
    parser.add_argument("--dry-run", action="store_true", help="look whether it could be done")
    database.add_database(parser)


def run(args: argparse.Namespace) -> int:
    from scheduler_daemon.store import carry, form  # only here: SQLite comes with it

    place = database.locate(args)
    now, stamp = database.stamp()
    with _opened(args.file) as file, database.refusing():
        lines = _readable(args.file, form.lines_of(file))
        done = carry.import_lines(lines, place, now, stamp, dry_run=args.dry_run)
    if args.json:
        kept = {"kept": str(done.kept)} if done.kept else {}
        result = {"database": str(place), "dry_run": args.dry_run, **done.counts, **kept}
        output.say(output.json_line(result))
        return exits.DONE
    what = ", ".join(f"{count} {kind}" for kind, count in done.counts.items() if count)
    verb = "could import" if args.dry_run else "imported"
    output.say(output.safe(f"{verb} into {place}: {what or 'nothing'}"))
    return exits.DONE


def _opened(path: str) -> BinaryIO:
    if path == "-":
        if sys.stdin is None:
            raise FailedError("- reads stdin, and stdin is closed")
        return sys.stdin.buffer
    try:
        return open(path, "rb")  # noqa: PTH123 - names are text throughout here
    except OSError as error:
        raise _unreadable(path, error) from None


def _readable(path: str, lines: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from lines
    except OSError as error:  # of the disk or the pipe that it comes from
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: OSError) -> FailedError:
    return FailedError(f"cannot read {path}: {error.strerror}")
