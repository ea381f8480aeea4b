"""Making, reading, changing and deleting reminders: checked, stored, told to the scheduler."""

from __future__ import annotations

from scheduler_daemon import words
from scheduler_daemon.changes import changed
from scheduler_daemon.cursors import Cursor
from scheduler_daemon.desk import (
    Caller,
    Desk,
    any_owner,
    known_number,
    number_in,
    one_owner,
    request_hash,
    which,
)
from scheduler_daemon.errors import (
    InvalidPrompt,
    InvalidRequest,
    ReminderConflict,
    SchedulerError,
)
from scheduler_daemon.filters import Filter
from scheduler_daemon.model import Instant, OneShot
from scheduler_daemon.reminder_acts import ReminderActs
from scheduler_daemon.rules import (
    check_end,
    describe,
    due_decision,
    first,
    instant_text,
    local_text,
    parse_rule,
    parse_selector,
    parse_until,
    target_of,
    zone_of,
)
from scheduler_daemon.session_care import SessionCare
from scheduler_daemon.store.lookups import place
from scheduler_daemon.store.store import Draft, Which
from scheduler_daemon.views import dispatch_view
from scheduler_daemon.wire import calls, params, shapes


class Service:
    """What callers may do, one at a time; every method raises SchedulerError.

    `acts` are those on one reminder as a whole, `sessions` those on whole Sessions.
    """

    def __init__(self, desk: Desk) -> None:
        self.acts = ReminderActs(desk)
        self.sessions = SessionCare(desk)
        self._desk = desk
        self._clock = desk.clock
        self._store = desk.store
        self._scheduler = desk.scheduler

    async def create(self, caller: Caller, asked: params.Create) -> calls.Created:
        """Make a reminder, or find the one that its idempotency key made."""
        now = self._clock.now()
        owner = one_owner(caller, asked.owner_uid)
        draft = self._draft(owner, asked, now)
        made = await self._desk.written(self._store.create(draft, now, self._desk.bounds.limits))
        if made.reminder is None:
            return {"id": f"r{made.number}", "deleted": True, "created": False}
        view = self._desk.view(made.reminder, made.beside, now)
        if made.created:
            self._desk.done("reminder_created", caller, made.reminder, "created", view)
            self._scheduler.changed((owner, asked.session_id), revives=True)
        return {"reminder": view, "created": made.created}

    def _draft(self, owner: int, asked: params.Create, now: Instant) -> Draft:
        given = asked.model_fields_set
        if "prompt" not in given:
            raise InvalidPrompt("prompt is missing: say what is to be done", field="prompt")
        prompt = words.prompt(asked.prompt, self._desk.bounds.max_prompt_chars)
        title = words.title(asked.title) if "title" in given else None
        rule = parse_rule(asked.selectors(), now)
        key = asked.idempotency_key if "idempotency_key" in given else None
        until, most = _end(asked)
        target, refusal = None, None
        try:
            target = target_of(rule, now)
            check_end(rule, target, until, most)
        except SchedulerError as error:
            # A retry of a request whose time has passed since must still find its reminder.
            if key is None:
                raise
            target, refusal = None, error
        return Draft(
            owner_uid=owner,
            session_id=asked.session_id,
            rule=rule,
            target=target,
            refusal=refusal,
            title=title,
            prompt=prompt,
            context=asked.context,
            key=key,
            request_hash=request_hash(asked) if key is not None else "",
            until=until,
            max_occurrences=most,
            expires_after_seconds=(
                asked.expires_after_seconds if "expires_after_seconds" in given else None
            ),
        )

    async def get(self, caller: Caller, asked: params.Get) -> calls.Got:
        """One reminder."""
        owner = any_owner(caller, asked.owner_uid)
        one = Which(known_number(asked.id), owner, asked.session_id or None)
        return {"reminder": await self._desk.found(one)}

    async def list_reminders(
        self, caller: Caller, asked: params.ListReminders
    ) -> shapes.Page[shapes.Reminder]:
        """A page of reminders."""
        owner = any_owner(caller, asked.owner_uid)
        now = self._clock.now()
        wanted = Filter(asked, now)
        filters = [*wanted.marks, owner, asked.session_id, asked.order]
        cursor = Cursor.read(asked.cursor, filters)
        while True:
            page = await self._store.reader.page(
                owner,
                asked.session_id or None,
                wanted.status,
                by_target=asked.order == "target",
                after=cursor.place,
                limit=asked.limit,
                wanted=wanted.wants if wanted.narrow else None,
            )
            if not page.bad:
                break
            await self._desk.set_aside(page.bad)
        items = await self._desk.fitting(self._desk.view(*each, now) for each in page.items)
        result: shapes.Page[shapes.Reminder] = {"items": items}
        if len(items) < len(page.items):
            result["next_cursor"] = Cursor(place(page.items[len(items) - 1][0])).text(filters)
        elif page.more:
            result["next_cursor"] = Cursor(page.looked_to).text(filters)
        return result

    async def update(self, caller: Caller, asked: params.Update) -> calls.Updated:
        """Change words, context, timing or end of a reminder."""
        now = self._clock.now()
        one = which(caller, asked)
        most = self._desk.bounds.max_prompt_chars
        try:
            before, after, beside = await self._desk.written(
                self._store.change(one, lambda old: changed(old, asked, now, most))
            )
        except ReminderConflict as error:
            error.data["reminder"] = await self._desk.found(one)
            raise
        retimed = after.timing_revision != before.timing_revision
        view = self._desk.view(after, beside, now)
        result: calls.Updated = {"reminder": view, "updated": after is not before}
        if after is not before:
            self._desk.done("reminder_updated", caller, after, "updated", view)
            self._scheduler.changed((after.owner_uid, after.session_id), revives=retimed)
        if retimed and before.scheduled_at <= now:
            dropped = due_decision(before, now, trusted=True).occurrence_at
            if dropped is not None:
                result["dropped_occurrence"] = instant_text(dropped)
        return result

    async def delete(self, caller: Caller, asked: params.One) -> calls.Deleted:
        """Delete a reminder; its receipts stay."""
        owner = one_owner(caller, asked.owner_uid)
        number = number_in(asked.id)
        key = None
        if number is not None:
            one = Which(number, owner, asked.session_id or None)
            key = await self._desk.written(self._store.delete(one, self._clock.now()))
        if key is not None:
            self._desk.logged("reminder_deleted", caller, key, reminder_id=asked.id)
            self._desk.tell(key, asked.id, "deleted")
            self._scheduler.changed(key)
        return {"id": asked.id, "deleted": key is not None}

    async def preview(self, caller: Caller, asked: params.Preview) -> calls.Preview:
        """The coming instants of a rule; nothing is created."""
        del caller
        now = self._clock.now()
        rule, target = parse_selector(asked.selectors(), now)
        until, most = _end(asked)
        check_end(rule, target, until, most)
        count = asked.count if most is None else min(asked.count, most)
        zone = zone_of(rule)
        items: list[calls.PreviewItem] = []
        at: Instant | None = target
        while at is not None and len(items) < count and (until is None or at <= until):
            item: calls.PreviewItem = {"at": instant_text(at)}
            if zone is not None:
                item["local"] = local_text(at, zone)
            items.append(item)
            at = None if isinstance(rule, OneShot) else first(rule, at)
        return {"items": items, "rule_text": describe(rule)}

    async def history(self, caller: Caller, asked: params.History) -> shapes.Page[shapes.Dispatch]:
        """A page of dispatches, newest first."""
        owner = any_owner(caller, asked.owner_uid)
        given = asked.model_fields_set & {"id", "session_id"}
        if not given:
            raise InvalidRequest("give the id of a reminder or a session_id")
        number = known_number(asked.id) if "id" in given else None
        filters = ["history", owner, asked.id, asked.session_id]
        before = Cursor.read(asked.cursor, filters, start=("", 2**62)).place[1]
        session = asked.session_id or None
        found, more = await self._store.reader.history(owner, number, session, before, asked.limit)
        if number is not None and not found and not asked.cursor:
            # No dispatch yet, or no such reminder: only the one that exists has an empty history.
            await self._desk.found(Which(number, owner, session))
        items = await self._desk.fitting(map(dispatch_view, found))
        result: shapes.Page[shapes.Dispatch] = {"items": items}
        if items and (more or len(items) < len(found)):
            result["next_cursor"] = Cursor(("", found[len(items) - 1].number)).text(filters)
        return result


def _end(asked: params.Create | params.Preview) -> tuple[Instant | None, int | None]:
    """The end that was asked for, None where there is none."""
    given = asked.model_fields_set
    until = parse_until(asked.until) if "until" in given else None
    return until, asked.max_occurrences if "max_occurrences" in given else None
