"""The use cases: each checks what was asked, lets the store do it, and tells the scheduler."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from scheduler_daemon import words
from scheduler_daemon.changes import changed
from scheduler_daemon.clock import Clock
from scheduler_daemon.cursors import Cursor
from scheduler_daemon.errors import (
    InvalidPrompt,
    InvalidRequest,
    PermissionDenied,
    PersistenceUncertain,
    ReminderConflict,
    ReminderNotFound,
    SchedulerError,
)
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import Dispatch, Instant, OneShot, Reminder
from scheduler_daemon.rules import (
    decide,
    describe,
    first,
    instant_text,
    local_text,
    parse_rule,
    parse_selector,
    target_of,
    zone_of,
)
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.store.rows import BadRow
from scheduler_daemon.store.store import NOT_FOUND, Draft, Limits, Store
from scheduler_daemon.views import dispatch_view, reminder_view, waiting_for
from scheduler_daemon.wire import calls, params, shapes
from scheduler_daemon.wire.frames import encode

ENVELOPE_BYTES = 1024
"""Room in a frame for what stands around a page's items."""

_ID = re.compile(r"r([1-9][0-9]{0,17})", re.ASCII)

T = TypeVar("T")

log = get_logger(__name__)


class Caller(NamedTuple):
    """Who asks: the uid of the peer, and whether it may act for other owners."""

    uid: int
    admin: bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a creation may be."""

    max_prompt_chars: int
    limits: Limits
    max_frame_bytes: int


class Service:
    """Management, for one caller at a time; every method raises SchedulerError."""

    def __init__(self, clock: Clock, store: Store, scheduler: Scheduler, bounds: Bounds) -> None:
        self._clock = clock
        self._store = store
        self._scheduler = scheduler
        self._bounds = bounds

    async def create(self, caller: Caller, asked: params.Create) -> calls.Created:
        """Make a reminder, or find the one that its idempotency key made."""
        now = self._clock.now()
        owner = _one_owner(caller, asked.owner_uid)
        draft = self._draft(owner, asked, now)
        made = await self._written(self._store.create(draft, now, self._bounds.limits))
        if made.reminder is None:
            return {"id": f"r{made.number}", "deleted": True, "created": False}
        if made.created:
            self._noted("reminder_created", caller, made.reminder)
            self._scheduler.changed((owner, asked.session_id), revives=True)
        view = self._view(made.reminder, made.last_dispatch, now)
        return {"reminder": view, "created": made.created}

    def _draft(self, owner: int, asked: params.Create, now: Instant) -> Draft:
        given = asked.model_fields_set
        if "prompt" not in given:
            raise InvalidPrompt("prompt is missing: say what is to be done", field="prompt")
        prompt = words.prompt(asked.prompt, self._bounds.max_prompt_chars)
        title = words.title(asked.title) if "title" in given else None
        rule = parse_rule(asked.selectors(), now)
        key = asked.idempotency_key if "idempotency_key" in given else None
        target, refusal = None, None
        try:
            target = target_of(rule, now)
        except SchedulerError as error:
            # A retry of a request whose time has passed since must still find its reminder.
            if key is None:
                raise
            refusal = error
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
            request_hash=_request_hash(asked),
        )

    async def get(self, caller: Caller, asked: params.Get) -> calls.Got:
        """One reminder."""
        owner = _any_owner(caller, asked.owner_uid)
        number = _known_number(asked.id)
        return {"reminder": await self._found(number, owner, asked.session_id or None)}

    async def _found(self, number: int, owner: int | None, session: str | None) -> shapes.Reminder:
        found = await self._store.reader.get(number, owner, session)
        if isinstance(found, BadRow):
            raise await self._unreadable(found)
        if found is None:
            raise ReminderNotFound(NOT_FOUND, field="id")
        return self._view(*found, self._clock.now())

    async def list_reminders(
        self, caller: Caller, asked: params.ListReminders
    ) -> shapes.Page[shapes.Reminder]:
        """A page of reminders."""
        owner = _any_owner(caller, asked.owner_uid)
        filters = ["list", owner, asked.session_id, asked.status, asked.order]
        cursor = Cursor.read(asked.cursor, filters)
        by_target = asked.order == "target"
        while True:
            page = await self._store.reader.page(
                owner,
                asked.session_id or None,
                asked.status,
                by_target=by_target,
                after=cursor.place,
                limit=asked.limit,
            )
            if not page.bad:
                break
            await self._set_aside(page.bad)
        now = self._clock.now()
        items = self._fitting(self._view(*each, now) for each in page.items)
        result: shapes.Page[shapes.Reminder] = {"items": items}
        if items and (page.more or len(items) < len(page.items)):
            last = page.items[len(items) - 1][0]
            place = (instant_text(last.scheduled_at), last.number)
            result["next_cursor"] = Cursor(place).text(filters)
        return result

    def _fitting(self, views: Iterable[T]) -> list[T]:
        """As many of `views` as fit one frame, in order; at least one, which always fits."""
        items: list[T] = []
        room = self._bounds.max_frame_bytes - ENVELOPE_BYTES
        for view in views:
            room -= len(encode(view))
            if room < 0 and items:
                break
            items.append(view)
        return items

    async def update(self, caller: Caller, asked: params.Update) -> calls.Updated:
        """Change words, context or timing of a reminder."""
        now = self._clock.now()
        owner = _one_owner(caller, asked.owner_uid)
        number, session = _known_number(asked.id), asked.session_id or None
        most = self._bounds.max_prompt_chars
        try:
            before, after, last_dispatch = await self._written(
                self._store.change(
                    number, owner, session, lambda old: changed(old, asked, now, most)
                )
            )
        except ReminderConflict as error:
            error.data["reminder"] = await self._found(number, owner, session)
            raise
        retimed = after.timing_revision != before.timing_revision
        result: calls.Updated = {
            "reminder": self._view(after, last_dispatch, now),
            "updated": after is not before,
        }
        if after is not before:
            self._noted("reminder_updated", caller, after)
            self._scheduler.changed((owner, after.session_id), revives=retimed)
        if retimed and before.scheduled_at <= now:
            dropped, _ = decide(before.rule, before.scheduled_at, now)
            result["dropped_occurrence"] = instant_text(dropped)
        return result

    async def delete(self, caller: Caller, asked: params.Delete) -> calls.Deleted:
        """Delete a reminder; its receipts stay."""
        owner = _one_owner(caller, asked.owner_uid)
        number = _number(asked.id)
        key = None
        if number is not None:
            session = asked.session_id or None
            now = self._clock.now()
            key = await self._written(self._store.delete(number, owner, session, now))
        if key is not None:
            self._logged("reminder_deleted", caller, asked.id, key)
            self._scheduler.changed(key)
        return {"id": asked.id, "deleted": key is not None}

    async def preview(self, caller: Caller, asked: params.Preview) -> calls.Preview:
        """The coming instants of a rule; nothing is created."""
        del caller
        now = self._clock.now()
        rule, target = parse_selector(asked.selectors(), now)
        zone = zone_of(rule)
        items: list[calls.PreviewItem] = []
        at: Instant | None = target
        while at is not None and len(items) < asked.count:
            item: calls.PreviewItem = {"at": instant_text(at)}
            if zone is not None:
                item["local"] = local_text(at, zone)
            items.append(item)
            at = None if isinstance(rule, OneShot) else first(rule, at)
        return {"items": items, "rule_text": describe(rule)}

    async def history(self, caller: Caller, asked: params.History) -> shapes.Page[shapes.Dispatch]:
        """A page of dispatches, newest first."""
        owner = _any_owner(caller, asked.owner_uid)
        given = asked.model_fields_set & {"id", "session_id"}
        if not given:
            raise InvalidRequest("give the id of a reminder or a session_id")
        number = _known_number(asked.id) if "id" in given else None
        filters = ["history", owner, asked.id, asked.session_id]
        before = Cursor.read(asked.cursor, filters, start=("", 2**62)).place[1]
        session = asked.session_id or None
        found, more = await self._store.reader.history(owner, number, session, before, asked.limit)
        if number is not None and not found and not asked.cursor:
            # No dispatch yet, or no such reminder: only the one that exists has an empty history.
            await self._found(number, owner, session)
        items = self._fitting(map(dispatch_view, found))
        result: shapes.Page[shapes.Dispatch] = {"items": items}
        if items and (more or len(items) < len(found)):
            result["next_cursor"] = Cursor(("", found[len(items) - 1].number)).text(filters)
        return result

    async def _written(self, write: Awaitable[T]) -> T:
        """What a write gives; the scheduler reads everything again where that is not known."""
        try:
            return await write
        except BadRow as bad:
            raise await self._unreadable(bad) from None
        except PersistenceUncertain:
            self._scheduler.rescan()
            raise

    async def _unreadable(self, bad: BadRow) -> ReminderNotFound:
        await self._set_aside([bad])
        return ReminderNotFound(
            "this reminder is stored in a form that cannot be read; it was set aside, "
            "daemon.status counts it",
            field="id",
        )

    async def _set_aside(self, rows: list[BadRow]) -> None:
        for key in await self._store.set_aside(rows):
            self._scheduler.changed(key)

    def _view(
        self, reminder: Reminder, last_dispatch: Dispatch | None, now: Instant
    ) -> shapes.Reminder:
        state = self._scheduler.state((reminder.owner_uid, reminder.session_id))
        why = waiting_for(reminder, state, self._scheduler.hosts, now, self._clock.monotonic())
        return reminder_view(reminder, last_dispatch, why, now)

    def _noted(self, event: str, caller: Caller, reminder: Reminder) -> None:
        key = (reminder.owner_uid, reminder.session_id)
        self._logged(event, caller, reminder.id, key, kind=reminder.rule.kind)

    def _logged(
        self, event: str, caller: Caller, reminder_id: str, key: tuple[int, str], **more: object
    ) -> None:
        if caller.uid != key[0]:
            more["by_uid"] = caller.uid
        log.info(event, reminder_id=reminder_id, owner_uid=key[0], session_id=key[1], **more)


def _one_owner(caller: Caller, asked: int) -> int:
    owner = _any_owner(caller, asked)
    assert owner is not None
    return owner


def _any_owner(caller: Caller, asked: int | str) -> int | None:
    """Whose reminders are meant; None for everybody's. -1 stands for a member left out."""
    if asked in (-1, caller.uid):
        return caller.uid
    if not caller.admin:
        raise PermissionDenied(
            "owner_uid is for root and the daemon's own user; leave it out to see your own",
            field="owner_uid",
        )
    return asked if isinstance(asked, int) else None


def _number(reminder_id: str) -> int | None:
    """The number in an id; None where no id looks like this."""
    found = _ID.fullmatch(reminder_id)
    return int(found[1]) if found else None


def _known_number(reminder_id: str) -> int:
    """The number in an id. Raises reminder_not_found."""
    number = _number(reminder_id)
    if number is None:
        raise ReminderNotFound(NOT_FOUND, field="id")
    return number


def _request_hash(asked: params.Create) -> str:
    """A hash of the canonical request as received, the idempotency key and owner left out."""
    body = asked.model_dump(exclude={"idempotency_key", "owner_uid"}, exclude_unset=True)
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
