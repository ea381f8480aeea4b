"""Fixtures of the tests of the loop and of what stands around it."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.world import World, running_world

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As a shell leaves it for what it starts in the background: processes of ours inherit it, and
    # those that a test ends with ctrl-C would never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A loop that runs on a new file, with a clock that the test turns."""
    async with running_world(tmp_path) as running:
        yield running


@pytest.fixture
def full_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses without jitter: 1 s, 2 s, 4 s and so on."""
    monkeypatch.setattr("scheduler_daemon.sending.random", lambda: 0.0)
