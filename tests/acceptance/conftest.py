"""Daemons as processes, each with a folder of its own that goes away with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.peer import Peer
from tests.support.process import DaemonProcess, short_folder

NewDaemon = Callable[..., DaemonProcess]


@pytest.fixture
def folder() -> Iterator[Path]:
    path = short_folder()
    try:
        yield path
    finally:
        shutil.rmtree(path)


@pytest.fixture
def new_daemon(folder: Path) -> Iterator[NewDaemon]:
    """Makes daemons that are not started; the arguments are settings, or DaemonProcess's own."""
    made: list[DaemonProcess] = []

    def make(settings: dict[str, object] | None = None, **where: Any) -> DaemonProcess:
        made.append(DaemonProcess(folder, settings=settings, **where))
        return made[-1]

    try:
        yield make
    finally:
        for daemon in made:
            daemon.close()


@pytest.fixture
def daemon(new_daemon: NewDaemon) -> DaemonProcess:
    """A daemon with default settings that runs."""
    return new_daemon().start()


@pytest.fixture
def peer(daemon: DaemonProcess) -> Peer:
    """A connection to it."""
    return daemon.peer()
