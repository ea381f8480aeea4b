"""The loop and all that it needs on a real file, with a clock that the test turns; no sockets."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, TypeVar

from scheduler_daemon.desk import Bounds, Caller, Desk
from scheduler_daemon.hosts.host import Host
from scheduler_daemon.hosts.lines import Hosts
from scheduler_daemon.hosts.outcomes import outcome_of, refusal_of
from scheduler_daemon.rules import SELECTORS, instant_text
from scheduler_daemon.scheduler import Scheduler
from scheduler_daemon.service import Service
from scheduler_daemon.sessions import SessionState
from scheduler_daemon.status import StatusBoard
from scheduler_daemon.store.database import Database
from scheduler_daemon.store.migrate import migrate
from scheduler_daemon.store.retention import Keep
from scheduler_daemon.store.store import Limits, Store
from scheduler_daemon.troubles import Troubles
from scheduler_daemon.watching import Watchers
from scheduler_daemon.wire import params
from scheduler_daemon.wire.frames import encode
from tests.support.clock import START, ManualClock

UID = 1000
ADMIN = Caller(0, True)

DEADLINE_SECONDS = 60.0
"""How long anything that must come is waited for: machines may be slow."""

TOO_MANY_ROUNDS = 2000
"""More rounds of the loop than any wait of a test needs: it spins."""

Json = dict[str, Any]
T = TypeVar("T")


@functools.cache
def _empty_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scheduler.db"
        path.touch()
        migrate(path, instant_text(START))
        return path.read_bytes()


class Agent:
    """A host in memory.

    `pushed` holds every follow-up it got, `open` those that it has not answered. With `says` it
    answers by itself, at the loop's next turn: an answer, or a function of the follow-up that
    gives one (None: silence).
    """

    def __init__(self, world: World, uid: int, name: str) -> None:
        self.uid = uid
        self.pushed: list[Json] = []
        self.open: dict[str, Json] = {}
        self.says: Json | Callable[[Json], Json | None] | None = None
        self._world = world
        self.host: Host = world.scheduler.new_host(self)
        self.host.name = name

    def send(self, message: Mapping[str, object]) -> None:
        assert message["method"] == "session.followup"
        assert len(encode(message)) <= self._world.max_frame_bytes
        followup: Any = message["params"]
        assert message["id"] == followup["followup_id"]
        self.pushed.append(followup)
        self.open[followup["followup_id"]] = followup
        self._world.pushed.append((self, followup))
        said = self.says(followup) if callable(self.says) else self.says
        if said is not None:
            asyncio.get_running_loop().call_soon(self.answer, said, followup)

    def answer(self, said: Json, followup: Json | None = None) -> None:
        """Answer a follow-up, the oldest that is open where none is given."""
        followup = followup or next(iter(self.open.values()))
        self.open.pop(followup["followup_id"], None)
        error = said.get("error")
        outcome = refusal_of(error) if error is not None else outcome_of(said)
        self.host.answered(followup["followup_id"], outcome)

    def attach(self, *sessions: str) -> None:
        """Take these Sessions, all of the owner's for `*`."""
        self._world.scheduler.attach(self.host, _names(sessions))

    def detach(self, *sessions: str) -> None:
        self._world.scheduler.detach(self.host, _names(sessions))

    def ready(self, session: str) -> None:
        self._world.scheduler.ready(self.host, session)

    def close(self) -> None:
        self._world.scheduler.close(self.host)
        self.open.clear()

    @property
    def prompts(self) -> list[list[str]]:
        """What it was told, per follow-up."""
        return [prompts_of(followup) for followup in self.pushed]

    @property
    def sessions(self) -> list[str]:
        """The Session of each follow-up."""
        return [followup["session_id"] for followup in self.pushed]


ADMIT: Json = {"status": "admitted"}
BUSY: Json = {"status": "busy"}
GONE: Json = {"status": "gone"}
ERROR: Json = {"error": {"code": -32000, "message": "no room"}}


def _names(sessions: tuple[str, ...]) -> list[str] | Literal["*"]:
    return "*" if sessions == ("*",) else list(sessions)


def prompts_of(followup: Json) -> list[str]:
    return [each["prompt"] for each in followup["occurrences"]]


def ids_of(followup: Json) -> list[str]:
    """The occurrence ids of a follow-up."""
    return [each["occurrence_id"] for each in followup["occurrences"]]


class World:
    """A store, a scheduler and a service that run together. `start` lets the loop run."""

    def __init__(self, store: Store, path: Path, clock: ManualClock, **settings: Any) -> None:
        self.store = store
        self.path = path
        self.clock = clock
        self.max_frame_bytes: int = settings.get("max_frame_bytes", 1 << 20)
        self.hosts = Hosts(clock)
        self.watchers = Watchers()
        self.scheduler = Scheduler(
            clock,
            store,
            self.hosts,
            self.watchers,
            Troubles(clock.monotonic),
            followup_timeout_seconds=30.0,
            max_frame_bytes=self.max_frame_bytes,
            unclaimed_warn_seconds=settings.get("unclaimed_warn_seconds", 3600.0),
            keep=settings.get("keep", Keep(30, 200, 30)),
        )
        limits = settings.get("limits", Limits(1000, 100_000))
        bounds = Bounds(32768, limits, self.max_frame_bytes)
        self.service = Service(Desk(clock, store, self.scheduler, self.watchers, bounds))
        self.board = StatusBoard(clock, store, self.scheduler, path, schema=1)
        self.rounds = 0
        self.pushed: list[tuple[Agent, Json]] = []
        self._task: asyncio.Task[None] | None = None
        self._operations = 0
        self._moved = asyncio.Event()
        self._count()

    def _count(self) -> None:
        """Count rounds of the loop, and what is under way on the threads of the file."""
        act = self.scheduler._round

        async def counted_round() -> None:
            self.rounds += 1
            await act()

        self.scheduler._round = counted_round  # type: ignore[method-assign]
        for database in (self.store._reading, self.store._writing):
            self._count_operations(database)

    def _count_operations(self, database: Database) -> None:
        run = database.run

        async def counted_run(act: Callable[[sqlite3.Connection], T]) -> T:
            self._operations += 1
            try:
                return await run(act)
            finally:
                self._operations -= 1
                self._moved.set()

        database.run = counted_run  # type: ignore[method-assign]

    async def start(self, zone_mark: int | None = None) -> None:
        self._task = asyncio.create_task(self.scheduler.run(zone_mark))
        await self.settled()

    async def stop(self, seconds: float = 0.0) -> None:
        await self.scheduler.stop(seconds)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.store.close()

    async def settled(self) -> None:
        """Return when nothing goes on any more: all wait for the clock, a host or the test."""
        loop: Any = asyncio.get_running_loop()
        first_round = self.rounds
        async with asyncio.timeout(DEADLINE_SECONDS):
            while self._operations or loop._ready:
                assert self.rounds < first_round + TOO_MANY_ROUNDS, "the loop spins"
                if loop._ready:
                    await asyncio.sleep(0)
                else:  # only a thread of the file can bring something new
                    self._moved.clear()
                    await self._moved.wait()

    async def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that it brings."""
        self.clock.advance(seconds)
        await self.settled()

    async def jump(self, seconds: float) -> None:
        """Set the wall clock, and let everything happen that it brings."""
        self.clock.jump(seconds)
        await self.settled()

    async def agent(
        self,
        *sessions: str,
        uid: int = UID,
        name: str = "host",
        says: Json | Callable[[Json], Json | None] | None = None,
        max_in_flight: int | None = None,
    ) -> Agent:
        """A host that is attached to these Sessions, and what that brings."""
        agent = Agent(self, uid, name)
        agent.says = says
        agent.host.max_in_flight = max_in_flight
        agent.attach(*sessions)
        await self.settled()
        return agent

    # --- the service, as one caller

    async def call(self, method: str, model: Any, asked: Json, caller: Caller | None = None) -> Any:
        """What a method of the service answers to these params."""
        who = caller or Caller(UID, False)
        act = attrgetter(method)(self.service)
        answer = await act(who, params.parse(model, asked))
        await self.settled()
        return answer

    async def make(self, session: str = "s", prompt: str = "p", **more: Any) -> Json:
        """The answer to a creation, due in a minute where nothing else is said."""
        if not more.keys() & set(SELECTORS):
            more["after_seconds"] = 60
        caller = more.pop("caller", None)
        asked = {"session_id": session, "prompt": prompt, **more}
        made: Json = await self.call("create", params.Create, asked, caller)
        return made

    async def create(self, session: str = "s", prompt: str = "p", **more: Any) -> str:
        """The id of a reminder that was made now."""
        made = await self.make(session, prompt, **more)
        assert made["created"]
        reminder_id: str = made["reminder"]["id"]
        return reminder_id

    async def get(self, reminder_id: str, caller: Caller | None = None) -> Json:
        got = await self.call("get", params.Get, {"id": reminder_id}, caller)
        reminder: Json = got["reminder"]
        return reminder

    async def why(self, reminder_id: str) -> Json:
        """What a reminder waits for."""
        reminder = await self.get(reminder_id)
        waiting: Json = reminder["waiting_for"]
        return waiting

    async def update(self, reminder_id: str, **more: Any) -> Json:
        """The answer to an update, of the current revision where none is given."""
        if "revision" not in more:
            more["revision"] = (await self.get(reminder_id))["revision"]
        caller = more.pop("caller", None)
        updated: Json = await self.call(
            "update", params.Update, {"id": reminder_id, **more}, caller
        )
        return updated

    async def delete(self, reminder_id: str, **more: Any) -> bool:
        caller = more.pop("caller", None)
        asked = {"id": reminder_id, **more}
        answer = await self.call("delete", params.One, asked, caller)
        deleted: bool = answer["deleted"]
        return deleted

    async def act(self, name: str, reminder_id: str, **more: Any) -> Json:
        """The answer to pause, resume, snooze, skip or run_now."""
        model = {"snooze": params.Snooze, "run_now": params.RunNow}.get(name, params.One)
        caller = more.pop("caller", None)
        answer: Json = await self.call(f"acts.{name}", model, {"id": reminder_id, **more}, caller)
        return answer

    async def page(self, caller: Caller | None = None, **asked: Any) -> Json:
        page: Json = await self.call("list_reminders", params.ListReminders, asked, caller)
        return page

    async def history(self, caller: Caller | None = None, **asked: Any) -> Json:
        page: Json = await self.call("history", params.History, asked, caller)
        return page

    async def status(self, caller: Caller | None = None) -> Json:
        view: Any = await self.board.view(caller or Caller(UID, False))
        return dict(view)

    # --- what a test may look at

    def state(self, session: str = "s", uid: int = UID) -> SessionState | None:
        return self.scheduler.state((uid, session))

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """The file as another program sees it, or changes it."""
        with closing(sqlite3.connect(self.path)) as conn, conn:
            return conn.execute(statement, values).fetchall()

    def spoil(self, reminder_id: str) -> None:
        """Make a row that does not decode, as no program of ours would."""
        with closing(sqlite3.connect(self.path)) as conn, conn:
            conn.execute("PRAGMA ignore_check_constraints = ON")
            conn.execute("UPDATE reminders SET context = '[1]' WHERE id = ?", (reminder_id,))

    def receipts(self) -> list[str]:
        """The occurrence ids of all receipts, in the order written."""
        return [
            each for (each,) in self.sql("SELECT occurrence_id FROM dispatches ORDER BY number")
        ]


async def open_world(folder: Path, clock: ManualClock | None = None, **settings: Any) -> World:
    """A world on a new file in `folder`, or on the one that is there; its loop does not run yet."""
    path = folder / "scheduler.db"
    if not path.exists():
        path.write_bytes(_empty_database())
    clock = clock or ManualClock()
    store = await Store.open(
        path, monotonic=clock.monotonic, wait_seconds=10.0, failed=lambda text: None
    )
    return World(store, path, clock, **settings)


@asynccontextmanager
async def running_world(
    folder: Path, clock: ManualClock | None = None, **settings: Any
) -> AsyncIterator[World]:
    """A world whose loop runs, stopped at the end."""
    zone_mark = settings.pop("zone_mark", None)
    world = await open_world(folder, clock, **settings)
    try:
        await world.start(zone_mark)
        yield world
    finally:
        await world.stop()


@contextmanager
def few_rounds(world: World, most: int) -> Iterator[None]:
    """The loop goes round at most so often meanwhile: it does not spin."""
    before = world.rounds
    yield
    assert world.rounds - before <= most, f"{world.rounds - before} rounds"
