"""Long walks of the store and its model: the acts of test_machine.py, deep instead of short."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from scheduler_daemon.model import After
from tests.store.machine import KEYS
from tests.store.support import CRON, DAILY, HOURLY, at
from tests.store.test_machine import StoreMachine

ACTS = 150
RULES = [HOURLY, HOURLY, HOURLY, After(60), After(3600), DAILY, CRON, at(7200)]
WORDS = [(None, "one"), ("Title", "two"), ("Title", "three")]
HOURS = [None, 1, 3, 30]
COUNTS = [None, None, 1, 2]
NAMES = [None, "k1", "k2"]

Act = Callable[[StoreMachine, Random], None]


def pass_time(machine: StoreMachine, random: Random) -> None:
    machine.let_time_pass_or_set_the_clock(random.choice([-30, -1, 1, 1, 2, 24, 48]))


def create(machine: StoreMachine, random: Random) -> None:
    end = (random.choice(HOURS), random.choice(COUNTS))
    name = random.choice(NAMES)
    rule, words, body = random.choice(RULES), random.choice(WORDS), random.choice(["h1", "h2"])
    machine.create(random.choice(KEYS[:3]), rule, words, end, name, body)


def ask(machine: StoreMachine, random: Random) -> None:
    what = random.choice(["snooze", "run_now", "run_now"])
    name = random.choice([None, *NAMES])
    machine.ask_for_one_more(pick(random), name, random.choice(["h1", "h2"]), what)


def change(machine: StoreMachine, random: Random) -> None:
    end = (random.choice(HOURS), random.choice(COUNTS))
    what = random.choice(["words", "end", "end", "time"])
    machine.change(pick(random), random.choice(WORDS), random.choice(RULES), end, what)


def rest(machine: StoreMachine, random: Random) -> None:
    machine.rest(pick(random), random.choice(["pause", "resume", "resume", "skip", "skip"]))


def take_away(machine: StoreMachine, random: Random) -> None:
    what = random.choices(["transfer", "delete", "set_aside", "forget"], [6, 2, 1, 1])[0]
    machine.take_away(pick(random), random.choice(KEYS), what)


def send(machine: StoreMachine, random: Random) -> None:
    lane = random.choice(["batch", "often", "one", "run"])
    answer = random.choice(["admitted", "none", "none", "busy"])
    machine.send(pick(random), lane, random.choice([0, 0, 1, 5, 40]), answer)


def answer(machine: StoreMachine, random: Random) -> None:
    if machine.followups:
        machine.answer(pick(random), random.choice(["admitted", "admitted", "busy", "late"]))


def settle(machine: StoreMachine, random: Random) -> None:
    if machine.passing:
        # The newest, which may still be as it was looked at.
        machine.settle(len(machine.passing) - 1 - random.randrange(2), random.random() < 0.5)


def keep_up(machine: StoreMachine, random: Random) -> None:
    machine.keep_up(random.choice(["trust", "trust", "end", "correct", "reopen"]))
    if machine.snapshots and random.random() < 0.3:
        machine.retarget(len(machine.snapshots) - 1, random.choice([-48, -1, 0]))


WEIGHTS: dict[Act, int] = {
    pass_time: 2,
    create: 3,
    ask: 3,
    change: 3,
    rest: 6,
    take_away: 1,
    send: 8,
    answer: 5,
    settle: 2,
    keep_up: 2,
}


def pick(random: Random) -> int:
    return random.randrange(1_000_000)


@pytest.mark.parametrize("seed", range(6))
def test_a_long_walk_leaves_store_and_model_with_the_same_facts(seed: int) -> None:
    random, machine = Random(seed), StoreMachine()
    try:
        machine.something_is_there()
        for _ in range(ACTS):
            (act,) = random.choices([*WEIGHTS], [*WEIGHTS.values()])
            act(machine, random)
            machine.the_file_holds_what_the_model_holds()
            machine.what_is_derived_is_right()
            machine.each_receipt_is_there_once_as_it_was_first_written()
            machine.runs_are_those_that_wait_and_belong_to_a_reminder()
    finally:
        machine.teardown()
