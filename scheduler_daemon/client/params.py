"""What both clients do alike: params out of keyword arguments, and the words of a lost call."""

from __future__ import annotations

TIMEOUT = 30.0
"""How long a client waits for the daemon, in seconds, where nothing else is said."""

MAX_ANSWER_BYTES = 64 << 20
"""The longest answer a client takes: a daemon may be set to longer frames than 1 MiB."""

CLOSED = "the daemon closed the connection before it answered"
ENDED = "the daemon closed the connection"
SILENT = "the daemon did not answer in time"
FOREIGN = "what answers on the socket does not speak this protocol"
FULL = "the daemon takes no further connection: its queue is full"

_READING = frozenset(
    (
        *("hello", "reminder.get", "reminder.list", "reminder.preview", "reminder.history"),
        *("session.list", "daemon.status", "daemon.watch"),
    )
)


def unanswered(words: str, method: str) -> str:
    """`words` on a call of `method` that got no answer; what only reads has no effect to doubt."""
    if method in _READING:
        return words
    return f"{words}; whether the call took effect is unknown, listing tells"


def given(**members: object) -> dict[str, object]:
    """The members that are not None: what is optional is left out, never null."""
    return {name: value for name, value in members.items() if value is not None}


def changed(**members: object) -> dict[str, object]:
    """The members that are not `...`: here None is a value, which clears what was."""
    return {name: value for name, value in members.items() if value is not ...}


def check_timeout(timeout: float | None) -> float | None:
    """`timeout`, seconds above 0 or None for ever. Raises ValueError."""
    if timeout is not None and not timeout > 0:
        raise ValueError("timeout is a number of seconds above 0, or None to wait for ever")
    return timeout
