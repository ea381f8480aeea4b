"""Group commit: what waits at one moment shares one transaction, each act in its own savepoint.

An act is a function of the connection that changes nothing else and lets every error of the file
through: under some, SQLite gives up the whole transaction, and then each act of the group is called
once more in a transaction of its own.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

from scheduler_daemon.errors import PersistenceFailed, PersistenceUncertain
from scheduler_daemon.log import get_logger
from scheduler_daemon.store.database import Database, is_locked, is_of_the_file
from scheduler_daemon.store.mending import count_all, is_of_counts
from scheduler_daemon.store.room import FULL, DiskFull, is_full, make_room
from scheduler_daemon.store.standing import Standing

GROUP_LIMIT = 64
"""A transaction takes no further act once it writes so many records: more brought nothing."""

T = TypeVar("T")
Act = Callable[[sqlite3.Connection], Any]
Outcome = tuple[bool, Any]
"""Whether the act was committed, and its value or the exception that its caller gets."""

FAILED = "nothing was stored: the database could not be written; try again later"
UNCERTAIN = "it is not known whether this was stored; list the reminders to see"
LOCKED = "nothing was stored: another program held the database for too long; try again later"
CLOSED = "nothing was stored: the daemon is stopping; try again when it runs"

log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Waiting:
    act: Act
    answer: asyncio.Future[Any]
    give_up_at: float  # monotonic seconds
    tell_at: float
    patient: bool
    records: int


class Writer:
    """Runs acts on the one writing connection.

    `monotonic` gives seconds; an act that meets a foreign lock for `wait_seconds` is refused with
    persistence_failed, a patient one waits without end. `failed` hears of every error of the
    file, in words for the log, and once of each act that waited so long. `commits` counts
    transactions that went well.
    """

    def __init__(
        self,
        database: Database,
        standing: Standing,
        *,
        monotonic: Callable[[], float],
        wait_seconds: float,
        failed: Callable[[str], None],
    ) -> None:
        self._database = database
        self._standing = standing
        self._monotonic = monotonic
        self._wait_seconds = wait_seconds
        self._failed = failed
        self._queue: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.commits = 0

    async def run(
        self, act: Callable[[sqlite3.Connection], T], *, patient: bool = False, records: int = 1
    ) -> T:
        """The value of `act`, which writes so many `records`, once it is on disk.

        Patient acts let others pass, and have half of each transaction while others wait. Among
        the patient ones, and among the others, each keeps its place.

        Raises what `act` raised, persistence_failed when nothing was stored, and
        persistence_uncertain when that is not known. A cancelled caller's act may still be stored.
        """
        if self._closed:
            raise PersistenceFailed(CLOSED)
        tell_at = self._monotonic() + self._wait_seconds
        give_up_at = math.inf if patient else tell_at
        answer = asyncio.get_running_loop().create_future()
        waiting = _Waiting(act, answer, give_up_at, tell_at, patient, records)
        self._queue.append(waiting)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain(), name="store writer")
        return await waiting.answer  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Take no more acts, and return when none waits.

        From here on even patient ones wait for a foreign lock no longer than `wait_seconds`.
        """
        self._closed = True
        last = self._monotonic() + self._wait_seconds
        for waiting in self._queue:
            waiting.give_up_at = min(last, waiting.give_up_at)
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _drain(self) -> None:
        while self._queue:
            group = self._next_group()
            acts = [waiting.act for waiting in group]
            try:
                outcomes = await self._database.run(partial(self._commit, acts))
            except Exception as error:  # noqa: BLE001  a defect must not leave callers waiting
                self._failed(repr(error))
                outcomes = [(False, PersistenceUncertain(UNCERTAIN)) for _ in group]
            del self._queue[: len(outcomes)]
            for waiting, outcome in zip(group, outcomes, strict=False):
                _answer(waiting.answer, *outcome)
            if len(outcomes) < len(group):
                self._give_up_late_ones()

    def _next_group(self) -> list[_Waiting]:
        """What goes into the next transaction, which is put to the front of the queue."""
        patient = [waiting for waiting in self._queue if waiting.patient]
        callers = [waiting for waiting in self._queue if not waiting.patient]
        half = GROUP_LIMIT // 2
        self._queue = [*callers[:half], *patient, *callers[half:]]
        before = accumulate((waiting.records for waiting in self._queue), initial=0)
        return self._queue[: bisect_left([*before], GROUP_LIMIT)]

    def _give_up_late_ones(self) -> None:
        """Refuse those that have waited long enough for a foreign lock; the others go again.

        Of a patient one it is said once that it waits: nobody else would hear of it.
        """
        now = self._monotonic()
        told = [w for w in self._queue if w.tell_at <= now]
        for waiting in told:
            waiting.tell_at = math.inf
        late = [w for w in self._queue if w.give_up_at <= now]
        self._queue = [w for w in self._queue if w.give_up_at > now]
        if told or late:
            self._failed("another program holds the write lock")
        for waiting in late:
            _answer(waiting.answer, False, PersistenceFailed(LOCKED))

    def _commit(self, acts: list[Act], conn: sqlite3.Connection) -> list[Outcome]:
        """The outcomes of the first acts; a foreign lock kept out those that have none."""
        outcomes = self._together(conn, acts)
        if outcomes is not None:
            return outcomes
        # What one act met must not decide over the others: each gets a transaction of its own.
        outcomes = []
        for act in acts:
            alone = self._together(conn, [act])
            if alone is None:
                alone = [(False, PersistenceFailed(FAILED))]
            if not alone:
                break  # those behind it must not overtake it
            outcomes += alone
        return outcomes

    def _together(self, conn: sqlite3.Connection, acts: list[Act]) -> list[Outcome] | None:
        """The outcomes of acts in one transaction; none at all where a foreign lock kept it out.

        None when the whole transaction was given up, under one of several: nothing was stored.
        """
        for how in ("RESTART", "TRUNCATE", None):
            try:
                return self._once(conn, acts)
            except DiskFull:
                conn.rollback()
                if how is None or not make_room(conn, how):
                    break
        if len(acts) > 1:
            return None
        self._failed(FULL)
        return [(False, PersistenceFailed(FAILED))]

    def _once(self, conn: sqlite3.Connection, acts: list[Act]) -> list[Outcome] | None:
        """As `_together`, with the room that there is. Raises DiskFull; nothing was stored then."""
        try:
            conn.rollback()  # what a defect left open was not acknowledged
            conn.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if is_locked(error):
                return []
            self._failed(str(error))
            return [(False, PersistenceFailed(FAILED)) for _ in acts]
        before = conn.total_changes
        outcomes: list[Outcome] = []
        for act in acts:
            outcome = self._outcome(conn, act)
            if outcome is None:
                return None
            outcomes.append(outcome)
        return self._finish(conn, outcomes, before)

    def _outcome(self, conn: sqlite3.Connection, act: Act) -> Outcome | None:
        """What the act gave, None when SQLite gave up the whole transaction under it."""
        try:
            return (True, _in_savepoint(conn, act))
        except Exception as error:
            if is_full(error):
                raise DiskFull(FULL) from error
            refusal = self._refusal(error)
            return (False, refusal) if _undo(conn, "ROLLBACK TO act", "RELEASE act") else None

    def _refusal(self, error: Exception) -> Exception:
        """What the caller of an act that raised `error` gets."""
        if is_of_the_file(error):
            self._failed(str(error))
            return PersistenceFailed(FAILED)
        if isinstance(error, StopIteration):  # which no future carries
            return RuntimeError(repr(error))
        return error

    def _finish(
        self, conn: sqlite3.Connection, outcomes: list[Outcome], before: int
    ) -> list[Outcome]:
        """Commit what was done since `before` changes; one that changed nothing proves nothing."""
        wrong = self._standing.wrong()
        if wrong is not None:
            self._failed(wrong)
            _undo(conn, "ROLLBACK")
            return _instead(outcomes, certain=True)
        try:
            self._standing.prepare(conn)
            conn.execute("COMMIT")
        except sqlite3.Error as error:
            if is_full(error):  # which leaves it unwritten
                raise DiskFull(FULL) from error
            self._failed(str(error))
            # While it is still open nothing of it was written. Otherwise its last frame may have
            # reached the log, and a restart would find it there.
            return _instead(outcomes, certain=_undo(conn, "ROLLBACK"))
        wrong = self._standing.wrong()
        if wrong is not None:
            self._failed(wrong)
            return _instead(outcomes, certain=False)
        if conn.total_changes > before:
            self._standing.note()
            self.commits += 1
        return outcomes


def _in_savepoint(conn: sqlite3.Connection, act: Act) -> Any:
    """The value of the act, in a savepoint of its own that an error leaves open.

    Counts that an edit by hand left too low are counted anew: nothing could ever end or go there.
    """
    conn.execute("SAVEPOINT act")
    try:
        value = act(conn)
    except sqlite3.IntegrityError as error:
        if not is_of_counts(error):
            raise
        conn.execute("ROLLBACK TO act")
        log.warning("sessions_put_right", sessions=len(count_all(conn)))
        value = act(conn)
    conn.execute("RELEASE act")
    return value


def _instead(outcomes: list[Outcome], *, certain: bool) -> list[Outcome]:
    """Outcomes of a commit that failed; `certain` when it is known that nothing was stored.

    A refusal stored nothing in any case, but may rest on what another act of the group wrote.
    """
    return [
        (
            False,
            PersistenceFailed(FAILED) if certain or not done else PersistenceUncertain(UNCERTAIN),
        )
        for done, _ in outcomes
    ]


def _undo(conn: sqlite3.Connection, *commands: str) -> bool:
    """Whether the transaction was still open and could be taken back so far."""
    if not conn.in_transaction:
        return False
    try:
        for command in commands:
            conn.execute(command)
    except sqlite3.Error:
        conn.rollback()
        return False
    return True


def _answer(future: asyncio.Future[Any], done: bool, value: Any) -> None:
    if future.done():  # its caller was cancelled
        return
    if done:
        future.set_result(value)
    else:
        future.set_exception(value)
