"""`schedctl history`: what was delivered, newest first; one page of it."""

from __future__ import annotations

import argparse

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, exits, output, sentences, times
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of, whole

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from scheduler_daemon.wire.shapes import Dispatch

USAGE = "{ID | --session NAME} [options]"
ABOUT = "Show what was delivered, skipped or missed, newest first, a page at a time."
EXAMPLES = """\
  schedctl history r7
  schedctl history --session s1 --limit 10
  schedctl history --session s1 --json"""


def options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", help="only this reminder, such as r7")
    parser.add_argument(
        "--session", metavar="NAME", help="this Session, its deleted reminders included"
    )
    parser.add_argument(
        "--limit",
        type=whole(1, 1000),
        metavar="N",
        help="at most this many, 1 to 1000 (default 100)",
    )
    parser.add_argument("--cursor", metavar="TEXT", help="go on where the last page ended")
    add_owner(parser, reading=True)


def run(args: argparse.Namespace) -> int:
    if args.id is None and args.session is None:
        raise MisuseError("say whose history: an ID or --session NAME")
    owner = owner_of(args)
    with connection.connect(args) as client:
        page = client.history(
            args.id,
            session_id=args.session,
            limit=args.limit,
            cursor=args.cursor,
            owner_uid=owner,
        )
    if args.json:
        output.say(output.json_line(page))
        return exits.DONE
    _show(page["items"])
    if "next_cursor" in page:
        output.note(f"there is more: add --cursor {page['next_cursor']}")
    return exits.DONE


def _show(dispatches: list[Dispatch]) -> None:
    if not dispatches:
        output.note("nothing has been delivered yet; `schedctl show ID` says why")
        return
    now, zone = wall.now(), clock_name()
    rows = []
    for dispatch in dispatches:
        due = times.moment(dispatch["occurrence_at"], None, zone)
        taken = times.moment(dispatch["admitted_at"], None, zone)
        cells = [
            dispatch["reminder_id"],
            times.clock(due),
            times.relative(taken.local, now, short=True),
            dispatch["outcome"],
            dispatch.get("host", ""),
            sentences.words(dispatch),
        ]
        rows.append([output.safe(cell) for cell in cells])
    output.show_table(["ID", "DUE", "TAKEN", "OUTCOME", "HOST", "WORDS"], rows, firm=4)
