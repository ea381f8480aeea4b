"""How one push to a host may end, and what a host's answer means; what follows is not here."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from scheduler_daemon.wire import messages
from scheduler_daemon.words import name as checked_name


class Admitted(NamedTuple):
    """The host has the message durably; `message_id` is its own name for it."""

    message_id: str | None


class Busy(NamedTuple):
    """Not now; `retry_after_seconds` is None where the host did not say when."""

    retry_after_seconds: int | None


class Gone(NamedTuple):
    """The host does not know the Session."""


class Refused(NamedTuple):
    """An error answer, or one that is not of the protocol; `reason` is for people."""

    reason: str


class Silent(NamedTuple):
    """No answer within the time-out."""


class Closed(NamedTuple):
    """The connection ended before the answer."""


Outcome: TypeAlias = Admitted | Busy | Gone | Refused | Silent | Closed


def outcome_of(value: object) -> Outcome:
    """What a host's result means. Unknown members are ignored, a strange one is a refusal."""
    answer = value if isinstance(value, dict) else {}
    match answer.get("status"):
        case "admitted":
            # The message is in its queue, whatever it is called there: a name that cannot be
            # kept must not undo the admission.
            return Admitted(_kept_name(answer.get("message_id")))
        case "busy":
            retry = answer.get("retry_after_seconds")
            if isinstance(retry, bool) or not isinstance(retry, int):
                return Busy(None)
            return Busy(min(max(retry, 1), 300))
        case "gone":
            return Gone()
    return Refused('the host must answer {"status": "admitted"}, "busy" or "gone"')


def refusal_of(error: object) -> Refused:
    """What a host's error answer means."""
    text = messages.error_from(error).message
    return Refused("the host answered with an error: " + text[:200])


def _kept_name(message_id: object) -> str | None:
    try:
        return checked_name(message_id) if isinstance(message_id, str) else None
    except ValueError:
        return None
