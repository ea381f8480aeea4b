"""Values as the wire shows them: a reminder, why it waits, a dispatch. Pure."""

from __future__ import annotations

import datetime as dt
from typing import cast

from scheduler_daemon.model import Dispatch, FollowUp, Instant, Reminder
from scheduler_daemon.rules import describe, instant_text, local_text, selector_of, zone_of
from scheduler_daemon.server.hosts import Hosts
from scheduler_daemon.sessions import SessionState, message_in, message_of
from scheduler_daemon.wire import shapes


def reminder_view(
    reminder: Reminder,
    last_dispatch: Dispatch | None,
    waiting_for: shapes.WaitingFor,
    now: Instant,
) -> shapes.Reminder:
    """A reminder as its owner sees it at `now`."""
    overdue = reminder.scheduled_at <= now
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
        "paused": False,
        "state": "ended" if reminder.status == "ended" else "overdue" if overdue else "scheduled",
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
    if reminder.ended_at is not None:
        view["ended_at"] = instant_text(reminder.ended_at)
    if reminder.ended_reason is not None:
        view["ended_reason"] = reminder.ended_reason
    if last_dispatch is not None:
        view["last_dispatch"] = dispatch_summary(last_dispatch)
    return view


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
    if reminder.scheduled_at > now:
        return {"why": "target"}
    key = (reminder.owner_uid, reminder.session_id)
    if not hosts.line(key):
        seen = hosts.last_seen(key)
        if seen is None:
            return {"why": "no_host"}
        return {"why": "no_host", "last_host_seen_at": instant_text(seen)}
    if hosts.first(key) is None:
        return {"why": "host_gone"}
    return _held_up(reminder, state, now, monotonic) or {"why": "behind"}


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
        for each in followup.occurrences
    )


def _held_up(
    reminder: Reminder, state: SessionState | None, now: Instant, monotonic: float
) -> shapes.WaitingFor | None:
    """How the last attempt at the reminder's message ended, when that is what it waits for."""
    if state is None:
        return None
    message = message_of(reminder)
    aside = state.set_aside(monotonic).get(message)
    if aside is not None:
        return {
            "why": "set_aside",
            "attempts": state.attempts(message),
            "last_error": aside.last_error,
            "next_try_at": later(now, aside.until - monotonic),
        }
    pause = state.pause
    if pause is None or (pause.attempts and pause.message != message):
        return None
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
