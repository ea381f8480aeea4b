"""Clients of the daemon: `Client` for plain programs, `AsyncClient` and `AgentHost` for asyncio.

    with Client() as client:
        client.create("conversation-1", "Check the build", after_seconds=1200)

A refusal by the daemon is raised as the SchedulerError subclass of its code
(`scheduler_daemon.errors`); a daemon that cannot be reached as DaemonUnreachable.
The asyncio half is imported when it is first asked for, so that a command line stays quick.
"""

from __future__ import annotations

from scheduler_daemon.client.finding import ConnectionLost, DaemonUnreachable, NoAnswer
from scheduler_daemon.client.sync import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scheduler_daemon.client.aio import AsyncClient
    from scheduler_daemon.client.host import Admitted, AgentHost, Busy, Gone

__all__ = [
    "Admitted",
    "AgentHost",
    "AsyncClient",
    "Busy",
    "Client",
    "ConnectionLost",
    "DaemonUnreachable",
    "Gone",
    "NoAnswer",
]

_HOST_NAMES = frozenset({"Admitted", "AgentHost", "Busy", "Gone"})


def __getattr__(name: str) -> object:
    if name == "AsyncClient":
        from scheduler_daemon.client.aio import AsyncClient

        return AsyncClient
    if name in _HOST_NAMES:
        from scheduler_daemon.client import host

        return getattr(host, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
