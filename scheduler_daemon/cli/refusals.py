"""What a refusal of the daemon means to a person: an exit status, and what to do next."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import exits
from scheduler_daemon.errors import ReminderNotFound, SchedulerError

_STATUS = {
    "reminder_not_found": exits.NOT_FOUND,
    "invalid_request": exits.REFUSED,
    "invalid_prompt": exits.REFUSED,
    "invalid_selector": exits.REFUSED,
    "invalid_rule": exits.REFUSED,
    "invalid_time_zone": exits.REFUSED,
    "not_future": exits.REFUSED,
    "time_out_of_range": exits.REFUSED,
    "frequency_too_high": exits.REFUSED,
    "limit_reached": exits.REFUSED,
    "permission_denied": exits.REFUSED,
}

# The messages of the other codes say themselves what would be accepted.
_NEXT = {
    "reminder_conflict": "look at it with `schedctl show ID`, then run this again",
    "limit_reached": "`schedctl list` shows what could be deleted",
    "persistence_failed": "the log of the daemon says why",
    "overloaded": "try again in a moment",
    "internal_error": "the log of the daemon says more",
}


def status_of(error: SchedulerError) -> int:
    """The exit status for a refusal; what is neither a miss nor a refusal by a rule is FAILED."""
    return _STATUS.get(error.code, exits.FAILED)


def not_found(args: argparse.Namespace, error: ReminderNotFound) -> ReminderNotFound:
    """The refusal of a verb that names one reminder: which, whose, and what shows the others.

    One that is there and cannot be read is the daemon's to explain.
    """
    if error.data.get("set_aside"):
        return error
    whose, owner = "you have", ""
    if getattr(args, "all_owners", False):
        whose, owner = "there is", " --all-owners"
    elif args.owner is not None:
        whose, owner = f"{args.owner} has", f" --owner {args.owner}"
    session = getattr(args, "session", None)
    where = "" if session is None else f" in Session {session!r}"
    return ReminderNotFound(
        f"{whose} no reminder {args.id}{where}: `schedctl list --status all{owner}` shows all"
    )


def explain(error: SchedulerError) -> str:
    """One line for a refusal: what is wrong, its code, and what to do next."""
    field = f" [{error.field}]" if error.field else ""
    hint = _NEXT.get(error.code, "")
    message = error.message.removesuffix(".")
    return f"{message} ({error.code}{field})" + (f"; {hint}" if hint else "")
