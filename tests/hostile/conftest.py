"""A folder for a daemon of its own, and that daemon as a process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import DaemonProcess, short_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    path = short_folder()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def process(folder: Path) -> Iterator[DaemonProcess]:
    running = DaemonProcess(folder)
    yield running
    running.close()
