"""What each answer of a host brings: busy, gone, silence, a broken connection, an error."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_daemon.model import FollowUp
from scheduler_daemon.sending import CLOSED, TROUBLE, UNBUILT
from scheduler_daemon.sessions import SILENT
from tests.support.world import ADMIT, BUSY, ERROR, GONE, Agent, Json, World, few_rounds, prompts_of

pytestmark = pytest.mark.usefixtures("full_pauses")


async def due(world: World, session: str = "s", prompt: str = "p", **rule: Any) -> str:
    """A reminder that has just come due."""
    reminder_id = await world.create(session, prompt, **(rule or {"after_seconds": 1}))
    await world.advance(rule.get("every_seconds", 1))
    return reminder_id


# --- busy


async def test_a_busy_session_is_tried_again_after_a_growing_pause(world: World) -> None:
    agent = await world.agent("s", says=BUSY)
    reminder_id = await due(world)
    assert await world.why(reminder_id) == {
        "why": "busy",
        "attempts": 1,
        "next_try_at": "2026-01-01T12:00:02.000Z",
    }
    with few_rounds(world, 10):
        for pushes, seconds in ((1, 0.999), (2, 0.001), (2, 1.999), (3, 0.001), (3, 3.9), (4, 0.1)):
            await world.advance(seconds)
            assert len(agent.pushed) == pushes
    assert [followup["attempt"] for followup in agent.pushed] == [1, 2, 3, 4]
    assert len({followup["followup_id"] for followup in agent.pushed}) == 4
    assert len({str(followup["occurrences"]) for followup in agent.pushed}) == 1
    agent.says = ADMIT
    await world.advance(8)
    assert await world.why(reminder_id) == {"why": "ended"}
    assert world.state().failures == 0  # type: ignore[union-attr]


async def test_retry_after_replaces_the_pause_once(world: World) -> None:
    agent = await world.agent("s", says={"status": "busy", "retry_after_seconds": 100})
    await due(world)
    await world.advance(99.9)
    assert len(agent.pushed) == 1
    agent.says = BUSY
    await world.advance(0.1)
    assert len(agent.pushed) == 2
    await world.advance(1.9)
    assert len(agent.pushed) == 2
    await world.advance(0.1)
    assert len(agent.pushed) == 3


async def test_a_busy_session_that_is_ready_is_tried_at_once(world: World) -> None:
    agent = await world.agent("s", says={"status": "busy", "retry_after_seconds": 300})
    await due(world)
    agent.says = ADMIT
    agent.ready("s")
    await world.settled()
    assert len(agent.pushed) == 2


@pytest.mark.parametrize("answer", [BUSY, GONE])
async def test_a_ready_that_overtakes_its_answer_counts_for_it_once(
    world: World, answer: Json
) -> None:
    agent = await world.agent("s")
    await due(world)
    agent.ready("s")
    agent.answer(answer)
    await world.settled()
    assert [followup["attempt"] for followup in agent.pushed] == [1, 2]
    agent.answer(answer)
    await world.advance(0.5)
    assert len(agent.pushed) == 2


async def test_a_ready_right_behind_the_busy_answer_counts(world: World) -> None:
    """Both are read before anything else could happen."""
    agent = await world.agent("s")
    await due(world)
    agent.answer(BUSY)
    agent.ready("s")
    await world.settled()
    assert len(agent.pushed) == 2


async def test_a_busy_session_keeps_its_order_when_more_comes_due(world: World) -> None:
    agent = await world.agent("s", says=BUSY)
    await due(world, prompt="first")
    later = await due(world, prompt="later")
    assert await world.why(later) == {"why": "behind"}
    agent.says = ADMIT
    agent.ready("s")
    await world.settled()
    assert agent.prompts[-2:] == [["first"], ["later"]]


async def test_a_ready_from_a_host_that_does_not_take_the_session_does_nothing(
    world: World,
) -> None:
    agent = await world.agent("s", says=BUSY)
    stranger = await world.agent("other")
    await due(world)
    stranger.ready("s")
    await world.settled()
    assert len(agent.pushed) == 1
    agent.ready("never-heard-of")
    await world.settled()
    assert world.state("never-heard-of") is None


async def test_a_host_that_attaches_ends_the_pause(world: World) -> None:
    await world.agent("s", says={"status": "busy", "retry_after_seconds": 300})
    await due(world)
    assert len((await world.agent("s", says=ADMIT)).pushed) == 1


# --- gone


async def test_gone_passes_the_message_to_the_next_in_line_at_once(world: World) -> None:
    second = await world.agent("s", says=ADMIT)
    first = await world.agent("s", says=GONE)
    await world.create(prompt="one", after_seconds=1)
    await world.create(prompt="two", after_seconds=1)
    await world.advance(1)
    assert (first.prompts, second.prompts) == ([["one"]], [["one"], ["two"]])
    assert [first.pushed[0]["attempt"], second.pushed[0]["attempt"]] == [1, 2]


async def test_a_session_that_every_host_called_gone_is_not_tried_by_time(world: World) -> None:
    agent = await world.agent("s", says=GONE)
    star = await world.agent("*", says=GONE)
    reminder_id = await due(world)
    assert (len(agent.pushed), len(star.pushed)) == (1, 1)
    assert await world.why(reminder_id) == {"why": "host_gone"}
    with few_rounds(world, 0):
        await world.advance(100_000)
    assert (len(agent.pushed), len(star.pushed)) == (1, 1)


async def forget_by_attach(world: World, agent: Agent, reminder_id: str) -> None:
    agent.attach("s")


async def forget_by_ready(world: World, agent: Agent, reminder_id: str) -> None:
    agent.ready("s")


async def forget_by_creation(world: World, agent: Agent, reminder_id: str) -> None:
    await world.create(prompt="new", after_seconds=500)


async def forget_by_timing(world: World, agent: Agent, reminder_id: str) -> None:
    await world.update(reminder_id, after_seconds=1)
    await world.advance(1)


@pytest.mark.parametrize(
    "forget", [forget_by_attach, forget_by_ready, forget_by_creation, forget_by_timing]
)
@pytest.mark.parametrize("sessions", ["s", "*"])
async def test_gone_is_forgotten_when_something_speaks_for_the_session(
    world: World, forget: Any, sessions: str
) -> None:
    agent = await world.agent(sessions, says=GONE)
    reminder_id = await due(world)
    assert len(agent.pushed) == 1
    agent.says = ADMIT
    await forget(world, agent, reminder_id)
    await world.settled()
    assert await world.why(reminder_id) == {"why": "ended"}


async def test_other_words_and_deletions_do_not_make_gone_forgotten(world: World) -> None:
    agent = await world.agent("s", says=GONE)
    reminder_id = await due(world)
    other = await world.get(reminder_id)
    await world.update(reminder_id, prompt="other words", revision=other["revision"])
    assert not await world.delete("r77")
    assert await world.delete(reminder_id)
    assert len(agent.pushed) == 1


async def test_a_host_for_all_that_attaches_anew_is_asked_for_everything_again(
    world: World,
) -> None:
    agent = await world.agent("*", says=GONE)
    for session in ("a", "b"):
        await due(world, session)
    agent.says = ADMIT
    agent.attach("*")
    await world.settled()
    assert sorted(agent.sessions) == ["a", "a", "b", "b"]


# --- silence


async def test_silence_frees_the_slot_and_the_session_is_tried_again(world: World) -> None:
    agent = await world.agent("s")
    reminder_id = await due(world)
    await world.advance(29.999)
    assert await world.why(reminder_id) == {"why": "in_flight", "attempts": 1}
    await world.advance(0.001)
    assert agent.host.in_flight == 0
    assert await world.why(reminder_id) == {
        "why": "no_answer",
        "attempts": 1,
        "next_try_at": "2026-01-01T12:00:32.000Z",
        "last_error": SILENT,
    }
    await world.advance(1)
    assert [followup["attempt"] for followup in agent.pushed] == [1, 2]


@pytest.mark.parametrize("answer", [ADMIT, BUSY, GONE, ERROR])
async def test_a_session_whose_last_attempt_met_an_answer_is_not_silent_any_more(
    world: World, answer: Json
) -> None:
    agent = await world.agent("s")
    await due(world)
    await world.advance(30)
    state = world.state()
    assert state is not None
    assert state.silent
    agent.says = answer
    await world.advance(1)
    assert not state.silent


# --- broken connections


async def test_a_message_whose_connection_breaks_goes_to_the_next_in_line_at_once(
    world: World,
) -> None:
    second = await world.agent("s", says=ADMIT)
    first = await world.agent("s")
    await due(world)
    assert (len(first.pushed), len(second.pushed)) == (1, 0)
    first.close()
    await world.settled()
    assert second.pushed[0]["attempt"] == 2


async def test_without_a_next_in_line_it_goes_when_a_host_attaches(world: World) -> None:
    agent = await world.agent("s")
    reminder_id = await due(world)
    agent.close()
    await world.settled()
    assert await world.why(reminder_id) == {
        "why": "no_host",
        "last_host_seen_at": "2026-01-01T12:00:01.000Z",
    }
    (retrying,) = (await world.status())["retrying"]
    assert (retrying["why"], retrying["last_error"]) == ("no_answer", CLOSED)
    assert len((await world.agent("s", says=ADMIT)).pushed) == 1


async def test_a_session_without_a_host_is_forgotten_when_its_pause_is_over(world: World) -> None:
    agent = await world.agent("s")
    await due(world)
    agent.close()
    await world.settled()
    await world.advance(1)
    assert world.state() is None
    with few_rounds(world, 0):
        await world.advance(10_000)


# --- errors speak of the message


async def refused(world: World, agent: Agent, times: int) -> None:
    """Let a message be refused so often in a row."""
    agent.says = ERROR
    for attempt in range(1, times + 1):
        assert len(agent.pushed) == attempt
        if attempt < times:
            await world.advance(2.0 ** (attempt - 1))


async def test_after_three_errors_in_a_row_the_message_steps_aside_for_later_ones(
    world: World,
) -> None:
    agent = await world.agent(
        "s", says=lambda followup: ERROR if prompts_of(followup) == ["bad"] else ADMIT
    )
    bad = await due(world, prompt="bad")
    good = await due(world, prompt="good", after_seconds=1)
    assert agent.prompts == [["bad"], ["bad"]]
    assert (await world.why(bad))["why"] == "refused"
    assert await world.why(good) == {"why": "behind"}
    await world.advance(2)
    assert agent.prompts == [["bad"], ["bad"], ["bad"], ["good"]]
    waiting = await world.why(bad)
    assert (waiting["why"], waiting["attempts"]) == ("set_aside", 3)
    assert waiting["last_error"] == "the host answered with an error: no room"
    assert waiting["next_try_at"] == "2026-01-01T12:00:08.000Z"


async def test_a_message_set_aside_comes_again_with_a_pause_that_grows(world: World) -> None:
    agent = await world.agent("s", says=ERROR)
    bad = await due(world, prompt="bad")
    with few_rounds(world, 20):
        for pushes, seconds in ((2, 1), (3, 2), (3, 3.9), (4, 0.1), (4, 7.9), (5, 0.1)):
            await world.advance(seconds)
            assert len(agent.pushed) == pushes
    assert [followup["attempt"] for followup in agent.pushed] == [1, 2, 3, 4, 5]
    assert (await world.why(bad))["attempts"] == 5
    for _ in range(12):
        await world.advance(300)
    assert len(agent.pushed) >= 15
    agent.says = ADMIT
    await world.advance(300)
    assert await world.why(bad) == {"why": "ended"}
    state = world.state()
    assert state is not None
    assert state.tried == {}
    assert world.clock.pending_calls == 0


async def test_what_comes_due_meanwhile_goes_although_a_message_stands_aside(
    world: World,
) -> None:
    agent = await world.agent("s", says=ERROR)
    await due(world, prompt="bad")
    await world.advance(1)
    await world.advance(2)
    agent.says = ADMIT
    await world.create(prompt="good", after_seconds=2)
    await world.advance(2)
    assert agent.prompts[-1] == ["good"]
    await world.advance(2)
    assert agent.prompts[-1] == ["bad"]


async def test_another_answer_in_between_begins_the_count_of_errors_anew(world: World) -> None:
    agent = await world.agent("s", says=ERROR)
    bad = await due(world, prompt="bad")
    await world.advance(1)
    agent.says = BUSY
    await world.advance(2)
    agent.says = ERROR
    await world.advance(4)
    assert (await world.why(bad))["why"] == "refused"
    await world.advance(8)
    await world.advance(16)
    assert (await world.why(bad))["why"] == "set_aside"


async def test_a_batch_that_is_refused_steps_aside_for_one_shots(world: World) -> None:
    agent = await world.agent("s", says=ERROR)
    often = await due(world, prompt="often", every_seconds=300)
    await world.advance(1)
    await world.advance(2)
    assert (await world.why(often))["why"] == "set_aside"
    agent.says = ADMIT
    await due(world, prompt="once")
    assert agent.prompts[-1] == ["once"]
    await world.advance(3)
    assert agent.prompts[-1] == ["often"]


async def test_other_words_give_a_refused_one_shot_a_new_start(world: World) -> None:
    agent = await world.agent("s", says=ERROR)
    bad = await due(world, prompt="bad")
    await world.advance(1)
    await world.advance(2)
    agent.says = ADMIT
    await world.update(bad, prompt="better")
    assert agent.prompts[-1] == ["better"]
    assert agent.pushed[-1]["attempt"] == 1
    await world.advance(10)
    state = world.state()
    assert state is not None
    assert state.tried == {}


async def test_a_message_set_aside_in_a_session_without_a_host_costs_nothing_for_long(
    world: World,
) -> None:
    agent = await world.agent("*", says=ERROR)
    await due(world)
    await world.advance(1)
    await world.advance(2)
    agent.close()
    await world.advance(4)
    assert world.state() is None
    assert (await world.status())["retrying"] == []


@pytest.mark.parametrize("answer", [{}, {"status": "maybe"}, {"status": None}])
async def test_an_answer_that_is_none_of_the_protocol_is_a_refusal(
    world: World, answer: Json
) -> None:
    await world.agent("s", says=answer)
    reminder_id = await due(world)
    waiting = await world.why(reminder_id)
    assert waiting["why"] == "refused"
    assert waiting["last_error"].startswith('the host must answer {"status": "admitted"}')


# --- defects of ours


def failing_for(prompt: str, function: Any) -> Any:
    """`function`, but raising for what holds this prompt."""

    def act(subject: Any, *rest: Any, **more: Any) -> Any:
        reminders = (
            [each.reminder for each in subject.occurrences]
            if isinstance(subject, FollowUp)
            else [getattr(subject, "reminder", subject)]
        )
        if any(reminder.prompt == prompt for reminder in reminders):
            raise RuntimeError(prompt)
        return function(subject, *rest, **more)

    return act


PARAMS = "scheduler_daemon.sending.followup_params"
OCCURRENCE = "scheduler_daemon.planning.occurrence"
MEASURE = "scheduler_daemon.delivery.plan.most_bytes"


@pytest.mark.parametrize(
    ("where", "recurs"),
    [(PARAMS, False), (PARAMS, True), (OCCURRENCE, False), (OCCURRENCE, True), (MEASURE, True)],
)
async def test_a_message_that_cannot_be_built_harms_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str, recurs: bool
) -> None:
    module, name = where.rsplit(".", 1)
    original = getattr(__import__(module, fromlist=[name]), name)
    monkeypatch.setattr(where, failing_for("bad", original))
    agent = await world.agent("s", "t", says=ADMIT)
    rule: Json = {"every_seconds": 300} if recurs else {"after_seconds": 300}
    bad = await world.create(prompt="bad", **rule)
    await world.create("t", "elsewhere", after_seconds=300)
    await world.advance(300)
    assert agent.prompts == [["elsewhere"]]
    assert (await world.why(bad))["last_error"] == UNBUILT
    good = await world.create(prompt="good", after_seconds=1)
    with few_rounds(world, 20):
        await world.advance(1)
        await world.advance(2)
        assert (await world.why(good)) == {"why": "ended"}
        assert (await world.why(bad))["why"] == "set_aside"
    monkeypatch.setattr(where, original)
    await world.advance(4)
    assert agent.prompts[-1] == ["bad"]


async def test_a_session_that_cannot_be_read_is_tried_again_and_harms_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = world.store.reader.due

    async def read_others(key: Any, *rest: Any) -> Any:
        if key[1] == "s":
            raise OSError("no such luck")
        return await read(key, *rest)

    monkeypatch.setattr(world.store.reader, "due", read_others)
    agent = await world.agent("s", "t", says=ADMIT)
    unread = await due(world, "s")
    await due(world, "t")
    assert agent.sessions == ["t"]
    waiting = await world.why(unread)
    assert (waiting["why"], waiting["last_error"]) == ("refused", TROUBLE)
    assert world.scheduler.failures == 2
    monkeypatch.setattr(world.store.reader, "due", read)
    await world.advance(2)
    assert agent.sessions == ["t", "s"]


async def test_a_connection_that_cannot_be_written_is_no_end_of_the_session(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await world.agent("s", says=ADMIT)

    def send(message: object) -> None:
        raise ValueError("not encodable")

    with monkeypatch.context() as broken:
        broken.setattr(agent, "send", send)
        await due(world)
        assert agent.host.in_flight == 0
    await world.advance(1)
    assert len(agent.pushed) == 1


async def test_a_round_that_fails_is_repeated_and_nothing_is_taken_for_empty(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await world.agent("s", says=ADMIT)
    star = await world.agent("*", says=ADMIT)

    async def unreadable(*_: object) -> None:
        raise OSError("no such luck")

    with monkeypatch.context() as broken:
        for name in ("targets", "sessions_due", "next_target"):
            broken.setattr(world.store.reader, name, unreadable)
        await world.create("s", "named", after_seconds=1)
        await world.create("t", "any", after_seconds=1)
        with few_rounds(world, 4):
            await world.advance(0.5)
            await world.advance(1)
        assert (agent.pushed, star.pushed) == ([], [])
    await world.advance(1)
    assert (agent.prompts, star.prompts) == ([["named"]], [["any"]])
    assert world.scheduler.failures >= 2
