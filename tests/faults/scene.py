"""What the parts of a run of random kills share: the process, its clock, the ledger, the dice."""

from __future__ import annotations

import collections
import datetime as dt
import itertools
import random
import time
from typing import Literal

from scheduler_daemon.rules import instant_text
from tests.faults.ledger import Ledger, Record
from tests.faults.lives import TestBuild
from tests.store.support import new_file
from tests.support.peer import Peer

SESSIONS = ["a", "b", "c", "d"]
ADVANCES = [0.2, 1, 1, 2, 5, 5, 31, 300, 300, 1000]
JUMPS = [-90_000, -500, -0.7, 0.7, 400, 100_000]


class Dead(Exception):
    """The process was killed while something was asked of it."""


class Counts(collections.Counter[str]):
    """What a run came to; `repeat: why` for each repeat."""


class Scene:
    """A file, the process on it and its present life, by number.

    `calm` is one whose clock is never set. A tick is counted at every turn of the clock, which
    shows another instant at each, so that a decision time tells between which turns it was;
    `due` are the one-shots that were surely due from a tick on.
    """

    def __init__(self, build: TestBuild, dice: random.Random, counts: Counts, calm: bool) -> None:
        self.build = build
        self.random = dice
        self.counts = counts
        self.calm = calm
        self.ledger = Ledger()
        self.clients: list[Peer] = []
        self.life = 0
        self.tick = 0
        self.ticks: dict[str, int] = {instant_text(build.now): 0}
        self.due: dict[int, list[Record]] = {}
        self.passed = 0.0
        self.forgot = False
        self.names = itertools.count()
        self.trail: collections.deque[str] = collections.deque(maxlen=400)
        build.state.mkdir(mode=0o700)
        new_file(build.state)

    def note(self, text: str) -> None:
        """Remember what was done, for whoever reads of a run that failed."""
        self.trail.append(text)

    def wait(self) -> None:
        """Let the process go on for a moment. Raises Dead."""
        if self.build.has_ended():
            raise Dead
        time.sleep(0.0005)

    def advance(self) -> None:
        self.turn("advance", self.random.choice(ADVANCES))

    def jump(self) -> None:
        self.turn("jump", self.random.choice(JUMPS))

    def turn(self, how: Literal["advance", "jump"], seconds: float) -> None:
        """Turn the clock, by some milliseconds more: no two instants are the same."""
        seconds = round(seconds + next(self.names) % 10_000 / 1000, 3)
        now = instant_text(self.build.now + dt.timedelta(seconds=seconds))
        self.tick += 1
        self.ticks[now] = self.tick
        self.due[self.tick] = self._surely_due(now)
        self.note(f"{how} {seconds} to {now}")
        if not self.build.turn(how, seconds):
            raise Dead
        if how == "advance":
            self.passed += seconds

    def _surely_due(self, now: str) -> list[Record]:
        return [
            record
            for record in self.ledger.records.values()
            if record.once
            and record.target <= now
            and not (record.paused or record.settled or record.ends or record.ended_in)
            and not self.ledger.busy(record, record.session)
        ]
