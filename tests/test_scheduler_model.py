"""Random runs: reminders, hosts, answers, clock and disk in any order, against what must hold.

At every push: nothing early, one message of a Session at a time, one-shots first and in order,
everything overdue that recurs in one message, no target passed over, and nothing whose
admission was read; nothing that is paused. After a healing phase: nothing is overdue, every
admission that was read has its one receipt unless the occurrence was skipped or missed before,
every target is the first of its rule, and nothing is remembered or waited for but the next target.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_daemon.errors import InvalidRequest, PersistenceFailed, SchedulerError
from scheduler_daemon.model import Reminder
from scheduler_daemon.rules import first, instant_text
from scheduler_daemon.sessions import message_of
from scheduler_daemon.store.rows import REMINDER_COLUMNS, decode_reminder
from scheduler_daemon.store.store import Left
from scheduler_daemon.store.upkeep import counted_from
from scheduler_daemon.wire import params
from tests.support.world import ADMIT, BUSY, ERROR, GONE, UID, Agent, Json, World, open_world

SESSIONS = ["a", "b", "c"]
ATTACHED = [("*",), ("a",), ("a", "b"), ("b", "c")]
SELECTORS: list[Json] = [
    {"after_seconds": 1},
    {"after_seconds": 40},
    {"after_seconds": 700},
    {"every_seconds": 300},
    {"every_seconds": 1000},
    {"daily": {"time": "12:07", "time_zone": "Europe/Berlin"}},
    {"cron": {"expression": "*/10 * * * *", "time_zone": "America/New_York"}},
]
LIMITS: list[Json] = [
    {"until": "2026-01-01T12:20:00Z"},
    {"until": "2026-01-01T13:00:00Z"},
    {"until": None},
    {"max_occurrences": 1},
    {"max_occurrences": 3},
    {"expires_after_seconds": 20},
]
ANSWERS = [ADMIT, ADMIT, ADMIT, BUSY, {"status": "busy", "retry_after_seconds": 7}, GONE, ERROR]

small = st.integers(0, 7)
steps = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(SESSIONS), st.sampled_from(SELECTORS)),
    st.tuples(st.just("retime"), small, st.sampled_from(SELECTORS)),
    st.tuples(st.just("reword"), small),
    st.tuples(st.just("delete"), small),
    st.tuples(st.just("act"), small, st.sampled_from(["pause", "resume", "skip", "run_now"])),
    st.tuples(st.just("act"), small, st.sampled_from(["pause", "resume", "skip", "run_now"])),
    st.tuples(st.just("snooze"), small, st.sampled_from([1, 400])),
    st.tuples(st.just("limit"), small, st.sampled_from(LIMITS)),
    st.tuples(st.just("transfer"), st.sampled_from(SESSIONS), st.sampled_from(SESSIONS)),
    st.tuples(st.just("forget"), st.sampled_from(SESSIONS)),
    st.tuples(st.just("advance"), st.sampled_from([0.2, 1, 2, 5, 31, 300, 1000])),
    st.tuples(st.just("jump"), st.sampled_from([-1e8, -90_000, -500, -0.7, 0.7, 400, 1e5, 1e8])),
    st.tuples(st.just("attach"), small, st.sampled_from(ATTACHED)),
    st.tuples(st.just("detach"), small, st.sampled_from(ATTACHED)),
    st.tuples(st.just("close"), small),
    st.tuples(st.just("ready"), small, st.sampled_from(SESSIONS)),
    st.tuples(st.just("answer"), small, small, st.sampled_from(ANSWERS)),
    st.tuples(st.just("answer"), small, small, st.sampled_from(ANSWERS)),
    st.tuples(st.just("disk"), st.booleans()),
    st.tuples(st.just("turns"), small),
)
runs = st.lists(st.tuples(st.booleans(), steps), max_size=40)


CHANGES = ("create", "retime", "reword", "delete", "act", "snooze", "limit", "transfer", "forget")


class Model:
    """Carries out steps, and looks at every push."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.agents: list[Agent] = []
        self.reminders: list[str] = []
        self.admitted: set[str] = set()
        self.forgotten: set[str] = set()
        self.full = False
        self._record = world.store.record
        world.store.record = self._write  # type: ignore[method-assign, assignment]

    async def _write(self, *values: Any) -> Left:
        if self.full:
            raise PersistenceFailed("the disk is full")
        return await self._record(*values)

    async def step(self, settle: bool, kind: str, *values: Any) -> None:
        """Carry out a step, right after the last one or when everything that it brought is over.

        Changes always wait: a push in the moment of a commit may know of it or not.
        """
        if settle or kind in CHANGES:
            await self.world.settled()
        await getattr(self, kind)(*values)

    async def create(self, session: str, selector: Json) -> None:
        self.reminders.append(await self.world.create(session, **selector))

    async def retime(self, which: int, selector: Json) -> None:
        await self._update(which, **selector)

    async def reword(self, which: int) -> None:
        await self._update(which, prompt=f"other {self.world.clock.now()}")

    async def _update(self, which: int, **asked: Any) -> None:
        if self.reminders:
            reminder_id = self.reminders[which % len(self.reminders)]
            if (await self.world.get(reminder_id))["status"] == "active":
                await self.world.update(reminder_id, **asked)

    async def delete(self, which: int) -> None:
        if self.reminders:
            await self.world.delete(self.reminders.pop(which % len(self.reminders)))

    async def act(self, which: int, verb: str) -> None:
        if self.reminders:
            with suppress(SchedulerError):
                await self.world.act(verb, self.reminders[which % len(self.reminders)])

    async def snooze(self, which: int, seconds: int) -> None:
        if self.reminders:
            reminder_id = self.reminders[which % len(self.reminders)]
            made = await self.world.act("snooze", reminder_id, seconds=seconds)
            self.reminders.append(made["reminder"]["id"])

    async def limit(self, which: int, limits: Json) -> None:
        with suppress(SchedulerError):
            await self._update(which, **limits)

    async def transfer(self, session: str, to: str) -> None:
        with suppress(InvalidRequest):
            asked = {"from": session, "to": to}
            await self.world.call("sessions.transfer", params.Transfer, asked)

    async def forget(self, session: str) -> None:
        receipts = "SELECT occurrence_id FROM dispatches WHERE session_id = ?"
        self.forgotten |= {each for (each,) in self.world.sql(receipts, session)}
        gone = self.world.sql("SELECT id FROM reminders WHERE session_id = ?", session)
        self.reminders = [each for each in self.reminders if (each,) not in gone]
        await self.world.call("sessions.forget", params.Forget, {"session_id": session})

    async def advance(self, seconds: float) -> None:
        self.world.clock.advance(seconds)

    async def jump(self, seconds: float) -> None:
        self.world.clock.jump(seconds)

    async def turns(self, count: int) -> None:
        """Let the event loop go on for a little."""
        for _ in range(count):
            await asyncio.sleep(0)

    async def attach(self, which: int, sessions: tuple[str, ...]) -> None:
        if which >= len(self.agents):
            agent = Agent(self.world, UID, f"host {len(self.agents)}")
            agent.host.max_in_flight = [None, 1, 2][which % 3]
            agent.says = lambda followup: self.look(agent, followup)
            self.agents.append(agent)
        self.agents[which % len(self.agents)].attach(*sessions)

    async def detach(self, which: int, sessions: tuple[str, ...]) -> None:
        if self.agents:
            self.agents[which % len(self.agents)].detach(*sessions)

    async def close(self, which: int) -> None:
        if self.agents:
            self.agents.pop(which % len(self.agents)).close()

    async def ready(self, which: int, session: str) -> None:
        if self.agents:
            self.agents[which % len(self.agents)].ready(session)

    async def disk(self, full: bool) -> None:
        self.full = full

    async def answer(self, which: int, what: int, said: Json) -> None:
        """Answer any follow-up that a host has not answered, also one that timed out."""
        waiting = [agent for agent in self.agents if agent.open]
        if waiting:
            agent = waiting[which % len(waiting)]
            followup = list(agent.open.values())[what % len(agent.open)]
            self.note(agent, followup, said)
            agent.answer(said, followup)

    def note(self, agent: Agent, followup: Json, said: Json) -> None:
        """Remember what is admitted from now on, if the daemon listens to it."""
        late = {each.followup_id for each in agent.host._late.values()}
        if said == ADMIT and followup["followup_id"] in {*agent.host._pushes, *late}:
            self.admitted.update(each["occurrence_id"] for each in followup["occurrences"])

    def rows(self, where: str, *values: Any) -> list[Reminder]:
        columns = ", ".join(REMINDER_COLUMNS)
        order = "ORDER BY scheduled_at, number"
        found = self.world.sql(f"SELECT {columns} FROM reminders WHERE {where} {order}", *values)
        return [decode_reminder(row) for row in found]

    def look(self, agent: Agent, followup: Json) -> None:
        """A push, right as it is made."""
        decided_at, session = followup["decided_at"], followup["session_id"]
        pushes = [p for each in self.agents for p in each.host.pushed_to(session)]
        assert [p.followup.followup_id for p in pushes] == [followup["followup_id"]]
        state = self.world.state(session)
        assert state is not None
        aside = state.set_aside(self.world.clock.monotonic())
        where = "status = 'active' AND paused = 0 AND session_id = ? AND scheduled_at <= ?"
        due = self.rows(where, session, decided_at)
        ones = [each for each in due if message_of(each) not in (None, *aside)]
        often = [each for each in due if message_of(each) is None]
        runs = self.world.sql(
            "SELECT due_at, occurrence_id FROM runs WHERE session_id = ? ORDER BY due_at, number",
            session,
        )
        runs = [each for each in runs if each[0] <= decided_at and each[1] not in aside]
        occurrences = followup["occurrences"]
        assert followup["batch"] == (not ones and not runs)
        if runs and (not ones or runs[0][0] < instant_text(ones[0].scheduled_at)):
            assert [each["occurrence_id"] for each in occurrences] == [runs[0][1]]
            assert runs[0][1] not in self.admitted
            return
        expected = ones[:1] or often
        assert [each["reminder_id"] for each in occurrences] == [each.id for each in expected]
        for reminder, each in zip(expected, occurrences, strict=True):
            assert reminder.until is None or each["occurrence_at"] <= instant_text(reminder.until)
            target = each.get("missed_from", each["occurrence_at"])
            assert target == instant_text(reminder.scheduled_at)
            assert each["occurrence_at"] <= decided_at
            assert each["occurrence_id"] not in self.admitted

    async def heal(self) -> None:
        """Everything is well again: one host takes all and admits at once."""
        self.full = False
        for agent in self.agents:
            agent.close()
        healer = Agent(self.world, UID, "healer")
        self.agents = [healer]

        def admit(followup: Json) -> Json:
            self.look(healer, followup)
            self.note(healer, followup, ADMIT)
            return ADMIT

        healer.says = admit
        healer.attach("*")
        await self.world.settled()
        for _ in range(4):
            await self.world.advance(301)

    def check(self) -> None:
        now = self.world.clock.now()
        due = "status = 'active' AND paused = 0 AND scheduled_at <= ?"
        assert self.rows(due, instant_text(now)) == []
        assert self.world.sql("SELECT * FROM runs") == []
        receipts = self.world.sql("SELECT occurrence_id, outcome FROM dispatches")
        assert len(receipts) == len(dict(receipts))
        assert self.admitted - self.forgotten <= dict(receipts).keys()
        assert {each for each, outcome in receipts if outcome == "admitted"} <= self.admitted
        active = self.rows("status = 'active'")
        for each in active:
            if message_of(each) is None:
                assert each.scheduled_at == first(each.rule, counted_from(each))
                assert each.until is None or each.scheduled_at <= each.until
                assert each.dispatch_count < (each.max_occurrences or 1e9)
        assert {each.id for each in [*active, *self.rows("status = 'ended'")]} == set(
            self.reminders
        )
        assert list(self.world.scheduler.states()) == []
        assert self.world.clock.pending_calls == 0
        assert self.world.scheduler.failures == 0
        assert self.world.scheduler.next_wake_at == min(
            (each.scheduled_at for each in active if not each.paused), default=None
        )


async def carry_out(run: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = await open_world(Path(folder))
        try:
            await world.start()
            model = Model(world)
            for settle, step in run:
                await model.step(settle, *step)
            await world.settled()
            await model.heal()
            model.check()
        finally:
            await world.stop()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs)
def test_whatever_happens_nothing_is_lost_doubled_early_or_out_of_order(run: list[Any]) -> None:
    asyncio.run(carry_out(run))
