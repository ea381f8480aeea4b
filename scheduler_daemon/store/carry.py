"""The whole file as JSON lines that another version can read, and such lines into a new file."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from scheduler_daemon.store.backup import held, install, raise_ids, unfinished
from scheduler_daemon.store.columns import LARGEST
from scheduler_daemon.store.companions import wrong
from scheduler_daemon.store.database import (
    DatabaseRefused,
    create_file,
    examine,
    is_locked,
    open_file,
    taken,
)
from scheduler_daemon.store.form import (
    FORMAT,
    LONGEST_LINE,
    TABLES,
    VERSION,
    NotUnderstood,
    read,
    write,
)
from scheduler_daemon.store.incoming import Reading, in_its_session
from scheduler_daemon.store.migrate import known, migrate, pending
from scheduler_daemon.store.putting_right import last_numbers
from scheduler_daemon.store.reminder_findings import former_status, is_aside
from scheduler_daemon.store.rows import BadRow, Row, read_reminder
from scheduler_daemon.store.whole import UNREADABLE


class Imported(NamedTuple):
    """How many lines of each kind there were, and where the file that was replaced is kept."""

    counts: dict[str, int]
    kept: Path | None


def export(database: Path, now: str) -> Iterator[str]:
    """The lines of one moment of the file, without their ends. DatabaseRefused.

    An import takes them: a reminder that cannot be read is as if the daemon had met it and set it
    aside, and any other row that cannot be read is refused here.
    """
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
            yield write(_header(conn, now))
            counts = {}
            for kind in TABLES:
                counts[kind] = 0
                for row in _rows(conn, kind):
                    counts[kind] += 1
                    yield _row_line(conn, kind, row)
            yield write({"end": counts})
    except UNREADABLE as error:
        if is_locked(error):
            raise taken(database) from None
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
    given_out, spoken_of = last_numbers(conn)
    return {
        "format": FORMAT,
        "version": VERSION,
        "schema": schema,
        "exported_at": now,
        "last_id": max(given_out or 0, spoken_of),
        "facts": dict(conn.execute("SELECT name, value FROM meta ORDER BY name")),
    }


def _rows(conn: sqlite3.Connection, kind: str) -> Iterator[dict[str, Any]]:
    table, order, columns = TABLES[kind]
    statement = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"  # noqa: S608 - ours
    for row in conn.execute(statement):
        values = dict(zip(columns, row, strict=True))
        if kind == "reminder":
            values |= _set_aside(row) | {"context": _context(values["context"])}
        yield {name: value for name, value in values.items() if value is not None}


def _set_aside(row: Row) -> dict[str, str]:
    """What a reminder that does not decode has when the daemon has met it."""
    if is_aside(row) or not isinstance(bad := read_reminder(row), BadRow):
        return {}
    kept = {"former_status": former_status(row), "set_aside_reason": bad.reason}
    return {"status": "set_aside"} | kept


def _context(text: Any) -> Any:
    """The object that a context is; what it is where it is none, of a row that is set aside."""
    with suppress(NotUnderstood):
        return read(text.encode("utf-8", "surrogateescape")) if isinstance(text, str) else text
    return text


def _row_line(conn: sqlite3.Connection, kind: str, row: dict[str, Any]) -> str:
    """The line of a row. DatabaseRefused where no import would take it."""
    why = _unwanted(conn, kind, row)
    line = "" if why else write({kind: row})
    if len(line.encode()) >= LONGEST_LINE:
        why = f"it has more than the {LONGEST_LINE >> 20} MiB that a line may have"
    if why:
        name = "number" if kind == "reminder" else "reminder_number"
        raise DatabaseRefused(
            f"cannot export the {kind} of {name} {row[name]}: {why}; `schedctl doctor` says what "
            "is wrong with it, and --fix mends what is safe"
        )
    return line


def _unwanted(conn: sqlite3.Connection, kind: str, row: dict[str, Any]) -> str | None:
    if odd := [name for name, value in row.items() if type(value) not in (str, int, dict)]:
        return f"{odd[0]} is neither text nor a whole number"
    if kind == "reminder":
        return None if 1 <= row["number"] <= LARGEST else "no id is made of its number"
    if found := wrong(kind, row):
        return ": ".join(next(iter(found.items())))
    return (
        None if kind != "run" or in_its_session(conn, row) else "its Session has no such reminder"
    )


def _refuse_filled(database: Path) -> None:
    """Refuse to import where anything is: its ids may be those of the export."""
    examine(database, "; move it away, then run this again")
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
        if is_locked(error):
            raise taken(database) from None
        raise DatabaseRefused(f"cannot read the database {database}: {error}") from None


def _fill(path: Path, lines: Iterable[bytes], now: str) -> dict[str, int]:
    create_file(path)
    migrate(path, now)
    with closing(open_file(path)) as conn:
        conn.execute("PRAGMA synchronous = OFF")  # it is written to the disk as a whole
        conn.execute("BEGIN")
        reading = Reading(conn)
        try:
            for line in lines:
                reading.take(line)
            reading.finish()
        except NotUnderstood as error:
            where = f"line {reading.number}"
            raise DatabaseRefused(f"{where}: {error}; nothing was imported") from None
        except sqlite3.Error as error:
            raise DatabaseRefused(f"cannot write {path}: {error}; nothing was imported") from None
        conn.execute("COMMIT")
    raise_ids(path, reading.last_id)
    return reading.counts
