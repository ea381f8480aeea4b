"""Hosts: who is first in line, what an answer means, and what is remembered of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from scheduler_daemon.hosts.host import LATE_KEPT, STALL_SECONDS, Host, Push
from scheduler_daemon.hosts.lines import LAST_SEEN_KEPT, Hosts
from scheduler_daemon.hosts.outcomes import (
    Admitted,
    Busy,
    Closed,
    Gone,
    Outcome,
    Refused,
    Silent,
    outcome_of,
    refusal_of,
)
from scheduler_daemon.model import FollowUp
from tests.support.clock import START, ManualClock

UID = 1000


class Peer:
    """The connection of a host, with nobody at the other end."""

    def __init__(self, uid: int = UID) -> None:
        self.uid = uid
        self.sent: list[Mapping[str, object]] = []

    def send(self, message: Mapping[str, object]) -> None:
        self.sent.append(message)


class Floor:
    """Hosts on a clock that the test turns, and what they tell the scheduler."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.hosts = Hosts(self.clock)
        self.freed: list[Host] = []
        self.late: list[tuple[str, str | None]] = []

    def host(self, *sessions: str, uid: int = UID, most: int | None = None) -> Host:
        host = Host(
            Peer(uid),
            self.clock,
            timeout=30.0,
            freed=self.freed.append,
            admitted_late=lambda _, followup, message_id: self.late.append(
                (followup.followup_id, message_id)
            ),
        )
        host.max_in_flight = most
        if sessions:
            self.hosts.attach(host, "*" if sessions == ("*",) else list(sessions))
        return host

    async def push(self, host: Host, session: str = "s", number: int = 1) -> asyncio.Task[Push]:
        """A follow-up on its way to `host`."""
        followup = FollowUp(f"f{number}", host.uid, session, True, START, ())
        slot = host.take_slot(False)
        task = asyncio.create_task(host.push(followup, {"followup_id": f"f{number}"}, slot))
        await asyncio.sleep(0)
        return task


@pytest.fixture
def floor() -> Floor:
    return Floor()


# --- the line


def test_exact_names_stand_before_hosts_for_all_and_the_latest_first(floor: Floor) -> None:
    star1, name1, star2, name2 = (floor.host(each) for each in ("*", "s", "*", "s"))
    assert floor.hosts.line((UID, "s")) == [name2, name1, star2, star1]
    assert floor.hosts.line((UID, "t")) == [star2, star1]
    assert floor.hosts.line((UID + 1, "s")) == []


def test_the_first_in_line_is_the_first_that_did_not_call_the_session_gone(floor: Floor) -> None:
    star, old, new = (floor.host(each) for each in ("*", "s", "s"))
    key = (UID, "s")
    for host, after in ((new, old), (old, star), (star, None)):
        assert floor.hosts.first(key) is host
        host.gone.add("s")
        assert floor.hosts.first(key) is after
    floor.hosts.forget_gone(key)
    assert floor.hosts.first(key) is new


def test_attaching_anew_puts_first_and_forgets_gone(floor: Floor) -> None:
    old, new = floor.host("s", "t"), floor.host("s", "t")
    old.gone |= {"s", "t"}
    floor.hosts.attach(old, ["s"])
    assert floor.hosts.line((UID, "s")) == [old, new]
    assert old.gone == {"t"}
    star, other = floor.host("*"), floor.host("*")
    star.gone |= {"s", "t"}
    floor.hosts.attach(star, "*")
    assert floor.hosts.stars(UID) == [star, other]
    assert star.gone == set()


def test_a_host_may_be_both_for_names_and_for_all(floor: Floor) -> None:
    host = floor.host("s")
    floor.hosts.attach(host, "*")
    assert floor.hosts.line((UID, "s")) == [host, host]
    assert floor.hosts.detach(host, ["s"]) == [(UID, "s")]
    assert host.takes("s")
    assert floor.hosts.detach(host, "*") == []
    assert not host.takes("s")


def test_detaching_takes_back_what_is_named_and_all_for_a_star(floor: Floor) -> None:
    host = floor.host("a", "b", "c")
    assert floor.hosts.detach(host, ["a", "a", "unknown"]) == [(UID, "a")]
    assert floor.hosts.names(UID) == [(UID, "b"), (UID, "c")]
    assert floor.hosts.detach(host, "*") == [(UID, "b"), (UID, "c")]
    assert floor.hosts.names(UID) == []
    assert floor.hosts.detach(host, "*") == []
    assert not floor.hosts.named((UID, "a"))


def test_a_closed_host_takes_nothing(floor: Floor) -> None:
    host = floor.host("s")
    host.close()
    assert floor.hosts.first((UID, "s")) is None
    assert floor.hosts.line((UID, "s")) == [host]


def test_hosts_are_listed_by_owner_and_by_when_they_came(floor: Floor) -> None:
    first = floor.host("a", "b")
    floor.clock.advance(1)
    second = floor.host("*")
    floor.clock.advance(1)
    third = floor.host("a")
    floor.host("a", uid=2)
    floor.hosts.attach(second, ["a"])
    assert floor.hosts.of_owner(UID) == [first, second, third]
    assert floor.hosts.star_owners() == [UID]


def test_sessions_are_told_apart_by_name_or_by_being_gone(floor: Floor) -> None:
    floor.host("named")
    floor.host("*").gone.add("gone")
    floor.host("*", uid=2).gone.add("not mine")
    assert floor.hosts.told_apart(UID) == {(UID, "named"), (UID, "gone")}


# --- when a Session last had a host


def test_it_is_remembered_when_a_session_lost_its_last_host(floor: Floor) -> None:
    key = (UID, "s")
    assert floor.hosts.last_seen(key) is None
    one, two = floor.host("s"), floor.host("s")
    floor.clock.advance(10)
    floor.hosts.detach(one, "*")
    assert floor.hosts.last_seen(key) is None
    floor.clock.advance(10)
    floor.hosts.detach(two, "*")
    assert floor.hosts.last_seen(key) == floor.clock.now()


def test_a_host_for_all_was_the_last_of_every_session(floor: Floor) -> None:
    star, other, named = floor.host("*"), floor.host("*"), floor.host("s")
    floor.hosts.detach(named, "*")
    floor.clock.advance(10)
    floor.hosts.detach(star, "*")
    assert floor.hosts.last_seen((UID, "t")) is None
    floor.hosts.detach(other, "*")
    for session in ("s", "t"):
        assert floor.hosts.last_seen((UID, session)) == floor.clock.now()
    assert floor.hosts.last_seen((2, "t")) is None


def test_only_so_many_sessions_are_remembered(floor: Floor) -> None:
    names = [f"s{number}" for number in range(LAST_SEEN_KEPT + 1)]
    floor.hosts.detach(floor.host(*names), "*")
    assert floor.hosts.last_seen((UID, names[0])) is None
    assert floor.hosts.last_seen((UID, names[1])) is not None


# --- a push


async def test_a_push_ends_with_the_answer_and_gives_its_slot_back(floor: Floor) -> None:
    host = floor.host("s", most=1)
    task = await floor.push(host)
    assert isinstance(host.peer, Peer)
    assert host.peer.sent == [
        {
            "jsonrpc": "2.0",
            "id": "f1",
            "method": "session.followup",
            "params": {"followup_id": "f1"},
        }
    ]
    assert (host.in_flight, host.has_slot(False)) == (1, False)
    host.answered("f1", Busy(None))
    host.answered("f1", Admitted("m"))
    push = await task
    assert push.answer.result() == Busy(None)
    assert (host.in_flight, host.has_slot(False)) == (0, True)
    assert floor.freed == [host]
    assert floor.clock.pending_calls == 0
    assert floor.late == []


async def test_an_answer_to_nothing_that_is_known_is_ignored(floor: Floor) -> None:
    host = floor.host("s")
    task = await floor.push(host)
    for request_id in ("f2", 7, None):
        host.answered(request_id, Admitted(None))
        host.answered(request_id, Gone())
    assert not task.done()
    assert floor.late == []
    host.close()
    assert (await task).answer.result() == Closed()


async def test_silence_ends_a_push_and_its_late_admission_is_told_once(floor: Floor) -> None:
    host = floor.host("s")
    task = await floor.push(host)
    floor.clock.advance(30)
    assert (await task).answer.result() == Silent()
    host.answered("f1", Busy(1))
    host.answered("f1", Admitted("late"))
    host.answered("f1", Admitted("later"))
    assert floor.late == [("f1", "late")]


async def test_of_pushes_that_timed_out_the_newest_per_session_is_remembered(
    floor: Floor,
) -> None:
    host = floor.host("*")
    for number in (1, 2):
        await floor.push(host, "s", number)
        floor.clock.advance(30)
    host.answered("f1", Admitted(None))
    host.answered("f2", Admitted(None))
    assert floor.late == [("f2", None)]


async def test_at_most_so_many_late_pushes_are_remembered(floor: Floor) -> None:
    host = floor.host("*")
    tasks = [await floor.push(host, f"s{n}", n) for n in range(LATE_KEPT + 1)]
    floor.clock.advance(30)
    await asyncio.gather(*tasks)
    for number in (0, 1, LATE_KEPT):
        host.answered(f"f{number}", Admitted(None))
    assert floor.late == [("f1", None), (f"f{LATE_KEPT}", None)]


async def test_a_cancelled_push_leaves_nothing_behind(floor: Floor) -> None:
    host = floor.host("s")
    task = await floor.push(host)
    assert [push.followup.followup_id for push in host.pushed_to("s")] == ["f1"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (host.in_flight, host.pushed_to("s"), floor.clock.pending_calls) == (0, [], 0)


# --- slots


def test_slots_are_sixteen_unless_the_host_names_another_number(floor: Floor) -> None:
    for most, slots in ((None, 16), (1, 1), (40, 40)):
        host = floor.host("*", most=most)
        assert host.slots == slots
        taken = [host.take_slot(False) for _ in range(slots)]
        assert not host.has_slot(False)
        host.free_slot(taken[0])
        host.free_slot(taken[0])
        assert host.has_slot(False)


@pytest.mark.parametrize(("most", "quarter"), [(None, 4), (1, 1), (3, 1), (4, 1), (9, 2)])
def test_silent_sessions_take_at_most_a_quarter(
    floor: Floor, most: int | None, quarter: int
) -> None:
    host = floor.host("*", most=most)
    taken = 0
    while host.has_slot(True):
        host.take_slot(True)
        taken += 1
    assert taken == quarter


async def test_a_message_unanswered_for_a_moment_lends_its_slot(floor: Floor) -> None:
    """Not where the host named a number, and never beyond a thousand."""
    host, strict = floor.host("*"), floor.host("*", most=16)
    for number in range(16):
        await floor.push(host, f"s{number}", number)
        await floor.push(strict, f"s{number}", number)
    floor.clock.advance(STALL_SECONDS)
    assert (host.has_slot(False), strict.has_slot(False)) == (True, False)
    assert (host.has_slot(True), strict.has_slot(True)) == (False, False)
    assert floor.freed == [host] * 16
    while host.has_slot(False):
        host.take_slot(False).silent = True
    assert len(host._slots) == LATE_KEPT


async def test_an_answer_in_time_lends_nothing(floor: Floor) -> None:
    host = floor.host("*")
    task = await floor.push(host)
    host.answered("f1", Gone())
    await task
    floor.freed.clear()
    floor.clock.advance(STALL_SECONDS)
    assert floor.freed == []


async def test_a_connection_without_room_for_frames_is_given_nothing_until_it_has_some(
    floor: Floor,
) -> None:
    host = floor.host("*")
    host.set_room(2)
    assert floor.freed == []
    slots = [host.take_slot(False) for _ in range(2)]
    assert (host.preparing, host.has_slot(False)) == (2, False)
    host.set_room(2)
    assert floor.freed == []
    host.set_room(3)
    host.set_room(4)
    assert floor.freed == [host]
    host.set_room(0)
    for slot in slots:
        host.free_slot(slot)
    assert not host.has_slot(True)


# --- what answers mean

NOT_OF_THE_PROTOCOL = Refused('the host must answer {"status": "admitted"}, "busy" or "gone"')


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ({"status": "admitted"}, Admitted(None)),
        ({"status": "admitted", "message_id": "m 1 ü\u00a0"}, Admitted("m 1 ü\u00a0")),
        ({"status": "admitted", "message_id": "x" * 200, "more": 1}, Admitted("x" * 200)),
        ({"status": "admitted", "message_id": "x" * 201}, Admitted(None)),
        ({"status": "admitted", "message_id": ""}, Admitted(None)),
        ({"status": "admitted", "message_id": "a\nb"}, Admitted(None)),
        ({"status": "admitted", "message_id": "\ud800"}, Admitted(None)),
        ({"status": "admitted", "message_id": 7}, Admitted(None)),
        ({"status": "busy"}, Busy(None)),
        ({"status": "busy", "retry_after_seconds": 5}, Busy(5)),
        ({"status": "busy", "retry_after_seconds": 0}, Busy(1)),
        ({"status": "busy", "retry_after_seconds": -9}, Busy(1)),
        ({"status": "busy", "retry_after_seconds": 10**9}, Busy(300)),
        ({"status": "busy", "retry_after_seconds": True}, Busy(None)),
        ({"status": "busy", "retry_after_seconds": 2.5}, Busy(None)),
        ({"status": "busy", "retry_after_seconds": "5"}, Busy(None)),
        ({"status": "gone", "reason": "?"}, Gone()),
        ({"status": "Admitted"}, NOT_OF_THE_PROTOCOL),
        ({"status": ["admitted"]}, NOT_OF_THE_PROTOCOL),
        ({}, NOT_OF_THE_PROTOCOL),
        (None, NOT_OF_THE_PROTOCOL),
        ("admitted", NOT_OF_THE_PROTOCOL),
    ],
)
def test_what_a_result_means(value: Any, outcome: Outcome) -> None:
    """Unknown members are ignored, and an admission is one whatever it calls the message."""
    assert outcome_of(value) == outcome


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"code": -32000, "message": "full"}, "full"),
        ({"message": "x" * 500}, "x" * 200),
        (None, "the peer answered with an error"),
    ],
)
def test_what_an_error_means(error: Any, reason: str) -> None:
    assert refusal_of(error) == Refused(f"the host answered with an error: {reason}")
