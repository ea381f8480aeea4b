"""Who gets it: the line of hosts, slots, hosts for all Sessions, and what is remembered."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_daemon.desk import Caller
from scheduler_daemon.errors import PersistenceFailed
from scheduler_daemon.hosts.host import UNWRITTEN
from scheduler_daemon.sessions import SILENT
from scheduler_daemon.star_scans import SCAN
from scheduler_daemon.store.writer import FAILED
from scheduler_daemon.troubles import RETRY_SECONDS
from scheduler_daemon.wire import params
from tests.support.world import ADMIT, BUSY, GONE, UID, Agent, World, few_rounds

ME = Caller(UID, False)
CREATION = params.parse(params.Create, {"session_id": "s", "prompt": "p", "after_seconds": 60})

pytestmark = pytest.mark.usefixtures("full_pauses")


async def due(world: World, *sessions: str) -> None:
    """A reminder in each of these Sessions that has just come due."""
    for session in sessions:
        await world.create(session, after_seconds=1)
    await world.advance(1)


# --- the line


async def test_exact_names_go_before_a_host_for_all_and_the_latest_first(world: World) -> None:
    first = await world.agent("s", says=ADMIT)
    star = await world.agent("*", says=ADMIT)
    await due(world, "s")
    second = await world.agent("s", says=ADMIT)
    await due(world, "s", "t")
    assert (first.sessions, star.sessions, second.sessions) == (["s"], ["t"], ["s"])


async def test_a_host_that_is_no_longer_first_is_first_again_when_the_newer_one_leaves(
    world: World,
) -> None:
    star = await world.agent("*", says=ADMIT)
    old = await world.agent("s", says=ADMIT)
    new = await world.agent("s", says=ADMIT)
    new.detach("s")
    await due(world, "s")
    assert len(old.pushed) == 1
    old.close()
    await due(world, "s")
    assert (len(old.pushed), len(new.pushed), len(star.pushed)) == (1, 0, 1)


async def test_a_host_that_attaches_again_is_the_latest(world: World) -> None:
    old = await world.agent("s", says=ADMIT)
    new = await world.agent("s", says=ADMIT)
    old.attach("s")
    await due(world, "s")
    assert (len(old.pushed), len(new.pushed)) == (1, 0)


async def test_a_message_in_flight_stays_where_it_is_and_the_next_goes_to_the_new_host(
    world: World,
) -> None:
    old = await world.agent("s")
    await due(world, "s", "s")
    new = await world.agent("s", says=ADMIT)
    assert len(new.pushed) == 0
    old.answer(ADMIT)
    await world.settled()
    assert (len(old.pushed), len(new.pushed)) == (1, 1)


async def test_a_detached_host_still_answers_for_what_it_was_sent(world: World) -> None:
    agent = await world.agent("s")
    await due(world, "s")
    agent.detach("s")
    await world.settled()
    agent.answer(ADMIT)
    await world.settled()
    assert len(world.receipts()) == 1
    await due(world, "s")
    assert len(agent.pushed) == 1


async def test_what_waits_for_a_slot_goes_elsewhere_when_its_host_leaves(world: World) -> None:
    star = await world.agent("*", says=ADMIT, name="star")
    agent = await world.agent("a", "b", max_in_flight=1)
    await due(world, "a", "b")
    assert len(agent.pushed) == 1
    agent.detach("b")
    await world.settled()
    assert star.sessions == ["b"]


async def test_what_waits_for_a_slot_keeps_waiting_when_its_host_leaves_another_session(
    world: World,
) -> None:
    agent = await world.agent("a", "b", "c", max_in_flight=1)
    await due(world, "a", "b")
    agent.detach("c")
    await world.settled()
    agent.answer(ADMIT)
    await world.settled()
    assert agent.sessions == ["a", "b"]


async def test_a_session_whose_pause_ends_while_there_is_no_slot_waits_for_one(
    world: World,
) -> None:
    agent = await world.agent("*", max_in_flight=1)
    await due(world, "a")
    agent.answer(BUSY)
    await world.settled()
    await world.create("b", at="2026-01-01T12:00:01.500Z")
    await world.advance(0.5)
    assert agent.sessions == ["a", "b"]
    await world.advance(5)
    assert agent.sessions == ["a", "b"]
    agent.answer(ADMIT)
    await world.settled()
    assert agent.sessions == ["a", "b", "a"]
    assert [followup["attempt"] for followup in agent.pushed] == [1, 1, 2]


async def test_what_met_silence_says_so_while_it_waits_for_a_host_that_reads_nothing(
    world: World,
) -> None:
    """Nothing of its Session is before it, and nothing of it is in flight."""
    agent = await world.agent("*", max_in_flight=2)
    for session in ("a", "b"):
        await world.create(session, after_seconds=1)
    await world.advance(1)
    agent.host.set_room(0)
    await world.advance(30)
    await world.advance(1)
    silence = {"why": "no_answer", "attempts": 1, "last_error": SILENT}
    assert (await world.why("r1"), await world.why("r2")) == (silence, silence)
    status = await world.status()
    assert status["retrying"] == [{"session_id": "a"} | silence, {"session_id": "b"} | silence]
    agent.host.set_room(64)
    await world.settled()
    assert await world.why("r1") == {"why": "in_flight", "attempts": 2}


async def test_a_named_session_falls_back_to_a_host_for_all_and_is_forgotten_there(
    world: World,
) -> None:
    star = await world.agent("*", says=ADMIT)
    agent = await world.agent("s", says=ADMIT)
    await world.create("s", after_seconds=100)
    agent.close()
    await world.settled()
    assert world.state() is None
    await world.advance(100)
    assert star.sessions == ["s"]


# --- slots


@pytest.mark.parametrize("sessions", ["*", "each"])
async def test_the_default_is_sixteen_at_once(world: World, sessions: str) -> None:
    names = [f"s{number:02}" for number in range(20)]
    agent = await world.agent(*(["*"] if sessions == "*" else names))
    await due(world, *names)
    assert len(agent.pushed) == 16
    agent.answer(ADMIT)
    await world.settled()
    assert len(agent.pushed) == 17
    assert agent.sessions == names[:17]


async def test_a_host_that_named_a_number_is_never_given_more(world: World) -> None:
    names = [f"s{number}" for number in range(8)]
    agent = await world.agent(*names, max_in_flight=3)
    await due(world, *names)
    for _ in range(40):
        await world.advance(5)
        assert agent.host.in_flight <= 3
    assert len(set(agent.sessions)) == 8


@pytest.mark.parametrize("sessions", ["*", "each"])
async def test_a_host_is_given_no_more_while_many_of_its_receipts_are_not_on_disk(
    world: World, monkeypatch: pytest.MonkeyPatch, sessions: str
) -> None:
    async def full(*_: object) -> None:
        raise PersistenceFailed(FAILED)

    names = [f"s{number:03}" for number in range(UNWRITTEN + 40)]
    agent = await world.agent(*(["*"] if sessions == "*" else names), says=ADMIT)
    with monkeypatch.context() as broken:
        broken.setattr(world.store, "record", full)
        await due(world, *names)
        assert UNWRITTEN <= len(agent.pushed) <= UNWRITTEN + agent.host.slots
    await world.advance(RETRY_SECONDS)
    assert agent.sessions == names
    assert len(world.receipts()) == len(names)


@pytest.mark.parametrize("deaf", [list(range(17)), list(range(3, 20))])
@pytest.mark.parametrize("sessions", ["*", "each"])
async def test_many_sessions_that_a_host_never_answers_leave_the_others_served_within_a_second(
    world: World, deaf: list[int], sessions: str
) -> None:
    names = [f"s{number:02}" for number in range(20)]
    silent = {names[number] for number in deaf}
    for name in names:
        await world.create(name, after_seconds=1)
    await world.advance(1)
    agent = await world.agent(
        *(["*"] if sessions == "*" else names),
        says=lambda followup: None if followup["session_id"] in silent else ADMIT,
    )
    for _ in range(10):
        await world.advance(0.1)
    assert len(world.receipts()) == 3
    assert set(agent.sessions) == set(names)


async def test_sessions_that_met_silence_use_at_most_a_quarter_of_the_slots(world: World) -> None:
    names = [f"s{number}" for number in range(8)]
    agent = await world.agent(*names, max_in_flight=8)
    await due(world, *names)
    await world.advance(30)
    await world.advance(1)
    assert agent.host.in_flight == 2
    assert len(agent.host.waiting_silent) == 6
    await due(world, "a")
    agent.attach("a")
    await world.settled()
    assert agent.sessions[-1] == "a"
    assert agent.host.in_flight == 3
    assert await world.why("r8") == {"why": "no_answer", "attempts": 1, "last_error": SILENT}
    await world.advance(30)
    assert agent.host.in_flight == 2


async def test_a_slow_host_delays_no_session_of_another(world: World) -> None:
    await world.agent("slow", max_in_flight=1)
    quick = await world.agent("a", "b", "c", says=ADMIT)
    await due(world, "slow", "slow", "a", "b", "c")
    assert sorted(quick.sessions) == ["a", "b", "c"]


async def test_a_refusing_session_delays_no_other_of_its_host(world: World) -> None:
    agent = await world.agent(
        "bad", "good", says=lambda each: BUSY if each["session_id"] == "bad" else ADMIT
    )
    await due(world, "bad", "good")
    assert sorted(agent.sessions) == ["bad", "good"]
    assert len(world.receipts()) == 1


async def test_a_slot_that_was_left_by_a_session_without_anything_due_is_used(
    world: World,
) -> None:
    """The plan finds that it was deleted meanwhile; the next Session in line goes."""
    agent = await world.agent("a", "b", "c", max_in_flight=1)
    ids = [await world.create(name, after_seconds=1) for name in ("a", "b", "c")]
    await world.advance(1)
    await world.delete(ids[1])
    agent.answer(ADMIT)
    await world.settled()
    assert agent.sessions == ["a", "c"]


# --- hosts for all

COLUMNS = "owner_uid, session_id, kind, prompt, scheduled_at, after_at, computed_at, created_at"
INSTANTS = ", ".join(["'2026-01-01T12:00:00.000Z'"] * 3)


async def test_a_host_for_all_serves_thousands_of_sessions_and_nothing_is_kept_of_them(
    world: World,
) -> None:
    names = [f"s{number:04}" for number in range(2000)]
    rows = ", ".join(
        f"({UID}, '{name}', 'at', 'p', '2026-01-01T12:00:01.000Z', {INSTANTS})" for name in names
    )
    world.sql(f"INSERT INTO reminders ({COLUMNS}) VALUES {rows}")
    await world.advance(10)
    held: list[int] = []

    def admit(followup: Any) -> Any:
        # Those whose receipt is on its way to the disk are as many as the disk is slow.
        held.append(sum(not state.recording for state in world.scheduler.states()))
        return ADMIT

    agent = await world.agent("*", says=admit)
    assert agent.sessions == names
    assert max(held) <= 16 + 4 * SCAN
    assert list(world.scheduler.states()) == []
    assert world.scheduler.next_wake_at is None
    with few_rounds(world, 0):
        await world.advance(1000)


async def test_sessions_that_a_host_for_all_called_gone_are_not_kept_and_not_looked_at(
    world: World,
) -> None:
    names = [f"s{number:03}" for number in range(3 * SCAN)]
    agent = await world.agent("*", says=GONE)
    await due(world, *names)
    assert sorted(agent.sessions) == names
    assert list(world.scheduler.states()) == []
    agent.says = ADMIT
    with few_rounds(world, 40):
        await due(world, "live")
        await world.advance(10_000)
    assert len(agent.pushed) == len(names) + 1


async def test_parked_sessions_are_passed_over_once_and_then_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await world.agent("*", says=GONE)
    await due(world, *[f"s{number:03}" for number in range(2 * SCAN)])
    agent.says = ADMIT
    read, passed = world.store.reader.sessions_due, []

    async def counted(*values: Any) -> Any:
        found = await read(*values)
        passed.extend(found)
        return found

    monkeypatch.setattr(world.store.reader, "sessions_due", counted)
    for _ in range(5):
        await due(world, "live")
    assert len(passed) == 5


async def test_two_hosts_for_all_share_by_the_line_and_gone(world: World) -> None:
    second = await world.agent("*", says=ADMIT)
    first = await world.agent(
        "*", says=lambda each: GONE if each["session_id"] == "b" else ADMIT, max_in_flight=1
    )
    await due(world, "a", "b", "c")
    assert (first.sessions, second.sessions) == (["a", "b", "c"], ["b"])


async def test_one_users_host_for_all_with_full_slots_holds_up_no_other_user(
    world: World,
) -> None:
    await world.agent("*", uid=2000, max_in_flight=1)
    other = await world.agent("*", says=ADMIT)
    for number in range(SCAN + 5):
        await world.create(f"s{number:02}", after_seconds=1, caller=Caller(2000, False))
    await due(world, "mine")
    assert other.sessions == ["mine"]


async def test_a_host_for_all_that_comes_while_its_sessions_are_read_sees_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = world.store.reader.sessions_due
    came: list[Agent] = []

    async def read_and_come(*values: Any) -> Any:
        found = await read(*values)
        if not came:
            came.append(Agent(world, UID, "late"))
            came[0].says = ADMIT
            came[0].attach("*")
        return found

    await due(world, "a", "b")
    monkeypatch.setattr(world.store.reader, "sessions_due", read_and_come)
    first = await world.agent("*", says=ADMIT)
    assert (first.pushed, came[0].sessions) == ([], ["a", "b"])


async def test_a_host_for_all_that_leaves_while_others_are_read_for_is_no_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await world.agent("*", uid=1)
    second = await world.agent("*", uid=2)
    read = world.store.reader.sessions_due

    async def read_and_leave(*values: Any) -> Any:
        second.close()
        return await read(*values)

    monkeypatch.setattr(world.store.reader, "sessions_due", read_and_leave)
    first.attach("*")
    second.attach("*")
    await world.settled()
    assert world.scheduler.failures == 0


async def test_what_is_made_while_targets_are_read_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It commits after the snapshot was taken, and before the answer to it is dealt with."""
    agent = await world.agent("s", says=ADMIT)
    read = world.store.reader.targets

    async def read_and_create(keys: Any) -> Any:
        found = await read(keys)
        monkeypatch.setattr(world.store.reader, "targets", read)
        await world.service.create(ME, CREATION)
        return found

    monkeypatch.setattr(world.store.reader, "targets", read_and_create)
    agent.attach("s")
    await world.settled()
    await world.advance(60)
    assert len(agent.pushed) == 1


async def test_what_is_learnt_while_the_scan_reads_on_is_expected_by_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await world.agent("*", says=ADMIT)
    read = world.store.reader.next_target

    async def read_and_learn(*values: Any) -> Any:
        found = await read(*values)
        monkeypatch.setattr(world.store.reader, "next_target", read)
        await world.service.create(ME, CREATION)
        await world.scheduler._look()
        return found

    monkeypatch.setattr(world.store.reader, "next_target", read_and_learn)
    await due(world, "other")
    await world.advance(60)
    assert agent.sessions == ["other", "s"]


# --- cold Sessions


async def test_cold_sessions_cost_no_round_no_timer_and_no_memory(world: World) -> None:
    with few_rounds(world, 0):
        for number in range(50):
            await world.create(f"s{number}", after_seconds=1)
        await world.update("r1", prompt="other")
        await world.delete("r2")
        await world.advance(3000)
    assert list(world.scheduler.states()) == []
    assert world.clock.pending_calls == 0


async def test_only_what_is_overdue_is_sent_when_a_session_becomes_live(world: World) -> None:
    await world.create(prompt="now", after_seconds=1)
    await world.create(prompt="later", after_seconds=1000)
    await world.advance(10)
    agent = await world.agent("s", says=ADMIT)
    assert agent.prompts == [["now"]]
