"""The lines of an export, one after another, each into its table; nothing is guessed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from scheduler_daemon.store.columns import LARGEST, instant, shown, status, text, whole
from scheduler_daemon.store.companions import wrong
from scheduler_daemon.store.form import FORMAT, HEADER, TABLES, VERSION, NotUnderstood, read
from scheduler_daemon.store.lookups import reminder_row
from scheduler_daemon.store.putting_right import IDS_LEFT_OUT
from scheduler_daemon.store.rows import BadRow, decode_reminder

T = TypeVar("T")


class Reading:
    """Takes the lines of an export one after another, in one transaction of an empty file."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        # A row that is set aside may break any rule; all others are read by what is stricter.
        conn.execute("PRAGMA ignore_check_constraints = ON")
        self._types = {kind: _types(conn, table) for kind, (table, _, _) in TABLES.items()}
        self._kinds = list(TABLES)
        self._started = False
        self._ended = False
        self.number = 0
        self.counts = dict.fromkeys(TABLES, 0)
        self.last_id = 0

    def take(self, line: bytes) -> None:
        """One line more. Raises NotUnderstood."""
        self.number += 1
        if self._ended:
            raise NotUnderstood("there is more after the end")
        value = read(line)
        try:
            if not self._started:
                self._start(value)
            elif len(value) == 1 and "end" in value:
                self._end(value["end"])
            else:
                self._row(value)
        except UnicodeEncodeError:
            raise NotUnderstood("what cannot be stored: half of a character (\\ud800)") from None

    def finish(self) -> None:
        """After the last line. Raises NotUnderstood."""
        self.number += 1
        if self.number == 1:
            raise NotUnderstood("the file is empty")
        if not self._ended:
            raise NotUnderstood("the end is missing: the file was cut off")

    def _start(self, header: dict[str, Any]) -> None:
        if header.get("format") != FORMAT:
            raise NotUnderstood(f'an export begins with {{"format": "{FORMAT}", …}}')
        version = header.get("version")
        if type(version) is not int or version != VERSION:
            raise NotUnderstood(
                f"version {shown(version)} of the form; this program reads {VERSION}, and the one "
                "that wrote it reads its own"
            )
        _refuse_others(header, HEADER)
        for name, accepts in (("schema", _schema), ("exported_at", instant)):
            _accept(name, accepts, header.get(name))
        self.last_id = _accept("last_id", _last_id, header.get("last_id"))
        facts = _accept("facts", _facts, header.get("facts", {}))
        self._conn.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", facts.items())
        self._started = True

    def _end(self, counts: Any) -> None:
        if counts != self.counts:
            raise NotUnderstood(f"there should be {shown(counts)} before the end: {self.counts}")
        self._ended = True

    def _row(self, value: dict[str, Any]) -> None:
        ((kind, row),) = value.items() if len(value) == 1 else ((None, None),)
        if kind not in TABLES or not isinstance(row, dict):
            raise NotUnderstood(f"one of {', '.join(TABLES)} or end, and one alone, is known")
        if kind not in self._kinds:
            order = ", ".join(TABLES)
            raise NotUnderstood(f"{kind} comes before {self._kinds[0]}; their order is {order}")
        self._kinds = self._kinds[self._kinds.index(kind) :]
        _refuse_others(row, TABLES[kind][2])
        if isinstance(row.get("context"), dict):
            row["context"] = json.dumps(row["context"], ensure_ascii=False, sort_keys=True)
        self._check(kind, row)
        try:
            self._reminder(row) if kind == "reminder" else self._companion(kind, row)
        except sqlite3.IntegrityError as error:
            raise NotUnderstood(_broken(str(error))) from None
        self.counts[kind] += 1

    def _check(self, kind: str, row: dict[str, Any]) -> None:
        """Values of the types that their columns have, and an id that the first line knows."""
        for name, value in row.items():
            type_, what = self._types[kind][name]
            if type(value) is not type_:
                raise NotUnderstood(f"{name}: {shown(value)} is not {what}")
        name = "number" if kind == "reminder" else "reminder_number"
        number = row.get(name)
        if number is None or not 1 <= number <= self.last_id:
            raise NotUnderstood(
                f"{name}: {number} is not from 1 to {self.last_id}, the last_id of the first line"
            )

    def _reminder(self, row: dict[str, Any]) -> None:
        """A row that does not decode is taken where it says that it is set aside."""
        self._insert("reminder", row)
        if row.get("status") == "set_aside":
            _accept("former_status", status, row.get("former_status"))
            _accept("set_aside_reason", text, row.get("set_aside_reason"))
            return
        stored = reminder_row(self._conn, row["number"], None, None)
        assert stored is not None  # with what is the default where a member was left out
        try:
            decode_reminder(stored)
        except BadRow as bad:
            raise NotUnderstood(bad.reason) from None

    def _companion(self, kind: str, row: dict[str, Any]) -> None:
        for name, why in wrong(kind, row).items():
            raise NotUnderstood(f"{name}: {why}")
        if kind == "run" and not in_its_session(self._conn, row):
            raise NotUnderstood(
                f"its Session has no r{row['reminder_number']}; `schedctl doctor --fix` puts such "
                "runs right, before an export"
            )
        self._insert(kind, row)

    def _insert(self, kind: str, row: dict[str, Any]) -> None:
        names, places = ", ".join(row), ", ".join("?" * len(row))
        statement = f"INSERT INTO {TABLES[kind][0]} ({names}) VALUES ({places})"  # noqa: S608 - all known
        self._conn.execute(statement, tuple(row.values()))


def in_its_session(conn: sqlite3.Connection, run: dict[str, Any]) -> bool:
    """Whether a run by hand is in the Session of its reminder."""
    where = (run["reminder_number"], run["owner_uid"], run["session_id"])
    return reminder_row(conn, *where) is not None


_TYPES: dict[str, tuple[type, str]] = {
    "INTEGER": (int, "a whole number"),
    "TEXT": (str, "text"),
}


def _types(conn: sqlite3.Connection, table: str) -> dict[str, tuple[type, str]]:
    """The type that JSON has for each column, and what it is called."""
    return {row[1]: _TYPES[row[2]] for row in conn.execute(f"PRAGMA table_info({table})")}


def _accept(name: str, read: Callable[[Any], T], value: Any) -> T:
    try:
        return read(value)
    except (ValueError, TypeError) as error:
        raise NotUnderstood(f"{name}: {error}") from None


def _schema(value: Any) -> int:
    return whole(value, 1)


def _last_id(value: Any) -> int:
    return whole(value, 0, LARGEST - IDS_LEFT_OUT)


def _facts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError("an object of text is missing")
    return {name: text(each) for name, each in value.items()}


def _broken(said: str) -> str:
    """What SQLite says of a constraint, in words."""
    what, _, where = said.partition(" constraint failed: ")
    names = ", ".join(name.partition(".")[2] for name in where.split(", "))
    if what == "UNIQUE":
        return f"an earlier line has the same {names}"
    return f"{names} is missing" if what == "NOT NULL" else said[:200]


def _refuse_others(members: Collection[str], known_names: Collection[str]) -> None:
    others = sorted(set(members) - set(known_names))
    if others:
        raise NotUnderstood(f"{shown(others[0])} is no member of it (docs/export.md names them)")
