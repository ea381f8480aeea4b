"""`schedctl list`: reminders, one a line; all pages of them."""

from __future__ import annotations

import argparse
import datetime as dt

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, exits, output, sentences, times
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, add_owner, add_wide, owner_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from typing import Any

    from scheduler_daemon.client import Client
    from scheduler_daemon.wire.shapes import Reminder

USAGE = "[options]"
ABOUT = """\
Show reminders, one a line: active ones in the order they were made, unless said
otherwise.

COMES is how far away its next time is, AT that time on the clock of its rule,
else of this machine. A terminal narrower than 100 columns has no AT. Lines are
cut to the width of the terminal and whole where none reads them. Overdue ones
are red on a terminal, unless NO_COLOR is set."""
EXAMPLES = """\
  schedctl list
  schedctl list --session s1 --order target
  schedctl list --state overdue --wide
  schedctl list --kind daily --text build
  schedctl list --due-before "2026-12-24 18:00" --tz Europe/Berlin
  schedctl list --status all --json | grep '"kind": "cron"'"""


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
    add_wide(parser)
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
            _show(shown, wide=args.wide, all_owners=args.all_owners)
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


def _show(reminders: list[Reminder], *, wide: bool, all_owners: bool) -> None:
    now, zone = wall.now(), clock_name()
    width = None if wide else output.terminal_width()
    headers = _headers(width, wide=wide, all_owners=all_owners)
    cells = [_cells(reminder, now, zone) for reminder in reminders]
    rows = [[output.safe(row[header]) for header in headers] for row in cells]
    head, *lines = output.table(headers, rows, width, firm=headers.index("SESSION"))
    output.say(head)
    colours = output.colours()
    for line, reminder in zip(lines, reminders, strict=True):
        output.say(output.red(line) if colours and reminder["state"] == "overdue" else line)


def _headers(width: int | None, *, wide: bool, all_owners: bool) -> list[str]:
    return [
        "ID",
        *(["OWNER"] if all_owners else []),
        "COMES",
        *(["AT"] if width is None or width >= output.ROOMY else []),
        "SESSION",
        "RULE",
        *(["WAITS FOR"] if wide else []),
        "WORDS",
    ]


def _cells(reminder: Reminder, now: dt.datetime, zone: str | None) -> dict[str, str]:
    """What stands below each header; not made safe yet."""
    at = times.moment(reminder["scheduled_at"], reminder.get("scheduled_at_local"), zone)
    return {
        "ID": reminder["id"],
        "OWNER": str(reminder["owner_uid"]),
        "COMES": sentences.comes(reminder, now),
        "AT": times.clock(at),
        "SESSION": reminder["session_id"],
        "RULE": reminder["rule_text"],
        "WAITS FOR": sentences.waiting(reminder["waiting_for"], now),
        "WORDS": sentences.words(reminder),
    }
