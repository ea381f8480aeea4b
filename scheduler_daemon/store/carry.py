"""The whole file as JSON lines that another version can read, and such lines into a new file."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from scheduler_daemon.store.backup import UNREADABLE, held, install, raise_ids, unfinished
from scheduler_daemon.store.database import (
    DatabaseRefused,
    create_file,
    examine,
    open_file,
)
from scheduler_daemon.store.migrate import known, migrate, pending
from scheduler_daemon.store.rows import REMINDER_COLUMNS, BadRow, decode_reminder

FORMAT = "scheduler-daemon export"
VERSION = 1

LONGEST_LINE = 4 * 1024 * 1024
"""In bytes: a prompt of 32,768 characters with a context that fitted a frame is shorter."""

TABLES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "reminder": ("reminders", "number", (*REMINDER_COLUMNS, "former_status", "set_aside_reason")),
    "words": (
        "past_words",
        "reminder_number, words_revision",
        ("reminder_number", "words_revision", "title", "prompt"),
    ),
    "receipt": (
        "dispatches",
        "number",
        (
            *("occurrence_id", "followup_id", "reminder_number", "owner_uid", "session_id"),
            *("occurrence_at", "decided_at", "admitted_at", "host", "message_id", "outcome"),
            "words_revision",
        ),
    ),
    "key": (
        "idempotency_keys",
        "owner_uid, session_id, key",
        (
            *("owner_uid", "session_id", "key", "request_hash", "reminder_number", "created_at"),
            *("gone_at", "asked_of", "occurrence_id"),
        ),
    ),
    "run": (
        "runs",
        "number",
        ("occurrence_id", "reminder_number", "owner_uid", "session_id", "due_at"),
    ),
}
"""What a line may hold, in this order: its table, the order of its rows, and their columns."""

HEADER = {"format", "version", "schema", "exported_at", "last_id", "facts"}


class Imported(NamedTuple):
    """How many lines of each kind there were, and where the file that was replaced is kept."""

    counts: dict[str, int]
    kept: Path | None


def export(database: Path, now: str) -> Iterator[str]:
    """The lines of one moment of the file, without their ends. DatabaseRefused."""
    examine(database)
    if not database.exists():
        raise DatabaseRefused(f"there is no database {database}")
    try:
        with closing(open_file(database)) as conn:
            if pending(conn, known()):
                raise DatabaseRefused(
                    f"the database {database} has an older schema than this program; "
                    "start its daemon, or run `scheduler-daemon migrate`"
                )
            conn.execute("BEGIN")
            yield _line(_header(conn, now))
            counts = {}
            for kind in TABLES:
                counts[kind] = 0
                for row in _rows(conn, kind):
                    counts[kind] += 1
                    yield _line({kind: row})
            yield _line({"end": counts})
    except UNREADABLE as error:
        raise DatabaseRefused(f"cannot read the database {database}: {error}") from None


def import_lines(
    lines: Iterable[bytes], database: Path, now: str, stamp: str, *, dry_run: bool
) -> Imported:
    """Put what an export holds into a database that holds nothing; all of it or nothing.

    Ids stay, those of what is made from then on lie far above. Nothing is changed by a `dry_run`.
    DatabaseRefused, with the number of the line at fault.
    """
    if dry_run:
        if database.exists():
            with held(database):
                _refuse_filled(database)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "scheduler.db"
            return Imported(_fill(path, lines, now), None)
    with held(database):
        _refuse_filled(database)
        with unfinished(database) as copying:
            counts = _fill(copying, lines, now)
            return Imported(counts, install(copying, database, stamp))


def _header(conn: sqlite3.Connection, now: str) -> dict[str, Any]:
    (schema,) = conn.execute("PRAGMA user_version").fetchone()
    last = conn.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'reminders'").fetchone()
    return {
        "format": FORMAT,
        "version": VERSION,
        "schema": schema,
        "exported_at": now,
        "last_id": last[0] or 0,
        "facts": dict(conn.execute("SELECT name, value FROM meta ORDER BY name")),
    }


def _rows(conn: sqlite3.Connection, kind: str) -> Iterator[dict[str, Any]]:
    table, order, columns = TABLES[kind]
    statement = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"  # noqa: S608 - ours
    for row in conn.execute(statement):
        values = dict(zip(columns, row, strict=True))
        found = {name: value for name, value in values.items() if value is not None}
        if kind == "reminder" and "context" in found:
            found["context"] = json.loads(found["context"])
        yield found


def _line(value: dict[str, Any]) -> str:
    """A line of JSON; bytes in the file that are no UTF-8 become U+FFFD."""
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _refuse_filled(database: Path) -> None:
    """Refuse to import where anything is: its ids may be those of the export."""
    if not database.exists():
        return
    try:
        with closing(open_file(database)) as conn:
            tables = [name for (name,) in conn.execute("SELECT name FROM sqlite_master")]
            for table in {"reminders", "dispatches", "idempotency_keys"} & set(tables):
                if conn.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():  # noqa: S608 - ours
                    raise DatabaseRefused(
                        f"the database {database} is not empty; an import goes into a new one: "
                        "name another with --database, or move that one away"
                    )
    except UNREADABLE as error:
        raise DatabaseRefused(f"cannot read the database {database}: {error}") from None


def _fill(path: Path, lines: Iterable[bytes], now: str) -> dict[str, int]:
    create_file(path)
    migrate(path, now)
    with closing(open_file(path)) as conn:
        conn.execute("PRAGMA synchronous = OFF")  # it is written to the disk as a whole
        conn.execute("BEGIN")
        reading = _Reading(conn)
        try:
            for line in lines:
                reading.take(line)
            reading.finish()
        except _NotUnderstoodError as error:
            where = f"line {reading.number}"
            raise DatabaseRefused(f"{where}: {error}; nothing was imported") from None
        conn.execute("COMMIT")
    raise_ids(path, reading.last_id)
    return reading.counts


class _NotUnderstoodError(Exception):
    """A line cannot be taken as what it should be; the message says why."""


class _Reading:
    """Takes the lines of an export one after another, each into its table."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._started = False
        self._ended = False
        self.number = 0
        self.counts = dict.fromkeys(TABLES, 0)
        self.last_id = 0

    def take(self, line: bytes) -> None:
        """One line more."""
        self.number += 1
        if self._ended:
            raise _NotUnderstoodError("there is more after the end")
        value = _object(line)
        try:
            if not self._started:
                self._start(value)
            elif len(value) == 1 and "end" in value:
                self._end(value["end"])
            else:
                self._row(value)
        except sqlite3.Error as error:
            raise _NotUnderstoodError(f"{error}"[:200]) from None
        except (OverflowError, UnicodeEncodeError) as error:
            raise _NotUnderstoodError(f"what cannot be stored: {error}") from None

    def finish(self) -> None:
        """After the last line."""
        self.number += 1
        if not self._ended:
            raise _NotUnderstoodError("the end is missing: the file was cut off")

    def _start(self, header: dict[str, Any]) -> None:
        if header.get("format") != FORMAT:
            raise _NotUnderstoodError(f"not the first line of a {FORMAT!r}")
        if header.get("version") != VERSION:
            raise _NotUnderstoodError(
                f"format version {header.get('version')}, and this program reads {VERSION}"
            )
        _refuse_others(header, HEADER)
        last_id, facts = header.get("last_id"), header.get("facts", {})
        if type(last_id) is not int or not isinstance(facts, dict):
            raise _NotUnderstoodError("last_id is a number and facts an object")
        self.last_id = last_id
        self._conn.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", facts.items())
        self._started = True

    def _end(self, counts: Any) -> None:
        if counts != self.counts:
            raise _NotUnderstoodError(f"there should be {counts} before the end: {self.counts}")
        self._ended = True

    def _row(self, value: dict[str, Any]) -> None:
        ((kind, row),) = value.items() if len(value) == 1 else ((None, None),)
        if kind not in TABLES or not isinstance(row, dict):
            raise _NotUnderstoodError(f"one of {', '.join(TABLES)} or end, and one alone, is known")
        table, _, columns = TABLES[kind]
        _refuse_others(row, set(columns))
        if isinstance(row.get("context"), dict):
            row["context"] = json.dumps(row["context"], ensure_ascii=False, sort_keys=True)
        if odd := [name for name, each in row.items() if type(each) not in (str, int)]:
            raise _NotUnderstoodError(f"{odd[0]} is neither text nor a whole number")
        names, places = ", ".join(row), ", ".join("?" * len(row))
        statement = f"INSERT INTO {table} ({names}) VALUES ({places})"  # noqa: S608 - all known
        self._conn.execute(statement, tuple(row.values()))
        self.counts[kind] += 1
        if kind == "reminder" and row.get("status") != "set_aside":
            self._check(row.get("number"))

    def _check(self, number: Any) -> None:
        """A reminder that does not decode would be set aside at once."""
        statement = f"SELECT {', '.join(REMINDER_COLUMNS)} FROM reminders WHERE number = ?"  # noqa: S608 - ours
        try:
            decode_reminder(self._conn.execute(statement, (number,)).fetchone())
        except BadRow as bad:
            raise _NotUnderstoodError(bad.reason) from None


def _object(line: bytes) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise _NotUnderstoodError(f"longer than {LONGEST_LINE} bytes")
    try:
        value = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _NotUnderstoodError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise _NotUnderstoodError("not a JSON object")
    return value


def _refuse_others(members: dict[str, Any], known_names: set[str]) -> None:
    others = sorted(set(members) - known_names)
    if others:
        raise _NotUnderstoodError(f"{others[0]} is not known to this version")
