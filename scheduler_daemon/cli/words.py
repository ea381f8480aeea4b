"""The words of a reminder as they come from a person: an argument, or `-` for stdin."""

from __future__ import annotations

import sys

from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.wire.frames import MAX_FRAME_BYTES


def prompt_of(argument: str) -> str:
    """The prompt itself, or all of stdin where it is `-`. Raises MisuseError.

    stdin is UTF-8 and nothing else, whatever the locale. Reading stops where no frame could hold
    it any more, so that an endless pipe is refused rather than waited for.
    """
    if argument != "-":
        return argument
    data = sys.stdin.buffer.read(MAX_FRAME_BYTES + 1)
    if len(data) > MAX_FRAME_BYTES:
        raise MisuseError("the prompt on stdin is longer than a message can be")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MisuseError(f"the prompt on stdin is not UTF-8 (byte {error.start + 1})") from None
