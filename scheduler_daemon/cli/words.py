"""What a reminder says, as it comes from a person: its prompt, and strings for its host."""

from __future__ import annotations

import argparse
import sys

from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.parser import Parser
from scheduler_daemon.wire.frames import MAX_FRAME_BYTES


def prompt_of(argument: str) -> str:
    """The prompt itself, or all of stdin where it is `-`. Raises MisuseError.

    stdin is UTF-8 and nothing else, whatever the locale. Reading stops where no frame could hold
    it any more, so that an endless pipe is refused rather than waited for.
    """
    if argument != "-":
        return argument
    if sys.stdin is None:
        raise MisuseError("- reads the prompt from stdin, and stdin is closed")
    try:
        data = sys.stdin.buffer.read(MAX_FRAME_BYTES + 1)
    except OSError as error:
        raise MisuseError(f"- reads the prompt from stdin: {error.strerror}") from None
    if len(data) > MAX_FRAME_BYTES:
        raise MisuseError("the prompt on stdin is longer than a message can be")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MisuseError(f"the prompt on stdin is not UTF-8 (byte {error.start + 1})") from None


def add_context(parser: Parser) -> None:
    """Strings of the caller's own, for its agent host."""
    parser.add_argument(
        "--context",
        action="append",
        metavar="KEY=VALUE",
        help="kept and handed back to the agent host, not read; may be repeated",
    )


def context_of(args: argparse.Namespace) -> dict[str, str] | None:
    """The context that was typed, None where none was. Raises MisuseError."""
    if args.context is None:
        return None
    context: dict[str, str] = {}
    for item in args.context:
        key, equals, value = item.partition("=")
        if not equals:
            raise MisuseError(f"--context takes KEY=VALUE, not {item!r}")
        if key in context:
            raise MisuseError(f"--context has {key!r} twice")
        context[key] = value
    return context
