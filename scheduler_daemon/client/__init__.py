"""Clients of the daemon: `Client` for plain programs, `AsyncClient` and `AgentHost` for asyncio.

    with Client() as client:
        client.create("conversation-1", "Check the build", after_seconds=1200)

A refusal by the daemon is raised as the SchedulerError subclass of its code
(`scheduler_daemon.errors`); a daemon that cannot be reached as DaemonUnreachable.
What is for asyncio or watches is imported when it is first asked for: command lines stay quick.
"""

from __future__ import annotations

from scheduler_daemon.client.finding import ConnectionLost, DaemonUnreachable, NoAnswer
from scheduler_daemon.client.sync import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scheduler_daemon.client.aio import AsyncClient
    from scheduler_daemon.client.aio_watch import AsyncChanges
    from scheduler_daemon.client.answers import Admitted, Busy, Gone, NotDelivered
    from scheduler_daemon.client.host import AgentHost
    from scheduler_daemon.client.spool import Spool
    from scheduler_daemon.client.watch import Changes, Lagged

__all__ = [
    "Admitted",
    "AgentHost",
    "AsyncChanges",
    "AsyncClient",
    "Busy",
    "Changes",
    "Client",
    "ConnectionLost",
    "DaemonUnreachable",
    "Gone",
    "Lagged",
    "NoAnswer",
    "NotDelivered",
    "Spool",
]

_HOMES = {
    "Admitted": "answers",
    "AgentHost": "host",
    "AsyncChanges": "aio_watch",
    "AsyncClient": "aio",
    "Busy": "answers",
    "Changes": "watch",
    "Gone": "answers",
    "Lagged": "watch",
    "NotDelivered": "answers",
    "Spool": "spool",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
