"""What is said of a reminder that was just made, or that its key has made before."""

from __future__ import annotations

import argparse

from scheduler_daemon import wall
from scheduler_daemon.cli import output, sentences
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser
from scheduler_daemon.cli.when import typed_clock

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from scheduler_daemon.wire.calls import Created, Snoozed


def add_key(parser: Parser, text: str) -> None:
    """The name of one call; `text` says what is done once under it."""
    parser.add_argument("--idempotency-key", metavar="KEY", help=text)


def sentence(args: argparse.Namespace, result: Created | Snoozed) -> str:
    """When it will come, on the clock that was typed. It may be printed."""
    reminder = result.get("reminder")
    if reminder is None:
        key_of = output.safe(result["id"])
        return f"nothing was made: this key made {key_of}, which has been deleted since"
    clock = typed_clock(args, reminder["scheduled_at"])
    coming = sentences.coming(reminder, wall.now(), clock_name(), clock)
    return coming if result["created"] else f"nothing new was made: {coming}"
