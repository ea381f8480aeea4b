"""Values as the wire shows them: a reminder, a Session, why they wait, a dispatch. Pure."""

from __future__ import annotations

import datetime as dt
from typing import Literal, cast

from scheduler_daemon.hosts.lines import Hosts
from scheduler_daemon.model import Dispatch, FollowUp, Instant, Key, Reminder
from scheduler_daemon.rules import describe, instant_text, local_text, selector_of, zone_of
from scheduler_daemon.sessions import (
    SILENT,
    Aside,
    MessageKey,
    Pause,
    SessionState,
    message_in,
    message_of,
    record_of,
)
from scheduler_daemon.store.lookups import Beside
from scheduler_daemon.store.pages import SessionRow
from scheduler_daemon.wire import shapes


def reminder_view(
    reminder: Reminder,
    beside: Beside,
    waiting_for: shapes.WaitingFor,
    now: Instant,
) -> shapes.Reminder:
    """A reminder as its owner sees it at `now`."""
    view: shapes.Reminder = {
        "id": reminder.id,
        "owner_uid": reminder.owner_uid,
        "session_id": reminder.session_id,
        "kind": reminder.rule.kind,
        "rule": cast("shapes.Selector", selector_of(reminder.rule)),
        "prompt": reminder.prompt,
        "scheduled_at": instant_text(reminder.scheduled_at),
        "rule_text": describe(reminder.rule),
        "status": "active" if reminder.status == "active" else "ended",
        "paused": reminder.paused and reminder.status == "active",
        "state": _state(reminder, now),
        "revision": reminder.revision,
        "created_at": instant_text(reminder.created_at),
        "waiting_for": waiting_for,
    }
    zone = zone_of(reminder.rule)
    if zone is not None:
        view["scheduled_at_local"] = local_text(reminder.scheduled_at, zone)
    if reminder.title is not None:
        view["title"] = reminder.title
    if reminder.context is not None:
        view["context"] = dict(reminder.context)
    if reminder.until is not None:
        view["until"] = instant_text(reminder.until)
    if reminder.max_occurrences is not None:
        view["max_occurrences"] = reminder.max_occurrences
        view["dispatch_count"] = reminder.dispatch_count
    if reminder.expires_after_seconds is not None:
        view["expires_after_seconds"] = reminder.expires_after_seconds
    if reminder.snoozed_from is not None:
        view["snoozed_from"] = f"r{reminder.snoozed_from}"
    if reminder.ended_at is not None:
        view["ended_at"] = instant_text(reminder.ended_at)
    if reminder.ended_reason is not None:
        view["ended_reason"] = reminder.ended_reason
    if beside.last_dispatch is not None:
        view["last_dispatch"] = dispatch_summary(beside.last_dispatch)
    if beside.runs:
        view["runs"] = beside.runs
    return view


def _state(reminder: Reminder, now: Instant) -> Literal["scheduled", "overdue", "paused", "ended"]:
    if reminder.status == "ended":
        return "ended"
    if reminder.paused:
        return "paused"
    return "overdue" if reminder.scheduled_at <= now else "scheduled"


def dispatch_summary(dispatch: Dispatch) -> shapes.DispatchSummary:
    """A dispatch without its words."""
    view: shapes.DispatchSummary = {
        "followup_id": dispatch.followup_id,
        "occurrence_id": dispatch.occurrence_id,
        "reminder_id": dispatch.reminder_id,
        "session_id": dispatch.session_id,
        "occurrence_at": instant_text(dispatch.occurrence_at),
        "decided_at": instant_text(dispatch.decided_at),
        "admitted_at": instant_text(dispatch.admitted_at),
        "host": dispatch.host,
        "outcome": dispatch.outcome,
    }
    if dispatch.message_id is not None:
        view["message_id"] = dispatch.message_id
    return view


def dispatch_view(dispatch: Dispatch) -> shapes.Dispatch:
    """A dispatch with the words that were sent."""
    words: dict[str, str] = {"prompt": dispatch.prompt}
    if dispatch.title is not None:
        words["title"] = dispatch.title
    return cast("shapes.Dispatch", {**dispatch_summary(dispatch), **words})


def waiting_for(
    reminder: Reminder,
    state: SessionState | None,
    hosts: Hosts,
    now: Instant,
    monotonic: float,
) -> shapes.WaitingFor:
    """Why a reminder has not been sent at `now` (`monotonic` seconds, for pauses)."""
    if reminder.status == "ended":
        return {"why": "ended"}
    under_way = _under_way(reminder, state)
    if under_way is not None:
        return under_way
    if reminder.paused:
        return {"why": "paused"}
    if reminder.scheduled_at > now:
        return {"why": "target"}
    key = (reminder.owner_uid, reminder.session_id)
    return (
        _nobody_there(key, hosts) or _held_up(reminder, state, now, monotonic) or {"why": "behind"}
    )


def session_view(
    row: SessionRow,
    state: SessionState | None,
    hosts: Hosts,
    now: Instant,
    monotonic: float,
) -> shapes.Session:
    """A Session as its owner sees it at `now` (`monotonic` seconds, for pauses)."""
    takers = [host.name for host in hosts.line(row.key) if host.takes(row.key[1])]
    view: shapes.Session = {
        "session_id": row.key[1],
        "owner_uid": row.key[0],
        "active": row.active,
        "paused": row.paused,
        "overdue": row.overdue,
        "ended": row.ended,
        "set_aside": row.set_aside,
        "runs": row.runs,
        "live": bool(takers),
        "hosts": takers,
    }
    if row.next_target_at is not None:
        view["next_target_at"] = instant_text(row.next_target_at)
        view["waiting_for"] = _session_waits_for(row, state, hosts, now, monotonic)
    return view


def _session_waits_for(
    row: SessionRow, state: SessionState | None, hosts: Hosts, now: Instant, monotonic: float
) -> shapes.WaitingFor:
    """Why the earliest of a Session has not been sent."""
    if state is not None and state.recording:
        return {"why": "receipt"}
    if state is not None and state.pushed is not None:
        return {"why": "in_flight", "attempts": state.attempts(message_in(state.pushed))}
    if row.next_target_at is not None and row.next_target_at > now:
        return {"why": "target"}
    nobody = _nobody_there(row.key, hosts)
    if nobody is not None:
        return nobody
    if state is not None and state.pause is not None:
        return _paused_attempt(state.pause, now, monotonic)
    if state is not None and state.unanswered():
        return _unanswered(state.unanswered())
    return _first_aside(state, now, monotonic) or {"why": "behind"}


def _first_aside(
    state: SessionState | None, now: Instant, monotonic: float
) -> shapes.WaitingFor | None:
    """The first message that lets others pass; None where all take their turn."""
    if state is None:
        return None
    views = (_aside(state, *each, now, monotonic) for each in state.set_aside(monotonic).items())
    return next(views, None)


def _nobody_there(key: Key, hosts: Hosts) -> shapes.WaitingFor | None:
    """Why no host gets what is due in a Session; None where one does."""
    if not hosts.line(key):
        seen = hosts.last_seen(key)
        if seen is None:
            return {"why": "no_host"}
        return {"why": "no_host", "last_host_seen_at": instant_text(seen)}
    return {"why": "host_gone"} if hosts.first(key) is None else None


def _under_way(reminder: Reminder, state: SessionState | None) -> shapes.WaitingFor | None:
    """Whether the reminder, timed as it is, was pushed or admitted and has no receipt yet."""
    if state is None:
        return None
    if any(_carries(followup, reminder) for followup in state.recording):
        return {"why": "receipt"}
    if state.pushed is not None and _carries(state.pushed, reminder):
        return {"why": "in_flight", "attempts": state.attempts(message_in(state.pushed))}
    return None


def _carries(followup: FollowUp, reminder: Reminder) -> bool:
    return any(
        (each.reminder.number, each.reminder.timing_revision)
        == (reminder.number, reminder.timing_revision)
        and not each.by_hand
        for each in followup.occurrences
    )


def _held_up(
    reminder: Reminder, state: SessionState | None, now: Instant, monotonic: float
) -> shapes.WaitingFor | None:
    """How the last attempt at the reminder's message ended, when that is what it waits for."""
    if state is None:
        return None
    message = message_of(reminder)
    asides = state.set_aside(monotonic)
    for standing in (record_of(reminder), message):
        if standing in asides:
            return _aside(state, standing, asides[standing], now, monotonic)
    pause = state.pause
    if pause is None and state.unanswered() and state.attempts(message):
        return _unanswered(state.attempts(message))
    if pause is None or (pause.attempts and pause.message != message):
        return None
    return _paused_attempt(pause, now, monotonic)


def _aside(
    state: SessionState, message: MessageKey, aside: Aside, now: Instant, monotonic: float
) -> shapes.WaitingFor:
    return {
        "why": "set_aside",
        "attempts": state.attempts(message),
        "last_error": aside.last_error,
        "next_try_at": later(now, aside.until - monotonic),
    }


def _unanswered(attempts: int) -> shapes.WaitingFor:
    """What was met with silence and waits for a slot of its host, which may read nothing."""
    return {"why": "no_answer", "attempts": attempts, "last_error": SILENT}


def _paused_attempt(pause: Pause, now: Instant, monotonic: float) -> shapes.WaitingFor:
    view: shapes.WaitingFor = {
        "why": pause.why,
        "attempts": pause.attempts,
        "next_try_at": later(now, pause.until - monotonic),
    }
    if pause.last_error is not None:
        view["last_error"] = pause.last_error
    return view


def later(now: Instant, seconds: float) -> str:
    """The canonical instant so many seconds after `now`, in whole milliseconds."""
    return instant_text(now + dt.timedelta(milliseconds=max(0, round(seconds * 1000))))
