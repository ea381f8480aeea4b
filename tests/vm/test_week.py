"""A week across a change of daylight saving, in a machine that leaps over the time it is idle.

The kernel, its timers and the daemon are real; only the processor's time is counted, not waited
for (QEMU's -icount).
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from scheduler_daemon.rules import first, instant_text, parse_selector
from tests.vm.conftest import NewGuest

pytestmark = [pytest.mark.vm, pytest.mark.acceptance]

START = dt.datetime(2026, 3, 26, tzinfo=dt.UTC)  # summer time begins in Berlin on the 29th
DAYS = 7
DAY_SECONDS = 3600.0
"""What a day of the machine may take at most."""

LATE_SECONDS = 5.0
"""By the machine's clock, on which each step of its processor costs 16 ns."""

SELECTORS: list[dict[str, Any]] = [
    {"daily": {"time": "09:00", "time_zone": "Europe/Berlin"}},
    {"daily": {"time": "02:30", "time_zone": "Europe/Berlin"}},
    {"weekly": {"time": "08:00", "time_zone": "Europe/London", "weekdays": [1, 7]}},
    {"cron": {"expression": "30 1-3 * * *", "time_zone": "Europe/Berlin"}},
    {"cron": {"expression": "0 */6 * * *", "time_zone": "UTC"}},
    {"every_seconds": 21600},
]


def test_daily_and_cron_rules_come_on_time_once_across_a_change_of_daylight_saving(
    new_guest: NewGuest,
) -> None:
    clock = f"base={START:%Y-%m-%dT%H:%M:%S},clock=vm"
    guest = new_guest("-icount", "shift=4,sleep=off,align=off", "-rtc", clock)
    guest.install()
    # Its boot had idle moments, over which it leapt by days.
    guest.sh(f"date -s {START:%Y-%m-%dT%H:%M:%SZ} && systemctl start scheduler-daemon.service")
    guest.do("attach", ["s"])
    made = []
    for selector in SELECTORS:
        answer = guest.call("reminder.create", session_id="s", prompt="words", **selector)
        made.append(answer["reminder"])
    for _ in range(DAYS):
        guest.sh("sleep 86400", DAY_SECONDS)
    end = dt.datetime.fromtimestamp(float(guest.sh("date +%s.%N")) - LATE_SECONDS, dt.UTC)

    came = [
        (each["at"], occurrence["reminder_id"], occurrence["occurrence_at"])
        for each in guest.do("came")
        for occurrence in each["occurrences"]
    ]
    late = [at - dt.datetime.fromisoformat(instant).timestamp() for at, _, instant in came]
    print(f"{len(came)} occurrences, the latest {max(late):.3f} s late")
    assert min(late) >= 0
    assert max(late) < LATE_SECONDS
    found = sorted((reminder, instant) for _, reminder, instant in came)
    assert [each for each in found if each[1] <= instant_text(end)] == sorted(
        (each["id"], instant) for each in made for instant in occurrences(each, end)
    )
    gap = [instant for _, reminder, instant in came if reminder == made[1]["id"]]
    assert gap[1:4] == [
        "2026-03-27T01:30:00.000Z",
        "2026-03-28T01:30:00.000Z",
        "2026-03-29T01:30:00.000Z",  # 03:30, as 02:30 does not exist
    ]
    assert gap[4] == "2026-03-30T00:30:00.000Z"
    assert guest.sh("systemctl show -P NRestarts scheduler-daemon") == "0"


def occurrences(reminder: dict[str, Any], end: dt.datetime) -> list[str]:
    """All of its rule until then, from the first on."""
    created = dt.datetime.fromisoformat(reminder["created_at"])
    rule, target = parse_selector(reminder["rule"], created)
    assert instant_text(target) == reminder["scheduled_at"]
    found = []
    while target <= end:
        found.append(instant_text(target))
        after = first(rule, target)
        assert after is not None
        target = after
    return found
