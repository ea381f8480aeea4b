"""`schedctl watch`: what changes, one line each, as it happens."""

from __future__ import annotations

import argparse
import select
import sys

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, output, sentences, times
from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, add_owner, add_wide, owner_of
from scheduler_daemon.client.finding import DaemonUnreachable
from scheduler_daemon.client.watch import Lagged
from scheduler_daemon.errors import SchedulerError

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    import datetime as dt
    from collections.abc import Iterator
    from typing import Any, NoReturn

    from scheduler_daemon.client import Client
    from scheduler_daemon.client.watch import Change, Changes
    from scheduler_daemon.wire.shapes import Reminder, ReminderChanged

USAGE = "[options]"
ABOUT = """\
Show what happens to reminders until ctrl-C, one line each: when, in which
Session, to which reminder, what and when it comes next, and its title and
words. Lines are cut to the width of the terminal and whole where none reads
them.

It goes on when the daemon comes back after a restart. What happened meanwhile
is left out, as where changes come faster than they are read; a line says so
({"lagged": true} with --json): `schedctl list` shows what is there then."""
EXAMPLES = """\
  schedctl watch --session s1
  schedctl watch --json | jq -r 'select(.change == "dispatched").id'"""

PAUSE_SECONDS = 1.0
"""Between attempts to reach a daemon that went away."""


def options(parser: Parser) -> None:
    parser.add_argument("--session", metavar="NAME", help="only those of this Session")
    add_wide(parser)
    add_owner(parser, reading=True)


def run(args: argparse.Namespace) -> NoReturn:
    if sys.stdout is None:
        raise FailedError("stdout is closed: nobody would see what changes")
    owner = owner_of(args)
    with connection.connect(args) as client:
        changes = _changes(client, args.session, owner)
        while True:
            change = next(changes)
            if args.json:
                line = output.json_line({"lagged": True} if isinstance(change, Lagged) else change)
            else:
                width = None if args.wide else output.terminal_width()
                line = _line(change, client, owner, width, all_owners=args.all_owners)
            print(line, flush=True)


def _changes(client: Client, session: str | None, owner: Any) -> Iterator[Change]:
    """Every change without end; a Lagged stands for what was missed while no daemon was there."""
    changes = client.watch(session, owner_uid=owner)
    output.note(_beginning(session))
    while True:
        try:
            with changes:
                yield from changes
        except DaemonUnreachable as lost:
            output.note(f"{lost}; this goes on when it is back")
        changes = _again(client, session, owner)
        output.note("it is back")
        yield Lagged()


def _again(client: Client, session: str | None, owner: Any) -> Changes:
    while True:
        select.select((), (), (), PAUSE_SECONDS)  # sleeps; what reads clocks is for clock.py
        try:
            return client.watch(session, owner_uid=owner)
        except DaemonUnreachable:
            continue


def _beginning(session: str | None) -> str:
    what = "every Session" if session is None else f"Session {session!r}"
    zone = times.moment(wall.now().isoformat(), None, clock_name()).zone
    return f"watching the reminders of {what}, times in {zone}; ctrl-C ends it"


def _line(
    change: Change, client: Client, owner: Any, width: int | None, *, all_owners: bool
) -> str:
    """What a person reads of a change, in `width` cells if set; when it was heard comes first."""
    now, zone = wall.now(), clock_name()
    heard = times.moment(now.isoformat(), None, zone).local
    cells = [f"{heard:%Y-%m-%d %H:%M:%S}"]
    if isinstance(change, Lagged):
        cells.append("some changes were left out here; `schedctl list` shows what is there now")
    else:
        cells += [str(change["owner_uid"])] if all_owners else []
        cells += [change["session_id"], change["id"]]
        reminder = _reminder(change, client, owner)
        roomy = width is None or width >= output.ROOMY
        cells += _told(change["change"], reminder, now, zone, roomy=roomy)
    line = "  ".join(map(output.safe, cells))
    return line if width is None else output.cut(line, width)


def _reminder(change: ReminderChanged, client: Client, owner: Any) -> Reminder | None:
    """The reminder that was changed, None where it is gone."""
    if "reminder" in change or change["change"] == "deleted":
        return change.get("reminder")
    try:
        return client.get(change["id"], owner_uid=owner)["reminder"]
    except (SchedulerError, DaemonUnreachable):
        return None  # deleted since, most often: the change itself is still worth its line


def _told(
    change: str, reminder: Reminder | None, now: dt.datetime, zone: str | None, *, roomy: bool
) -> list[str]:
    """What happened and what comes next, then the words; not made safe yet."""
    if reminder is None:
        return [change]
    what = change
    if change == "dispatched" and "last_dispatch" in reminder:
        what += f" to {reminder['last_dispatch']['host']!r}"
    if change == "ended":
        what += f", {sentences.ending(reminder)}"
    elif change != "paused" and reminder["state"] != "ended":
        comes = "comes again" if change == "dispatched" else "comes"
        what += f", {_next(reminder, comes, now, zone, roomy=roomy)}"
    return [what, sentences.words(reminder)]


def _next(
    reminder: Reminder, comes: str, now: dt.datetime, zone: str | None, *, roomy: bool
) -> str:
    """`comes in 20 min (2026-12-24 14:40:00 Europe/Berlin)`, or why it does not come so."""
    coming = sentences.comes(reminder, now)
    if reminder["state"] != "scheduled" or sentences.is_past_its_end(reminder):
        return coming
    at = times.moment(reminder["scheduled_at"], reminder.get("scheduled_at_local"), zone)
    return f"{comes} {coming}" + (f" ({times.clock(at)})" if roomy else "")
