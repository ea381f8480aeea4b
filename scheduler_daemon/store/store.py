"""What is written: one public method is one transaction, named by what it means."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from scheduler_daemon.log import get_logger
from scheduler_daemon.model import FollowUp, Instant, Key, Occurrence, Reminder
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store import acts, receipts
from scheduler_daemon.store.acts import NOT_FOUND as NOT_FOUND
from scheduler_daemon.store.acts import Forgotten, RequestKey, Run
from scheduler_daemon.store.acts import Which as Which
from scheduler_daemon.store.creation import Created as Created
from scheduler_daemon.store.creation import Draft as Draft
from scheduler_daemon.store.creation import Limits as Limits
from scheduler_daemon.store.creation import create
from scheduler_daemon.store.database import Database, open_database
from scheduler_daemon.store.lookups import Beside
from scheduler_daemon.store.mending import count_owners, mend, set_aside
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.reader import Reader
from scheduler_daemon.store.receipts import Left as Left
from scheduler_daemon.store.rows import BadRow
from scheduler_daemon.store.standing import Standing
from scheduler_daemon.store.writer import Writer

T = TypeVar("T")

log = get_logger(__name__)


class Store:
    """The file. `reader` answers questions; the methods here write."""

    def __init__(
        self,
        writing: Database,
        reading: Database,
        writer: Writer,
        standing: Standing,
        failed: Callable[[str], None],
    ) -> None:
        self._writing = writing
        self._reading = reading
        self._writer = writer
        self._standing = standing
        self.reader = Reader(reading, failed, self.mend)

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        monotonic: Callable[[], float],
        wait_seconds: float,
        failed: Callable[[str], None],
    ) -> Store:
        """Open a migrated file; `close` ends both threads. DatabaseRefused where it cannot be.

        See Writer for the arguments; `failed` is called on any thread.
        """
        writing = await open_database(path, read_only=False)
        try:
            reading = await open_database(path, read_only=True)
        except BaseException:
            await writing.close()
            raise
        standing = Standing(path)
        standing.note()  # what a kill kept from being noted was judged as it lay there
        writer = Writer(
            writing,
            standing,
            monotonic=monotonic,
            wait_seconds=wait_seconds,
            failed=failed,
        )
        return cls(writing, reading, writer, standing, failed)

    async def close(self) -> None:
        """Write what waits, then close the file."""
        try:
            await self._writer.close()
        finally:
            if self._standing.wrong() is not None:
                self._standing.keep()
            await self._reading.close()
            await self._writing.close()
            self._standing.close()

    def wrong(self) -> str | None:
        """What is wrong with the files on disk, None where nothing is; SQLite would not say."""
        return self._standing.wrong()

    @property
    def writes(self) -> int:
        """How many transactions were written since the start."""
        return self._writer.commits

    async def create(self, draft: Draft, now: Instant, limits: Limits) -> Created:
        """Store a reminder, or find the one its idempotency key made."""
        return await self._writer.run(lambda conn: create(conn, draft, now, limits))

    async def change(
        self, which: Which, changed: Callable[[Reminder], Reminder]
    ) -> tuple[Reminder, Reminder, Beside]:
        """Replace a reminder by `changed(reminder)`; gives both and the newest dispatch.

        `changed` is pure; what it raises reaches the caller and nothing is written, and neither
        is anything when it gives back its argument. Raises reminder_not_found.
        """
        return await self._writer.run(lambda conn: acts.change(conn, which, changed))

    async def skip(
        self,
        which: Which,
        skipped: Callable[[Reminder], tuple[Reminder, Occurrence]],
        now: Instant,
    ) -> tuple[Reminder, Occurrence, Beside]:
        """Write that an occurrence was skipped and replace the reminder, as `skipped` says.

        `skipped` is pure; what it raises reaches the caller. Raises reminder_not_found.
        """
        return await self._writer.run(lambda conn: acts.skip(conn, which, skipped, now))

    async def snooze(
        self,
        which: Which,
        draft_of: Callable[[Reminder], Draft],
        key: RequestKey | None,
        now: Instant,
        limits: Limits,
    ) -> Created:
        """Make a one-shot out of a reminder, or find the one that the key made of it."""
        return await self._writer.run(
            lambda conn: acts.snooze(conn, which, draft_of, key, now, limits)
        )

    async def run_now(
        self, which: Which, key: RequestKey | None, now: Instant, limits: Limits
    ) -> Run:
        """Keep one occurrence that is due at once, or find the one that the key made.

        Raises reminder_not_found, reminder_ended, limit_reached where as many wait as a Session
        may have reminders.
        """
        return await self._writer.run(lambda conn: acts.run_now(conn, which, key, now, limits))

    async def forget(self, owner: int, session: str, now: Instant) -> Forgotten:
        """Remove the reminders and receipts of a Session."""
        return await self._writer.run(lambda conn: acts.forget(conn, owner, session, now))

    async def transfer(
        self, owner: int, session: str, to_session: str, limits: Limits
    ) -> list[str]:
        """Move the active reminders of a Session to another; gives their ids.

        Receipts and idempotency keys stay. Raises limit_reached, and then nothing moved.
        """
        return await self._writer.run(
            lambda conn: acts.transfer(conn, owner, session, to_session, limits)
        )

    async def delete(self, which: Which, now: Instant) -> Key | None:
        """Delete a reminder; gives its Session, None where there was none."""
        values = {"number": which.number, "owner": which.owner, "session": which.session}

        def act(conn: sqlite3.Connection) -> Key | None:
            found: Key | None = conn.execute(QUERIES["delete_reminder"], values).fetchone()
            if found:
                gone = {"number": which.number, "now": instant_text(now)}
                conn.execute(QUERIES["key_gone"], gone)
            return found

        return await self._writer.run(act)

    async def record(
        self, followup: FollowUp, admitted_at: Instant, host: str, message_id: str | None
    ) -> Left:
        """Write every receipt of an admitted follow-up and advance or end every record.

        Waits for a foreign lock without end; other failures are raised and can be retried.
        """
        return await self._writer.run(
            lambda conn: receipts.record(conn, followup, admitted_at, host, message_id),
            patient=True,
            records=len(followup.occurrences),
        )

    async def settle(
        self, occurrences: Sequence[Occurrence], now: Instant, outcome: Literal["missed"] | None
    ) -> Left:
        """Let records go on without a message, with a receipt of `outcome` or with none.

        One that changed since `occurrences` were read is left alone.
        """
        return await self._writer.run(lambda conn: receipts.settle(conn, occurrences, now, outcome))

    async def set_aside(self, rows: Sequence[BadRow]) -> list[Key]:
        """Take rows that do not decode out of what is due; gives their Sessions.

        Each is logged once: one that is set aside already is left alone.
        """

        done = await self._writer.run(lambda conn: set_aside(conn, rows))
        for bad, _ in done:
            _log_aside(bad)
        return [key for _, key in done]

    async def mend(self, keys: Sequence[Key]) -> None:
        """Put right what an edit by hand left wrong in Sessions: counts, targets, bad rows."""
        mended = await self._writer.run(mend(keys))
        log.warning("sessions_put_right", sessions=len(mended.keys), first=mended.keys[0][1])
        for bad in mended.aside:
            _log_aside(bad)

    async def count_owners(self, owners: Sequence[int]) -> None:
        """Count the reminders of owners anew."""
        await self._writer.run(lambda conn: count_owners(conn, owners))
        log.warning("owners_put_right", owners=len(owners))

    async def retarget(
        self, reminder: Reminder, target: Instant, after_at: Instant, computed_at: Instant
    ) -> None:
        """Give a record a target that was computed anew, unless it moved meanwhile."""
        await self._writer.run(lambda conn: retarget(conn, reminder, target, after_at, computed_at))

    async def upkeep(self, act: Callable[[sqlite3.Connection], T], *, patient: bool = False) -> T:
        """One slice of the store's own upkeep (store/upkeep.py) in one transaction.

        A `patient` one waits for a foreign lock without end.
        """
        return await self._writer.run(act, patient=patient)


def _log_aside(bad: BadRow) -> None:
    log.error("row_set_aside", reminder_id=f"r{bad.number}", reason=bad.reason)


def retarget(
    conn: sqlite3.Connection,
    reminder: Reminder,
    target: Instant,
    after_at: Instant,
    computed_at: Instant,
) -> None:
    conn.execute(
        QUERIES["retarget"],
        {
            "number": reminder.number,
            "timing_revision": reminder.timing_revision,
            "former": instant_text(reminder.scheduled_at),
            "target": instant_text(target),
            "after_at": instant_text(after_at),
            "computed_at": instant_text(computed_at),
        },
    )
