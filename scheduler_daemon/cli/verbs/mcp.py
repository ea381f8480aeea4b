"""`schedctl mcp`: reminders as tools of an agent. The SDK is imported when it serves."""

from __future__ import annotations

import argparse
import os
import sys

from scheduler_daemon.cli import exits, extras, output
from scheduler_daemon.cli.exits import FailedError, MisuseError
from scheduler_daemon.cli.parser import Parser, variable
from scheduler_daemon.cli.when import machine_zone
from scheduler_daemon.errors import SchedulerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduler_daemon.mcp.session import Sources

USAGE = "[options]"
ABOUT = """\
Serve reminders as tools of an agent, over the Model Context Protocol on stdin
and stdout. Agents start it themselves; `schedctl setup` writes the entry.
A reminder is made in the Session that the agent names, and no other can be
reached: in the `_meta` of a call, or as the options say. Those that name one
must agree, and where none does nothing is made. Needs the package mcp."""
EXAMPLES = """\
  schedctl mcp
  schedctl mcp --agent claude --session-from-argument
  schedctl mcp --session my-chat --assume-zone Europe/Berlin"""


def options(parser: Parser) -> None:
    group = parser.add_argument_group("SESSION")
    group.add_argument(
        "--session-from-argument",
        action="store_true",
        help="the argument `session` of a call, which a hook or plugin always overwrites",
    )
    group.add_argument(
        "--session-proof",
        metavar="FILE",
        help="believe that argument only with the proof that the hook or plugin gives with the "
        "key in this file (setup writes both)",
    )
    group.add_argument(
        "--session-from-env",
        type=variable,
        metavar="VARIABLE",
        help="what an environment variable of the agent says at the start",
    )
    group.add_argument("--session", type=_name, metavar="NAME", help="one Session for every call")
    parser.add_argument(
        "--agent",
        type=_name,
        metavar="NAME",
        help="the kind of agent, for hosts: claude, codex (default what the client calls itself)",
    )
    parser.add_argument(
        "--assume-zone",
        type=_zone,
        metavar="ZONE",
        help="what a time without a zone is to mean (default the machine's zone); "
        "told to the model, and stored nowhere",
    )
    parser.add_argument(
        "--claude-hook",
        action="store_true",
        help="be the PreToolUse hook of Claude Code instead, which overwrites `session`",
    )


def _name(text: str) -> str:
    from scheduler_daemon.mcp.session import checked  # only where one is named

    try:
        return checked(text)
    except SchedulerError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def _zone(text: str) -> str:
    from scheduler_daemon.rules import canonical_zone  # only where one is named

    try:
        return canonical_zone(text)
    except SchedulerError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def run(args: argparse.Namespace) -> int:
    if args.json:
        raise MisuseError("what it says is JSON already, of its protocol: leave --json away")
    if sys.stdin is None or sys.stdout is None:
        raise FailedError("stdin or stdout is closed: there is no agent to serve")
    if args.claude_hook:
        return _hook(args)
    if args.session_proof is not None and not args.session_from_argument:
        raise MisuseError("--session-proof is for --session-from-argument and --claude-hook")
    extras.need("mcp_types", "mcp", "mcp")
    if sys.stdin.isatty():
        output.note("this waits for an agent that speaks the Model Context Protocol on stdin")
    _prepare()
    from scheduler_daemon.mcp.calling import Setup  # only here: it needs what may be missing
    from scheduler_daemon.mcp.server import serve

    setup = Setup(_sources(args), _zone_now(args), agent=args.agent, directory=_directory())
    serve(setup, args.socket)
    return exits.DONE


def _key(args: argparse.Namespace) -> bytes | None:
    """The key by which hook and server know each other. Raises FailedError."""
    if args.session_proof is None:
        return None
    from pathlib import Path

    from scheduler_daemon.mcp.proof import read_key

    try:
        return read_key(Path(args.session_proof))
    except (OSError, ValueError):
        raise FailedError(
            f"there is no key in {args.session_proof}, so no conversation can be told from "
            "another: run `schedctl setup` for this agent again"
        ) from None


def _hook(args: argparse.Namespace) -> int:
    from scheduler_daemon.cli.setup.claude_hook import answer

    try:
        said = answer(sys.stdin.buffer.read(), os.environ, _key(args))
    except ValueError as error:
        raise FailedError(f"no Session can be written into this call: {error}") from None
    output.say(said)
    return exits.DONE


def _prepare() -> None:
    """Log on stderr, and end at ctrl-C: the SDK's reader of stdin cannot be interrupted."""
    import logging
    import signal

    logging.basicConfig(format="schedctl: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _sources(args: argparse.Namespace) -> Sources:
    from scheduler_daemon.mcp.session import Sources

    variable = args.session_from_env
    if variable is not None and not os.environ.get(variable):
        output.note(f"warning: {variable} is not set, so it names no Session")
        variable = None
    environment = None if variable is None else (variable, os.environ[variable])
    return Sources(args.session_from_argument, environment, args.session, _key(args))


def _zone_now(args: argparse.Namespace) -> Callable[[], str | None]:
    """Of the machine it is asked anew for each call: people travel."""
    return machine_zone if args.assume_zone is None else lambda: args.assume_zone


def _directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109
    except OSError:
        return None  # it was removed
