"""What tools answer, as models: their fields are what a model is shown of a reminder."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from scheduler_daemon.rules import instant_text, local_text, parse_instant_text

SHOWN_CHARACTERS = 300
"""Of a prompt in a list: a page of whole ones could fill a model's context."""

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Shown(BaseModel):
    """What the daemon says beyond these fields is passed over; what is None is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Now(Shown):
    utc: str
    local: Annotated[str, Field(description="The same on the clock of time_zone (RFC 9557)")]
    weekday: Annotated[str, Field(description="That of local")]
    time_zone: Annotated[str, Field(description="Assumed for what the person says without a zone")]


class Dispatch(Shown):
    occurrence_at: str
    outcome: Annotated[
        str, Field(description="admitted: it was delivered; skipped; missed: it was too late")
    ]
    admitted_at: str
    host: Annotated[str, Field(description='Which agent host took it; "" for none')]


class WaitingFor(Shown):
    why: Annotated[
        str,
        Field(
            description="target: it is not due yet; no_host: due, and nobody takes this "
            "conversation now, it comes when somebody does; host_gone: no host knows this "
            "conversation; busy, no_answer, refused: how the last attempt ended, it is tried "
            "again; in_flight: on its way; behind: an earlier one goes first; paused; ended"
        ),
    ]
    attempts: int | None = None
    last_error: str | None = None
    next_try_at: str | None = None
    last_host_seen_at: str | None = None


class Reminder(Shown):
    id: str
    title: str | None = None
    prompt: str
    prompt_is_cut: Annotated[
        bool | None, Field(description="There is more of it; reminder_list with its id shows all")
    ] = None
    when: Annotated[dict[str, Any], Field(description="As it would be given again")]
    rule_text: str
    state: Annotated[str, Field(description="scheduled, overdue, paused or ended")]
    scheduled_at: Annotated[str, Field(description="When it comes next; UTC")]
    scheduled_at_local: Annotated[
        str, Field(description="The same on the clock of its rule, else of the assumed zone")
    ]
    until: str | None = None
    max_occurrences: int | None = None
    dispatch_count: int | None = None
    expires_after_seconds: int | None = None
    snoozed_from: str | None = None
    revision: int
    created_at: str
    ended_at: str | None = None
    ended_reason: str | None = None
    last_dispatch: Annotated[
        Dispatch | None, Field(description="The newest delivery; not there when it never came")
    ] = None
    waiting_for: Annotated[WaitingFor, Field(description="Why it has not come yet")]


class Result(Shown):
    now: Now


class Made(Result):
    reminder: Reminder
    created: Annotated[
        bool,
        Field(description="false: an equal call before, whose outcome nobody knew, had made it"),
    ]


class Changed(Result):
    reminder: Reminder
    updated: Annotated[bool, Field(description="false: it was so already")]
    dropped_occurrence: Annotated[
        str | None, Field(description="Was overdue, and does not come any more")
    ] = None


class OneReminder(Result):
    reminder: Reminder


class Deleted(Result):
    id: str
    deleted: bool


class Listed(Result):
    reminders: list[Reminder]
    next_cursor: Annotated[
        str | None, Field(description="There are more: give it as `cursor` for those")
    ] = None


class Time(Shown):
    at: str
    local: Annotated[str, Field(description="On the clock of the rule, else of the assumed zone")]


class Previewed(Result):
    rule_text: str
    items: list[Time]


def now_in(now: dt.datetime, zone: str) -> Now:
    """The current time as every result has it; on the clock of `zone` to the second."""
    utc = instant_text(now)
    clock = local(utc, zone)
    weekday = _WEEKDAYS[dt.date.fromisoformat(clock[:10]).weekday()]
    return Now(utc=utc, local=clock, weekday=weekday, time_zone=zone)


def reminder_of(wire: Mapping[str, Any], zone: str, *, whole: bool = True) -> Reminder:
    """A reminder of the daemon's, with its time on the clock of `zone` where its rule has none."""
    members = {
        **wire,
        "when": wire["rule"],
        "scheduled_at_local": wire.get("scheduled_at_local") or local(wire["scheduled_at"], zone),
    }
    if not whole and len(wire["prompt"]) > SHOWN_CHARACTERS:
        members |= {"prompt": wire["prompt"][:SHOWN_CHARACTERS] + "…", "prompt_is_cut": True}
    return Reminder.model_validate(members)


def local(utc: str, zone: str) -> str:
    """A canonical instant on the clock of `zone`, to the second."""
    return local_text(parse_instant_text(utc).replace(microsecond=0), zone)
