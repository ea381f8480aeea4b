"""Requests of one connection take effect in the order sent, and only so many may wait."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.inprocess import Blocked, Json, Peer, Running, request, running
from tests.support.process import short_folder

SESSIONS = st.sampled_from(["a", "b"])
NUMBERS = st.integers(0, 5)
REQUESTS = st.one_of(
    st.tuples(
        st.just("reminder.create"),
        st.fixed_dictionaries(
            {
                "session_id": SESSIONS,
                "prompt": st.sampled_from(["x", "y", ""]),
                "after_seconds": st.sampled_from([60, 0]),
            },
            optional={"idempotency_key": st.sampled_from(["k", "l"])},
        ),
    ),
    st.tuples(
        st.just("reminder.update"),
        st.fixed_dictionaries(
            {"id": NUMBERS, "revision": st.integers(1, 2)},
            optional={"prompt": st.sampled_from(["x", "z"]), "every_seconds": st.just(300)},
        ),
    ),
    st.tuples(st.just("reminder.delete"), st.fixed_dictionaries({"id": NUMBERS})),
    st.tuples(st.just("reminder.get"), st.fixed_dictionaries({"id": NUMBERS})),
    st.tuples(st.just("reminder.history"), st.fixed_dictionaries({"session_id": SESSIONS})),
    st.tuples(
        st.just("reminder.list"), st.fixed_dictionaries({}, optional={"session_id": SESSIONS})
    ),
    st.tuples(
        st.sampled_from(["host.attach", "host.detach"]),
        st.fixed_dictionaries({"sessions": st.lists(SESSIONS)}),
    ),
)


class Twins:
    """Two daemons that have been asked the same, one of them always one thing at a time."""

    def __init__(self, one: Peer, other: Peer) -> None:
        self.one = one
        self.other = other
        self.highest = 0

    async def answer_alike(self, asked: list[tuple[str, Json]]) -> None:
        frames = [
            request(number, method, **self._params(method, params))
            for number, (method, params) in enumerate(asked)
        ]
        self.one.write(*frames)
        together = [await self.one.read() for _ in frames]
        in_turn = []
        for frame in frames:
            self.other.write(frame)
            in_turn.append(await self.other.read())
        assert sorted(together, key=lambda frame: frame["id"]) == in_turn
        await self._clear()

    def _params(self, method: str, params: Json) -> Json:
        named = {"id": f"r{self.highest + params['id']}"} if "id" in params else {}
        return {**params, **named, **({"name": "h"} if method == "host.attach" else {})}

    async def _clear(self) -> None:
        for peer in (self.one, self.other):
            for item in (await peer.call("reminder.list"))["items"]:
                self.highest = max(self.highest, int(item["id"][1:]))
                await peer.call("reminder.delete", id=item["id"])
            await peer.call("host.detach", sessions="*")


async def twins(at_end: AsyncExitStack) -> Twins:
    peers = []
    for _ in range(2):
        folder = short_folder()
        at_end.callback(shutil.rmtree, folder)
        daemon = await at_end.enter_async_context(running(folder))
        peers.append(await daemon.peer())
    return Twins(*peers)


def test_requests_sent_at_once_do_what_the_same_ones_do_when_sent_one_by_one() -> None:
    with asyncio.Runner() as runner:
        at_end = AsyncExitStack()
        both = runner.run(twins(at_end))

        @settings(max_examples=60, deadline=None)
        @given(st.lists(REQUESTS, min_size=2, max_size=40))
        def alike(asked: list[tuple[str, Any]]) -> None:
            runner.run(both.answer_alike(asked))

        try:
            alike()
        finally:
            runner.run(at_end.aclose())


async def test_a_look_sees_all_that_was_sent_before_it_and_nothing_sent_after(peer: Peer) -> None:
    def create(number: int) -> Json:
        return request(
            number, "reminder.create", session_id="s", prompt=str(number), after_seconds=60
        )

    peer.write(
        *(create(number) for number in range(5)),
        request(5, "reminder.list"),
        request(6, "reminder.delete", id="r1"),
        request(7, "reminder.update", id="r2", revision=1, prompt="new"),
        request(8, "reminder.list"),
        create(9),
    )
    answers = {frame["id"]: frame for frame in [await peer.read() for _ in range(10)]}
    prompts = {
        number: [item["prompt"] for item in answers[number]["result"]["items"]] for number in (5, 8)
    }
    assert prompts == {5: ["0", "1", "2", "3", "4"], 8: ["new", "2", "3", "4"]}


async def test_answers_may_overtake_one_another(on: Running, peer: Peer) -> None:
    """What is refused without looking at the file does not wait for what does."""
    peer.write(request(1, "reminder.list"), request(2, "no.such"))
    assert [(await peer.read())["id"] for _ in range(2)] == [2, 1]


def creates(*numbers: int) -> list[Json]:
    return [
        request(n, "reminder.create", session_id="s", prompt=str(n), after_seconds=60)
        for n in numbers
    ]


async def test_beyond_max_pending_requests_one_is_refused_and_the_others_are_not(
    folder: Path,
) -> None:
    async with running(folder, max_pending_requests=3) as on:
        peer = await on.peer()
        with Blocked(on.database):
            peer.write(*creates(1, 2, 3, 4), request(5, "no.such"))
            refused, unknown = await peer.read(), await peer.read()
        assert refused["id"] == 4
        assert refused["error"]["code"] == -32000
        assert refused["error"]["data"] == {"code": "overloaded"}
        assert unknown["error"]["code"] == -32601
        answers = [await peer.read() for _ in range(3)]
        assert {frame["id"] for frame in answers} == {1, 2, 3}
        assert all(frame["result"]["created"] for frame in answers)
        await peer.create()  # and there is room again


async def test_answers_and_notifications_are_read_however_many_requests_wait(
    folder: Path,
) -> None:
    async with running(folder, max_pending_requests=1) as on:
        host = await on.peer()
        await host.call("host.attach", name="h", sessions=["s", "t"])
        await host.create("s", "first", after_seconds=60)
        await host.create("t", "second", after_seconds=60)
        on.clock.advance(60)
        pushed = [await host.followup(), await host.followup()]
        busy = next(each for each in pushed if each["params"]["session_id"] == "t")
        with Blocked(on.database):
            host.write(*creates(1, 2))
            assert (await host.read())["error"]["data"]["code"] == "overloaded"
            host.write({"jsonrpc": "2.0", "id": busy["id"], "result": {"status": "busy"}})
            host.write({"jsonrpc": "2.0", "method": "session.ready", "params": {"session_id": "t"}})
            again = await host.read()
        assert again["method"] == "session.followup"
        assert again["params"]["attempt"] == 2


async def test_a_turn_may_manage_reminders_before_its_followup_is_answered(
    on: Running, peer: Peer
) -> None:
    await peer.call("host.attach", name="h", sessions=["s"])
    mine = await peer.create("s", "work", after_seconds=60)
    on.clock.advance(60)
    followup = await peer.followup()
    got = await peer.call("reminder.get", id=mine["id"])
    assert got["reminder"]["waiting_for"]["why"] == "in_flight"
    more = await peer.create("s", "more")
    assert (await peer.call("reminder.delete", id=more["id"]))["deleted"]
    assert [each["id"] for each in (await peer.call("reminder.list"))["items"]] == [mine["id"]]
    peer.admit(followup)
    while (await peer.call("reminder.get", id=mine["id"]))["reminder"]["status"] == "active":
        pass
