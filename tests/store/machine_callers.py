"""What callers do to a store and its model: create, change, rest, take away."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from scheduler_daemon import acts
from scheduler_daemon.errors import (
    IdempotencyConflict,
    LimitReached,
    ReminderEnded,
    SchedulerError,
    TimeOutOfRange,
)
from scheduler_daemon.model import After, OneShot, Reminder
from scheduler_daemon.rules import first, instant_text
from scheduler_daemon.store.acts import RequestKey
from scheduler_daemon.store.rows import BadRow
from scheduler_daemon.store.store import Created, Draft, Which
from tests.store.machine import (
    KEYS,
    LIMITS,
    Machine,
    bodies,
    keys,
    picks,
    plain,
    rules,
    sessions,
    words,
)
from tests.store.model import (
    MILLISECOND,
    Asked,
    Key,
    NothingLeft,
    Run,
    is_beyond,
    moved,
    occurrence_id,
)
from tests.store.support import HOURLY, draft, later

Words = tuple[str | None, str]

ends = st.tuples(st.sampled_from([None, None, 1, 3, 30]), st.sampled_from([None, 1, 2]))
"""Hours from now to the end, and how many occurrences are wanted."""


CHANGES = ["end", "words", "time"]
WAYS_TO_GO = ["transfer", "delete", "set_aside", "forget"]


class Callers(Machine):
    """Each act is refused by both, or leaves both with the same."""

    # --- creating

    @initialize()
    def something_is_there(self) -> None:
        """Two with an end and one without, in one Session."""
        for kind, end in ((HOURLY, (30, None)), (HOURLY, (None, 2)), (After(60), (None, None))):
            self.make(KEYS[0], kind, (None, "first"), end, None, "h1")

    @rule(key=sessions, kind=rules, text=words, end=ends, again=keys, body=bodies)
    def create(
        self,
        key: Key,
        kind: Any,
        text: Words,
        end: tuple[int | None, int | None],
        again: str | None,
        body: str,
    ) -> None:
        self.make(key, kind, text, end, again, body)

    def make(
        self,
        key: Key,
        kind: Any,
        text: Words,
        end: tuple[int | None, int | None],
        again: str | None,
        body: str,
    ) -> None:
        target = first(kind, self.now)
        until = None if end[0] is None else later(end[0] * 3600, self.now)
        if target is None or (until is not None and target > until):
            return
        limits = {} if isinstance(kind, OneShot) else {"until": until, "max_occurrences": end[1]}
        title, prompt = text
        more: dict[str, Any] = {"title": title, "prompt": prompt, "key": again, **limits}
        asked = draft(kind, now=self.now, owner=key[0], session=key[1], request_hash=body, **more)
        self.expect_created(self.store.create(asked, self.now, LIMITS), asked, None)

    def expect_created(
        self, act: Coroutine[Any, Any, Created], asked: Draft, of: int | None
    ) -> None:
        owner, session = asked.owner_uid, asked.session_id
        earlier = self.model.keys.get((owner, session, asked.key or ""))
        if earlier is not None:
            self.expect_earlier(act, asked.request_hash, earlier)
        elif len(self.model.active(owner, session)) >= 4 or len(self.model.active(owner)) >= 6:
            self.refused(act, LimitReached)
        else:
            made = self.run(act)
            assert made.created
            assert made.number > self.model.newest
            assert made.reminder is not None
            assert made.reminder.snoozed_from == of
            self.model.newest = made.number
            self.model.reminders[made.number] = made.reminder
            if asked.key:
                new = Asked(asked.request_hash, made.number, of)
                self.model.keys[owner, session, asked.key] = new

    def expect_earlier(self, act: Coroutine[Any, Any, Created], body: str, earlier: Asked) -> None:
        if body != earlier.request_hash:
            self.refused(act, IdempotencyConflict)
        elif earlier.number in self.model.aside:
            self.refused(act, BadRow)
        else:
            made = self.run(act)
            assert (made.number, made.created) == (earlier.number, False)
            self.assert_same(made.reminder, self.model.reminders.get(earlier.number))

    def assert_same(self, one: Reminder | None, other: Reminder | None) -> None:
        assert (one and plain(one)) == (other and plain(other))

    @rule(pick=picks, again=keys, body=bodies, what=st.sampled_from(["snooze", "run_now"]))
    def ask_for_one_more(self, pick: int, again: str | None, body: str, what: str) -> None:
        getattr(self, what)(self.pick(pick), again, body)

    def snooze(self, number: int, again: str | None, body: str) -> None:
        key = None if again is None else (again, f"snooze {number} {body}")

        def draft_of(old: Reminder) -> Draft:
            made = draft(After(600), now=self.now, owner=old.owner_uid, session=old.session_id)
            given: dict[str, Any] = {"key": again, "request_hash": key[1] if key else ""}
            given |= {"title": old.title, "prompt": old.prompt}
            return replace(made, snoozed_from=old.number, **given)

        request = RequestKey(*key) if key else None
        act = self.store.snooze(self.which(number), draft_of, request, self.now, LIMITS)
        earlier = self.model.asked_before(number, key)
        if earlier is not None:
            self.expect_earlier(act, earlier.request_hash, earlier)
        elif (old := self.found(number, act)) is not None:
            self.expect_created(act, draft_of(old), number)

    def run_now(self, number: int, again: str | None, body: str) -> None:
        key = None if again is None else (again, f"run {number} {body}")
        request = RequestKey(*key) if key else None
        act = self.store.run_now(self.which(number), request, self.now, LIMITS)
        earlier = self.model.asked_before(number, key)
        if earlier is not None and number not in self.model.aside:
            run = self.run(act)
            assert (run.occurrence_id, run.created) == (earlier.occurrence_id, False)
            self.assert_same(run.reminder, self.model.reminders.get(number))
        elif (old := self.found(number, act)) is not None:
            self.expect_run(act, old, key)

    def expect_run(
        self, act: Coroutine[Any, Any, Any], old: Reminder, key: tuple[str, str] | None
    ) -> None:
        of = (old.owner_uid, old.session_id)
        if key is not None and (*of, key[0]) in self.model.keys:
            self.refused(act, IdempotencyConflict)
        elif old.status == "ended":
            self.refused(act, ReminderEnded)
        elif len(self.model.runs_of(of)) >= 4:
            self.refused(act, LimitReached)
        else:
            at = self.now
            taken = {*self.model.receipts, *(run.occurrence_id for run in self.model.runs)}
            while (name := f"{old.id}@now-{instant_text(at)}") in taken:
                at += MILLISECOND
            run = self.run(act)
            assert (run.occurrence_id, run.created) == (name, True)
            self.assert_same(run.reminder, old)
            self.model.runs.append(Run(name, old.number, self.now))
            if key is not None:
                asked = Asked(key[1], old.number, old.number, name)
                self.model.keys[*of, key[0]] = asked

    # --- changing

    def expect_change(
        self,
        number: int,
        changed: Callable[[Reminder], Reminder],
        expected: Callable[[Reminder], Reminder] | None = None,
    ) -> None:
        act = self.store.change(self.which(number), changed)
        old = self.found(number, act)
        if old is None:
            return
        if expected is not None and old.status == "ended":
            self.refused(act, ReminderEnded)
            return
        before, after, _ = self.run(act)
        self.assert_same(before, old)
        self.model.reminders[number] = (expected or changed)(old)
        self.assert_same(after, self.model.reminders[number])

    @rule(
        pick=picks, text=words, kind=rules, end=ends, what=st.sampled_from(["words", "time", "end"])
    )
    def change(
        self, pick: int, text: Words, kind: Any, end: tuple[int | None, int | None], what: str
    ) -> None:
        number = self.pick(pick)
        if what == "words":
            self.change_words(number, text)
        elif what == "time":
            self.change_timing(number, kind)
        else:
            self.change_the_end(number, end)

    def change_words(self, number: int, text: Words) -> None:
        def changed(old: Reminder) -> Reminder:
            new = {"revision": old.revision + 1, "words_revision": old.words_revision + 1}
            return replace(old, title=text[0], prompt=text[1], **new)  # type: ignore[arg-type]

        self.expect_change(number, changed)

    def change_timing(self, number: int, kind: Any) -> None:
        target = first(kind, self.now)

        def changed(old: Reminder) -> Reminder:
            if target is None or old.status == "ended":
                return old
            new = replace(moved(old, target, self.now), rule=kind, after_at=self.now, skips=None)
            until, most = (None, None) if isinstance(kind, OneShot) else (old.until, None)
            until = None if until is not None and target > until else until
            counts = {"revision": old.revision + 1, "timing_revision": old.timing_revision + 1}
            return replace(new, until=until, max_occurrences=most, **counts)  # type: ignore[arg-type]

        self.expect_change(number, changed)

    def change_the_end(self, number: int, end: tuple[int | None, int | None]) -> None:
        """Also to one in the past, while an occurrence before it is owed."""
        until = None if end[0] is None else later((end[0] - 3) * 3600, self.now)

        def changed(old: Reminder) -> Reminder:
            new = replace(old, until=until, max_occurrences=end[1], revision=old.revision + 1)
            one_shot = isinstance(old.rule, OneShot)
            used_up = end[1] is not None and old.dispatch_count >= end[1]
            beyond = is_beyond(new, old.scheduled_at)
            return old if old.status == "ended" or one_shot or used_up or beyond else new

        self.expect_change(number, changed)

    # --- resting

    @rule(pick=picks, what=st.sampled_from(["skip", "pause", "resume"]))
    def rest(self, pick: int, what: str) -> None:
        getattr(self, what)(self.pick(pick))

    def pause(self, number: int) -> None:
        self.expect_change(number, acts.paused, self.model.pause)

    def resume(self, number: int) -> None:
        now, trusted = self.now, self.trusted
        self.expect_change(
            number,
            lambda old: acts.resumed(old, now, trusted=trusted),
            lambda old: self.model.resume(old, now, trusted),
        )

    def skip(self, number: int) -> None:
        pushed = [each for sent in self.flying.values() for each in sent.occurrences]
        own = [each for each in pushed if each.reminder.number == number and not each.by_hand]
        in_flight = own[0] if own else None
        now, trusted = self.now, self.trusted
        act = self.store.skip(
            self.which(number), lambda old: acts.skipped(old, in_flight, now, trusted=trusted), now
        )
        old = self.found(number, act)
        if old is None:
            return
        if old.status == "ended" or isinstance(old.rule, OneShot):
            self.refused(act, SchedulerError)
            return
        try:
            new, skipped_at = self.model.skip(old, in_flight, now, trusted)
        except NothingLeft:
            self.refused(act, TimeOutOfRange)
            return
        after, passed, _ = self.run(act)
        assert passed.occurrence_at == skipped_at
        assert passed.occurrence_id == occurrence_id(old, skipped_at)
        self.model.receive(replace(passed, reminder=old), old.session_id, "", "skipped")
        self.model.reminders[number] = new
        self.assert_same(after, new)

    # --- taking away

    @rule(
        pick=picks,
        key=sessions,
        what=st.sampled_from(["delete", "set_aside", "forget", "transfer"]),
    )
    def take_away(self, pick: int, key: Key, what: str) -> None:
        if what in ("forget", "transfer"):
            getattr(self, what)(key)
        else:
            getattr(self, what)(self.pick(pick), key)

    def delete(self, number: int, key: Key) -> None:
        gone = self.run(self.store.delete(Which(number, *key), self.now))
        if number in self.model.reminders and self.model.key_of(number) == key:
            assert gone == key
            self.model.remove([number])
        else:
            assert gone is None

    def set_aside(self, number: int, _key: Key) -> None:
        keys = self.run(self.store.set_aside([BadRow(number, "rule: because")]))
        if number not in self.model.reminders or number in self.model.aside:
            assert keys == []
        else:
            assert keys == [self.model.key_of(number)]
            self.model.aside.add(number)

    def forget(self, key: Key) -> None:
        gone = self.run(self.store.forget(*key, self.now))
        numbers = [each for each in self.model.reminders if self.model.key_of(each) == key]
        receipts = [
            name for name, each in self.model.receipts.items() if (each.owner, each.session) == key
        ]
        assert sorted(gone.reminders) == sorted(f"r{number}" for number in numbers)
        assert gone.dispatches == len(receipts)
        self.model.remove(numbers)
        for name in receipts:
            del self.model.receipts[name]

    def transfer(self, key: Key) -> None:
        owner, session = key
        to = "s2" if session == "s1" else "s1"
        act = self.store.transfer(owner, session, to, LIMITS)
        moving, there = self.model.active(*key), self.model.active(owner, to)
        if moving and len(moving) + len(there) > 4:
            self.refused(act, LimitReached)
        else:
            assert sorted(self.run(act)) == sorted(self.model.transfer(key, to))
