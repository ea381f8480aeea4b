"""Who may read a long line next."""

from __future__ import annotations

import asyncio

from scheduler_daemon.server.turns import Turns


async def test_one_goes_in_each_round_of_the_loop_and_users_take_turns() -> None:
    turns, told = Turns(), []
    for uid, name in ((1, "a"), (1, "b"), (1, "c"), (2, "x"), (3, "y"), (2, "z")):
        turns.ask(uid, lambda name=name: told.append(name))  # type: ignore[misc]
    rounds = []
    while len(told) < 6:
        await asyncio.sleep(0)
        rounds.append(len(told))
    assert told == ["a", "x", "y", "b", "z", "c"]
    assert rounds == [1, 2, 3, 4, 5, 6]


async def test_one_that_asks_again_at_its_turn_is_behind_the_others() -> None:
    turns, told = Turns(), []

    def again() -> None:
        told.append("first")
        turns.ask(1, lambda: told.append("again"))

    turns.ask(1, again)
    turns.ask(1, lambda: told.append("second"))
    for _ in range(4):
        await asyncio.sleep(0)
    assert told == ["first", "second", "again"]
