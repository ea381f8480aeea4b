"""What a Session may be told next, by the test's own book of its reminders; kept at every push.

It looks on from inside the daemon: pushes and admissions stand in the order in which the daemon
made and read them, which no host can know.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Any, NamedTuple

import pytest

from scheduler_daemon.hosts.host import Host, Push
from scheduler_daemon.hosts.outcomes import Admitted, Outcome, Refused
from scheduler_daemon.model import FollowUp, Instant
from scheduler_daemon.rules import instant_text, parse_instant_text
from scheduler_daemon.scheduler import Scheduler

REFUSALS_BEFORE_ASIDE = 3


class Once(NamedTuple):
    """A one-shot; they sort as they must come."""

    target: Instant
    number: int

    @property
    def occurrence(self) -> str:
        return f"r{self.number}@{instant_text(self.target)}"


class Often:
    """A fixed rate; all up to `after` was admitted."""

    def __init__(self, number: int, anchor: Instant, seconds: int) -> None:
        self.number = number
        self.step = dt.timedelta(seconds=seconds)
        self.after = anchor
        self._anchor = anchor

    @property
    def target(self) -> Instant:
        return self.latest(self.after) + self.step

    def latest(self, now: Instant) -> Instant:
        at = self._anchor
        while at + self.step <= now:
            at += self.step
        return at

    def occurrence(self, now: Instant) -> str:
        return f"r{self.number}@{instant_text(self.latest(now))}"


class Book:
    """Every reminder by Session, what was admitted of it, and what went wrong."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.once: dict[str, list[Once]] = defaultdict(list)
        self.often: dict[str, list[Often]] = defaultdict(list)
        self.admitted: set[str] = set()
        self.pushes: dict[str, int] = defaultdict(int)
        self.wrong: list[str] = []
        self._refusals: dict[str, int] = defaultdict(int)
        self._watch(monkeypatch)

    def enter(self, reminder: dict[str, Any]) -> None:
        """Enter what a creation answered, before it is due."""
        number, session = int(reminder["id"][1:]), reminder["session_id"]
        if reminder["kind"] == "every":
            anchor = parse_instant_text(reminder["created_at"])
            seconds = reminder["rule"]["every_seconds"]
            self.often[session].append(Often(number, anchor, seconds))
        else:
            target = parse_instant_text(reminder["scheduled_at"])
            self.once[session].append(Once(target, number))

    def _watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        push, admitted_late = Host.push, Scheduler._admitted_late

        async def seen_push(host: Host, followup: FollowUp, *values: Any) -> Push:
            self._pushed(host, followup)
            done = await push(host, followup, *values)
            self._came(followup, done.answer.result())
            return done

        def seen_late(
            scheduler: Scheduler, host: Host, followup: FollowUp, message_id: str | None
        ) -> None:
            self._admit(followup)
            admitted_late(scheduler, host, followup, message_id)

        monkeypatch.setattr(Host, "push", seen_push)
        monkeypatch.setattr(Scheduler, "_admitted_late", seen_late)

    def _pushed(self, host: Host, followup: FollowUp) -> None:
        ids = [each.occurrence_id for each in followup.occurrences]
        for each in ids:
            self.pushes[each] += 1
        if not host.takes(followup.session_id):
            self._complain(followup, "to a host that does not take the Session")
        if self.admitted & set(ids):
            self._complain(followup, "again after its admission was read")
        batch = self._batch(followup)
        ones = sorted(
            one
            for one in self.once[followup.session_id]
            if one.target <= followup.decided_at and one.occurrence not in self.admitted
        )
        first = [one.occurrence for one in ones if not self._stands_aside(one)][:1]
        # What stands aside goes again when its own pause is over; before others, in its order.
        allowed = [[one.occurrence] for one in ones if self._stands_aside(one)]
        allowed.append(first or batch)
        if ids not in allowed:
            self._complain(followup, f"where these may come: {allowed}")

    def _batch(self, followup: FollowUp) -> list[str]:
        now = followup.decided_at
        due = [each for each in self.often[followup.session_id] if each.target <= now]
        due.sort(key=lambda each: (each.target, each.number))
        return [each.occurrence(now) for each in due]

    def _stands_aside(self, one: Once) -> bool:
        return self._refusals[one.occurrence] >= REFUSALS_BEFORE_ASIDE

    def _came(self, followup: FollowUp, outcome: Outcome) -> None:
        message = followup.occurrences[0].occurrence_id
        if isinstance(outcome, Admitted):
            self._admit(followup)
        elif isinstance(outcome, Refused):
            self._refusals[message] += 1
        elif self._refusals[message] < REFUSALS_BEFORE_ASIDE:
            self._refusals[message] = 0

    def _admit(self, followup: FollowUp) -> None:
        self.admitted.update(each.occurrence_id for each in followup.occurrences)
        numbers = {each.reminder.number: each for each in followup.occurrences}
        for each in self.often[followup.session_id]:
            if each.number in numbers:
                each.after = max(each.after, followup.decided_at)

    def _complain(self, followup: FollowUp, what: str) -> None:
        ids = [each.occurrence_id for each in followup.occurrences]
        self.wrong.append(f"{followup.session_id}: pushed {ids} {what}")
