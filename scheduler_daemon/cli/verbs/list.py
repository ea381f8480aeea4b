"""`schedctl list`: reminders, one a line; all pages of them."""

from __future__ import annotations

import argparse
import datetime as dt

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, exits, output, times
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of
from scheduler_daemon.cli.sentences import is_past_its_end

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from typing import Any

    from scheduler_daemon.client import Client
    from scheduler_daemon.wire.shapes import Reminder

USAGE = "[options]"
ABOUT = (
    "Show reminders, one a line: active ones in the order they were made, unless said otherwise."
)
EXAMPLES = """\
  schedctl list
  schedctl list --session s1 --order target
  schedctl list --kind daily --text build
  schedctl list --due-before "2026-12-24 18:00" --tz Europe/Berlin
  schedctl list --status all --json | grep '"kind": "cron"'"""

_WIDE = 100
"""In cells: a terminal narrower than this has no room for the time beside the relative one."""


def options(parser: Parser) -> None:
    parser.add_argument("--session", metavar="NAME", help="only those of this Session")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--status", choices=("active", "ended", "all"), help="which ones (default active)"
    )
    which.add_argument(
        "--state",
        choices=("scheduled", "overdue", "paused", "ended"),
        help="only those in this state, the first three of them active",
    )
    parser.add_argument(
        "--kind",
        choices=("after", "at", "every", "daily", "weekly", "cron"),
        help="only those with this kind of rule",
    )
    parser.add_argument(
        "--due-before",
        metavar="WHEN",
        help='only those due before 2026-12-24T18:00:00+01:00, or "2026-12-24 18:00" with --tz',
    )
    parser.add_argument("--tz", metavar="ZONE", help="whose clock --due-before means")
    parser.add_argument(
        "--text", metavar="TEXT", help="only those with this in title or prompt, in any case"
    )
    parser.add_argument(
        "--order",
        choices=("created", "target"),
        help="oldest first, or next first (default created)",
    )
    add_owner(parser, reading=True)


def run(args: argparse.Namespace) -> int:
    owner, filters = owner_of(args), _filters(args)
    with connection.connect(args) as client:
        reminders = client.reminders(
            args.session, status=args.status, order=args.order, owner_uid=owner, **filters
        )
        if args.json:
            for reminder in reminders:
                output.say(output.json_line(reminder))
        elif shown := list(reminders):
            _show(shown, all_owners=args.all_owners)
        else:
            output.note("there is no such reminder" if filters else _nothing(args, client, owner))
    return exits.DONE


def _filters(args: argparse.Namespace) -> dict[str, Any]:
    """What was asked for beside Session and status, as keywords of Client. Raises MisuseError."""
    if args.tz is not None and args.due_before is None:
        raise MisuseError("--tz goes with --due-before")
    filters = {"state": args.state, "kind": args.kind, "text": args.text}
    if args.due_before is not None:
        from scheduler_daemon.cli.when import instant_of  # only for this

        filters["due_before"] = instant_of("--due-before", args.due_before, args.tz)
    return {name: value for name, value in filters.items() if value is not None}


def _nothing(args: argparse.Namespace, client: Client, owner: Any) -> str:
    """What an empty list means: that nothing is active does not say that nothing was made."""
    if args.status in (None, "active"):
        page = client.list(args.session, status="all", limit=1, owner_uid=owner)
        if page["items"] or "next_cursor" in page:
            given = [] if args.session is None else ["--session", args.session]
            given += [] if args.owner is None else ["--owner", args.owner]
            given += ["--all-owners"] if args.all_owners else []
            from shlex import join  # only for the hint

            command = join(["schedctl", "list", "--status", "all", *given])
            return f"there is no active reminder; `{command}` shows ended ones"
    filtered = (args.session, args.status, args.owner) != (None, None, None)
    what = "such reminder" if filtered else "reminder yet"
    return f"there is no {what}; `schedctl create --help` shows how to make one"


def _show(reminders: list[Reminder], *, all_owners: bool) -> None:
    now, zone, width = wall.now(), clock_name(), output.terminal_width()
    headers = ["ID", "COMES", "AT", "SESSION", "RULE", "WORDS"]
    rows = [_row(reminder, now, zone) for reminder in reminders]
    if all_owners:
        headers.insert(1, "OWNER")
        for row, reminder in zip(rows, reminders, strict=True):
            row.insert(1, str(reminder["owner_uid"]))
    if width is not None and width < _WIDE:
        at = headers.index("AT")
        for line in (headers, *rows):
            del line[at]
    output.show_table(headers, rows, firm=len(headers) - 3)


def _row(reminder: Reminder, now: dt.datetime, zone: str | None) -> list[str]:
    at = times.moment(reminder["scheduled_at"], None, zone)
    words = [reminder["title"]] if "title" in reminder else []
    cells = [
        reminder["id"],
        _comes(reminder, at, now),
        times.clock(at),
        reminder["session_id"],
        reminder["rule_text"],
        ": ".join([*words, reminder["prompt"]]),
    ]
    return [output.safe(cell) for cell in cells]


def _comes(reminder: Reminder, at: times.Moment, now: dt.datetime) -> str:
    if reminder["state"] != "scheduled":
        return reminder["state"]
    return "not again" if is_past_its_end(reminder) else times.relative(at.local, now)
