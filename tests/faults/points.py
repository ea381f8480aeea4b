"""Named points of the daemon at which the test build kills itself; production code has no hooks."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

from scheduler_daemon import daemon
from scheduler_daemon.hosts.host import Host
from scheduler_daemon.reminder_acts import ReminderActs
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.server.connection import Connection
from scheduler_daemon.server.listener import Listener
from scheduler_daemon.service import Service
from scheduler_daemon.session_care import SessionCare
from scheduler_daemon.sessions import SessionState
from scheduler_daemon.store import migrate, receipts
from scheduler_daemon.store.standing import Standing
from scheduler_daemon.store.store import Store
from scheduler_daemon.store.writer import Writer

COMMITS: dict[str, tuple[type, str]] = {
    "create": (Service, "create"),
    "update": (Service, "update"),
    "delete": (Service, "delete"),
    "pause": (ReminderActs, "pause"),
    "resume": (ReminderActs, "resume"),
    "skip": (ReminderActs, "skip"),
    "snooze": (ReminderActs, "snooze"),
    "run_now": (ReminderActs, "run_now"),
    "forget": (SessionCare, "forget"),
    "transfer": (SessionCare, "transfer"),
    "receipt": (Store, "record"),
    "settle": (Store, "settle"),
    "set_aside": (Store, "set_aside"),
}
"""What is written, and the method in whose task that happens."""

UPKEEP = ("note_zone_data", "correct_ahead", "recompute_zones", "end_beyond", "retention")
"""Acts of store/upkeep.py, each a kind of commit of its own, and all of store/retention.py."""

POINTS = frozenset(
    {f"{side}_commit.{what}" for side in ("before", "after") for what in (*COMMITS, *UPKEEP)}
    | {"before_commit.migration", "after_commit.migration", "migration_statement"}
    | {"copying", "copied", "after_copy"}
    | {
        "before_mark",
        "before_push",
        "after_push",
        "admission_read",
        "before_receipt_row",
        "after_receipt_row",
    }
    | {"file_made", "after_lock", "after_open", "after_bind", "before_ready"}
    | {"listener_closed", "stopping", "before_close", "after_close"}
)

STOPPING_SECONDS = 0.05
"""How long the end of what is in flight is waited for before the point `stopping` is reached."""

_writing: contextvars.ContextVar[str] = contextvars.ContextVar("_writing", default="other")
_group = threading.local()


class Trigger:
    """Kills the process when it comes to `wanted` (`point`, or `point:n` for the n-th time)."""

    def __init__(self, wanted: str) -> None:
        self._name, _, count = wanted.partition(":")
        self._left = int(count or 1)
        if self._name not in POINTS or self._left < 1:
            raise SystemExit(f"no such point: {wanted}; known are {', '.join(sorted(POINTS))}")

    def __call__(self, name: str) -> None:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def install(reached: Callable[[str], None]) -> None:
    """Let every point of the program call `reached` with its name."""
    _wrap_commits(reached)
    _wrap_migration(reached)
    _wrap_delivery(reached)
    _wrap_start_and_stop(reached)


def _wrap(
    owner: Any,
    name: str,
    before: Callable[[], object] = lambda: None,
    after: Callable[[], object] = lambda: None,
) -> None:
    original = getattr(owner, name)
    wrapped: Callable[..., Any]
    if inspect.iscoroutinefunction(original):

        async def wrapped(*args: Any, **more: Any) -> Any:
            before()
            value = await original(*args, **more)
            after()
            return value
    else:

        def wrapped(*args: Any, **more: Any) -> Any:
            before()
            value = original(*args, **more)
            after()
            return value

    setattr(owner, name, staticmethod(wrapped) if inspect.ismethod(original) else wrapped)


def _wrap_commits(reached: Callable[[str], None]) -> None:
    for what, (owner, method) in COMMITS.items():
        _wrap(owner, method, before=functools.partial(_writing.set, what))
    run, together, finish, upkeep = Writer.run, Writer._together, Writer._finish, Store.upkeep

    async def tagged_run(self: Writer, act: Callable[..., Any], **more: Any) -> Any:
        return await run(self, _Tagged(_writing.get(), act), **more)

    def noted_together(self: Writer, conn: sqlite3.Connection, acts: list[Any]) -> Any:
        _group.kinds = [act.kind for act in acts]
        return together(self, conn, acts)

    def told_finish(
        self: Writer, conn: sqlite3.Connection, outcomes: list[Any], before: int
    ) -> Any:
        for kind in _group.kinds:
            reached(f"before_commit.{kind}")
        outcomes = finish(self, conn, outcomes, before)
        for kind in _group.kinds:
            reached(f"after_commit.{kind}")
        return outcomes

    async def named_upkeep(self: Store, act: Callable[..., Any], *, patient: bool = False) -> Any:
        name = act.__qualname__.partition(".")[0]
        _writing.set("retention" if name == "_slice" else name)
        return await upkeep(self, act, patient=patient)

    _wrap(Standing, "note", before=lambda: reached("before_mark"))
    Writer.run = tagged_run  # type: ignore[method-assign]
    Writer._together = noted_together  # type: ignore[method-assign]
    Writer._finish = told_finish  # type: ignore[method-assign]
    Store.upkeep = named_upkeep  # type: ignore[method-assign]


class _Tagged:
    """An act that knows what it is part of."""

    def __init__(self, kind: str, act: Callable[[sqlite3.Connection], Any]) -> None:
        self.kind = kind
        self._act = act

    def __call__(self, conn: sqlite3.Connection) -> Any:
        return self._act(conn)


def _wrap_migration(reached: Callable[[str], None]) -> None:
    apply, copy, statements = migrate._apply, migrate._copy, migrate.statements

    def told_apply(conn: Any, *more: Any) -> None:
        apply(_Migrating(conn, reached), *more)  # type: ignore[arg-type]  # as much as it uses

    def told_copy(conn: Any, *more: Any) -> None:
        copy(_Migrating(conn, reached), *more)  # type: ignore[arg-type]  # as much as it uses
        reached("after_copy")

    def told_statements(script: str) -> Iterator[str]:
        for statement in statements(script):
            reached("migration_statement")
            yield statement

    migrate._apply = told_apply  # type: ignore[assignment]  # called alike
    migrate._copy = told_copy  # type: ignore[assignment]  # called alike
    migrate.statements = told_statements


class _Migrating:
    """The connection of a migration, which tells of its commit and copies page by page."""

    def __init__(self, conn: sqlite3.Connection, reached: Callable[[str], None]) -> None:
        self._conn = conn
        self._reached = reached

    def execute(self, statement: str, *values: Any) -> Any:
        if statement != "COMMIT":
            return self._conn.execute(statement, *values)
        self._reached("before_commit.migration")
        done = self._conn.execute(statement)
        self._reached("after_commit.migration")
        return done

    def rollback(self) -> None:
        self._conn.rollback()

    def backup(self, target: sqlite3.Connection, *, progress: Callable[..., None]) -> None:
        def stepped(*state: int) -> None:
            self._reached("copying")
            progress(*state)

        self._conn.backup(target, pages=1, progress=stepped)
        self._reached("copied")


def _wrap_delivery(reached: Callable[[str], None]) -> None:
    _wrap(Host, "push", before=lambda: reached("before_push"))
    _wrap(SessionState, "read_admission", after=lambda: reached("admission_read"))
    _wrap(
        receipts,
        "_receive",
        before=lambda: reached("before_receipt_row"),
        after=lambda: reached("after_receipt_row"),
    )
    send = Connection.send

    def told_send(self: Connection, message: Any) -> None:
        send(self, message)
        if message.get("method") == "session.followup":
            reached("after_push")

    Connection.send = told_send  # type: ignore[method-assign]


def _wrap_start_and_stop(reached: Callable[[str], None]) -> None:
    def soon() -> None:
        asyncio.get_running_loop().call_later(STOPPING_SECONDS, reached, "stopping")

    _wrap(daemon, "create_file", after=lambda: reached("file_made"))
    _wrap(daemon, "_take", after=lambda: reached("after_lock"))
    _wrap(Store, "open", after=lambda: reached("after_open"))
    _wrap(daemon, "bind", after=lambda: reached("after_bind"))
    _wrap(daemon.Daemon, "_log_start", before=lambda: reached("before_ready"))
    _wrap(Listener, "close", after=lambda: reached("listener_closed"))
    _wrap(Scheduler, "stop", before=soon)
    _wrap(
        Store,
        "close",
        before=lambda: reached("before_close"),
        after=lambda: reached("after_close"),
    )
