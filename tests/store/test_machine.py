"""The store against a plain model of it: any order of acts leaves both with the same facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from scheduler_daemon.delivery.plan import occurrence, run_by_hand
from scheduler_daemon.model import At, FollowUp, Occurrence, OneShot, Reminder
from scheduler_daemon.rules import first
from scheduler_daemon.store.upkeep import correct_ahead, end_beyond
from tests.store.machine import (
    KEYS,
    picks,
    plain,
)
from tests.store.machine_callers import Callers
from tests.store.model import (
    Key,
    as_it_was,
    decision,
    is_beyond,
    missed_from,
    occurrence_id,
    recomputed,
)
from tests.store.support import later

Words = tuple[str | None, str]

ends = st.tuples(st.sampled_from([None, None, 1, 3, 30]), st.sampled_from([None, 1, 2]))
"""Hours from now to the end, and how many occurrences are wanted."""


class StoreMachine(Callers):
    """What comes from due to dispatched, and upkeep, beside what callers do."""

    # --- from due to dispatched

    @rule(
        pick=picks,
        what=st.sampled_from(["batch", "often", "one", "run"]),
        late=st.sampled_from([0, 0, 1, 5, 40]),
        answer=st.sampled_from(["admitted", "none", "none", "busy"]),
    )
    def send(self, pick: int, what: str, late: int, answer: str) -> None:
        """What is due in a Session, once something is."""
        targets = {key: at for key in KEYS if (at := self.model.next_target(key)) is not None}
        if not targets:
            return
        self.now = max(self.now, later(late * 3600, min(targets.values())))
        due = [key for key, at in targets.items() if at <= self.now]
        self.plan(due[pick % len(due)], what)
        if answer != "none" and self.flying:
            self.answer(pick, answer)

    def plan(self, key: Key, what: str) -> None:
        due = self.model.due(key, self.now)
        ones = [each for each in due if isinstance(each.rule, OneShot)]
        often = [each for each in due if each not in ones]
        found = self.run(self.store.reader.due(key, self.now, 10, 10))
        assert list(map(plain, found.one_shots.reminders)) == list(map(plain, ones))
        assert list(map(plain, found.recurring.reminders)) == list(map(plain, often))
        runs = self.model.due_runs(key, self.now)
        assert [(run[0], run[1], run[2].number) for run in found.runs] == [
            (run.occurrence_id, run.due_at, run.number) for run in runs
        ]
        singles = [self.planned(each) for each in found.one_shots.reminders]
        recurring = [self.planned(each) for each in found.recurring.reminders]
        left = [each for each in recurring if not self.is_over(each)]
        self.passing += [(each,) for each in (*singles, *recurring)]
        by_hand = [run_by_hand(each, name, at) for name, at, each in found.runs]
        lanes = {"one": singles[:1], "run": by_hand[:1], "often": left[:1], "batch": left}
        taken = next((name for name in (what, *lanes) if lanes[name]), None)
        if taken is not None and key not in self.flying:
            name = f"f{len(self.followups)}"
            batch = taken in ("often", "batch")
            self.flying[key] = FollowUp(name, *key, batch, self.now, tuple(lanes[taken]))
            self.followups.append(self.flying[key])

    def planned(self, due: Reminder) -> Occurrence:
        """The occurrence of a due record, as the model has it too."""
        each = occurrence(due, self.now, trusted=self.trusted)
        expected = decision(due, self.now, trusted=self.trusted)
        at = expected.occurrence_at or due.scheduled_at
        assert (each.occurrence_at, each.next_at, each.end_reason) == (at, *expected[1:])
        assert each.occurrence_id == occurrence_id(due, at)
        assert each.missed_from == missed_from(due, at)
        self.snapshots.append(due)
        return each

    def is_over(self, each: Occurrence) -> bool:
        return is_beyond(each.reminder, each.reminder.scheduled_at)

    @precondition(lambda self: self.followups)
    @rule(pick=picks, how=st.sampled_from(["admitted", "busy", "late"]))
    def answer(self, pick: int, how: str) -> None:
        """However late and however often: the receipt once, and the record moved on once."""
        if how == "late" or not self.flying:
            self.record(self.followups[pick % len(self.followups)])
            return
        sent = self.flying.pop(list(self.flying)[pick % len(self.flying)])
        if how == "admitted":
            self.record(sent)

    def record(self, sent: FollowUp) -> None:
        left = self.run(self.store.record(sent, self.now, "host", None))
        before = dict(self.model.reminders)
        self.model.record(sent, self.now)
        self.assert_left(before, left.ended)

    def assert_left(self, before: dict[int, Reminder], ended: Any) -> None:
        now = self.model.reminders
        over = {n for n, old in before.items() if old.status != now[n].status == "ended"}
        assert set(ended) == {f"r{number}" for number in over}

    @precondition(lambda self: self.passing)
    @rule(pick=picks, missed=st.booleans())
    def settle(self, pick: int, missed: bool) -> None:
        """Too old to be sent, or dispatched before, or beyond its end."""
        passed = self.passing[pick % len(self.passing)]
        if missed and any(map(self.is_over, passed)):
            return
        if missed and isinstance(passed[0].reminder.rule, OneShot):
            passed = (replace(passed[0], end_reason="missed"),)
        outcome = "missed" if missed else None
        left = self.run(self.store.settle(passed, self.now, outcome))  # type: ignore[arg-type]
        before = dict(self.model.reminders)
        self.model.settle(passed, self.now, outcome)
        self.assert_left(before, left.ended)

    # --- upkeep

    @precondition(lambda self: self.snapshots)
    @rule(pick=picks, hours=st.sampled_from([-48, -1, 0]))
    def retarget(self, pick: int, hours: int) -> None:
        seen = self.snapshots[pick % len(self.snapshots)]
        after = later(hours * 3600 + 1, seen.scheduled_at)  # never the after_at that it has
        target = first(seen.rule, after)
        if target is None or is_beyond(seen, target) or isinstance(seen.rule, At):
            return
        computed = max(self.now, after)  # by a clock that is not behind what it counts from
        self.run(self.store.retarget(seen, target, after, computed))
        now = self.model.reminders.get(seen.number)
        if now is None or not self.model.is_live(now.number) or not as_it_was(seen, now):
            return
        if not is_beyond(now, target):
            self.model.reminders[now.number] = recomputed(now, target, computed)
        else:
            self.model.beyond.add(now.number)
            self.model.reminders[now.number] = recomputed(now, target, computed)

    @rule(what=st.sampled_from(["trust", "end", "correct", "reopen"]))
    def keep_up(self, what: str) -> None:
        if what == "correct":
            self.run(self.store.upkeep(correct_ahead(self.now)))
            self.model.correct_ahead(self.now)
        elif what == "trust":
            self.trusted = True
        elif what == "reopen":
            self.reopen()
        elif self.trusted:
            self.run(self.store.upkeep(end_beyond(self.now)))
            self.model.end_beyond(self.now)


StoreMachine.TestCase.settings = settings(
    max_examples=15,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestStoreMachine = StoreMachine.TestCase
