"""The test build of the daemon: `python -m tests.faults.crashing run …`, as `scheduler-daemon`.

SCHEDULER_DAEMON_CRASH_AT names the point (points.py) where it kills itself with SIGKILL,
SCHEDULER_DAEMON_TEST_CLOCK the instant at which a clock begins that its standard input turns
(dials.py). The production daemon refuses to start with either.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from scheduler_daemon import __main__ as production
from scheduler_daemon.config import CRASH_VARIABLE
from scheduler_daemon.rules import parse_instant_text
from tests.faults import dials, points

CLOCK_VARIABLE = "SCHEDULER_DAEMON_TEST_CLOCK"


def main(arguments: Sequence[str]) -> int:
    """What `scheduler-daemon` does, with the faults that the environment asks for."""
    crash_at = os.environ.pop(CRASH_VARIABLE, None)
    starts_at = os.environ.pop(CLOCK_VARIABLE, None)
    if starts_at:
        dials.install(parse_instant_text(starts_at))
    if crash_at:
        points.install(points.Trigger(crash_at))
    return production.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
