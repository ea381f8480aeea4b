"""`schedctl show`: one reminder in full, and in a sentence why it has not come yet."""

from __future__ import annotations

import argparse

from scheduler_daemon import wall
from scheduler_daemon.cli import connection, exits, output, sentences, times
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from scheduler_daemon.wire.shapes import Reminder

USAGE = "ID [options]"
ABOUT = """\
Show one reminder in full: why it has not come yet, and which host took it
last."""
EXAMPLES = """\
  schedctl show r7
  schedctl show r7 --json"""


def options(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the reminder, such as r7")
    add_owner(parser, reading=True)


def run(args: argparse.Namespace) -> int:
    owner = owner_of(args)
    with connection.connect(args) as client:
        result = client.get(args.id, owner_uid=owner)
    if args.json:
        output.say(output.json_line(result))
    else:
        _show(result["reminder"])
    return exits.DONE


def _show(reminder: Reminder) -> None:
    now, zone = wall.now(), clock_name()
    output.say(output.safe(f"{reminder['id']}: {reminder['rule_text']}"))
    output.say(sentences.why(reminder, now, zone))
    if "last_dispatch" in reminder:
        output.say(sentences.taken(reminder["last_dispatch"], now, zone))
    output.say("")
    created = times.moment(reminder["created_at"], None, zone)
    facts = {
        "Session": reminder["session_id"],
        "state": reminder["state"],
        "target": reminder.get("scheduled_at_local", reminder["scheduled_at"]),
        "made": f"{times.clock(created)}, {times.relative(created.local, now)}",
        "owner": f"uid {reminder['owner_uid']}",
        **sentences.ends(reminder, now, zone),
        **({"by hand": f"{reminder['runs']} still to come"} if "runs" in reminder else {}),
        "revision": str(reminder["revision"]),
        **{f"context {key}": value for key, value in reminder.get("context", {}).items()},
        **({"title": reminder["title"]} if "title" in reminder else {}),
    }
    for name, value in facts.items():
        output.say(output.safe(f"{name + ':':<10} {value}"))
    output.say("prompt:")
    for line in output.safe_lines(reminder["prompt"]):
        output.say(f"  {line}".rstrip())
