"""The fixture of a folder for sockets; pytest's own `tmp_path` may be too long for them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import short_folder


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A private folder as `tmp_path` is one, but short, and removed at the end of the test."""
    folder = short_folder()
    yield folder
    shutil.rmtree(folder)
