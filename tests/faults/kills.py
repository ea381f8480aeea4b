"""One file through many lives, each of which a kill ends at whatever moment."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from scheduler_daemon.rules import instant_text
from tests.faults.callers import Callers
from tests.faults.ledger import File, Op, check_healed, delivered
from tests.faults.lives import TestBuild
from tests.faults.points import POINTS
from tests.faults.scene import Counts, Dead, Scene
from tests.faults.takers import Host, Takers
from tests.support.peer import DEADLINE_SECONDS, Peer

AIMED = sorted(POINTS - {"file_made", "migration_statement", "copying", "copied", "after_copy"})
"""Points that some kills are aimed at, since the moments there are short."""

LONGEST_SECONDS = 0.4
"""How long a process lives at most."""


class World:
    """A scene and who acts in it. The dice decide everything but the moment of a kill."""

    def __init__(self, build: TestBuild, dice: random.Random, counts: Counts, calm: bool) -> None:
        self.scene = Scene(build, dice, counts, calm)
        self._build = build
        self._random = dice
        self._counts = counts
        self._ledger = self.scene.ledger
        self._callers = Callers(self.scene)
        self._takers = Takers(self.scene)
        self._lost: list[Op] = []
        self._steps = self._weighed()

    def _weighed(self) -> list[tuple[int, Callable[[], None]]]:
        callers, takers, scene = self._callers, self._takers, self.scene
        return [
            (10, callers.create),
            (4, callers.update),
            *[(3, partial(callers.act, verb)) for verb in ("pause", "resume", "skip", "run_now")],
            (3, partial(callers.act, "delete")),
            (2, callers.snooze),
            (2, callers.transfer),
            (1, callers.forget),
            (12, scene.advance),
            (0 if scene.calm else 3, scene.jump),
            (4, takers.attach),
            (1, takers.detach),
            (2, takers.leave),
            (3, takers.ready),
            (40, takers.reply),
            (2, self._settle),
        ]

    def live(self) -> None:
        """One life, from a start to a kill, and the file after it."""
        self.scene.life += 1
        aimed, early = self._random.random() < 0.4, self._random.random() < 0.1
        at = f"{self._random.choice(AIMED)}:{self._random.randint(1, 4)}"
        self._build.crash_at = at if aimed else ""
        self.scene.note(f"life {self.scene.life} {self._build.crash_at}")
        self._build.begin()
        seconds = self._random.uniform(0, LONGEST_SECONDS)
        killer = Killer(self._build.pid, seconds / 2 if early else seconds)
        if early:
            killer.arm()
        try:
            self._begin_life()
            killer.arm()
            while not self._build.has_ended():
                self._step()
        except (Dead, OSError):
            killer.arm()
        finally:
            killer.join(DEADLINE_SECONDS)
        self._bury()
        self._counts["kills"] += 1

    def _begin_life(self) -> None:
        try:
            self._build.logged("daemon_started")
        except AssertionError:
            raise Dead from None
        self.scene.clients = [Peer(self._build.socket) for _ in range(2)]
        self._callers.ask_again(self._lost)
        if self._random.random() < 0.8:
            self._takers.attach()

    def _step(self) -> None:
        self._look()
        weights = [weight for weight, _ in self._steps]
        self._random.choices([step for _, step in self._steps], weights)[0]()
        time.sleep(self._random.choice([0, 0, 0.001, 0.003]))

    def _look(self) -> None:
        self._takers.look()
        self._ledger.collect(self.scene.tick)

    def _settle(self) -> None:
        """Wait until every answer has come and every admission in time has its receipt."""
        self.scene.note("settle")
        end = time.monotonic() + DEADLINE_SECONDS
        while self._ledger.ops or self._takers.unrecorded():
            assert time.monotonic() < end, (self._ledger.ops, self._takers.unrecorded())
            self.scene.wait()
            self._look()

    def _bury(self) -> File:
        """The process is dead: hold its file and what hosts got to what was answered."""
        self._build.crashed()
        peers = [*self.scene.clients, *(host.peer for host in self._takers.hosts)]
        for peer in peers:
            peer.hung_up()
        self.scene.tick += 1
        self._look()
        for peer in peers:
            peer.close()
        lost = list(self._ledger.ops)
        file = File(self._build.database, self._build.folder / "look")
        self._ledger.compare(file, self.scene.tick, calm=self.scene.calm)
        self._takers.check_life(file)
        self._lost = [op for op in lost if "key" in op.asked]
        self.scene.clients = []
        return file

    def heal(self) -> None:
        """A last life in which a host admits everything, and the last look at the file."""
        self.scene.life += 1
        self.scene.note("healing")
        self._build.crash_at = ""
        self._build.start()
        self.scene.clients = [Peer(self._build.socket)]
        self._callers.ask_again(self._lost)
        host = Host(self.scene)
        self._takers.hosts.append(host)
        host.peer.call("host.attach", name="healer", sessions="*")
        self._take_all()
        for seconds in (301, 601, 1801):
            self.scene.turn("advance", seconds)
            self._take_all()
        self._build.signal(signal.SIGKILL)
        file = self._bury()
        check_healed(file, instant_text(self._build.now), set(self._takers.admitted))
        self._count(file)

    def _take_all(self) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while self._ledger.ops or self._takers.unrecorded() or self._build.overdue():
            self.scene.wait()
            self._look()
            self._takers.admit_all()
            assert time.monotonic() < end, (self._build.overdue(), self._ledger.ops)

    def _count(self, file: File) -> None:
        for reminder, receipts in delivered(file):
            # Its receipt may have gone with a Session that was forgotten.
            assert receipts == 1 or (receipts == 0 and self.scene.forgot), reminder
            self._counts["one-shots delivered"] += receipts
        self._counts["reminders made"] += len(self._ledger.records) + len(self._ledger.gone)
        self._counts["changes answered"] += self._ledger.answered


class Killer(threading.Thread):
    """Kills a process so many seconds after it was armed."""

    def __init__(self, pid: int, seconds: float) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._seconds = seconds
        self._armed = threading.Event()
        self.start()

    def arm(self) -> None:
        self._armed.set()

    def run(self) -> None:
        self._armed.wait()
        time.sleep(self._seconds)
        with suppress(ProcessLookupError):  # it was quicker
            os.kill(self._pid, signal.SIGKILL)
