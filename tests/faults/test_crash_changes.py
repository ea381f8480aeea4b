"""The crash matrix of what callers do: before and after each commit, for every kind of rule.

The same act is done twice in one life: the first one is answered, the second one meets the kill.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.lives import TestBuild, occurrences
from tests.faults.seeds import KINDS, RECURRING, START, seed
from tests.support.peer import Peer

pytestmark = pytest.mark.acceptance

Json = dict[str, Any]
Begin = Callable[[Peer, str, str], Any]

OTHER: Json = {"daily": {"time": "03:00", "time_zone": "Europe/Berlin"}}
"""Another timing, which does not come on the day of the tests."""


def _one(method: str, **more: Any) -> Begin:
    return lambda peer, reminder_id, session: peer.begin(method, id=reminder_id, **more)


ACTS: dict[str, Begin] = {
    "update": _one("reminder.update", revision=1, prompt="other words", **OTHER),
    "delete": _one("reminder.delete"),
    "pause": _one("reminder.pause"),
    "resume": _one("reminder.resume"),
    "skip": _one("reminder.skip"),
    "snooze": _one("reminder.snooze", seconds=600, idempotency_key="k"),
    "run_now": _one("reminder.run_now", idempotency_key="k"),
    "forget": lambda peer, _, session: peer.begin("session.forget", session_id=session),
    "transfer": lambda peer, _, session: peer.begin(
        "session.transfer", **{"from": session, "to": f"{session} 2"}
    ),
}


def traces(build: TestBuild, reminder_id: str, session: str) -> Json:
    """Everything in the file that a reminder and its Session have a part in."""
    number = int(reminder_id[1:])
    return {
        "session": session,
        "row": build.table("reminders", "id = ?", reminder_id),
        "snoozed": build.table("reminders", "snoozed_from = ?", number),
        "runs": build.table("runs", "reminder_number = ?", number),
        "dispatches": build.table("dispatches", "reminder_number = ?", number),
        "sessions": build.table("sessions", "session_id IN (?, ? || ' 2')", session, session),
        "keys": build.table("idempotency_keys", "session_id = ?", session),
    }


def same(one: Json, other: Json) -> bool:
    """Whether two reminders were done the same to, but for what names them."""
    return _unnamed(one) == _unnamed(other)


def _unnamed(traces: Json) -> Json:
    ignored = {"id", "number", "reminder_number", "asked_of", "snoozed_from", "due_at"}
    ignored |= {"reminder_id", "occurrence_id", "request_hash"}

    def unnamed(name: str, value: Any) -> Any:
        if name == "session_id":
            return f"S{value[1:]}"
        return value.replace(f"in {traces['session']}", "in S") if name == "prompt" else value

    tables = {name: found for name, found in traces.items() if isinstance(found, list)}
    return {
        table: [{k: unnamed(k, v) for k, v in row.items() if k not in ignored} for row in found]
        for table, found in tables.items()
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("act", ACTS)
def test_a_change_that_was_answered_is_there_and_one_that_met_a_kill_is_whole_or_not_at_all(
    build: TestBuild, act: str, side: str, kind: str
) -> None:
    if act == "skip" and kind not in RECURRING:
        pytest.skip("a one-shot has one occurrence")
    answered, killed, *others = seed(
        build.state, [("a", kind), ("b", kind), *((f"other {each}", each) for each in KINDS)]
    )
    if act == "resume":
        build.sql("UPDATE reminders SET paused = 1 WHERE session_id IN ('a', 'b')")
    untouched = traces(build, killed, "b")
    build.crash_at = f"{side}_commit.{act}:2"
    caller = build.start().peer()
    ACTS[act](caller, answered, "a").result(60)
    lost = ACTS[act](caller, killed, "b")
    build.crashed()
    with pytest.raises(ConnectionError):
        lost.result(60)
    done, maybe = traces(build, answered, "a"), traces(build, killed, "b")
    assert not same(done, untouched)
    if side == "before":
        assert maybe == untouched
    else:
        assert same(maybe, done)

    build.crash_at = ""
    build.start()
    retry(build.peer(), act, killed, made=side == "before")
    came = occurrences(build.healed())
    build.stop()
    check_what_came(came, act, side, (answered, killed), others)
    rows = build.table("reminders")
    assert len({row["id"] for row in rows}) == len(rows)


def retry(peer: Peer, act: str, reminder_id: str, *, made: bool) -> None:
    """What has a key is asked again, and done once in all."""
    if act in ("snooze", "run_now"):
        assert ACTS[act](peer, reminder_id, "b").result(60)["created"] is made


def check_what_came(
    came: list[str], act: str, side: str, pair: tuple[str, str], others: list[str]
) -> None:
    """Once each: all that is due, and nothing that was deleted, paused or moved ahead."""
    assert len(set(came)) == len(came)
    runs = [each.split("@")[0] for each in came if "@now-" in each]
    assert sorted(runs) == (sorted(pair) if act == "run_now" else [])
    due = {each.split("@")[0] for each in came if "@now-" not in each}
    assert set(others) <= due
    for reminder_id, is_done in zip(pair, (True, side == "after"), strict=True):
        if is_done and act in ("skip", "resume"):
            continue  # some kinds have a later occurrence that is due, others do not
        gone = act == "resume" or (is_done and act in ("delete", "pause", "forget", "update"))
        assert (reminder_id in due) is not gone, came


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_creation_that_was_answered_is_there_and_one_that_met_a_kill_is_found_by_its_key(
    build: TestBuild, side: str, kind: str
) -> None:
    seeds = seed(build.state, [(f"other {each}", each) for each in KINDS])
    rule = {**KINDS, "at": {"at": "2026-01-01T12:30:00Z"}}[kind]
    build.crash_at = f"{side}_commit.create:2"
    caller = build.start().peer()
    words = {"session_id": "s", "prompt": "words", **rule}
    made = caller.call("reminder.create", idempotency_key="k1", **words)["reminder"]
    lost = caller.begin("reminder.create", idempotency_key="k2", **words)
    build.crashed()
    with pytest.raises(ConnectionError):
        lost.result(60)
    rows = build.table("reminders", "session_id = 's'")
    assert [row["id"] for row in rows][:1] == [made["id"]]
    assert len(rows) == 1 + (side == "after")
    assert len(build.table("idempotency_keys")) == len(rows)

    build.crash_at = ""
    build.start()
    again = build.peer().call("reminder.create", idempotency_key="k2", **words)
    assert again["created"] is (side == "before")
    ids = [*seeds, made["id"], again["reminder"]["id"]]
    assert [row["id"] for row in build.table("reminders")] == ids
    host = build.healed()
    assert build.turn("advance", 86_400)
    build.until(lambda: not build.overdue())
    came = occurrences(host)
    build.stop()
    assert {each.split("@")[0] for each in came} == set(ids)
    assert len(set(came)) == len(came)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [{"until": START}, {"max_occurrences": 1}])
@pytest.mark.parametrize("point", ["admission_read", "after_commit.receipt"])
def test_killed_after_an_admission_a_rule_that_ends_with_it_is_sent_again_only_unwritten(
    build: TestBuild, point: str, limit: Json, kind: str
) -> None:
    (made,) = seed(build.state, [("s", kind)], **(limit if kind in RECURRING else {}))
    build.crash_at = point
    host = build.start().peer()
    host.begin("host.attach", name="scripted", sessions=["s"])
    build.crashed()
    taken = occurrences(host)
    build.crash_at = ""
    again = occurrences(build.start().healed())
    assert again == (taken if point == "admission_read" else [])
    later = build.peer()
    later.attach("*")
    assert build.turn("advance", 601)  # so that the clock can be trusted
    build.until(lambda: build.table("reminders", "status = 'ended'"))
    assert build.turn("advance", 2 * 86_400)
    build.stop()
    assert occurrences(later) == []
    (row,) = build.table("reminders")
    wanted = "delivered" if kind not in RECURRING else "until" if "until" in limit else "count"
    assert (row["id"], row["status"], row["ended_reason"]) == (made, "ended", wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", ["pause", "skip", "run_now"])
def test_killed_after_an_admission_that_met_a_verb_nothing_comes_that_the_verb_forbids(
    build: TestBuild, verb: str, kind: str
) -> None:
    """The verb is answered while the message is with the host; then it is admitted, and killed."""
    if verb == "skip" and kind not in RECURRING:
        pytest.skip("a one-shot has one occurrence")
    (made,) = seed(build.state, [("s", kind)])
    build.crash_at = "admission_read"
    host = build.start().peer()
    host.reply = None
    host.attach(["s"])
    first = host.next_followup()
    build.peer().call(f"reminder.{verb}", id=made)
    host.answer(first)
    build.crashed()
    build.crash_at = ""
    build.start()
    taker = build.peer()
    if verb == "pause":
        taker.attach("*")
        assert build.turn("advance", 60)
        assert build.table("reminders", "paused = 1 AND status = 'active'")
        build.peer().call("reminder.resume", id=made)
    came = occurrences(build.healed())
    build.stop()
    came += occurrences(taker)
    own = [each for each in came if "@now-" not in each]
    assert len(came) - len(own) == (verb == "run_now")
    if verb == "pause" and kind in RECURRING:
        assert own == []  # it goes on with the first after the resume
    else:
        # What was pushed had no receipt: it comes again, and what was skipped is the one after it.
        assert own == first.occurrences
