"""The question before what cannot be undone."""

from __future__ import annotations

import sys

from scheduler_daemon.cli.exits import FailedError, MisuseError
from scheduler_daemon.cli.output import safe
from scheduler_daemon.cli.parser import Parser


def add_yes(parser: Parser) -> None:
    """The answer that was given before the question."""
    parser.add_argument(
        "--yes", action="store_true", help="do not ask; needed where no terminal can be asked"
    )


def can_ask() -> bool:
    """Whether somebody sits at a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def agree(what: str, *, yes: bool) -> None:
    """Return when whoever sits at the terminal agrees to `what`, or has with `--yes`.

    Raises FailedError when the answer is no, MisuseError where there is nobody to ask.
    """
    if yes:
        return
    question = safe(what)
    if not can_ask():
        raise MisuseError(f"{question}? There is no terminal to ask on: add --yes if you mean it")
    print(f"{question}? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.buffer.readline()
    if not answer.endswith(b"\n"):
        print(file=sys.stderr)  # ctrl-D leaves the cursor behind the question
    if answer.strip().lower() not in (b"y", b"yes"):
        raise FailedError("nothing was changed")
