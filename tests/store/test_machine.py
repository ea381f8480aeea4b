"""The store against a plain model of it: any order of acts leaves both with the same facts."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler_daemon.errors import IdempotencyConflict, LimitReached, ReminderNotFound
from scheduler_daemon.model import After, At, FollowUp, Instant, Occurrence, Reminder
from scheduler_daemon.rules import first
from scheduler_daemon.store.database import connect
from scheduler_daemon.store.queries import QUERIES
from scheduler_daemon.store.rows import BadRow, decode_reminder
from scheduler_daemon.store.store import Created, Limits, Store, Which
from tests.store.support import (
    CRON,
    DAILY,
    HOURLY,
    OWNER,
    T0,
    Ticks,
    assert_counted,
    at,
    draft,
    followup,
    later,
    new_file,
)

T = TypeVar("T")

LIMITS = Limits(per_session=4, per_owner=6)

sessions = st.tuples(st.sampled_from([OWNER, OWNER + 1]), st.sampled_from(["s1", "s2"]))
rules = st.sampled_from([After(60), After(3600), at(7200), HOURLY, DAILY, CRON])
words = st.sampled_from([(None, "one"), ("Title", "two"), ("Title", "three")])
picks = st.integers(0, 1_000_000)


@dataclass
class Model:
    """What the file should hold."""

    reminders: dict[int, Reminder] = field(default_factory=dict)
    aside: set[int] = field(default_factory=set)
    keys: dict[tuple[int, str, str], tuple[str, int]] = field(default_factory=dict)
    receipts: dict[str, tuple[str, int, str, str | None, str]] = field(default_factory=dict)
    newest: int = 0

    def active(self, owner: int, session: str | None = None) -> list[Reminder]:
        return [
            each
            for each in self.reminders.values()
            if each.status == "active"
            and each.number not in self.aside
            and each.owner_uid == owner
            and session in (None, each.session_id)
        ]

    def advance(self, each: Occurrence, decided: Instant, ended: Instant) -> None:
        now = self.reminders.get(each.reminder.number)
        planned = each.reminder
        if now is None or now.status != "active" or now.number in self.aside:
            return
        if (now.timing_revision, now.scheduled_at) != (
            planned.timing_revision,
            planned.scheduled_at,
        ):
            return
        if each.next_at is None:
            one_shot = isinstance(planned.rule, After | At)
            reason: Literal["delivered", "range"] = "delivered" if one_shot else "range"
            now = replace(now, status="ended", ended_at=ended, ended_reason=reason)
        else:
            now = _moved(now, each.next_at, each.next_after, decided)
        self.reminders[now.number] = now

    def count(self, number: int) -> None:
        now = self.reminders.get(number)
        if now is not None:
            self.reminders[number] = replace(now, dispatch_count=now.dispatch_count + 1)

    def note(self, number: int, occurrence_at: Instant) -> None:
        now = self.reminders.get(number)
        if now is None:
            return
        last = now.last_occurrence_at
        if last is not None and last >= occurrence_at:
            return
        live = now.status == "active" and number not in self.aside
        back = live and now.scheduled_at <= occurrence_at
        self.reminders[number] = replace(
            now, last_occurrence_at=occurrence_at, generation=now.generation + back
        )


def _moved(now: Reminder, target: Instant, after: Instant, computed: Instant) -> Reminder:
    rule = At(target) if isinstance(now.rule, At) else now.rule
    return replace(now, rule=rule, scheduled_at=target, after_at=after, computed_at=computed)


class StoreMachine(RuleBasedStateMachine):
    """Every act on the store is repeated on the model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = new_file(Path(self.folder.name))
        self.loop = asyncio.new_event_loop()
        self.store = self.run(self.open())
        self.looking = connect(self.path, read_only=True)
        self.model = Model()
        self.now = T0
        self.snapshots: list[Reminder] = []
        self.followups: list[FollowUp] = []

    def run(self, act: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(act)

    def open(self) -> Coroutine[Any, Any, Store]:
        return Store.open(self.path, monotonic=Ticks(), wait_seconds=10, failed=lambda text: None)

    def teardown(self) -> None:
        self.looking.close()
        self.run(self.store.close())
        self.loop.close()
        self.folder.cleanup()

    # --- acts

    @rule(hours=st.sampled_from([-30, -1, 1, 24, 48]))
    def let_time_pass_or_set_the_clock(self, hours: int) -> None:
        self.now = later(hours * 3600, self.now)

    @rule(
        key=sessions,
        kind=rules,
        text=words,
        again=st.sampled_from([None, "k1", "k2"]),
        body=st.sampled_from(["h1", "h1", "h2"]),
    )
    def create(
        self, key: tuple[int, str], kind: Any, text: tuple[str | None, str], again: str, body: str
    ) -> None:
        if first(kind, self.now) is None:
            return
        owner, session = key
        asked = draft(
            kind,
            now=self.now,
            owner=owner,
            session=session,
            title=text[0],
            prompt=text[1],
            key=again,
            request_hash=body,
        )
        earlier = self.model.keys.get((owner, session, again or ""))
        act = self.store.create(asked, self.now, LIMITS)
        if earlier is not None:
            self.expect_earlier(act, body, *earlier)
        elif len(self.model.active(owner, session)) >= 4 or len(self.model.active(owner)) >= 6:
            with pytest.raises(LimitReached):
                self.run(act)
        else:
            made = self.run(act)
            assert made.created
            assert made.number > self.model.newest
            assert made.reminder is not None
            self.model.newest = made.number
            self.model.reminders[made.number] = made.reminder
            if again:
                self.model.keys[owner, session, again] = (body, made.number)

    def expect_earlier(
        self, act: Coroutine[Any, Any, Created], body: str, first_body: str, number: int
    ) -> None:
        if body != first_body:
            with pytest.raises(IdempotencyConflict):
                self.run(act)
        elif number in self.model.aside:
            with pytest.raises(BadRow):
                self.run(act)
        else:
            made = self.run(act)
            assert (made.number, made.created) == (number, False)
            assert made.reminder == self.model.reminders.get(number)

    def pick(self, pick: int) -> int:
        """A number that was once given, or the one after."""
        return pick % (self.model.newest + 1) + 1

    def expect_change(self, number: int, changed: Callable[[Reminder], Reminder]) -> None:
        old = self.model.reminders.get(number)
        act = self.store.change(Which(number, None, None), changed)
        if old is None or number in self.model.aside:
            with pytest.raises(ReminderNotFound if old is None else BadRow):
                self.run(act)
            return
        before, after, _ = self.run(act)
        assert (before, after) == (old, changed(old))
        self.model.reminders[number] = after

    @rule(pick=picks, text=words)
    def change_words(self, pick: int, text: tuple[str | None, str]) -> None:
        def changed(old: Reminder) -> Reminder:
            new = {"revision": old.revision + 1, "words_revision": old.words_revision + 1}
            return replace(old, title=text[0], prompt=text[1], **new)  # type: ignore[arg-type]

        self.expect_change(self.pick(pick), changed)

    @rule(pick=picks, kind=rules)
    def change_timing(self, pick: int, kind: Any) -> None:
        target = first(kind, self.now)

        def changed(old: Reminder) -> Reminder:
            if target is None or old.status == "ended":
                return old
            moved = replace(_moved(old, target, self.now, self.now), rule=kind)
            return replace(
                moved, revision=old.revision + 1, timing_revision=old.timing_revision + 1
            )

        self.expect_change(self.pick(pick), changed)

    @rule(pick=picks, key=sessions)
    def delete(self, pick: int, key: tuple[int, str]) -> None:
        number = self.pick(pick)
        old = self.model.reminders.get(number)
        gone = self.run(self.store.delete(Which(number, *key), self.now))
        if old is not None and (old.owner_uid, old.session_id) == key:
            assert gone == key
            del self.model.reminders[number]
            self.model.aside.discard(number)
        else:
            assert gone is None

    @rule(pick=picks)
    def set_aside(self, pick: int) -> None:
        number = self.pick(pick)
        old = self.model.reminders.get(number)
        keys = self.run(self.store.set_aside([BadRow(number, "rule: because")]))
        if old is None or number in self.model.aside:
            assert keys == []
        else:
            assert keys == [(old.owner_uid, old.session_id)]
            self.model.aside.add(number)

    # --- from due to dispatched

    @rule(key=sessions, recurring=st.booleans(), many=st.booleans())
    def plan(self, key: tuple[int, str], recurring: bool, many: bool) -> None:
        found = self.run(self.store.reader.due(key, self.now, 10, 10))
        one_shots, often = found.one_shots, found.recurring
        due = sorted(self.model.active(*key), key=lambda r: (r.scheduled_at, r.number))
        due = [each for each in due if each.scheduled_at <= self.now]
        ones = [each for each in due if isinstance(each.rule, After | At)]
        assert one_shots.reminders == ones
        assert often.reminders == [each for each in due if each not in ones]
        chosen = often.reminders[: None if many else 1] if recurring else ones[:1]
        if chosen:
            name = f"f{len(self.followups)}"
            self.followups.append(followup(chosen, self.now, name, key[1]))
            self.snapshots += chosen

    @precondition(lambda self: self.followups)
    @rule(pick=picks)
    def record(self, pick: int) -> None:
        """However late and however often: the receipt once, and the record moved on once."""
        sent = self.followups[pick % len(self.followups)]
        self.run(self.store.record(sent, self.now, "host", None))
        for each in sent.occurrences:
            planned = each.reminder
            if each.occurrence_id not in self.model.receipts:
                self.model.count(planned.number)
            self.model.receipts.setdefault(
                each.occurrence_id,
                (planned.id, sent.owner_uid, sent.followup_id, planned.title, planned.prompt),
            )
            self.model.advance(each, sent.decided_at, self.now)
            self.model.note(planned.number, each.occurrence_at)

    @precondition(lambda self: self.followups)
    @rule(pick=picks)
    def advance(self, pick: int) -> None:
        passed = self.followups[pick % len(self.followups)].occurrences
        self.run(self.store.settle(passed, self.now, None))
        for each in passed:
            self.model.advance(each, self.now, self.now)

    @precondition(lambda self: self.snapshots)
    @rule(pick=picks, hours=st.sampled_from([-48, 1]))
    def retarget(self, pick: int, hours: int) -> None:
        seen = self.snapshots[pick % len(self.snapshots)]
        target = later(hours * 3600, seen.scheduled_at)
        self.run(self.store.retarget(seen, target, self.now, self.now))
        now = self.model.reminders.get(seen.number)
        if now is None or now.status != "active" or now.number in self.model.aside:
            return
        if (now.timing_revision, now.scheduled_at) == (seen.timing_revision, seen.scheduled_at):
            last = now.last_occurrence_at
            back = last is not None and target <= last
            moved = _moved(now, target, self.now, self.now)
            self.model.reminders[now.number] = replace(moved, generation=now.generation + back)

    @rule()
    def reopen(self) -> None:
        self.run(self.store.close())
        self.store = self.run(self.open())

    # --- what always holds

    @invariant()
    def the_file_holds_what_the_model_holds(self) -> None:
        stored = {}
        for row in self.looking.execute(QUERIES["slice_by_number"], {"number": 0, "count": -1}):
            reminder = decode_reminder(row)
            stored[reminder.number] = reminder
        expected = self.model.reminders.items()
        assert stored == {k: v for k, v in expected if k not in self.model.aside}
        aside = self.looking.execute("SELECT number FROM reminders WHERE status = 'set_aside'")
        assert {number for (number,) in aside} == self.model.aside

    @invariant()
    def what_is_derived_is_right(self) -> None:
        assert_counted(self.looking)
        keys = [(owner, session) for owner in (OWNER, OWNER + 1) for session in ("s1", "s2")]
        targets = self.run(self.store.reader.targets(keys))
        for key in keys:
            earliest = min((r.scheduled_at for r in self.model.active(*key)), default=None)
            assert targets[key] == earliest

    @invariant()
    def each_receipt_is_there_once_with_the_words_that_were_sent(self) -> None:
        seen = self.looking.execute(
            "SELECT occurrence_id, reminder_id, owner_uid, followup_id, title, prompt FROM history"
        ).fetchall()
        receipts = {occurrence_id: tuple(rest) for occurrence_id, *rest in seen}
        assert len(receipts) == len(seen)
        assert receipts == self.model.receipts


StoreMachine.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestStoreMachine = StoreMachine.TestCase
