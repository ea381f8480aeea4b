"""The table of methods: the params of each, whether it writes, and what carries it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from scheduler_daemon import __version__
from scheduler_daemon.desk import Caller
from scheduler_daemon.errors import InvalidRequest
from scheduler_daemon.hosts.host import Host
from scheduler_daemon.log import get_logger
from scheduler_daemon.rules import zone_data_version
from scheduler_daemon.server.watch import watch_of
from scheduler_daemon.service import Service
from scheduler_daemon.status import StatusBoard
from scheduler_daemon.watching import Watch
from scheduler_daemon.wire import calls, params, shapes
from scheduler_daemon.wire.messages import PROTOCOL

log = get_logger(__name__)


class Connection(Protocol):
    """What a method may know of the connection that it came on."""

    caller: Caller
    service: Service
    status: StatusBoard

    def host(self) -> Host:
        """The host that this connection is, made at the first call."""

    def attach(self, sessions: list[str] | Literal["*"], name: str) -> Host: ...

    def detach(self, sessions: list[str] | Literal["*"]) -> None: ...

    def watch(self, watch: Watch) -> None: ...


Carry = Callable[[Connection, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Method:
    """One method; its `access` decides what of one connection it may overlap (Requests)."""

    name: str
    params: type[params.Params]
    access: Literal["read", "write"]
    carry_out: Carry


async def _hello(connection: Connection, asked: params.Hello) -> calls.Hello:
    if asked.protocol != PROTOCOL:
        raise InvalidRequest(
            f"protocol {asked.protocol} is not spoken here, only {PROTOCOL}",
            field="protocol",
            protocols=[PROTOCOL],
        )
    log.debug("client_introduced", uid=connection.caller.uid, client=asked.client)
    return {
        "protocol": PROTOCOL,
        "server": f"scheduler-daemon {__version__}",
        "zone_data": zone_data_version(),
        "uid": connection.caller.uid,
        "admin": connection.caller.admin,
        "methods": list(METHODS),
    }


async def _attach(connection: Connection, asked: params.Attach) -> calls.Attached:
    # Nothing is sent before this answer: nothing is awaited.
    host = connection.attach(asked.sessions, asked.name)
    if "max_in_flight" in asked.model_fields_set:
        host.max_in_flight = asked.max_in_flight
    return _attached(host)


async def _detach(connection: Connection, asked: params.Detach) -> calls.Attached:
    connection.detach(asked.sessions)
    return _attached(connection.host())


def _attached(host: Host) -> calls.Attached:
    return {"sessions": "*" if host.star else sorted(host.sessions)}


async def _status(connection: Connection, asked: params.Nothing) -> shapes.Status:
    del asked
    return await connection.status.view(connection.caller)


async def _watch(connection: Connection, asked: params.Watch) -> calls.Watching:
    # Of no change before this answer: nothing is awaited.
    connection.watch(watch_of(connection.caller, asked))
    return {}


METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method("hello", params.Hello, "read", _hello),
        Method(
            "reminder.create",
            params.Create,
            "write",
            lambda c, a: c.service.create(c.caller, a),
        ),
        Method("reminder.get", params.Get, "read", lambda c, a: c.service.get(c.caller, a)),
        Method(
            "reminder.list",
            params.ListReminders,
            "read",
            lambda c, a: c.service.list_reminders(c.caller, a),
        ),
        Method(
            "reminder.update",
            params.Update,
            "write",
            lambda c, a: c.service.update(c.caller, a),
        ),
        Method(
            "reminder.delete",
            params.One,
            "write",
            lambda c, a: c.service.delete(c.caller, a),
        ),
        Method(
            "reminder.pause",
            params.One,
            "write",
            lambda c, a: c.service.acts.pause(c.caller, a),
        ),
        Method(
            "reminder.resume",
            params.One,
            "write",
            lambda c, a: c.service.acts.resume(c.caller, a),
        ),
        Method(
            "reminder.snooze",
            params.Snooze,
            "write",
            lambda c, a: c.service.acts.snooze(c.caller, a),
        ),
        Method(
            "reminder.skip",
            params.One,
            "write",
            lambda c, a: c.service.acts.skip(c.caller, a),
        ),
        Method(
            "reminder.run_now",
            params.RunNow,
            "write",
            lambda c, a: c.service.acts.run_now(c.caller, a),
        ),
        Method(
            "reminder.preview",
            params.Preview,
            "read",
            lambda c, a: c.service.preview(c.caller, a),
        ),
        Method(
            "reminder.history",
            params.History,
            "read",
            lambda c, a: c.service.history(c.caller, a),
        ),
        Method(
            "session.list",
            params.ListSessions,
            "read",
            lambda c, a: c.service.sessions.list_sessions(c.caller, a),
        ),
        Method(
            "session.forget",
            params.Forget,
            "write",
            lambda c, a: c.service.sessions.forget(c.caller, a),
        ),
        Method(
            "session.transfer",
            params.Transfer,
            "write",
            lambda c, a: c.service.sessions.transfer(c.caller, a),
        ),
        Method("daemon.status", params.Nothing, "read", _status),
        Method("daemon.watch", params.Watch, "read", _watch),
        Method("host.attach", params.Attach, "write", _attach),
        Method("host.detach", params.Detach, "write", _detach),
    )
}
"""Every method that takes a request, by name. `session.ready` is a notification."""
