"""What is written: one public method is one transaction, named by what it means."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from scheduler_daemon.errors import (
    ReminderNotFound,
)
from scheduler_daemon.log import get_logger
from scheduler_daemon.model import Dispatch, FollowUp, Instant, Occurrence, Reminder
from scheduler_daemon.rules import instant_text
from scheduler_daemon.store.creation import Created as Created
from scheduler_daemon.store.creation import Draft as Draft
from scheduler_daemon.store.creation import Limits as Limits
from scheduler_daemon.store.creation import create
from scheduler_daemon.store.database import Database, Identity, open_database
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.reader import Key, Reader, last_dispatch, reminder_row
from scheduler_daemon.store.rows import (
    BadRow,
    context_text,
    decode_reminder,
    rule_columns,
)
from scheduler_daemon.store.writer import Writer

T = TypeVar("T")

log = get_logger(__name__)

NOT_FOUND = "no reminder of yours has this id here; reminder.list shows those that exist"


class Store:
    """The file. `reader` answers questions; the methods here write."""

    def __init__(
        self, writing: Database, reading: Database, writer: Writer, reader: Reader
    ) -> None:
        self._writing = writing
        self._reading = reading
        self._writer = writer
        self.reader = reader

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
        writer = Writer(
            writing,
            Identity(path),
            monotonic=monotonic,
            wait_seconds=wait_seconds,
            failed=failed,
        )
        return cls(writing, reading, writer, Reader(reading, failed))

    async def close(self) -> None:
        """Write what waits, then close the file."""
        try:
            await self._writer.close()
        finally:
            await self._reading.close()
            await self._writing.close()

    async def create(self, draft: Draft, now: Instant, limits: Limits) -> Created:
        """Store a reminder, or find the one its idempotency key made."""
        return await self._writer.run(lambda conn: create(conn, draft, now, limits))

    async def change(
        self,
        number: int,
        owner: int | None,
        session: str | None,
        changed: Callable[[Reminder], Reminder],
    ) -> tuple[Reminder, Reminder, Dispatch | None]:
        """Replace a reminder by `changed(reminder)`; gives both and the newest dispatch.

        `changed` is pure; what it raises reaches the caller and nothing is written, and neither
        is anything when it gives back its argument. Raises reminder_not_found.
        """
        return await self._writer.run(lambda conn: _change(conn, number, owner, session, changed))

    async def delete(
        self, number: int, owner: int | None, session: str | None, now: Instant
    ) -> Key | None:
        """Delete a reminder; gives its Session, None where there was none."""
        values = {"number": number, "owner": owner, "session": session}

        def act(conn: sqlite3.Connection) -> Key | None:
            found: Key | None = conn.execute(QUERIES["delete_reminder"], values).fetchone()
            if found:
                conn.execute(QUERIES["key_gone"], {"number": number, "now": instant_text(now)})
            return found

        return await self._writer.run(act)

    async def record(
        self, followup: FollowUp, admitted_at: Instant, host: str, message_id: str | None
    ) -> None:
        """Write every receipt of an admitted follow-up and advance or end every record.

        Waits for a foreign lock without end; other failures are raised and can be retried.
        """
        shared: dict[str, Any] = {
            "followup_id": followup.followup_id,
            "owner": followup.owner_uid,
            "session": followup.session_id,
            "decided_at": instant_text(followup.decided_at),
            "admitted_at": instant_text(admitted_at),
            "host": host,
            "message_id": message_id,
            "outcome": "admitted",
        }

        def act(conn: sqlite3.Connection) -> None:
            for occurrence in followup.occurrences:
                _receive(conn, occurrence, shared)
                _advance(conn, occurrence, shared["decided_at"], shared["admitted_at"])
                conn.execute(
                    QUERIES["note_occurrence"],
                    {
                        "number": occurrence.reminder.number,
                        "occurrence_at": instant_text(occurrence.occurrence_at),
                    },
                )

        await self._writer.run(act, patient=True)

    async def advance(self, occurrences: Sequence[Occurrence], now: Instant) -> None:
        """Move records past occurrences that were dispatched before."""
        at = instant_text(now)

        def act(conn: sqlite3.Connection) -> None:
            for occurrence in occurrences:
                _advance(conn, occurrence, at, at)

        await self._writer.run(act)

    async def set_aside(self, rows: Sequence[BadRow]) -> list[Key]:
        """Take rows that do not decode out of what is due; gives their Sessions.

        Each is logged once: one that is set aside already is left alone.
        """

        def act(conn: sqlite3.Connection) -> list[tuple[BadRow, Key]]:
            found = []
            for bad in rows:
                values = {"number": bad.number, "reason": bad.reason[:500]}
                key = conn.execute(QUERIES["set_aside"], values).fetchone()
                if key:
                    found.append((bad, key))
            return found

        done = await self._writer.run(act)
        for bad, _ in done:
            log.error("row_set_aside", reminder_id=f"r{bad.number}", reason=bad.reason)
        return [key for _, key in done]

    async def retarget(
        self, reminder: Reminder, target: Instant, after_at: Instant, computed_at: Instant
    ) -> None:
        """Give a record a target that was computed anew, unless it moved meanwhile."""
        await self._writer.run(lambda conn: retarget(conn, reminder, target, after_at, computed_at))

    async def upkeep(self, act: Callable[[sqlite3.Connection], T]) -> T:
        """One slice of the store's own upkeep (store/upkeep.py) in one transaction."""
        return await self._writer.run(act)


def _change(
    conn: sqlite3.Connection,
    number: int,
    owner: int | None,
    session: str | None,
    changed: Callable[[Reminder], Reminder],
) -> tuple[Reminder, Reminder, Dispatch | None]:
    row = reminder_row(conn, number, owner, session)
    if row is None:
        raise ReminderNotFound(NOT_FOUND, field="id")
    old = decode_reminder(row)
    new = changed(old)
    if new is not old:
        values = rule_columns(new.rule, new.scheduled_at) | {
            "number": new.number,
            "title": new.title,
            "prompt": new.prompt,
            "context": context_text(new.context),
            "after_at": instant_text(new.after_at),
            "computed_at": instant_text(new.computed_at),
            "generation": new.generation,
            "revision": new.revision,
            "timing_revision": new.timing_revision,
            "words_revision": new.words_revision,
        }
        conn.execute(QUERIES["update_reminder"], values)
    return old, new, last_dispatch(conn, new.number)


def _receive(conn: sqlite3.Connection, occurrence: Occurrence, shared: dict[str, Any]) -> None:
    reminder = occurrence.reminder
    words = {"number": reminder.number, "words_revision": reminder.words_revision}
    conn.execute(
        QUERIES["insert_dispatch"],
        shared
        | words
        | {
            "occurrence_id": occurrence.occurrence_id,
            "occurrence_at": instant_text(occurrence.occurrence_at),
        },
    )
    conn.execute(
        QUERIES["keep_sent_words"], words | {"title": reminder.title, "prompt": reminder.prompt}
    )


def _advance(conn: sqlite3.Connection, occurrence: Occurrence, decided: str, ended: str) -> None:
    reminder = occurrence.reminder
    where = {
        "number": reminder.number,
        "timing_revision": reminder.timing_revision,
        "target": instant_text(reminder.scheduled_at),
    }
    if occurrence.next_at is None:
        recurring = reminder.rule.kind not in ("after", "at")
        reason = "range" if recurring else "delivered"
        conn.execute(QUERIES["end_reminder"], where | {"ended_at": ended, "reason": reason})
    else:
        next_at = instant_text(occurrence.next_at)
        conn.execute(
            QUERIES["advance_reminder"], where | {"next_at": next_at, "decided_at": decided}
        )


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
