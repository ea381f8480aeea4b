"""A machine whose power is cut while reminders are made: every one that was answered is kept."""

from __future__ import annotations

import os
import random
import time
from typing import Any

import pytest

from tests.vm.conftest import NewGuest
from tests.vm.guest import Guest, GuestError

pytestmark = [pytest.mark.vm, pytest.mark.acceptance]

CUTS = int(os.environ.get("SCHEDULER_DAEMON_TEST_CUTS", "20"))


def test_what_was_answered_is_kept_through_power_cuts(new_guest: NewGuest) -> None:
    kept: dict[str, int] = {}
    lost = 0
    for cut in range(CUTS):
        guest = started(new_guest, fresh=cut == 0)
        lost += check(guest, kept)
        kept.update(written(guest, cut * 1_000_000, random.uniform(5, 20)))
        guest.cut()
    last = started(new_guest, fresh=False)
    check(last, kept)
    last.sh("schedctl doctor --database /var/lib/scheduler-daemon/scheduler.db")
    print(f"{CUTS} power cuts, {len(kept)} reminders answered, all kept; {lost} more were there")
    assert len(kept) >= CUTS


def started(new_guest: NewGuest, *, fresh: bool) -> Guest:
    guest = new_guest()
    if fresh:
        guest.install()
        guest.sh("sync")
    guest.sh("systemctl is-system-running --wait || true")  # a busy manager answers nobody in time
    guest.sh("systemctl start scheduler-daemon.service")
    guest.do("attach", ["s"])
    return guest


def written(guest: Guest, first: int, seconds: float) -> dict[str, int]:
    """Ids and numbers of what is answered within so many seconds, and then until the last word."""
    kept: dict[str, int] = {}
    guest.tell("write", first)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            identity, number = guest.line(1)["kept"]
        except GuestError:  # it had nothing to say for a second
            continue
        kept[identity] = number
    return kept


def check(guest: Guest, kept: dict[str, int]) -> int:
    """All that was kept is there with its words; gives how many more there are."""
    found: dict[str, str] = {}
    page: dict[str, Any] = {}
    while page.get("next_cursor") or not page:
        cursor = {"cursor": page["next_cursor"]} if page else {}
        page = guest.call("reminder.list", limit=1000, **cursor)
        found |= {each["id"]: each["prompt"] for each in page["items"]}
    assert {identity: found.get(identity) for identity in kept} == {
        identity: f"words {number}" for identity, number in kept.items()
    }
    print(f"{len(found)} there, {len(kept)} answered", flush=True)
    return len(found) - len(kept)
