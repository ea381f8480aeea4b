"""Fixtures of the tests of the clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.short import short_path as short_path


@pytest.fixture
def path(short_path: Path) -> Path:
    """Where a daemon's socket may be."""
    return short_path / "s"
