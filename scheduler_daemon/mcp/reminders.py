"""What each tool asks of the daemon, always within the Session of its call."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from scheduler_daemon.client.aio import AsyncClient
from scheduler_daemon.client.finding import ConnectionLost, DaemonUnreachable, NoAnswer
from scheduler_daemon.errors import (
    InvalidRequest,
    PersistenceUncertain,
    ReminderNotFound,
)
from scheduler_daemon.mcp import arguments as given
from scheduler_daemon.mcp import results
from scheduler_daemon.mcp.keys import Keys
from scheduler_daemon.mcp.results import local, now_in, reminder_of
from scheduler_daemon.wire.frames import MAX_FRAME_BYTES, check_cost, encode
from scheduler_daemon.wire.messages import parse, request

PAGE = 20
_ENVELOPE_BYTES = 100
"""More than the id of a request can take."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool.

    `zone` is that of the local times in its result; `context` is what a reminder made by it keeps
    for its host. `session` gives the Session, and raises InvalidRequest where none is known.
    """

    now: dt.datetime
    zone: str
    session: Callable[[], str]
    context: Mapping[str, str]

    def shown(self) -> results.Now:
        return now_in(self.now, self.zone)


class Reminders:
    """Carries out calls. They raise SchedulerError and DaemonUnreachable."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._keys = Keys()

    async def create(self, call: Call, args: given.Create) -> results.Made:
        params = {
            "session_id": call.session(),
            "context": dict(call.context),
            **args.model_dump(exclude={"when"}, exclude_none=True),
            **given.selector_of(args.when),
        }
        return await self._made(call, "reminder.create", params)

    async def snooze(self, call: Call, args: given.Snooze) -> results.Made:
        selector = given.selector_of(args.when, once=True)
        if "after_seconds" in selector:
            selector = {"seconds": selector["after_seconds"]}
        params = {"id": args.id, "session_id": call.session(), **selector}
        return await self._made(call, "reminder.snooze", params)

    async def list(self, call: Call, args: given.List) -> results.Listed:
        session = call.session()
        if args.id is not None:
            got = await self._ask("reminder.get", {"id": args.id, "session_id": session})
            one = [reminder_of(got["reminder"], call.zone)]
            return results.Listed(reminders=one, now=call.shown())
        filters = args.model_dump(exclude={"id"}, exclude_none=True)
        page = await self._ask("reminder.list", {"limit": PAGE, **filters, "session_id": session})
        return results.Listed(
            reminders=[reminder_of(each, call.zone, whole=False) for each in page["items"]],
            next_cursor=page.get("next_cursor"),
            now=call.shown(),
        )

    async def update(self, call: Call, args: given.Update) -> results.Changed:
        params = {
            "session_id": call.session(),
            **args.model_dump(exclude={"when", "clear"}, exclude_none=True),
            **({} if args.when is None else given.selector_of(args.when)),
        }
        for name in args.clear or ():
            if name in params:
                raise InvalidRequest(f"{name} is given and cleared at once", field="clear")
            params[name] = None
        answer = await self._ask("reminder.update", params)
        return results.Changed(
            reminder=reminder_of(answer["reminder"], call.zone),
            updated=answer["updated"],
            dropped_occurrence=answer.get("dropped_occurrence"),
            now=call.shown(),
        )

    async def delete(self, call: Call, args: given.One) -> results.Deleted:
        params = {"id": args.id, "session_id": call.session()}
        if not (await self._ask("reminder.delete", params))["deleted"]:
            raise ReminderNotFound(
                "this conversation has no reminder with this id, perhaps not any more; "
                "reminder_list shows those that it has",
                field="id",
            )
        return results.Deleted(id=args.id, deleted=True, now=call.shown())

    async def pause(self, call: Call, args: given.One) -> results.OneReminder:
        return await self._one("reminder.pause", call, args)

    async def resume(self, call: Call, args: given.One) -> results.OneReminder:
        return await self._one("reminder.resume", call, args)

    async def preview(self, call: Call, args: given.Preview) -> results.Previewed:
        bounds = args.model_dump(exclude={"when"}, exclude_none=True)
        answer = await self._ask("reminder.preview", {**bounds, **given.selector_of(args.when)})
        items = [
            results.Time(at=item["at"], local=item.get("local") or local(item["at"], call.zone))
            for item in answer["items"]
        ]
        return results.Previewed(rule_text=answer["rule_text"], items=items, now=call.shown())

    async def _one(self, method: str, call: Call, args: given.One) -> results.OneReminder:
        answer = await self._ask(method, {"id": args.id, "session_id": call.session()})
        return results.OneReminder(
            reminder=reminder_of(answer["reminder"], call.zone), now=call.shown()
        )

    async def _made(self, call: Call, method: str, params: dict[str, Any]) -> results.Made:
        """Make something, once also when a call of unknown outcome is repeated word for word."""
        words = json.dumps([method, params], sort_keys=True)
        repeated = self._keys.take(words, call.now)
        key = repeated or uuid4().hex
        try:
            answer = await self._ask(method, {**params, "idempotency_key": key})
        except BaseException as error:
            # Whatever it was, this call or the one that it repeats may have been carried out.
            self._keys.keep(words, key, call.now)
            if isinstance(error, ConnectionLost):
                raise PersistenceUncertain(f"{error}. {_AGAIN}") from None
            raise
        if "reminder" not in answer:
            raise ReminderNotFound(f"{answer['id']} was made by this call and deleted since")
        return results.Made(
            reminder=reminder_of(answer["reminder"], call.zone),
            created=answer["created"] or repeated is None,
            now=call.shown(),
        )

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        """The daemon's answer; asks again when it went away meanwhile, as at a restart.

        Every request made here may be sent twice (docs/protocol.md, what may be sent again).
        """
        _check(method, params)
        try:
            return await self._client.call(method, params)
        except NoAnswer:
            raise
        except ConnectionLost as lost:
            try:
                return await self._client.call(method, params)
            except ConnectionLost:
                raise
            except DaemonUnreachable:
                raise lost from None  # the first one may have been carried out


_AGAIN = "A second call with the same arguments does not make it twice"


def _check(method: str, params: Mapping[str, object]) -> None:
    """Refuse what would end the connection and every other call on it. Raises InvalidRequest."""
    try:
        frame = encode(request(0, method, params)).rstrip(b"\n")
    except ValueError:
        raise InvalidRequest("a number must be finite") from None
    if len(frame) > MAX_FRAME_BYTES - _ENVELOPE_BYTES:
        raise InvalidRequest(f"the arguments have {len(frame)} bytes in all; that is too much")
    check_cost(frame)
    parse(frame)
