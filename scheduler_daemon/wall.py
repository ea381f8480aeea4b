"""The wall clock, for the log's stamps and for processes that have no event loop.

Below the edge time is an argument. The daemon reads it through clock.py instead.
"""

from __future__ import annotations

import datetime as dt


def now() -> dt.datetime:
    """The current instant: UTC, cut to whole milliseconds."""
    instant = dt.datetime.now(dt.UTC)
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)
