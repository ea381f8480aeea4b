"""A machine whose clock is set, slewed and set back while reminders wait."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import pytest

from tests.vm.conftest import NewGuest
from tests.vm.guest import Guest

pytestmark = [pytest.mark.vm, pytest.mark.acceptance]

START = "base=2026-06-01T12:00:00,clock=vm"
PROMPTLY = 300.0
"""Seconds in which what is due has come: the machine may be twenty times as slow as a real one."""

LATE_SECONDS = 15.0
"""By its own clock, which does not wait for it."""

TICK_AT = 11
"""Where a struct timex has its tick, in longs."""

Json = dict[str, Any]


@pytest.fixture
def guest(new_guest: NewGuest) -> Guest:
    """A machine with the daemon as its service, and a host for the Session s."""
    guest = new_guest("-rtc", START)
    guest.install()
    guest.sh("systemctl start scheduler-daemon.service")
    guest.do("attach", ["s"])
    return guest


def create(guest: Guest, **timing: object) -> Json:
    made: Json = guest.call("reminder.create", session_id="s", prompt="words", **timing)
    return dict(made["reminder"])


def now(guest: Guest) -> float:
    return float(guest.sh("date +%s.%N"))


def instant(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()


def came(guest: Guest) -> list[tuple[str, str]]:
    """Reminder and occurrence of all that came: nothing early, nothing twice."""
    found = []
    for each in guest.do("came"):
        for occurrence in each["occurrences"]:
            assert each["at"] >= instant(occurrence["occurrence_at"]) - 0.001, each
            found.append((occurrence["reminder_id"], occurrence["occurrence_id"]))
    assert len({identity for _, identity in found}) == len(found), found
    return found


def wait_for(guest: Guest, count: int, seconds: float = PROMPTLY) -> list[str]:
    """The reminders that came, when there are so many."""
    end = time.monotonic() + seconds
    while len(found := came(guest)) < count:
        assert time.monotonic() < end, (found, guest.sh("journalctl -u scheduler-daemon -o cat"))
        time.sleep(1)
    return [reminder for reminder, _ in found]


def nothing_more(guest: Guest, count: int, seconds: float) -> None:
    time.sleep(seconds)
    assert len(came(guest)) == count
    assert guest.sh("systemctl show -P NRestarts scheduler-daemon") == "0"


def test_an_hour_ahead_makes_due_at_once_what_lies_in_it_and_all_of_it_once(guest: Guest) -> None:
    soon = create(guest, after_seconds=1800)["id"]
    hourly = create(guest, every_seconds=3600)["id"]
    later = create(guest, after_seconds=7000)["id"]
    guest.sh("date -s '+1 hour'")
    assert sorted(wait_for(guest, 2)) == sorted([soon, hourly])
    nothing_more(guest, 2, 20)
    guest.sh("date -s '+1 hour'")
    assert sorted(wait_for(guest, 4)) == sorted([soon, hourly, hourly, later])


def test_an_hour_back_brings_nothing_early_and_nothing_again(guest: Guest) -> None:
    first = create(guest, after_seconds=1)["id"]
    assert wait_for(guest, 1) == [first]
    second = create(guest, after_seconds=45)["id"]
    guest.sh("date -s '-1 hour'")
    nothing_more(guest, 1, 90)
    guest.sh("date -s '+1 hour'")
    assert wait_for(guest, 2) == [first, second]
    nothing_more(guest, 2, 20)


def test_set_to_the_same_second_again_and_again_all_comes_on_time(guest: Guest) -> None:
    made = create(guest, after_seconds=40)
    for _ in range(10):
        guest.sh('date -s "$(date +%FT%T.%N)"')
    assert wait_for(guest, 1) == [made["id"]]
    (arrival,) = guest.do("came")
    assert arrival["at"] - instant(made["scheduled_at"]) < LATE_SECONDS


@pytest.mark.parametrize("tick", [9000, 11000])
def test_a_clock_that_is_slewed_is_followed(guest: Guest, tick: int) -> None:
    """By a tenth: more than any time service does. A tick of 10000 us is none; adjtimex(2)."""
    slew = f"b=(ctypes.c_long*26)(); b[0]=0x4000; b[{TICK_AT}]={tick}"
    guest.sh(f'python3 -c "import ctypes; {slew}; assert ctypes.CDLL(None).adjtimex(b) >= 0"')
    made = create(guest, after_seconds=60)
    assert wait_for(guest, 1) == [made["id"]]
    (arrival,) = guest.do("came")
    assert arrival["at"] - instant(made["scheduled_at"]) < LATE_SECONDS
    assert "clock_was_set" not in guest.sh("journalctl -u scheduler-daemon -o cat")


def test_400_days_ahead_and_back_lose_silence_and_repeat_nothing(guest: Guest) -> None:
    far = create(guest, after_seconds=200 * 86400)["id"]
    often = create(guest, every_seconds=300)["id"]
    rare = create(guest, daily={"time": "09:00", "time_zone": "Europe/Berlin"})["id"]
    guest.sh("date -s '+400 days'")
    assert sorted(wait_for(guest, 3)) == sorted([far, often, rare])
    guest.sh("date -s '-400 days'")
    assert wait_for(guest, 4, 600)[3] == often  # not silent until that day comes again
    guest.sh("date -s '-400 days'")
    guest.sh("date -s '+400 days'")
    history = guest.call("reminder.history", session_id="s")["items"]
    assert {each["outcome"] for each in history} == {"admitted"}
    assert guest.sh("systemctl show -P NRestarts scheduler-daemon") == "0"
