"""Hosts that break off in every phase, read nothing, have very many Sessions, or have rivals."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.expected import Book
from tests.faults.wild import ADMITTED, Wild
from tests.support.inprocess import DEADLINE_SECONDS, Json, Peer, Running, line, running, until

MANY = 500
LONG_WORDS = "w" * 12_000
"""So long that twenty in one message fit a frame, and are more than the kernel holds for a host."""


class Stage:
    """A daemon with a clock that stands, and hosts that are closed at the end."""

    def __init__(self, on: Running, maker: Peer, book: Book) -> None:
        self.on = on
        self.maker = maker
        self.book = book
        self.hosts: list[Wild] = []

    def host(self, name: str = "host", *, reads: bool = True, admits: bool = False) -> Wild:
        self.hosts.append(Wild(self.on.path, name, reads=reads))
        self.hosts[-1].admits = admits
        return self.hosts[-1]

    async def make(self, session: str, prompt: str = "words", **selector: int) -> None:
        self.book.enter(await self.maker.create(session, prompt, **selector))

    async def calm(self) -> None:
        """Return when the daemon has carried out what its hosts have sent."""
        for _ in range(3):
            await self.maker.call("daemon.status")

    async def recorded(self, session: str, count: int) -> list[str]:
        """So many occurrences of a Session that were admitted, waited for, the oldest first."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                page = await self.maker.call("reminder.history", session_id=session, limit=1000)
                if len(page["items"]) >= count:
                    return [each["occurrence_id"] for each in reversed(page["items"])]


@pytest.fixture
async def stage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    book = Book(monkeypatch)
    async with staged(folder, book) as made:
        yield made
    assert book.wrong == []


@asynccontextmanager
async def staged(folder: Path, book: Book) -> AsyncIterator[Stage]:
    async with running(folder) as on:
        made = Stage(on, await on.peer(), book)
        try:
            yield made
            for host in made.hosts:
                host.check()
        finally:
            for host in made.hosts:
                await host.close()


def told(host: Wild) -> list[list[str]]:
    """The occurrences of each follow-up that a host got."""
    return [[each["occurrence_id"] for each in f["params"]["occurrences"]] for f in host.got]


async def got(host: Wild, count: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        await until(lambda: len(host.got) >= count)


# --- breaking off


async def before_attach_is_answered(stage: Stage) -> None:
    host = stage.host(reads=False)
    host.attach(["s"])
    await host.close()


async def after_attach_is_answered(stage: Stage) -> None:
    """What is due is being looked up as it goes."""
    host = stage.host(reads=False)
    host.attach(["s"])
    await stage.on.peers[0].call("daemon.status")
    await host.close()


async def while_a_push_is_half_written(stage: Stage) -> None:
    host = stage.host(reads=False)
    host.attach(["s"])
    await until(lambda: bool(stage.book.pushes))
    await stage.calm()
    await host.close()


async def after_a_push(stage: Stage) -> None:
    host = stage.host()
    host.attach(["s"])
    await got(host, 1)
    await host.close()


async def in_half_an_answer(stage: Stage) -> None:
    host = stage.host()
    host.attach(["s"])
    await got(host, 1)
    answer = line({"jsonrpc": "2.0", "id": host.got[0]["id"], "result": ADMITTED})
    host.send(answer[: len(answer) // 2])
    await stage.calm()
    await host.close()


async def in_an_answer_without_its_newline(stage: Stage) -> None:
    host = stage.host()
    host.attach(["s"])
    await got(host, 1)
    answer = line({"jsonrpc": "2.0", "id": host.got[0]["id"], "result": ADMITTED})
    host.send(answer[:-1])
    host.half_close()
    await stage.calm()


async def in_an_answer_to_another(stage: Stage) -> None:
    host = stage.host()
    host.attach(["s"])
    await got(host, 1)
    for request_id in ("f0000000000000000", 0, None, host.got[0]["id"] + "0"):
        host.send({"jsonrpc": "2.0", "id": request_id, "result": ADMITTED})
    await stage.calm()
    await host.close()


async def with_the_answer_on_another_connection(stage: Stage) -> None:
    host, other = stage.host(), stage.host("other")
    other.attach(["t"])
    host.attach(["s"])
    await got(host, 1)
    other.result(host.got[0], ADMITTED)
    await stage.calm()
    await host.close()


PHASES: list[Callable[[Stage], Awaitable[None]]] = [
    before_attach_is_answered,
    after_attach_is_answered,
    while_a_push_is_half_written,
    after_a_push,
    in_half_an_answer,
    in_an_answer_without_its_newline,
    in_an_answer_to_another,
    with_the_answer_on_another_connection,
]


@pytest.mark.parametrize("kind", ["after_seconds", "every_seconds"])
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
async def test_what_a_host_that_breaks_off_had_goes_to_the_next_under_the_same_name(
    stage: Stage, phase: Callable[[Stage], Awaitable[None]], kind: str
) -> None:
    """At once where another one is there, otherwise when it comes."""
    for _ in range(20):
        await stage.make("s", LONG_WORDS, **{kind: 300})
    stage.on.clock.advance(300)
    await phase(stage)
    await stage.calm()
    before = dict(stage.book.pushes)
    assert stage.book.admitted == set()
    good = stage.host("good", admits=True)
    good.attach(["s"])
    messages = 20 if kind == "after_seconds" else 1
    await got(good, messages)
    expected = [f"r{number}@2026-01-01T12:05:00.000Z" for number in range(1, 21)]
    assert [each for message in told(good) for each in message] == expected
    assert set(before) <= set(expected)
    assert await stage.recorded("s", 20) == expected


# --- a host that reads nothing


async def test_a_host_that_takes_all_and_reads_nothing_holds_up_no_host_of_its_own_session(
    stage: Stage,
) -> None:
    """Not while it is there, and when it is dropped the next in line gets what it had."""
    for number in range(60):
        await stage.make(f"deaf{number}", LONG_WORDS, after_seconds=1)
    next_in_line = stage.host("next", admits=True)
    next_in_line.attach("*")
    deaf = stage.host("deaf", reads=False)
    await stage.calm()
    deaf.attach("*")
    own = stage.host("own", admits=True)
    own.attach(["own"])
    await stage.calm()
    stage.on.clock.advance(1)
    for number in range(1, 20):
        await stage.make("own", after_seconds=1)
        stage.on.clock.advance(1)
        await got(own, number)  # while the clock stands: no time-out helps
    for _ in range(5):
        stage.on.clock.advance(31)
        await stage.calm()
    await got(next_in_line, 60)
    assert len(set(map(str, told(next_in_line)))) == len(next_in_line.got) == 60


# --- very many Sessions


@pytest.mark.parametrize("sessions", ["names", "*"])
async def test_one_host_with_five_hundred_sessions_gets_each_in_order(
    stage: Stage, sessions: str
) -> None:
    """It answers in no order, and never has more than it takes."""
    names = [f"s{number}" for number in range(MANY)]
    for name in names:
        await stage.make(name, after_seconds=2)
        await stage.make(name, every_seconds=300)
        await stage.make(name, after_seconds=1)
    host, rng = stage.host(), random.Random(1)
    host.attach(names if sessions == "names" else "*", max_in_flight=16)
    await stage.calm()
    stage.on.clock.advance(300)
    answered = 0
    async with asyncio.timeout(5 * DEADLINE_SECONDS):
        while answered < 3 * MANY:
            await until(lambda: bool(host.open))
            assert len(host.open) <= 16
            host.result(host.open.pop(rng.randrange(len(host.open))), ADMITTED)
            answered += 1
    came: dict[str, list[Json]] = defaultdict(list)
    for frame in host.got:
        came[frame["params"]["session_id"]].append(frame["params"])
    assert set(came) == set(names)
    for params in came.values():
        reminders = [int(f["occurrences"][0]["reminder_id"][1:]) for f in params]
        assert [number - min(reminders) for number in reminders] == [2, 0, 1]


# --- rivals


async def test_of_two_hosts_that_attach_over_each_other_the_later_gets_what_comes_next(
    stage: Stage,
) -> None:
    """And what is with the other one stays there until it answers."""
    hosts = [stage.host("even"), stage.host("odd")]
    for turn in range(60):
        mine, other = hosts[turn % 2], hosts[(turn + 1) % 2]
        mine.attach(["s"] if turn % 5 else "*")
        if not turn % 5:
            other.detach(["s"])
        await stage.make("s", after_seconds=1)
        await stage.calm()
        stage.on.clock.advance(1)
        await got(mine, 1)
        assert other.got == []
        other.attach(["s"])
        await stage.calm()
        assert other.got == []
        mine.result(mine.open.pop(), ADMITTED)
        mine.got.clear()
        if turn % 7 == 0:
            await mine.close()
            hosts[turn % 2] = stage.host(mine.name)
        await stage.calm()
    assert len(await stage.recorded("s", 60)) == 60
    assert set(stage.book.pushes.values()) == {1}
