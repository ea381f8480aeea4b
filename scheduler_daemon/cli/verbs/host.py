"""`schedctl host`: an agent host for trying out; whatever it admits is spent."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from scheduler_daemon.cli import connection, output
from scheduler_daemon.cli.durations import seconds_of
from scheduler_daemon.cli.exits import FailedError, MisuseError
from scheduler_daemon.cli.parser import Parser
from scheduler_daemon.client import Admitted, AgentHost, Busy, DaemonUnreachable, Gone
from scheduler_daemon.errors import InternalError, SchedulerError

if TYPE_CHECKING:  # only a type checker reads the shapes
    from scheduler_daemon.wire.shapes import Followup, HostStatus

USAGE = "{SESSION ... | --all} [options]"
ABOUT = """\
Be an agent host for trying out: take the follow-ups of Sessions and print
each as a line of JSON. What it admits is spent: no other host will get it."""
EXAMPLES = """\
  schedctl host s1 s2
  schedctl host s1 --busy --delay 5
  schedctl host --all --take-over"""

ALL = "*"


def options(parser: Parser) -> None:
    parser.add_argument(
        "sessions", metavar="SESSION", nargs="*", help="the Sessions whose follow-ups it takes"
    )
    parser.add_argument("--all", action="store_true", help="take those of every Session ('*')")
    parser.add_argument(
        "--take-over", action="store_true", help="also Sessions that another host holds now"
    )
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--busy", action="store_true", help="answer that the Session is busy")
    answer.add_argument("--gone", action="store_true", help="answer that it knows no such Session")
    parser.add_argument(
        "--delay",
        type=_delay,
        default=0.0,
        metavar="2s",
        help="wait so long before answering: 0.5s, 90s, 1m30s, at most a day",
    )
    parser.add_argument("--name", default=f"schedctl-{os.getpid()}", help="its name in receipts")


def _delay(text: str) -> float:
    match = re.fullmatch(r"([0-9]{1,5}(?:\.[0-9]{1,3})?)s?", text)
    seconds = float(match[1]) if match else seconds_of(text, "--delay")
    if seconds > 86_400:
        raise argparse.ArgumentTypeError("takes at most a day")
    return seconds


def run(args: argparse.Namespace) -> int:
    sessions = _sessions(args)
    if sys.stdout is None:
        raise FailedError("stdout is closed: nobody would see what this host takes")
    with connection.connect(args) as client:
        hosts = client.status()["hosts"]
    if not args.take_over:
        _refuse_to_take_over(sessions, hosts)
    what = "every Session" if sessions == ALL else f"Session {', '.join(sessions)}"
    output.note(f"taking the follow-ups of {what}; ctrl-C ends it")
    _log_as_notes()
    asyncio.run(_Trial(args).serve(sessions))


def _sessions(args: argparse.Namespace) -> list[str] | str:
    """Names, or `*`, which has to be said twice because it takes what belongs to others."""
    if ALL in args.sessions and not args.all:
        raise MisuseError("'*' takes the follow-ups of every Session: add --all if you mean it")
    if args.all and set(args.sessions) - {ALL}:
        raise MisuseError("name Sessions or give --all, not both")
    if not args.all and not args.sessions:
        raise MisuseError("name the Sessions to take, or give --all")
    if "" in args.sessions or not args.name:
        raise MisuseError("the name of a Session or host has at least one character")
    return ALL if args.all else list(args.sessions)


def _refuse_to_take_over(sessions: list[str] | str, hosts: list[HostStatus]) -> None:
    """Raises FailedError where another host takes what this one would, or where nobody can tell."""
    for host in hosts:
        taken = _overlap(sessions, host)
        if taken is not None:
            raise FailedError(
                f"host {host['name']!r} takes the follow-ups of {taken} now, and what this one "
                "admits would never reach it: stop that host, or add --take-over"
            )
    if len(hosts) >= _LISTED:
        raise FailedError("there are too many hosts to see who holds what: add --take-over")


_LISTED = 100
"""How many hosts, and names of one host, the daemon's status shows."""


def _overlap(sessions: list[str] | str, host: HostStatus) -> str | None:
    """What of `sessions` would go from `host` to this one, in words; None for nothing.

    A name beats `*`, and among equals the latest is first in line (docs/protocol.md). Names are
    listed in order, so what sorts behind the last one shown may be held as well.
    """
    held = host["sessions"]
    if held == ALL:
        return "every Session"
    if sessions == ALL:
        return None
    both = sorted(set(sessions) & set(held))
    if both:
        return f"Session {both[0]!r}"
    if host.get("session_count", 0) > len(held) and max(sessions) > held[-1]:
        return f"more Sessions than can be listed, perhaps of {max(sessions)!r}"
    return None


def _log_as_notes() -> None:
    """What the client library logs (a lost connection, a new one) as lines on stderr."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            output.note(record.getMessage())

    logger = logging.getLogger("scheduler_daemon.client")
    logger.handlers = [Notes()]
    logger.setLevel(logging.INFO)


class _Trial:
    """Prints what comes and answers as it was told to."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._failure: OSError | None = None
        self._failed = asyncio.Event()

    async def serve(self, sessions: list[str] | str) -> NoReturn:
        """Take follow-ups until one cannot be printed. Raises the OSError then."""
        host = AgentHost(self._args.name, sessions, self._deliver, socket=self._args.socket)
        running = asyncio.create_task(host.run())
        failed = asyncio.create_task(self._failed.wait())
        await asyncio.wait((running, failed), return_when=asyncio.FIRST_COMPLETED)
        if self._failure is not None:
            with suppress(DaemonUnreachable, SchedulerError):
                await host.client.hello()  # answered only after the error answer was read
            raise self._failure
        await running  # raises what ended it

    async def _deliver(self, followup: Followup) -> Admitted | Busy | Gone:
        try:
            print(output.json_line(followup), flush=True)
        except OSError as error:
            # Nobody saw it, so the daemon must not hear that it was taken.
            self._failure = error
            self._failed.set()
            raise InternalError("the follow-up could not be printed") from None
        await asyncio.sleep(self._args.delay)
        if self._args.busy:
            return Busy()
        return Gone() if self._args.gone else Admitted()
