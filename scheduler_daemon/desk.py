"""What every use case needs: who asks for whose reminders, writes that are told, views."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from scheduler_daemon.clock import Clock
from scheduler_daemon.errors import PermissionDenied, PersistenceUncertain, ReminderNotFound
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import Instant, Key, Reminder
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.store.lookups import Beside
from scheduler_daemon.store.rows import BadRow
from scheduler_daemon.store.store import NOT_FOUND, Limits, Store, Which
from scheduler_daemon.views import reminder_view, waiting_for
from scheduler_daemon.watching import Watchers
from scheduler_daemon.wire import params, shapes
from scheduler_daemon.wire.encoding import encode

ENVELOPE_BYTES = 1024
"""Room in a frame for what stands around a page's items."""

VIEWS_AT_ONCE = 50
"""Reminders that are made ready to be shown before the loop goes on with what else there is."""

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


class Desk:
    """The parts of the daemon that use cases work with, and what they do alike."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        scheduler: Scheduler,
        watchers: Watchers,
        bounds: Bounds,
    ) -> None:
        self.clock = clock
        self.store = store
        self.scheduler = scheduler
        self._watchers = watchers
        self.bounds = bounds

    async def found(self, which: Which) -> shapes.Reminder:
        """A reminder as its owner sees it now. Raises reminder_not_found."""
        found = await self.read(which)
        return self.view(*found, self.clock.now())

    async def read(self, which: Which) -> tuple[Reminder, Beside]:
        """A reminder and its newest dispatch. Raises reminder_not_found."""
        found = await self.store.reader.get(which.number, which.owner, which.session)
        if isinstance(found, BadRow):
            raise await self._unreadable(found)
        if found is None:
            raise ReminderNotFound(NOT_FOUND, field="id")
        return found

    async def written(self, write: Awaitable[T]) -> T:
        """What a write gives; the scheduler reads everything again where that is not known."""
        try:
            return await write
        except BadRow as bad:
            raise await self._unreadable(bad) from None
        except PersistenceUncertain:
            self.scheduler.rescan()
            raise

    async def _unreadable(self, bad: BadRow) -> ReminderNotFound:
        await self.set_aside([bad])
        return ReminderNotFound(
            "this reminder is stored in a form that cannot be read; it was set aside, "
            "daemon.status counts it, schedctl doctor says more",
            field="id",
            set_aside=True,
        )

    async def set_aside(self, rows: list[BadRow]) -> None:
        """Take rows that do not decode out of what is due."""
        for key in await self.store.set_aside(rows):
            self.scheduler.changed(key)

    def view(self, reminder: Reminder, beside: Beside, now: Instant) -> shapes.Reminder:
        """A reminder as its owner sees it."""
        state = self.scheduler.state_of(reminder)
        why = waiting_for(reminder, state, self.scheduler.hosts, now, self.clock.monotonic())
        return reminder_view(reminder, beside, why, now)

    async def fitting(self, views: Iterable[T]) -> list[T]:
        """As many of `views` as fit one frame, in order; at least one, which always fits.

        Others have their turn in between: a thousand views take longer than they should wait.
        """
        items: list[T] = []
        room = self.bounds.max_frame_bytes - ENVELOPE_BYTES
        for view in views:
            room -= len(encode(view))
            if room < 0 and items:
                break
            items.append(view)
            if len(items) % VIEWS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return items

    def done(
        self,
        event: str,
        caller: Caller,
        reminder: Reminder,
        change: shapes.Change | None = None,
        view: shapes.Reminder | None = None,
    ) -> None:
        """Log what a caller did to a reminder, and tell it to watchers."""
        key = (reminder.owner_uid, reminder.session_id)
        self.logged(event, caller, key, reminder_id=reminder.id, kind=reminder.rule.kind)
        if change is not None:
            self.tell(key, reminder.id, change, view)

    def tell(
        self,
        key: Key,
        reminder_id: str,
        change: shapes.Change,
        view: shapes.Reminder | None = None,
        *,
        also: str | None = None,
    ) -> None:
        """Tell watchers of a change that is on disk: what goes wrong here is not its caller's."""
        owner, session = key
        with self.scheduler.troubles.caught("telling_failed", owner_uid=owner, session_id=session):
            self._watchers.tell(owner, session, reminder_id, change, view, also=also)

    def logged(self, event: str, caller: Caller, key: tuple[int, str], **more: object) -> None:
        """Log what a caller did in a Session."""
        if caller.uid != key[0]:
            more["by_uid"] = caller.uid
        log.info(event, owner_uid=key[0], session_id=key[1], **more)


def one_owner(caller: Caller, asked: int) -> int:
    """Whose reminders are meant, of one owner. Raises permission_denied."""
    owner = any_owner(caller, asked)
    assert owner is not None
    return owner


def any_owner(caller: Caller, asked: int | str) -> int | None:
    """Whose reminders are meant; None for everybody's. -1 stands for a member left out.

    Raises permission_denied.
    """
    if asked in (-1, caller.uid):
        return caller.uid
    if not caller.admin:
        raise PermissionDenied(
            "owner_uid is for root and the daemon's own user; leave it out to see your own",
            field="owner_uid",
        )
    return asked if isinstance(asked, int) else None


def number_in(reminder_id: str) -> int | None:
    """The number in an id; None where no id looks like this."""
    found = _ID.fullmatch(reminder_id)
    return int(found[1]) if found else None


def known_number(reminder_id: str) -> int:
    """The number in an id. Raises reminder_not_found."""
    number = number_in(reminder_id)
    if number is None:
        raise ReminderNotFound(NOT_FOUND, field="id")
    return number


def which(caller: Caller, asked: params.One | params.Update) -> Which:
    """The one reminder that is meant. Raises reminder_not_found, permission_denied."""
    owner = one_owner(caller, asked.owner_uid)
    return Which(known_number(asked.id), owner, asked.session_id or None)


def request_hash(asked: params.Params, *beside: str) -> str:
    """A hash of the canonical request as received, without the key, the owner and `beside`."""
    left_out = {"idempotency_key", "owner_uid", *beside}
    body = asked.model_dump(exclude=left_out, exclude_unset=True)
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
