"""A daemon with a clock that stands still, in a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.inprocess import Peer, Running, running
from tests.support.process import short_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    path = short_folder()
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def on(folder: Path) -> AsyncIterator[Running]:
    async with running(folder) as daemon:
        yield daemon


@pytest.fixture
async def peer(on: Running) -> Peer:
    return await on.peer()
