"""Pausing, resuming, snoozing, skipping and running reminders, as use cases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from scheduler_daemon import acts
from scheduler_daemon.clock import trusted
from scheduler_daemon.desk import Caller, Desk, request_hash, which
from scheduler_daemon.errors import InvalidSelector, SchedulerError
from scheduler_daemon.model import Instant, Reminder, Rule
from scheduler_daemon.rules import instant_text, is_beyond, parse_rule, target_of
from scheduler_daemon.store.acts import RequestKey
from scheduler_daemon.store.store import Draft
from scheduler_daemon.wire import calls, params, shapes


class ReminderActs:
    """What callers do to a reminder as a whole; every method raises SchedulerError."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._clock = desk.clock
        self._store = desk.store
        self._scheduler = desk.scheduler

    async def pause(self, caller: Caller, asked: params.One) -> calls.Paused:
        """Let a reminder rest; nothing of it is due until it is resumed."""
        old, new, beside = await self._desk.written(
            self._store.change(which(caller, asked), acts.paused)
        )
        view = self._desk.view(new, beside, self._clock.now())
        if new is not old:
            self._desk.done("reminder_paused", caller, new, "paused", view)
            self._scheduler.changed((new.owner_uid, new.session_id))
        return {"reminder": view}

    async def resume(self, caller: Caller, asked: params.One) -> calls.Resumed:
        """Let a paused reminder go on."""
        now = self._clock.now()
        steady = trusted(self._clock)
        old, new, beside = await self._desk.written(
            self._store.change(
                which(caller, asked), lambda old: acts.resumed(old, now, trusted=steady)
            )
        )
        view = self._desk.view(new, beside, now)
        if new is not old:
            self._desk.done("reminder_resumed", caller, new, "resumed", view)
            self._moved(new, revives=True)
        return {"reminder": view}

    async def skip(self, caller: Caller, asked: params.One) -> calls.Skipped:
        """Let exactly one occurrence of a recurring reminder pass."""
        one = which(caller, asked)
        now = self._clock.now()
        steady = trusted(self._clock)
        # What is with a host when it is skipped is told apart from what is not: no push between.
        with self._scheduler.under_way.holding(one.number):
            carried = self._scheduler.under_way.of(one.number)
            in_flight = carried[1] if carried else None
            new, occurrence, beside = await self._desk.written(
                self._store.skip(
                    one, lambda old: acts.skipped(old, in_flight, now, trusted=steady), now
                )
            )
            view = self._desk.view(new, beside, now)
            self._desk.done("occurrence_skipped", caller, new, "updated", view)
            self._moved(new, revives=False)
        return {"reminder": view, "skipped_occurrence": instant_text(occurrence.occurrence_at)}

    def _moved(self, reminder: Reminder, *, revives: bool) -> None:
        """A record has another target, or ended: the loop looks at it, watchers hear of an end."""
        key = (reminder.owner_uid, reminder.session_id)
        self._scheduler.changed(key, revives=revives)
        if reminder.status == "ended":
            self._desk.tell(key, reminder.id, "ended")
        elif is_beyond(reminder, reminder.scheduled_at):
            self._scheduler.left_beyond_end()

    async def snooze(self, caller: Caller, asked: params.Snooze) -> calls.Snoozed:
        """Make a new one-shot with the words of another reminder."""
        now = self._clock.now()
        one = which(caller, asked)
        key = self._key(asked, "reminder.snooze")
        time = _time(asked, now)
        made = await self._desk.written(
            self._store.snooze(
                one,
                partial(_draft, time=time, key=key),
                key,
                now,
                self._desk.bounds.limits,
            )
        )
        if made.reminder is None:
            return {"id": f"r{made.number}", "deleted": True, "created": False}
        view = self._desk.view(made.reminder, made.beside, now)
        if made.created:
            self._desk.done("reminder_snoozed", caller, made.reminder, "created", view)
            self._moved(made.reminder, revives=True)
        return {"reminder": view, "created": made.created}

    async def run_now(self, caller: Caller, asked: params.RunNow) -> calls.RunNow:
        """Let one occurrence come at once, beside the rule."""
        now = self._clock.now()
        key = self._key(asked, "reminder.run_now")
        run = await self._desk.written(
            self._store.run_now(which(caller, asked), key, now, self._desk.bounds.limits)
        )
        if run.reminder is None:
            return {"id": asked.id, "deleted": True, "created": False}
        if run.created:
            self._desk.done("reminder_run", caller, run.reminder)
            self._scheduler.changed((run.reminder.owner_uid, run.reminder.session_id), revives=True)
        view: shapes.Reminder = self._desk.view(run.reminder, run.beside, now)
        return {"reminder": view, "occurrence_id": run.occurrence_id, "created": run.created}

    def _key(self, asked: params.Snooze | params.RunNow, method: str) -> RequestKey | None:
        if "idempotency_key" not in asked.model_fields_set:
            return None
        return RequestKey(asked.idempotency_key, f"{method} {request_hash(asked, 'session_id')}")


@dataclass(frozen=True, slots=True)
class _Time:
    """When a snoozed reminder comes back; `refusal` stands where that is no more possible."""

    rule: Rule
    target: Instant | None
    refusal: SchedulerError | None


def _time(asked: params.Snooze, now: Instant) -> _Time:
    given = asked.model_fields_set & {"seconds", "at"}
    if len(given) != 1:
        found = " and ".join(sorted(given)) if given else "none"
        raise InvalidSelector(f"give exactly one of seconds and at; got {found}")
    selector = {"at": asked.at} if "at" in given else {"after_seconds": asked.seconds}
    with _speaking_of_seconds():
        rule = parse_rule(selector, now)
        try:
            return _Time(rule, target_of(rule, now), None)
        except SchedulerError as error:
            # A retry of a request whose time has passed since must still find its reminder.
            if "idempotency_key" not in asked.model_fields_set:
                raise
            return _Time(rule, None, error)


@contextmanager
def _speaking_of_seconds() -> Iterator[None]:
    """Let refusals name the member as a snooze has it."""
    try:
        yield
    except SchedulerError as error:
        if error.field != "after_seconds":
            raise
        message = error.message.replace("after_seconds", "seconds")
        raise type(error)(message, field="seconds") from None


def _draft(old: Reminder, *, time: _Time, key: RequestKey | None) -> Draft:
    return Draft(
        owner_uid=old.owner_uid,
        session_id=old.session_id,
        rule=time.rule,
        target=time.target,
        refusal=time.refusal,
        title=old.title,
        prompt=old.prompt,
        context=old.context,
        key=key.text if key else None,
        request_hash=key.request_hash if key else "",
        snoozed_from=old.number,
    )
