"""A writer on a real file whose every statement can be watched, stopped and broken."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scheduler_daemon.store.database import Database, connect
from scheduler_daemon.store.standing import Standing
from scheduler_daemon.store.writer import Writer
from tests.store.support import Ticks, by_hand

Act = Callable[[sqlite3.Connection], Any]


class Bench:
    """A writer, the connection under it, and what it did.

    `statements` are those that began, in order, and `failures` what the log would say. `on` maps a
    statement to what is called, once, on the writer's thread as it begins.
    """

    def __init__(self, path: Path, database: Database, conn: sqlite3.Connection) -> None:
        self.path = path
        self.database = database
        self.conn = conn
        self.ticks = Ticks()
        self.statements: list[str] = []
        self.on: dict[str, Callable[[], object]] = {}
        self.failures: list[str] = []
        self.writer = Writer(
            database,
            Standing(path),
            monotonic=self.ticks,
            wait_seconds=10.0,
            failed=self.failures.append,
        )

    def begins(self, statement: str) -> None:
        self.statements.append(statement)
        if statement in self.on:
            self.on.pop(statement)()

    @property
    def transactions(self) -> int:
        """How many were begun."""
        return self.statements.count("BEGIN IMMEDIATE")

    async def together(self, *acts: Act, patient: bool = False) -> list[Any]:
        """Run acts that wait at the same moment; each one's value or exception."""
        runs = (self.writer.run(act, patient=patient) for act in acts)
        async with asyncio.timeout(60):
            return await asyncio.gather(*runs, return_exceptions=True)

    def stored(self) -> list[str]:
        """What anyone else reads in the file, in the order of writing."""
        with by_hand(self.path) as conn:
            return [name for (name,) in conn.execute("SELECT name FROM written ORDER BY rowid")]


def write(name: str) -> Act:
    """An act that stores `name` and gives it back."""

    def act(conn: sqlite3.Connection) -> str:
        conn.execute("INSERT INTO written VALUES (?)", (name,))
        return name

    return act


def write_then(name: str, then: Act) -> Act:
    """An act that stores `name` before it does something else."""

    def act(conn: sqlite3.Connection) -> Any:
        conn.execute("INSERT INTO written VALUES (?)", (name,))
        return then(conn)

    return act


def raising(error: Exception) -> Act:
    def act(conn: sqlite3.Connection) -> None:
        raise error

    return act


_ENDLESS = """INSERT INTO written
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 'endless ' || i FROM n"""


class InterruptedFromOutside:
    """An act that writes without end until another thread interrupts it, `times` times.

    After that it stores `name` and is done.
    """

    def __init__(self, name: str, times: int, statement: str = _ENDLESS) -> None:
        self._name = name
        self._times = times
        self._statement = statement

    def __call__(self, conn: sqlite3.Connection) -> str:
        if not self._times:
            conn.execute("INSERT INTO written VALUES (?)", (self._name,))
            return self._name
        self._times -= 1
        ended = threading.Event()

        def interrupt() -> None:
            while not ended.wait(0.001):
                conn.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            conn.execute(self._statement).fetchall()
        finally:
            ended.set()
            thread.join()
        raise AssertionError("nothing interrupted it")


@asynccontextmanager
async def bench(
    path: Path, connection: Callable[[Path], sqlite3.Connection] | None = None
) -> AsyncIterator[Bench]:
    """A writer on `path`, closed at the end; `connection` opens the file in another way."""
    conns: list[sqlite3.Connection] = []

    def opened() -> sqlite3.Connection:
        conns.append(connection(path) if connection else connect(path, read_only=False))
        conns[0].execute("CREATE TABLE written (name TEXT UNIQUE)")
        return conns[0]

    database = Database(opened, iter_chunk_size=64)
    await database.open()
    try:
        the_bench = Bench(path, database, conns[0])
        await database.run(lambda conn: conn.set_trace_callback(the_bench.begins))
        yield the_bench
        await the_bench.writer.close()
    finally:
        await database.close()
