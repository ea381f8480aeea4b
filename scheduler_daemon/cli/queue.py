"""The queue of `schedctl host-exec`: where it is, and how its messages are shown."""

from __future__ import annotations

import argparse
import os
from contextlib import contextmanager

from scheduler_daemon import wall
from scheduler_daemon.cli import output, times
from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from scheduler_daemon.client.spool import Message, Spool


def add_spool(parser: Parser) -> None:
    """Which queue is meant, where it is not the usual one."""
    from scheduler_daemon.places import HOST_QUEUE_NAME  # only here: pwd comes with it

    parser.add_argument(
        "--spool", metavar="PATH", help=f"the queue's file; {HOST_QUEUE_NAME} in the state folder"
    )


def path_of(args: argparse.Namespace) -> Path:
    """The file of the queue, there or not. Raises FailedError."""
    from pathlib import Path

    return usual_path() if args.spool is None else Path(args.spool).absolute()


def usual_path() -> Path:
    """The file where nobody named another. Raises FailedError."""
    from scheduler_daemon import places  # as above

    state = places.state_directory(os.environ, places.home_directory(os.environ, os.getuid()))
    if state is None:
        raise FailedError("neither a variable nor a home says where the queue is: add --spool PATH")
    return state.path / places.HOST_QUEUE_NAME


@contextmanager
def opened(path: Path) -> Iterator[Spool]:
    """The queue, made where there is none. Raises FailedError."""
    import sqlite3  # only for this

    from scheduler_daemon.client.spool import Spool, SpoolRefused

    try:
        spool = Spool(path)
        try:
            yield spool
        finally:
            spool.close()
    except SpoolRefused as error:
        raise FailedError(str(error)) from None
    except sqlite3.Error as error:
        raise FailedError(f"the queue {path}: {error}") from None


def view(message: Message) -> dict[str, object]:
    """A message as JSON shows it: what is not known is left out."""
    members = {
        "number": message.number,
        "session_id": message.session_id,
        "state": message.state,
        "waits": message.waits,
        "not_before": message.not_before,
        "attempts": message.attempts,
        "reason": message.reason,
        "admitted_at": message.admitted_at,
        "changed_at": message.changed_at,
        "followup": message.followup,
    }
    return {name: value for name, value in members.items() if value is not None}


def show(messages: Iterable[Message]) -> bool:
    """A table of them on stdout; False where there are none."""
    now = wall.now()
    rows = [[output.safe(cell) for cell in _row(message, now)] for message in messages]
    if rows:
        headers = ["NUMBER", "STATE", "SINCE", "ATTEMPTS", "SESSION", "REMINDERS", "WHY"]
        output.show_table(headers, rows, firm=4)
    return bool(rows)


def _row(message: Message, now: dt.datetime) -> list[str]:
    reminders = [each["reminder_id"] for each in message.followup["occurrences"]]
    return [
        str(message.number),
        message.state,
        times.relative(times.instant(message.changed_at), now),
        str(message.attempts),
        message.session_id,
        " ".join(dict.fromkeys(reminders)),
        _why(message, now),
    ]


def _why(message: Message, now: dt.datetime) -> str:
    if message.not_before is None:
        return message.reason or ""
    again = times.relative(times.instant(message.not_before), now)
    return f"{message.reason}; again {again}"
