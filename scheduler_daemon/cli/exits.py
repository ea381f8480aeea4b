"""How a command ends: its exit status, and what to do next after a refusal."""

from __future__ import annotations

from scheduler_daemon.errors import SchedulerError

DONE = 0
FAILED = 1
MISUSED = 2
UNREACHABLE = 3
NOT_FOUND = 4
REFUSED = 5
CONFIGURATION = 6
INTERRUPTED = 130
"""128 + SIGINT, as a shell reports it."""
BROKEN_PIPE = 141
"""128 + SIGPIPE: whoever read our output has read enough."""


class MisuseError(Exception):
    """What was typed cannot be turned into a request; the message says what can."""


class FailedError(Exception):
    """The command failed, and no error code of the daemon says so; the message does."""


_STATUS = {
    "reminder_not_found": NOT_FOUND,
    "invalid_request": REFUSED,
    "invalid_prompt": REFUSED,
    "invalid_selector": REFUSED,
    "invalid_rule": REFUSED,
    "invalid_time_zone": REFUSED,
    "not_future": REFUSED,
    "time_out_of_range": REFUSED,
    "frequency_too_high": REFUSED,
    "limit_reached": REFUSED,
    "permission_denied": REFUSED,
}

# The messages of the other codes say themselves what would be accepted.
_NEXT = {
    "reminder_not_found": "`schedctl list --status all` shows what there is",
    "reminder_conflict": "look at it with `schedctl show ID`, then run this again",
    "reminder_ended": "make a new one with `schedctl create`",
    "limit_reached": "`schedctl list` shows what could be deleted",
    "persistence_failed": "nothing was stored: free some disk space, or try again later",
    "persistence_uncertain": "`schedctl list` tells whether it was stored",
    "overloaded": "try again in a moment",
    "internal_error": "the log of the daemon says more",
}


def status_of(error: SchedulerError) -> int:
    """The exit status for a refusal; what is neither a miss nor a refusal by a rule is FAILED."""
    return _STATUS.get(error.code, FAILED)


def explain(error: SchedulerError) -> str:
    """One line for a refusal: what is wrong, its code, and what to do next."""
    field = f" [{error.field}]" if error.field else ""
    hint = _NEXT.get(error.code, "")
    message = error.message.removesuffix(".")
    return f"{message} ({error.code}{field})" + (f"; {hint}" if hint else "")
