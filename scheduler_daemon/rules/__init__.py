"""The rules of time: instants in, instants out. This is the package's whole face.

Pure: nothing below reads a clock, a locale, an environment variable or the machine's zone; the
current instant is an argument. An instant is a `datetime` in UTC with whole milliseconds, years
0001 to 9999. Refusals are subclasses of `SchedulerError` with a `code`.
"""

from __future__ import annotations

from scheduler_daemon.rules.cron import canonical_cron
from scheduler_daemon.rules.describe import describe
from scheduler_daemon.rules.ends import (
    Decision,
    check_end,
    due_decision,
    has_expired,
    is_beyond,
    onward,
    parse_until,
)
from scheduler_daemon.rules.instants import instant_text, parse_at, parse_instant_text
from scheduler_daemon.rules.schedule import decide, first, target_of, zone_of
from scheduler_daemon.rules.selectors import SELECTORS, parse_rule, parse_selector, selector_of
from scheduler_daemon.rules.zones import canonical_zone, local_text, zone_data_version

__all__ = [
    "SELECTORS",
    "Decision",
    "canonical_cron",
    "canonical_zone",
    "check_end",
    "decide",
    "describe",
    "due_decision",
    "first",
    "has_expired",
    "instant_text",
    "is_beyond",
    "local_text",
    "onward",
    "parse_at",
    "parse_instant_text",
    "parse_rule",
    "parse_selector",
    "parse_until",
    "selector_of",
    "target_of",
    "zone_data_version",
    "zone_of",
]
