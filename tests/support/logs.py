"""The log belongs to the whole process: a test that configures it puts it back."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def log_put_back() -> Iterator[None]:
    """Whatever is set up inside for log and warnings is as it was after it."""
    root = logging.getLogger()
    handlers, level, show = root.handlers[:], root.level, warnings.showwarning
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.getLogger("aiosqlite").setLevel(logging.NOTSET)
        logging.captureWarnings(capture=False)
        warnings.showwarning = show
        structlog.reset_defaults()
