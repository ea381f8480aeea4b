"""A daemon in the test's own process, with a clock that stands still, for the server too."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.clock import START
from tests.support.inprocess import Running, running
from tests.support.process import short_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    path = short_folder()
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    monkeypatch.setattr("scheduler_daemon.wall.now", lambda: START)
    async with running(folder) as daemon:
        yield daemon
