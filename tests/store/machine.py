"""A store and its model side by side: time, the file, and what must always hold of both."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler_daemon.errors import ReminderNotFound
from scheduler_daemon.model import After, FollowUp, Occurrence, Reminder
from scheduler_daemon.rules import first
from scheduler_daemon.store.database import connect
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import BadRow, decode_reminder
from scheduler_daemon.store.store import Limits, Store, Which
from scheduler_daemon.store.upkeep import counted_from
from tests.store.model import Key, Model, is_beyond
from tests.store.support import (
    CRON,
    DAILY,
    HOURLY,
    OWNER,
    T0,
    Ticks,
    assert_counted,
    at,
    later,
    new_file,
)

T = TypeVar("T")

LIMITS = Limits(per_session=4, per_owner=6)
KEYS = [(owner, session) for owner in (OWNER, OWNER + 1) for session in ("s1", "s2")]

sessions = st.sampled_from([KEYS[0], *KEYS])
rules = st.sampled_from([HOURLY, After(60), DAILY, After(3600), at(7200), CRON, HOURLY])
words = st.sampled_from([(None, "one"), ("Title", "two"), ("Title", "three")])
picks = st.integers(0, 1_000_000)
keys = st.sampled_from([None, "k1", "k2"])
bodies = st.sampled_from(["h1", "h1", "h2"])


def plain(reminder: Reminder) -> Reminder:
    """Without `after_at`, of which the model only knows what always holds."""
    return replace(reminder, after_at=T0)


class Machine(RuleBasedStateMachine):
    """Every act on the store is repeated on the model.

    `flying` is the one follow-up of each Session that is with a host; of `followups` any may be
    admitted late. `passing` are occurrences that were looked at and not sent.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = new_file(Path(self.folder.name))
        self.loop = asyncio.new_event_loop()
        self.store = self.run(self.open())
        self.looking = connect(self.path, read_only=True)
        self.model = Model()
        self.now = T0
        self.trusted = True
        self.flying: dict[Key, FollowUp] = {}
        self.followups: list[FollowUp] = []
        self.passing: list[tuple[Occurrence, ...]] = []
        self.snapshots: list[Reminder] = []

    def run(self, act: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(act)

    def open(self) -> Coroutine[Any, Any, Store]:
        return Store.open(self.path, monotonic=Ticks(), wait_seconds=10, failed=lambda text: None)

    def teardown(self) -> None:
        self.looking.close()
        self.run(self.store.close())
        self.loop.close()
        self.folder.cleanup()

    def pick(self, pick: int) -> int:
        """The number of a reminder, often one in flight, or of one that is gone or never was."""
        numbers = [*self.model.reminders]
        flying = [
            each.reminder.number for sent in self.flying.values() for each in sent.occurrences
        ]
        if flying and pick % 2:
            return flying[pick % len(flying)]
        if pick % 10 == 9 or not numbers:
            return pick % (self.model.newest + 1) + 1
        return numbers[pick % len(numbers)]

    def which(self, number: int) -> Which:
        return Which(number, None, None)

    def found(self, number: int, act: Coroutine[Any, Any, Any]) -> Reminder | None:
        """The reminder that `act` is about; None where it has to be, and was, refused."""
        old = self.model.reminders.get(number)
        if old is not None and number not in self.model.aside:
            return old
        self.refused(act, ReminderNotFound if old is None else BadRow)
        return None

    def refused(self, act: Coroutine[Any, Any, Any], error: type[Exception]) -> None:
        with pytest.raises(error):
            self.run(act)

    # --- time and the file

    @rule(hours=st.sampled_from([-30, -1, 1, 1, 2, 24, 48]))
    def let_time_pass_or_set_the_clock(self, hours: int) -> None:
        self.now = later(hours * 3600, self.now)
        if hours in (-30, 48):
            self.trusted = False

    def reopen(self) -> None:
        """What was with a host may have been admitted or not."""
        self.run(self.store.close())
        self.flying.clear()
        self.store = self.run(self.open())

    # --- what always holds

    @invariant()
    def the_file_holds_what_the_model_holds(self) -> None:
        stored = {each.number: each for each in self.stored()}
        expected = {
            number: plain(each)
            for number, each in self.model.reminders.items()
            if number not in self.model.aside
        }
        assert {number: plain(each) for number, each in stored.items()} == expected
        aside = self.looking.execute("SELECT number FROM reminders WHERE status = 'set_aside'")
        assert {number for (number,) in aside} == self.model.aside
        for each in stored.values():
            if each.status == "active":
                self.assert_active_is_right(each)

    def stored(self) -> Iterable[Reminder]:
        rows = self.looking.execute(QUERIES["slice_by_number"], {"number": 0, "count": -1})
        return map(decode_reminder, rows)

    def assert_active_is_right(self, each: Reminder) -> None:
        assert each.scheduled_at == first(each.rule, counted_from(each))
        assert each.max_occurrences is None or each.dispatch_count < each.max_occurrences
        if is_beyond(each, each.scheduled_at):
            assert each.number in self.model.beyond

    @invariant()
    def what_is_derived_is_right(self) -> None:
        assert_counted(self.looking)
        targets = self.run(self.store.reader.targets(KEYS))
        assert targets == {key: self.model.next_target(key) for key in KEYS}
        for owner in (OWNER, OWNER + 1):
            self.assert_owner_is_counted(owner)
        rows = self.run(self.store.reader.sessions(None, ("", -1), self.now, 10))
        for row in rows:
            active = self.model.active(*row.key)
            counted = (len(active), sum(each.paused for each in active))
            assert (row.active, row.paused) == counted
            assert row.overdue == len(self.model.due(row.key, self.now))
            assert row.next_target_at == self.model.next_target(row.key)
        order = [(row.key[1], row.key[0]) for row in rows]
        assert order == sorted({key[::-1] for key in map(self.model.key_of, self.model.reminders)})

    def assert_owner_is_counted(self, owner: int) -> None:
        counts = self.run(self.store.reader.counts(owner, self.now))
        active = self.model.active(owner)
        due = [each for each in active if not each.paused and each.scheduled_at <= self.now]
        assert counts.active == len(active)
        assert counts.paused == sum(each.paused for each in active)
        assert counts.overdue == len(due)

    @invariant()
    def each_receipt_is_there_once_as_it_was_first_written(self) -> None:
        seen = self.looking.execute(
            "SELECT occurrence_id, reminder_id, owner_uid, session_id, followup_id, outcome, "
            "title, prompt FROM history"
        ).fetchall()
        receipts = {occurrence_id: tuple(rest) for occurrence_id, *rest in seen}
        assert len(receipts) == len(seen)
        assert receipts == self.model.receipts

    @invariant()
    def runs_are_those_that_wait_and_belong_to_a_reminder(self) -> None:
        runs = self.looking.execute(
            "SELECT e.occurrence_id, e.reminder_number, e.owner_uid, e.session_id, r.owner_uid, "
            "r.session_id FROM runs AS e LEFT JOIN reminders AS r ON r.number = e.reminder_number"
        ).fetchall()
        expected = sorted((run.occurrence_id, run.number) for run in self.model.runs)
        assert sorted(run[:2] for run in runs) == expected
        assert [run[2:4] for run in runs] == [run[4:6] for run in runs]
