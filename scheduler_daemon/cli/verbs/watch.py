"""`schedctl watch`: what changes, one line each, as it happens."""

from __future__ import annotations

import argparse
import sys

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, output, times
from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of
from scheduler_daemon.client.watch import Lagged
from scheduler_daemon.errors import SchedulerError

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from typing import Any, NoReturn

    from scheduler_daemon.client import Client
    from scheduler_daemon.client.watch import Change
    from scheduler_daemon.wire.shapes import ReminderChanged

USAGE = "[options]"
ABOUT = """\
Show what happens to reminders until ctrl-C, one line each: when, in which
Session, to which reminder, what, and its title or first words.

Where changes come faster than they are read some are left out, and a line says
so ({"lagged": true} with --json): `schedctl list` shows what is there then."""
EXAMPLES = """\
  schedctl watch --session s1
  schedctl watch --json | jq -r 'select(.change == "dispatched").id'"""

_WORDS = 60
"""In cells: enough to tell reminders apart, with the rest of the line on a usual terminal."""


def options(parser: Parser) -> None:
    parser.add_argument("--session", metavar="NAME", help="only those of this Session")
    add_owner(parser, reading=True)


def run(args: argparse.Namespace) -> NoReturn:
    if sys.stdout is None:
        raise FailedError("stdout is closed: nobody would see what changes")
    owner = owner_of(args)
    with connection.connect(args) as client, client.watch(args.session, owner_uid=owner) as changes:
        output.note(_beginning(args.session))
        while True:
            change = next(changes)
            if args.json:
                line = output.json_line({"lagged": True} if isinstance(change, Lagged) else change)
            else:
                line = _line(change, client, owner, all_owners=args.all_owners)
            print(line, flush=True)


def _beginning(session: str | None) -> str:
    what = "every Session" if session is None else f"Session {session!r}"
    zone = _now().zone
    return f"watching the reminders of {what}, times in {zone}; ctrl-C ends it"


def _now() -> times.Moment:
    return times.moment(wall.now().isoformat(), None, clock_name())


def _line(change: Change, client: Client, owner: Any, *, all_owners: bool) -> str:
    """What a person reads of a change; when it was heard stands first."""
    cells = [f"{_now().local:%Y-%m-%d %H:%M:%S}"]
    if isinstance(change, Lagged):
        cells.append("some changes were left out here; `schedctl list` shows what is there now")
    else:
        cells += [str(change["owner_uid"])] if all_owners else []
        cells += [change["session_id"], change["id"], change["change"]]
        words = _words(change, client, owner)
        cells += [output.cut(output.safe(words), _WORDS)] if words else []
    return "  ".join(map(output.safe, cells))


def _words(change: ReminderChanged, client: Client, owner: Any) -> str:
    """Its title or prompt; empty where the reminder is gone."""
    reminder = change.get("reminder")
    if reminder is None and change["change"] != "deleted":
        try:
            reminder = client.get(change["id"], owner_uid=owner)["reminder"]
        except SchedulerError:
            return ""  # deleted since, most often: the change itself is still worth its line
    return "" if reminder is None else reminder.get("title", reminder["prompt"])
