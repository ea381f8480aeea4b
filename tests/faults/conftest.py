"""The test build as fixtures: each test has a folder of its own, a module shares what forks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.lives import TestBuild
from tests.faults.nursery import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


MEMORY = Path("/dev/shm")
"""A kill leaves everything that was written to the kernel: whether a disk is below is no matter."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A new folder, where a sync costs nothing if the machine has such a place."""
    where = MEMORY if os.access(MEMORY, os.W_OK) else None
    path = Path(tempfile.mkdtemp(prefix="sd-", dir=where))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def build(nursery: Nursery, folder: Path) -> Iterator[TestBuild]:
    """The test build, not started; its clock begins at START."""
    made = TestBuild(nursery, folder)
    yield made
    made.close()
