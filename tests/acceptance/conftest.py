"""Daemons as processes, each with a folder of its own that goes away with it."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.peer import Peer
from tests.support.process import DaemonProcess, short_folder

NewDaemon = Callable[..., DaemonProcess]

_sessions = itertools.count()


@contextmanager
def folder_for_a_while() -> Iterator[Path]:
    path = short_folder()
    try:
        yield path
    finally:
        shutil.rmtree(path)


@contextmanager
def running(settings: dict[str, object] | None = None) -> Iterator[DaemonProcess]:
    """A daemon in a folder of its own, started; for fixtures of modules that share one."""
    with folder_for_a_while() as path:
        daemon = DaemonProcess(path, settings=settings)
        try:
            yield daemon.start()
        finally:
            daemon.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_for_a_while() as path:
        yield path


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
    """A daemon with default settings that runs, of this test alone."""
    return new_daemon().start()


@pytest.fixture(scope="module")
def shared() -> Iterator[DaemonProcess]:
    """One for all tests of a module: each keeps to Sessions of its own, and lets it live."""
    with running() as daemon:
        yield daemon


@pytest.fixture
def session() -> str:
    """The name of a Session that no other test has."""
    return f"session-{next(_sessions)}"


@pytest.fixture
def peer(daemon: DaemonProcess) -> Peer:
    """A connection to the daemon of this test."""
    return daemon.peer()
