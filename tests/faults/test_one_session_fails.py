"""A function that raises for one Session, or for one wake: all others are served, and it is too
once the fault has gone, exactly once.

The functions are found by themselves (breaking.py): a new one is tried without a line here.
ACCEPTANCE_LONG=1 tries each with every kind of exception.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler_daemon import upkeep
from scheduler_daemon.desk import Caller
from scheduler_daemon.rules import instant_text
from scheduler_daemon.watching import Watch
from tests.acceptance.steps import LONG
from tests.faults.breaking import BAD, Fault, places
from tests.support.clock import ManualClock
from tests.support.world import (
    ADMIT,
    BUSY,
    ERROR,
    GONE,
    UID,
    Agent,
    Json,
    World,
    ids_of,
    open_world,
    prompts_of,
)

GOOD = "good"
STAR_UID = 2000
"""The owner whose Sessions are all taken by one host for `*`; UID's are named."""

FAULT_SECONDS = 20

PLACES = {place.text: place for place in places()}

ERRORS: dict[str, Callable[[], BaseException]] = {
    "a defect": lambda: RuntimeError("a defect"),
    "the file": lambda: sqlite3.OperationalError("disk I/O error"),
    "no memory": MemoryError,
    "a cancellation gone astray": asyncio.CancelledError,
}

TRIED_WITH_ALL = {
    *("planning.Planner.plan", "delivery.framing.followup_params", "hosts.host.Host.push"),
    *("sending.Sender.send_next", "sending.Sender.record", "telling.Teller.dispatched"),
    *("store.receipts.record", "star_scans.StarScans.go_on", "upkeep.Upkeep._rely_on_clock"),
}

ATTACHING = {
    *("hosts.lines.Hosts.attach", "hosts.lines._put_first", "star_scans.StarScans.begin"),
    *("hosts.lines.Hosts.detach", "hosts.lines._drop", "hosts.host.Host.close"),
    *("hosts.lines.Hosts._saw", "star_scans.StarScans.end", "watching.Watchers.add"),
    *("watching.Watchers.remove", "hosts.host.Host.set_room"),
}
"""Part of one peer's own request or end, which fails for it and for nobody else."""

LOOKED_AT = {
    *("hosts.host.Host.in_flight", "hosts.host.Host.slots", "hosts.host.Host.uid"),
    *(
        "hosts.lines.Hosts.of_owner",
        "hosts.lines.Hosts.last_seen",
        "hosts.lines.Hosts.told_apart",
        "hosts.lines.Hosts.check_names",
    ),
    *(
        "hosts.lines.Hosts.names",
        *("sessions.SessionState.attempts", "sessions.SessionState.unanswered"),
        *("under_way.UnderWay.of", "under_way.UnderWay.holding", "hosts.lines.Hosts.count"),
    ),
    *("watching.Watchers.anybody", "store.receipts.skip"),
}
"""Part of one caller's own request, which is answered with internal_error."""

READS_THE_ANSWER = {
    *("hosts.host.Host.answered", "hosts.host.Push.settle", "hosts.outcomes.outcome_of"),
    *("hosts.host.Host.free_slot", "hosts.host.Host._go_on"),  # while it is handed on
    *("hosts.outcomes._kept_name", "hosts.host.Host._take_late", "hosts.outcomes.refusal_of"),
    "sessions.SessionState.read_admission",
}
"""Where it fails the admission is not known, and the message may be repeated, as after silence."""

ELSEWHERE = {
    "telling.Teller.removed": "once in 30 days; kept_from() stands around it as around the others",
    "upkeep.Upkeep.stop": "the daemon stops",
    "upkeep.Upkeep._end_beyond": "once a clock can be trusted; _rely_on_clock() stands around it",
    "upkeep.Upkeep._keep_corrected": "the same",
    "unclaimed.Unclaimed.warn_after": "the settings are read again",
    "planning.Planner._recompute": "a race with upkeep",
    "delivery.plan.exact_bytes": "a batch of a megabyte",
    "delivery.plan._frame_bytes": "the same",
    "sending._whose": "only beside another fault",
    "sending.Sender._unframed": "the same",
    "sending._can_be_framed": "the same",
    "store.receipts._same_timing": "a race with a change",
}
"""What no run here comes to."""

ONE_LINE = {
    "hosts.host.Push.settle": "a result is set; a push without one has its host's end",
    "hosts.host.Host._time_out": "the same, when there is no answer",
    "sending.Sender._end_pause": "a member is set to None and the loop is woken",
}
"""Where the Session waits for its host to come again: they do too little to fail."""


class Sturdy(Agent):
    """A host whose answers are taken as a connection takes them."""

    def answer(self, said: Json, followup: Json | None = None) -> None:
        with self._world.scheduler.troubles.caught("answer_not_read"):
            super().answer(said, followup)


class Listener:
    """Watches everything."""

    def __init__(self) -> None:
        self.heard = 0

    def hear(self, frame: bytes) -> None:
        self.heard += 1


class Script:
    """What hosts say of each Session's message: BAD ones go through all kinds of answers first."""

    def __init__(self, rough: bool) -> None:
        self.rough = rough
        self.asked: Counter[tuple[int, str]] = Counter()
        self.admitted: list[str] = []
        self.prompts: list[tuple[int, str, str]] = []
        self.again: list[str] = []

    def of(self, uid: int) -> Callable[[Json], Json | None]:
        return lambda followup: self._say(uid, followup)

    def _say(self, uid: int, followup: Json) -> Json | None:
        self.again += [each for each in ids_of(followup) if each in self.admitted]
        session = followup["session_id"]
        if session == BAD and self.rough:
            number = self.asked[uid, session]
            self.asked[uid, session] += 1
            turns: list[Json | None] = [None, BUSY, ERROR, ERROR, ERROR, GONE]
            if number < len(turns):
                return turns[number]
        self.note(uid, followup)
        return ADMIT

    def note(self, uid: int, followup: Json) -> None:
        """A host has it."""
        self.admitted += ids_of(followup)
        self.prompts += [(uid, followup["session_id"], each) for each in prompts_of(followup)]


class Run:
    """One run: all that there is comes due without a host, the fault begins, and hosts attach."""

    def __init__(self, world: World, faults: list[Fault], script: Script) -> None:
        self.world = world
        self.faults = faults
        self.script = script
        self.escaped: list[Exception] = []
        self.agents: list[Agent] = []

    async def advance(self, seconds: int, step: int = 1) -> None:
        """As time passes for the daemon: what a timer raises goes to the loop's own log."""
        for _ in range(0, seconds, step):
            try:
                self.world.clock.advance(step)
            except Exception as error:  # noqa: BLE001
                self.escaped.append(error)
            await self.world.settled()

    async def fill(self) -> None:
        """What is due in five minutes in all four Sessions, in all forms there are."""
        for uid in (UID, STAR_UID):
            for session in (BAD, GOOD):
                await self._fill(Caller(uid, False), session)
        await self.world.create("lost", after_seconds=1, caller=Caller(3000, False))

    async def _fill(self, caller: Caller, session: str) -> None:
        make = functools.partial(self.world.create, session, caller=caller)
        await make("once", after_seconds=290)
        await make("late", after_seconds=100)
        await make("old", after_seconds=1, expires_after_seconds=1)
        await make("later", after_seconds=310)
        often = await make("often", every_seconds=300)
        await make("local", daily={"time": "13:16", "time_zone": "Europe/Berlin"})
        await make("counted", every_seconds=300, max_occurrences=1)
        await make("until", every_seconds=300, until=instant_text(in_(self.world, 310)))
        await self.world.act("run_now", often, caller=caller)

    def attach(self) -> None:
        for uid, names in ((UID, (BAD, GOOD)), (STAR_UID, ("*",))):
            agent = Sturdy(self.world, uid, f"host of {uid}")
            agent.says = self.script.of(uid)
            with self.world.scheduler.troubles.caught("request_failed"):
                agent.attach(*names)
            self.agents.append(agent)

    def begin(self) -> None:
        for fault in self.faults:
            fault.on = True

    async def stir(self) -> None:
        """What happens seldom: clocks are set, peers come and go."""
        world, caught = self.world, self.world.scheduler.troubles.caught
        for seconds in (-5, 5):
            world.clock.jump(seconds)
            await world.settled()
        with caught("request_failed"):
            world.scheduler.reread()
        await self.advance(3)
        agent = Sturdy(world, UID, "a guest")
        listener = Listener()
        acts: list[Callable[[], None]] = [
            lambda: world.watchers.add(listener, Watch(UID, None)),
            lambda: world.watchers.remove(listener, Watch(UID, None)),
            lambda: agent.attach("*"),
            lambda: agent.host.set_room(3),
            lambda: world.scheduler.changed((UID, GOOD), revives=True),
            lambda: agent.attach("elsewhere"),
            lambda: agent.detach("elsewhere"),
            agent.close,
        ]
        for act in acts:
            with caught("request_failed"):
                act()
        await self.advance(3)

    def answer_what_is_open(self) -> None:
        for agent in self.agents:
            for followup in list(agent.open.values()):
                self.script.note(agent.uid, followup)
                agent.answer(ADMIT, followup)
            with self.world.scheduler.troubles.caught("ready_not_taken"):
                agent.ready(BAD)

    async def end(self) -> None:
        """The fault goes; hosts say that they are ready, and answer what they left open."""
        for fault in self.faults:
            fault.on = False
        for _ in range(5):
            await self.advance(70, 10)
            self.answer_what_is_open()
            await self.world.settled()

    def prompts(self, session: str) -> list[Counter[str]]:
        """What was admitted in the Sessions of a name, by owner."""
        return [
            Counter(prompt for uid_, name, prompt in self.script.prompts if (uid_, name) == key)
            for key in ((UID, session), (STAR_UID, session))
        ]


def in_(world: World, seconds: int) -> dt.datetime:
    return world.clock.now() + dt.timedelta(seconds=seconds)


@asynccontextmanager
async def running(
    folder: Path, monkeypatch: pytest.MonkeyPatch, faults: list[Fault], *, rough: bool
) -> AsyncIterator[Run]:
    """A run in which all is overdue, and no host is there yet."""
    with monkeypatch.context() as patch:
        for fault in faults:
            fault.patch(patch)
        world = await open_world(folder, ManualClock(), unclaimed_warn_seconds=1.0)
        run = Run(world, faults, Script(rough))
        for fault in faults:
            fault.tasks = lambda: [s.task for s in world.scheduler.states() if s.key[1] == BAD]
        try:
            world.watchers.add(Listener(), Watch(None, None))
            for fault in faults:
                fault.on = fault.place.module is upkeep
            await world.start(zone_mark=0)
            await run.advance(5)
            for fault in faults:
                fault.on = False
            world.clock.advance(700)
            await world.settled()
            await run.fill()
            world.clock.advance(301)
            await world.settled()
            yield run
        finally:
            for fault in faults:
                fault.on = False
            await world.stop()


async def reach(folder: Path, monkeypatch: pytest.MonkeyPatch, *, rough: bool) -> set[str]:
    """The places that a run without a fault comes to for a BAD Session."""
    faults = [Fault(place, RuntimeError) for place in PLACES.values()]
    async with running(folder, monkeypatch, faults, rough=rough) as run:
        for fault in faults:
            fault.hits = 0
        run.attach()
        await run.advance(FAULT_SECONDS)
        await run.end()
    return {fault.place.text for fault in faults if fault.hits}


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str]]:
    """By the plain run, and by the rough one."""
    with pytest.MonkeyPatch.context() as patch:
        return tuple(  # type: ignore[return-value]
            asyncio.run(reach(tmp_path_factory.mktemp("reach"), patch, rough=rough))
            for rough in (False, True)
        )


CASES = [
    pytest.param(name, error, id=f"{name}-{error}")
    for name in PLACES
    for error in ERRORS
    if error == "a defect" or LONG or name in TRIED_WITH_ALL
    if not (name.startswith("store.receipts") and error == "a cancellation gone astray")
]
"""No task runs on the threads of the file, and so none is cancelled there."""


@pytest.mark.parametrize(("name", "error"), CASES)
async def test_what_fails_for_one_session_or_wake_leaves_all_others_served(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reached: tuple[set[str], set[str]],
    name: str,
    error: str,
) -> None:
    fault = Fault(PLACES[name], ERRORS[error])
    plain, rough = (name in places for places in reached)
    fault.anybody = not (plain or rough)
    async with running(tmp_path, monkeypatch, [fault], rough=not plain) as run:
        with capture_logs() as logs:
            run.begin()
            run.attach()
            await run.advance(FAULT_SECONDS)
            if fault.anybody:
                await run.stir()
            elif name not in ATTACHING:
                check_others(run)
            if not fault.raised:  # it comes later: after a time-out, a long pause
                await run.advance(40, 5)
                run.answer_what_is_open()
                await run.advance(80, 5)
            await run.end()
        check_log(run, fault, logs)
        if name in ONE_LINE or name in ATTACHING:
            come_again(run, close=name in ONE_LINE)
            await run.end()
        check_everybody(run, repeats=name in READS_THE_ANSWER)
        assert fault.raised or name in LOOKED_AT or name in ELSEWHERE, "let a run come there"
        assert fault.raised <= 200, "it is tried without a pause"


ALL = Counter(("once", "late", "later", "local", "counted", "until"))
"""What is admitted once in each Session, by its words; "often" recurs, and runs by hand."""


def counts(prompts: Counter[str]) -> Counter[str]:
    assert prompts.pop("often", 0) >= 2
    return prompts


def check_others(run: Run) -> None:
    for admitted in run.prompts(GOOD):
        assert counts(admitted) == ALL


def check_log(run: Run, fault: Fault, logs: list[Any]) -> None:
    """It is said, once with its traceback, and counted, and not said without end."""
    said = [each for each in logs if each["log_level"] in ("error", "warning")]
    told = [each for each in said if each.get("exc_info") or each.get("code")]
    if fault.raised and not run.escaped:
        assert told or fault.place.module is upkeep  # which worked before the lines were taken
        assert run.world.scheduler.failures or all(each.get("code") for each in told)
    assert len(said) <= 30


def come_again(run: Run, *, close: bool) -> None:
    for agent in run.agents if close else ():
        agent.close()
    run.attach()


def check_everybody(run: Run, *, repeats: bool) -> None:
    for session in (BAD, GOOD):
        for admitted in run.prompts(session):
            if repeats and session == BAD:
                assert counts(admitted).keys() == ALL.keys()
            else:
                assert counts(admitted) == ALL
    assert repeats or not run.script.again
    ids = run.world.receipts()
    assert len(ids) == len(set(ids))
    assert set(ids) >= set(run.script.admitted)
    assert not any(state.recording or state.task for state in run.world.scheduler.states())
    due = "status = 'active' AND scheduled_at <= ? AND session_id <> 'lost'"
    now = instant_text(run.world.clock.now())
    assert run.world.sql(f"SELECT session_id, prompt FROM reminders WHERE {due}", now) == []
