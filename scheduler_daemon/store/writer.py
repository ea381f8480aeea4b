"""Group commit: what waits at one moment shares one transaction, each act in its own savepoint."""

from __future__ import annotations

import asyncio
import enum
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from scheduler_daemon.errors import PersistenceFailed, PersistenceUncertain, SchedulerError
from scheduler_daemon.store.database import Database, Identity

GROUP_LIMIT = 64
"""Acts in one transaction; more than that brought nothing when measured."""

T = TypeVar("T")
Act = Callable[[sqlite3.Connection], Any]
Outcome = tuple[bool, Any]
"""Whether the act was committed, and its value or the exception its caller gets."""

FAILED = "nothing was stored: the database could not be written; try again later"
UNCERTAIN = "it is not known whether this was stored; list the reminders to see"
LOCKED = "nothing was stored: another program held the database for too long; try again later"


class _Group(enum.Enum):
    """Why a whole group has no outcomes."""

    LOCKED = enum.auto()
    """A foreign lock kept it out."""
    TORN = enum.auto()
    """SQLite rolled the whole transaction back under one of its acts."""


@dataclass(slots=True)
class _Waiting:
    act: Act
    answer: asyncio.Future[Any]
    give_up_at: float | None  # monotonic seconds; None: never


class Writer:
    """Runs acts on the one writing connection.

    `monotonic` gives seconds; an act that meets a foreign lock for `wait_seconds` is refused with
    persistence_failed, a patient one waits without end. `failed` hears of every error of the
    file, in words for the log.
    """

    def __init__(
        self,
        database: Database,
        identity: Identity,
        *,
        monotonic: Callable[[], float],
        wait_seconds: float,
        failed: Callable[[str], None],
    ) -> None:
        self._database = database
        self._identity = identity
        self._monotonic = monotonic
        self._wait_seconds = wait_seconds
        self._failed = failed
        self._queue: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def run(self, act: Callable[[sqlite3.Connection], T], *, patient: bool = False) -> T:
        """The value of `act` once it is on disk.

        Raises what `act` raised, persistence_failed when nothing was stored, and
        persistence_uncertain when that is not known. A cancelled caller's act may still be stored.
        """
        give_up_at = None if patient else self._monotonic() + self._wait_seconds
        waiting = _Waiting(act, asyncio.get_running_loop().create_future(), give_up_at)
        self._queue.append(waiting)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain(), name="store writer")
        return await waiting.answer  # type: ignore[no-any-return]

    async def drained(self) -> None:
        """Return when nothing waits to be written."""
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _drain(self) -> None:
        while self._queue:
            group = self._queue[:GROUP_LIMIT]
            acts = [waiting.act for waiting in group]
            try:
                outcomes = await self._database.run(partial(self._commit, acts))
            except Exception as error:  # noqa: BLE001  a defect must not leave callers waiting
                outcomes = [(False, error) for _ in group]
            if outcomes is _Group.LOCKED:
                self._expire()
                continue
            del self._queue[: len(group)]
            for waiting, (done, value) in zip(group, outcomes, strict=True):
                _answer(waiting.answer, done, value)

    def _expire(self) -> None:
        """Refuse those that have waited long enough for a foreign lock; the others go again."""
        now = self._monotonic()
        late = [w for w in self._queue if w.give_up_at is not None and w.give_up_at <= now]
        self._queue = [w for w in self._queue if w not in late]
        if late:
            self._failed("another program holds the write lock")
        for waiting in late:
            _answer(waiting.answer, False, PersistenceFailed(LOCKED))

    def _commit(
        self, acts: list[Act], conn: sqlite3.Connection
    ) -> list[Outcome] | Literal[_Group.LOCKED]:
        outcomes = self._group(conn, acts)
        if outcomes is not _Group.TORN:
            return outcomes
        # What one act met must not decide over the others: each gets a transaction of its own.
        return [outcome for act in acts for outcome in self._alone(conn, act)]

    def _alone(self, conn: sqlite3.Connection, act: Act) -> list[Outcome]:
        outcomes = self._group(conn, [act])
        return [(False, PersistenceFailed(FAILED))] if isinstance(outcomes, _Group) else outcomes

    def _group(self, conn: sqlite3.Connection, acts: list[Act]) -> list[Outcome] | _Group:
        try:
            conn.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if is_locked(error):
                return _Group.LOCKED
            self._failed(str(error))
            return [(False, PersistenceFailed(FAILED)) for _ in acts]
        outcomes: list[Outcome] = []
        for act in acts:
            outcome = self._savepoint(conn, act)
            if outcome is None:
                return _Group.TORN
            outcomes.append(outcome)
        return self._finish(conn, outcomes)

    def _savepoint(self, conn: sqlite3.Connection, act: Act) -> Outcome | None:
        """The act's outcome, None when SQLite gave up the whole transaction under it."""
        try:
            conn.execute("SAVEPOINT act")
            value = act(conn)
            conn.execute("RELEASE act")
        except Exception as error:  # noqa: BLE001  it is its caller's, whatever it is
            if isinstance(error, sqlite3.OperationalError):
                self._failed(str(error))
                error = PersistenceFailed(FAILED)
            return (False, error) if _undo(conn, "ROLLBACK TO act", "RELEASE act") else None
        return (True, value)

    def _finish(self, conn: sqlite3.Connection, outcomes: list[Outcome]) -> list[Outcome]:
        if not self._identity.holds():
            self._failed("the database file was moved, deleted or replaced")
            _undo(conn, "ROLLBACK")
            return _instead(outcomes, PersistenceFailed, FAILED)
        try:
            conn.execute("COMMIT")
        except sqlite3.Error as error:
            self._failed(str(error))
            _undo(conn, "ROLLBACK")
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            if full:
                return _instead(outcomes, PersistenceFailed, FAILED)
            return _instead(outcomes, PersistenceUncertain, UNCERTAIN)
        if not self._identity.holds():
            self._failed("the database file was moved, deleted or replaced")
            return _instead(outcomes, PersistenceUncertain, UNCERTAIN)
        return outcomes


def is_locked(error: sqlite3.Error) -> bool:
    """Whether another connection holds the lock, which time mends."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _instead(outcomes: list[Outcome], error: type[SchedulerError], message: str) -> list[Outcome]:
    """Refusals stay refusals; what would have been stored was not."""
    return [(False, error(message)) if done else (done, value) for done, value in outcomes]


def _undo(conn: sqlite3.Connection, *commands: str) -> bool:
    """Whether the transaction was still open and could be taken back so far."""
    if not conn.in_transaction:
        return False
    try:
        for command in commands:
            conn.execute(command)
    except sqlite3.Error:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        return False
    return True


def _answer(future: asyncio.Future[Any], done: bool, value: Any) -> None:
    if future.done():  # its caller was cancelled
        return
    if done:
        future.set_result(value)
    else:
        future.set_exception(value)
