"""The closed set of refusals. Every code that a caller can meet stands here, and nothing else.

Messages are written for whoever has to correct the call, often a language model: they say what
would be accepted. They carry no backend exception text and no path.
"""

from __future__ import annotations

# Here and wherever the command line goes: a type checker takes this name for the one of `typing`,
# and nobody else pays for that module, whose import takes as long as a tenth of `schedctl list`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class SchedulerError(Exception):
    """A refusal or failure with a stable `code`; raised in one of the subclasses below.

    `message` says what is wrong and what would be accepted. `field` is the dotted name of the
    member at fault (`daily.time_zone`), None where no single one is. `data` holds what the wire
    carries beside them, such as `now` with `not_future`.
    """

    code: ClassVar[str]

    def __init__(self, message: str, *, field: str | None = None, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.data = data


class InvalidRequest(SchedulerError):
    """Not a request, an unknown or missing member, or a wrong type outside selector and words."""

    code = "invalid_request"


class InvalidPrompt(SchedulerError):
    """The prompt or title is missing, empty, too long or holds what cannot be kept."""

    code = "invalid_prompt"


class InvalidSelector(SchedulerError):
    """No selector, or more than one."""

    code = "invalid_selector"


class InvalidRule(SchedulerError):
    """Something inside a selector is not in the accepted form."""

    code = "invalid_rule"


class InvalidTimeZone(SchedulerError):
    """Not `UTC` and not an IANA `Area/Location` name that the zone database holds."""

    code = "invalid_time_zone"


class NotFuture(SchedulerError):
    """The target is not strictly in the future; `data["now"]` is the current canonical instant."""

    code = "not_future"


class TimeOutOfRange(SchedulerError):
    """The target lies outside years 0001..9999 UTC, the rule never matches, or its end is over."""

    code = "time_out_of_range"


class FrequencyTooHigh(SchedulerError):
    """A recurring rule with occurrences closer than five minutes."""

    code = "frequency_too_high"


class IdempotencyConflict(SchedulerError):
    """The idempotency key was used before with another body."""

    code = "idempotency_conflict"


class ReminderNotFound(SchedulerError):
    """No reminder of this owner (and Session) has this id."""

    code = "reminder_not_found"


class ReminderConflict(SchedulerError):
    """The revision given is not the current one; `data["reminder"]` is the current reminder."""

    code = "reminder_conflict"


class ReminderEnded(SchedulerError):
    """An ended reminder cannot be changed, paused, skipped or run; it can be snoozed."""

    code = "reminder_ended"


class LimitReached(SchedulerError):
    """As many reminders, runs by hand, watches or names as may be kept."""

    code = "limit_reached"


class PermissionDenied(SchedulerError):
    """The peer may not do this."""

    code = "permission_denied"


class PersistenceFailed(SchedulerError):
    """Nothing was stored."""

    code = "persistence_failed"


class PersistenceUncertain(SchedulerError):
    """It is not known whether it was stored; listing tells."""

    code = "persistence_uncertain"


class Overloaded(SchedulerError):
    """Too many requests wait on this connection, or too many connections are open."""

    code = "overloaded"


class InternalError(SchedulerError):
    """A defect of the daemon; its log has the traceback."""

    code = "internal_error"


ERRORS: dict[str, type[SchedulerError]] = {
    cls.code: cls
    for cls in (
        InvalidRequest,
        InvalidPrompt,
        InvalidSelector,
        InvalidRule,
        InvalidTimeZone,
        NotFuture,
        TimeOutOfRange,
        FrequencyTooHigh,
        IdempotencyConflict,
        ReminderNotFound,
        ReminderConflict,
        ReminderEnded,
        LimitReached,
        PermissionDenied,
        PersistenceFailed,
        PersistenceUncertain,
        Overloaded,
        InternalError,
    )
}
"""Every code and its exception, in the order of the specification."""
