"""What every benchmark is given: how large, how often, where, and the report that it fills."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.report import Report


@dataclass(frozen=True)
class Setting:
    """`scale` 1 is the size of the aims; `folder` is where databases are made and removed."""

    report: Report
    scale: float
    runs: int
    folder: Path

    def size(self, full: int, least: int = 1) -> int:
        """A number at this scale."""
        return max(least, round(full * self.scale))

    @contextmanager
    def place(self) -> Iterator[Path]:
        """A new folder on the disk that is measured."""
        where = Path(tempfile.mkdtemp(prefix="run-", dir=self.folder))
        try:
            yield where
        finally:
            shutil.rmtree(where, ignore_errors=True)
