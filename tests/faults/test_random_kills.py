"""Random kills: whatever callers, hosts and the clock do, and whenever the daemon is killed.

At every push: nothing early, nothing that nobody made, nothing deleted or paused, nothing whose
receipt is in the file or whose admission the living process has read; one-shots first. After every
kill: the file holds exactly what was answered, what was not is there whole or not at all, and no
target moved on without a receipt. In the end everything that was due has come.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from tests.faults.kills import World
from tests.faults.lives import TestBuild
from tests.faults.nursery import Nursery
from tests.faults.scene import Counts

pytestmark = pytest.mark.acceptance

KILLS = int(os.environ.get("SCHEDULER_DAEMON_TEST_KILLS", "20"))
SEED = int(os.environ.get("SCHEDULER_DAEMON_TEST_SEED", "0")) or random.randrange(1 << 32)
LIVES = 25
"""Kills of one file, before it is healed and another one begins."""


def test_whatever_is_killed_nothing_is_lost_doubled_early_or_out_of_order(
    nursery: Nursery, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps, counts, began = random.Random(SEED), Counts(), time.monotonic()
    while counts["kills"] < KILLS:
        place = folder / f"{counts['kills']}"
        place.mkdir()
        lives = min(LIVES, max(1, (KILLS + 1) // 2), KILLS - counts["kills"])
        live_in(TestBuild(nursery, place), steps, counts, lives)
        shutil.rmtree(place)
    with capsys.disabled():
        print(f"\nrandom kills, seed {SEED}, {time.monotonic() - began:.0f} s:", dict(counts))
    assert counts["repeats"] == sum(n for what, n in counts.items() if what.startswith("repeat: "))


def live_in(build: TestBuild, steps: random.Random, counts: Counts, lives: int) -> None:
    """Kill one file's daemon so many times; every second one has a clock that is set."""
    counts["files"] += 1
    world = World(build, steps, counts, calm=counts["files"] % 2 == 1)
    try:
        for _ in range(lives):
            world.live()
        world.heal()
    except BaseException:
        print(f"seed {SEED}", *world.scene.trail, sep="\n")
        raise
    finally:
        build.close()
