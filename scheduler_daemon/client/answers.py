"""What a host answers to a follow-up, and how it says that a queued message was not delivered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from scheduler_daemon.wire.shapes import Followup


@dataclass(frozen=True, slots=True)
class Admitted:
    """The message stands durably in the Session's queue; `message_id` is the host's name for it."""

    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    """The Session cannot take it now; `AgentHost.ready` says when it can again.

    `retry_after_seconds`, 1 to 300, replaces the daemon's own growing pause once.
    """

    retry_after_seconds: int | None = None

    def __post_init__(self) -> None:
        if self.retry_after_seconds is not None and not 1 <= self.retry_after_seconds <= 300:
            raise ValueError("retry_after_seconds is 1 to 300, or None")


@dataclass(frozen=True, slots=True)
class Gone:
    """This host does not know the Session: another host is asked, or the reminder waits.

    From the `deliver` of a host with a queue it ends the message, and `reason` is kept and shown.
    """

    reason: str | None = None


Outcome: TypeAlias = Admitted | Busy | Gone
Deliver: TypeAlias = Callable[[Followup], Awaitable[Outcome | None] | Outcome | None]
Accept: TypeAlias = Callable[[Followup], "list[Followup] | Busy | Gone"]


class NotDelivered(Exception):
    """Raised by the `deliver` of a host with a queue: `reason` is kept and shown.

    Without `again` it is not tried again by itself: the message may have come through.
    """

    def __init__(self, reason: str, *, again: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.again = again
