"""The test build as fixtures, each test in a folder of its own; and how much of a matrix is run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import daemon as daemon  # over the folder that is here
from tests.acceptance.conftest import new_daemon as new_daemon
from tests.acceptance.steps import LONG
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of each cell of the crash matrix two kinds of rule, in turn; all with ACCEPTANCE_LONG=1."""
    cells: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and "test_crash_" in item.path.name:
            cells[_cell(item)].append(item)
    left: set[pytest.Item] = set()
    for turn, name in enumerate(sorted(cells)):
        kinds = sorted(cells[name], key=lambda item: item.nodeid)
        if not LONG and len(kinds) > 2:
            kept = {turn % len(kinds), (turn + len(kinds) // 2) % len(kinds)}
            left |= {item for number, item in enumerate(kinds) if number not in kept}
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=list(left))


def _cell(item: pytest.Function) -> str:
    """What is tried, whatever the kind of rule; tests without one are a cell each."""
    values = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    if values.pop("kind", None) is None:
        return item.nodeid
    return f"{item.path.name} {item.originalname} {sorted(map(str, values.values()))}"
