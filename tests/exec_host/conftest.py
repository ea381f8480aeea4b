"""Fixtures of the tests of the exec host."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.client.scripted import Listener, listening
from tests.exec_host.stage import Stage
from tests.support.short import short_path as short_path


@pytest.fixture
def stage(short_path: Path) -> Iterator[Stage]:
    made = Stage(short_path)
    yield made
    made.close()


@pytest.fixture
async def daemon(stage: Stage) -> AsyncIterator[Listener]:
    """The daemon's end of the socket, for a test to play."""
    async with listening(stage.socket) as listener:
        yield listener
