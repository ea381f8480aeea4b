"""What an update makes of a reminder: pure, so that it can run inside the store's transaction."""

from __future__ import annotations

from dataclasses import replace

from scheduler_daemon import words
from scheduler_daemon.errors import InvalidRequest, ReminderConflict, ReminderEnded
from scheduler_daemon.model import Instant, OneShot, Reminder
from scheduler_daemon.rules import SELECTORS, check_end, parse_rule, parse_until, target_of
from scheduler_daemon.wire import params


def changed(old: Reminder, asked: params.Update, now: Instant, max_prompt_chars: int) -> Reminder:
    """The reminder as the update wants it, `old` itself when that is no other one.

    Raises reminder_conflict before anything else, then reminder_ended, then what is wrong with
    the words, the selector or the end.
    """
    given = asked.model_fields_set
    if asked.revision != old.revision:
        raise ReminderConflict(
            f"the reminder has revision {old.revision}, not {asked.revision}: it was changed "
            "since you read it; read it again and decide anew",
            field="revision",
        )
    if not given - {"id", "revision", "session_id", "owner_uid"}:
        raise InvalidRequest(
            "nothing to change: give prompt, title, context, until, max_occurrences, "
            "expires_after_seconds or one of " + ", ".join(SELECTORS)
        )
    if old.status == "ended":
        raise ReminderEnded(
            "this reminder has ended and cannot be changed; snooze it or make a new one"
        )
    new = _limited(_retimed(_reworded(old, asked, max_prompt_chars), asked, now), asked)
    if "context" in given and asked.context != (old.context or {}):
        new = replace(new, context=asked.context or None)
    return old if new == old else replace(new, revision=old.revision + 1)


def _reworded(old: Reminder, asked: params.Update, max_prompt_chars: int) -> Reminder:
    prompt, title = old.prompt, old.title
    if "prompt" in asked.model_fields_set:
        prompt = words.prompt(asked.prompt, max_prompt_chars)
    if "title" in asked.model_fields_set:
        title = None if asked.title is None else words.title(asked.title)
    if (prompt, title) == (old.prompt, old.title):
        return old
    return replace(old, prompt=prompt, title=title, words_revision=old.words_revision + 1)


def _retimed(old: Reminder, asked: params.Update, now: Instant) -> Reminder:
    selectors = asked.selectors()
    if not selectors:
        return old
    rule = parse_rule(selectors, now)
    if rule == old.rule and "after_seconds" not in selectors:
        return old
    target = target_of(rule, now)
    last = old.last_occurrence_at
    new = replace(
        old,
        rule=rule,
        scheduled_at=target,
        after_at=now,
        computed_at=now,
        # One that lies ahead was skipped, or sent by a clock that ran ahead: of another rule.
        last_occurrence_at=last if last is not None and last <= now else None,
        generation=old.generation + (last is not None and target <= last),
        timing_revision=old.timing_revision + 1,
        skips=None,
    )
    return replace(new, until=None, max_occurrences=None) if isinstance(rule, OneShot) else new


def _limited(new: Reminder, asked: params.Update) -> Reminder:
    """The end and the age as asked for; what is not given stays."""
    given = asked.model_fields_set
    if "until" in given:
        until = None if asked.until is None else parse_until(asked.until)
        new = replace(new, until=until)
    if "max_occurrences" in given:
        new = replace(new, max_occurrences=asked.max_occurrences)
    if "expires_after_seconds" in given:
        new = replace(new, expires_after_seconds=asked.expires_after_seconds)
    if given & {"until", "max_occurrences", *SELECTORS}:
        check_end(new.rule, new.scheduled_at, new.until, new.max_occurrences, new.dispatch_count)
    return new
