"""A host's queue on disk: what it has admitted and has still to deliver, or could not deliver.

    host = AgentHost("my-agent", "*", deliver, spool=Spool("queue.db"))

One SQLite file, which `schedctl spool` shows. A message is `queued`, `running` while `deliver` has
it, and ends as `done`, `failed`, `unknown` (nobody knows its Session) or `dropped`. What is done or
dropped goes after KEPT_DAYS, with its occurrence ids: a repeat is known as long. The words of what
is done go at once.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from scheduler_daemon.client.bell import Bell
from scheduler_daemon.client.spool_file import SpoolRefused as SpoolRefused
from scheduler_daemon.client.spool_file import opened, transaction
from scheduler_daemon.wire.cutting import followup_of_some
from scheduler_daemon.wire.shapes import Followup

KEPT_DAYS = 30
LONGEST_PAUSE = dt.timedelta(hours=1)
"""A message that waits for longer is due: the clock was set back since."""

_WORDS = ("title", "prompt", "context")

State: TypeAlias = Literal["queued", "running", "done", "failed", "unknown", "dropped"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the queue.

    `attempts` counts those that met no busy Session, with the one that runs; `failures` those that
    failed since a person last let it try again. A queued message that `waits` (because its Session
    was `busy`, or an attempt has `failed`) is due at `not_before`. `reason` says what the last
    attempt that delivered nothing met.
    """

    number: int
    session_id: str
    followup: Followup
    state: State
    waits: Literal["busy", "failed"] | None
    not_before: str | None
    attempts: int
    failures: int
    reason: str | None
    admitted_at: str
    changed_at: str


class Spool:
    """The file at `path`, made with its folder where there is none; both for this user only.

    Instants are given by the caller. Raises SpoolRefused where the file cannot be used, and
    sqlite3.Error where the disk fails.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.bell = Bell(self.path.with_name(f"{self.path.name}.host"))
        self._conn = opened(self.path)

    def close(self) -> None:
        """Close the file, and hold it no longer."""
        self._conn.close()
        self.bell.release()

    def hold(self) -> int:
        """Keep other hosts from this queue until it is closed.

        Returns a descriptor that becomes readable when the bell rings. Raises SpoolRefused where
        another host has it.
        """
        fd = self.bell.hold()
        if fd is None:
            raise SpoolRefused(f"another host works on the queue {self.path}")
        return fd

    def describe(self, about: dict[str, Any]) -> None:
        """Write down what the host is, for those who look."""
        with transaction(self._conn):
            self._conn.execute("DELETE FROM host")
            self._conn.execute("INSERT INTO host VALUES (?)", (json.dumps(about),))

    def description(self) -> dict[str, Any]:
        """What the last host wrote down; empty where none did."""
        row = self._conn.execute("SELECT about FROM host").fetchone()
        return cast("dict[str, Any]", json.loads(row[0])) if row else {}

    def admit(self, messages: Sequence[Followup], now: dt.datetime) -> int | None:
        """Queue what one follow-up of the daemon became, durably, and return its first number.

        What was admitted before is cut out; where nothing is left nothing is queued, and the
        number is that of then. None where the Session is occupied.
        """
        session, stamp = messages[0]["session_id"], text_of(now)
        with transaction(self._conn):
            new = [part for each in messages if (part := self._unknown_of(each)) is not None]
            if not new:
                return self.number_of(messages[0])
            if self.is_occupied(session):
                return None
            numbers = [self._insert(part, stamp) for part in new]
        return numbers[0]

    def number_of(self, followup: Followup) -> int | None:
        """Under which the first of its occurrences is known; None where any of them is not."""
        numbers = [self._message_of(each["occurrence_id"]) for each in followup["occurrences"]]
        return None if None in numbers else numbers[0]

    def _unknown_of(self, message: Followup) -> Followup | None:
        """The message without what was admitted before; None where nothing is left."""
        ids = [each["occurrence_id"] for each in message["occurrences"]]
        places = [place for place, each in enumerate(ids) if self._message_of(each) is None]
        return followup_of_some(message, places) if places else None

    def _message_of(self, occurrence_id: str) -> int | None:
        sql = "SELECT message FROM occurrences WHERE occurrence_id = ?"
        row = self._conn.execute(sql, (occurrence_id,)).fetchone()
        return row[0] if row else None

    def _insert(self, part: Followup, stamp: str) -> int:
        sql = (
            "INSERT INTO messages (session_id, followup, admitted_at, changed_at) VALUES (?,?,?,?)"
        )
        values = (part["session_id"], json.dumps(part), stamp, stamp)
        number = self._conn.execute(sql, values).lastrowid
        assert number is not None
        self._conn.executemany(
            "INSERT OR IGNORE INTO occurrences VALUES (?, ?)",
            [(each["occurrence_id"], number) for each in part["occurrences"]],
        )
        return number

    def is_occupied(self, session_id: str) -> bool:
        """Whether something runs in the Session or waits its turn there."""
        sql = "SELECT 1 FROM occupying WHERE session_id = ?"
        return self._conn.execute(sql, (session_id,)).fetchone() is not None

    def begin(self, now: dt.datetime) -> Message | None:
        """Mark the next due message as running, in a new attempt.

        The earliest of those whose Session has nothing running and nothing before it.
        """
        with transaction(self._conn):
            row = self._conn.execute(
                "UPDATE messages SET state = 'running', waits = NULL, not_before = NULL,"
                " attempts = attempts + 1, changed_at = :now WHERE number = ("
                " SELECT number FROM messages AS mine WHERE state = 'queued'"
                " AND (not_before IS NULL OR not_before <= :now OR not_before > :never)"
                " AND NOT EXISTS (SELECT 1 FROM occupying AS other"
                "  WHERE other.session_id = mine.session_id AND other.number <> mine.number"
                "  AND (other.state = 'running' OR other.number < mine.number))"
                " ORDER BY number LIMIT 1) RETURNING *",
                {"now": text_of(now), "never": text_of(now + LONGEST_PAUSE)},
            ).fetchone()
        return _message(row) if row else None

    def end(
        self,
        number: int,
        state: Literal["done", "failed", "unknown"],
        now: dt.datetime,
        reason: str | None = None,
    ) -> None:
        """Write how a message that ran has ended for good."""
        with transaction(self._conn):
            self._conn.execute(
                "UPDATE messages SET state = ?, reason = ?, changed_at = ?, failures = failures + ?"
                " WHERE number = ?",
                (state, reason, text_of(now), state == "failed", number),
            )
            if state == "done":
                self._forget_words(number)

    def _forget_words(self, number: int) -> None:
        message = self.message(number)
        assert message is not None
        occurrences = [
            {name: value for name, value in each.items() if name not in _WORDS}
            for each in message.followup["occurrences"]
        ]
        kept = {**message.followup, "text": "", "occurrences": occurrences}
        sql = "UPDATE messages SET followup = ? WHERE number = ?"
        self._conn.execute(sql, (json.dumps(kept), number))

    def put_off(
        self,
        number: int,
        waits: Literal["busy", "failed"],
        until: dt.datetime,
        now: dt.datetime,
        reason: str | None,
    ) -> None:
        """Queue a message that ran again. A busy Session costs it no attempt."""
        busy = waits == "busy"
        self._change(
            "UPDATE messages SET state = 'queued', waits = ?, not_before = ?, reason = ?,"
            " changed_at = ?, attempts = attempts - ?, failures = failures + ? WHERE number = ?",
            (waits, text_of(until), reason, text_of(now), busy, not busy, number),
        )

    def put_back(self) -> None:
        """Queue again what ran when the last host ended; the attempt is the same again."""
        with transaction(self._conn):
            self._conn.execute(
                "UPDATE messages SET state = 'queued', attempts = attempts - 1"
                " WHERE state = 'running'"
            )

    def next_due(self) -> str | None:
        """The earliest instant for which a queued message waits."""
        sql = "SELECT min(not_before) FROM messages WHERE state = 'queued'"
        instant: str | None = self._conn.execute(sql).fetchone()[0]
        return instant

    def prune(self, now: dt.datetime) -> None:
        """Remove what has been done or dropped for KEPT_DAYS."""
        old = text_of(now - dt.timedelta(days=KEPT_DAYS))
        sql = "DELETE FROM messages WHERE state IN ('done', 'dropped') AND changed_at < ?"
        with transaction(self._conn):
            self._conn.execute(sql, (old,))

    def messages(self, *, ended: bool = False) -> Iterator[Message]:
        """All by number; those that are done or dropped only with `ended`."""
        sql = "SELECT * FROM messages WHERE ? OR state NOT IN ('done', 'dropped') ORDER BY number"
        return map(_message, self._conn.execute(sql, (ended,)))

    def message(self, number: int) -> Message | None:
        """One message, whatever its state."""
        row = self._conn.execute("SELECT * FROM messages WHERE number = ?", (number,)).fetchone()
        return _message(row) if row else None

    def retry(self, number: int, now: dt.datetime) -> bool:
        """Let a message run at once that waits, failed or was dropped, its failures forgotten."""
        return self._change(
            "UPDATE messages SET state = 'queued', waits = NULL, not_before = NULL, failures = 0,"
            " changed_at = ? WHERE number = ?"
            " AND state IN ('queued', 'failed', 'unknown', 'dropped')",
            (text_of(now), number),
        )

    def drop(self, number: int, now: dt.datetime) -> bool:
        """Let a message that does not run never come; its occurrences stay known."""
        return self._change(
            "UPDATE messages SET state = 'dropped', waits = NULL, not_before = NULL, changed_at = ?"
            " WHERE number = ? AND state IN ('queued', 'failed', 'unknown')",
            (text_of(now), number),
        )

    def _change(self, sql: str, values: tuple[object, ...]) -> bool:
        with transaction(self._conn):
            return self._conn.execute(sql, values).rowcount == 1


def text_of(instant: dt.datetime) -> str:
    """The canonical form: UTC with three fractional digits."""
    return instant.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(row: Sequence[Any]) -> Message:
    number, session_id, followup, *rest = row
    return Message(number, session_id, json.loads(followup), *rest)
