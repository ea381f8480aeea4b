"""What is said about one reminder: when it comes, why it has not, who took it. Pure.

Everything that came from outside is made safe here; what comes out may be printed.
"""

from __future__ import annotations

import datetime as dt

from scheduler_daemon.cli import times
from scheduler_daemon.cli.output import safe

TYPE_CHECKING = False
if TYPE_CHECKING:  # the classes cost milliseconds to build, and only a type checker reads them
    from scheduler_daemon.wire.shapes import Dispatch, DispatchSummary, Reminder, WaitingFor

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
RECURRING = ("every", "daily", "weekly", "cron")

_ENDED = {
    "delivered": "it was delivered",
    "until": "it has no time left before its end",
    "count": "it came as often as it was meant to",
    "range": "there is no later time in the calendar",
    "missed": "it could not be sent before it expired",
}


def coming(reminder: Reminder, now: dt.datetime, zone: str | None, local: str | None = None) -> str:
    """`r7 will come in 20 minutes, at 14:20 (2026-12-24 14:20:00 Europe/Berlin)`.

    On the clock of its rule, else on that of `local` (RFC 9557) where it was made on one, else on
    the machine's, which is called `zone`. A recurring one says its rule and its end as well.
    """
    who = safe(reminder["id"])
    if reminder["state"] == "ended":
        return f"{who} has ended"
    if reminder["state"] == "paused":
        return f"{who} is paused"
    if is_past_its_end(reminder):
        return f"{who} has no time left before its end, and ends soon"
    local = reminder.get("scheduled_at_local", local)
    at = times.moment(reminder["scheduled_at"], local, zone)
    words = in_words(at, now)
    tense = "will come" if at.local > now else "was due"
    return safe(f"{who} {tense} {words}{_again(reminder, zone)}")


def is_past_its_end(reminder: Reminder) -> bool:
    """Whether its next time lies beyond its end: it will not come.

    The daemon lets it end once it can trust its clock, within ten minutes.
    """
    return "until" in reminder and reminder["scheduled_at"] > reminder["until"]


def _again(reminder: Reminder, zone: str | None) -> str:
    """What comes after the next time, as the rest of a sentence; may be empty."""
    if reminder["kind"] not in RECURRING:
        return ""
    most = reminder.get("max_occurrences")
    if most is not None and most - reminder.get("dispatch_count", 0) == 1:
        return ", once only" if most == 1 else ", for the last time"
    until = ""
    if "until" in reminder:
        until = f", until {times.clock(times.moment(reminder['until'], None, zone))}"
    in_all = "" if most is None else f", {most} times in all"
    return f", and then {reminder['rule_text']}{until}{in_all}"


def comes(reminder: Reminder, now: dt.datetime) -> str:
    """`in 20 min`, `overdue 5 min`, `paused`, `ended 3 d ago`: for one column of a table."""
    if "ended_at" in reminder:
        return f"ended {times.relative(times.instant(reminder['ended_at']), now, short=True)}"
    at = times.instant(reminder["scheduled_at"])
    if reminder["state"] == "overdue":
        return f"overdue {times.span(max((now - at).total_seconds(), 0), short=True)}"
    if reminder["state"] != "scheduled":
        return reminder["state"]
    return "not again" if is_past_its_end(reminder) else times.relative(at, now, short=True)


def why(reminder: Reminder, now: dt.datetime, zone: str | None) -> str:
    """One sentence on why it has not come yet, from `waiting_for`."""
    waiting = reminder["waiting_for"]
    at = times.moment(reminder["scheduled_at"], reminder.get("scheduled_at_local"), zone)
    if waiting["why"] == "target" and is_past_its_end(reminder):
        return "It has no time left before its end, and ends soon."
    if waiting["why"] == "target":
        return safe(f"Its time has not come: {in_words(at, now)}.")
    if waiting["why"] == "ended":
        return safe(_ended(reminder, now, zone))
    if waiting["why"] == "paused":
        return "It is paused, and will not come before it is resumed."
    overdue = times.span(max((now - at.local).total_seconds(), 0))
    reason = _reason(waiting, reminder["session_id"])
    return safe(f"It has been due for {overdue}: {reason}{_attempts(waiting, now)}.")


def ending(reminder: Reminder) -> str:
    """`it was delivered`: what ended it; not made safe yet."""
    reason = reminder.get("ended_reason", "")
    return _ENDED.get(reason, reason or "it has ended")


def words(item: Reminder | Dispatch) -> str:
    """Its title, where it has one, and its prompt; not made safe yet."""
    return ": ".join([*([item["title"]] if "title" in item else []), item["prompt"]])


def _ended(reminder: Reminder, now: dt.datetime, zone: str | None) -> str:
    text = f"It will not come again: {ending(reminder)}"
    ended_at = reminder.get("ended_at")
    if ended_at is None:
        return f"{text}."
    at = times.moment(ended_at, None, zone)
    return f"{text}, {times.relative(at.local, now)} ({times.clock(at)})."


_IN_SHORT = {
    "target": "its time",
    "paused": "nothing, it is paused",
    "no_host": "a host",
    "host_gone": "a host that knows it",
    "busy": "a busy host",
    "no_answer": "a host that is silent",
    "refused": "a host that refuses",
    "in_flight": "its host's answer",
    "behind": "an earlier one",
    "set_aside": "a record that can be read",
    "receipt": "its receipt",
    "ended": "nothing, all have ended",
}


def waiting(waiting: WaitingFor, now: dt.datetime) -> str:
    """What a Session waits for, in short, to be read below such a heading."""
    return safe(_IN_SHORT.get(waiting["why"], waiting["why"]) + _attempts(waiting, now))


def counted(number: int, noun: str) -> str:
    """`1 reminder`, `12 reminders`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def ends(reminder: Reminder, now: dt.datetime, zone: str | None) -> dict[str, str]:
    """What lets it end and where it came from, by name; not made safe yet."""
    facts = {}
    if "until" in reminder:
        until = times.moment(reminder["until"], None, zone)
        facts["until"] = f"{times.clock(until)}, {times.relative(until.local, now)}"
    if "max_occurrences" in reminder:
        most = counted(reminder["max_occurrences"], "time")
        facts["came"] = f"{reminder.get('dispatch_count', 0)} of {most}"
    if "expires_after_seconds" in reminder:
        facts["expires"] = f"when it is {times.span(reminder['expires_after_seconds'])} late"
    if "snoozed_from" in reminder:
        facts["snoozed"] = f"from {reminder['snoozed_from']}"
    return facts


def _reason(waiting: WaitingFor, session: str) -> str:
    reasons = {
        "no_host": f"no host is connected for Session {session!r} (`schedctl status` shows the "
        "hosts; perhaps the Session has another name there)",
        "host_gone": f"every host says that it does not know Session {session!r}",
        "busy": "its host says that the Session is busy",
        "no_answer": "its host did not answer",
        "refused": "its host answered with an error",
        "in_flight": "it has been sent, and its host has not answered yet",
        "behind": "an earlier one of its Session goes first",
        "set_aside": "its record cannot be read and was set aside",
        "receipt": "its host has it, and only the receipt is still to be written",
    }
    return reasons.get(waiting["why"], f"it waits ({waiting['why']})")


def _attempts(waiting: WaitingFor, now: dt.datetime) -> str:
    """What was tried and what comes next, as the rest of a sentence; may be empty."""
    parts = []
    if (attempts := waiting.get("attempts")) is not None:
        parts.append(f"tried {counted(attempts, 'time')}")
    if (next_try_at := waiting.get("next_try_at")) is not None:
        parts.append(f"again {_relative(next_try_at, now)}")
    if (seen := waiting.get("last_host_seen_at")) is not None:
        parts.append(f"a host was last seen {_relative(seen, now)}")
    error = f": {waiting['last_error']!r}" if "last_error" in waiting else ""
    return error + "".join(f", {part}" for part in parts)


def _relative(text: str, now: dt.datetime) -> str:
    return times.relative(times.instant(text), now)


def taken(dispatch: DispatchSummary, now: dt.datetime, zone: str | None) -> str:
    """One sentence on its newest receipt: which host took it and when."""
    at = times.moment(dispatch["admitted_at"], None, zone)
    due = times.moment(dispatch["occurrence_at"], None, zone)
    when = f"{times.relative(at.local, now)} ({times.clock(at)})"
    if dispatch["outcome"] != "admitted":
        return safe(f"The time {times.clock(due)} was {dispatch['outcome']}, {when}.")
    late = (at.local - due.local).total_seconds()
    how_late = f", {times.span(late)} after its time" if late >= 1 else ""
    message = dispatch.get("message_id")
    as_message = f" as message {message!r}" if message is not None else ""
    return safe(f"Host {dispatch['host']!r} took it{as_message} {when}{how_late}.")


def day_and_time(at: times.Moment, now: dt.datetime) -> str:
    """`at 14:20`, `tomorrow at 09:00`, `on Thursday at 09:00`, `on Thursday 24 December at …`.

    The days are those of the clock of `at`.
    """
    here = now.astimezone(at.local.tzinfo)
    days = (at.local.date() - here.date()).days
    form = "%H:%M:%S" if at.local.second else "%H:%M"
    time = f"at {at.local.strftime(form)}"
    if days == 0:
        return time
    if days in (1, -1):
        return f"{'tomorrow' if days == 1 else 'yesterday'} {time}"
    weekday = _WEEKDAYS[at.local.weekday()]
    if 1 < days < 7:
        return f"on {weekday} {time}"
    year = f" {at.local.year}" if at.local.year != here.year else ""
    return f"on {weekday} {at.local.day} {_MONTHS[at.local.month - 1]}{year} {time}"


def in_words(at: times.Moment, now: dt.datetime) -> str:
    """`in 20 minutes, at 14:20 (2026-12-24 14:20:00 Europe/Berlin)`."""
    return f"{times.relative(at.local, now)}, {day_and_time(at, now)} ({times.clock(at)})"
