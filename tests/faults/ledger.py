"""What a run of random kills knows for sure, and the comparison of the file with that.

A change that was answered holds. One that met a kill is in the file whole or not at all: which of
both is read there when the process is dead, and holds from then on.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scheduler_daemon.model import OneShot, Reminder
from scheduler_daemon.rules import first, instant_text, selector_of
from scheduler_daemon.store.rows import REMINDER_COLUMNS, decode_reminder
from scheduler_daemon.store.upkeep import counted_from

Json = dict[str, Any]


class File:
    """A database as a kill left it, read from a copy: the daemon itself must recover the other."""

    def __init__(self, database: Path, place: Path) -> None:
        place.mkdir(exist_ok=True)
        copy = place / database.name
        for suffix in ("", "-wal"):
            source = database.with_name(database.name + suffix)
            target = place / source.name
            target.unlink(missing_ok=True)
            if source.exists():
                shutil.copy(source, target)
        with closing(sqlite3.connect(copy)) as conn:
            assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            columns = ", ".join(REMINDER_COLUMNS)
            rows = conn.execute(f"SELECT {columns} FROM reminders").fetchall()
            self.reminders = {each.id: each for each in map(decode_reminder, rows)}
            self.receipts: dict[str, tuple[str, str, str, str]] = {
                each[0]: each[1:]
                for each in conn.execute(
                    "SELECT occurrence_id, reminder_id, session_id, occurrence_at, outcome"
                    " FROM dispatches"
                )
            }
            self.runs = {each for (each,) in conn.execute("SELECT occurrence_id FROM runs")}
            self.keys = {each for (each,) in conn.execute("SELECT key FROM idempotency_keys")}
            counted = conn.execute(
                "SELECT session_id, active, paused, ended, next_target_at FROM sessions"
            ).fetchall()
            fresh = conn.execute(
                "SELECT s.session_id, sum(status = 'active'), sum(status = 'active' AND paused),"
                " sum(status = 'ended'), t.target FROM reminders AS s JOIN session_targets AS t"
                " USING (owner_uid, session_id) GROUP BY 1"
            ).fetchall()
            assert sorted(counted) == sorted(fresh)


@dataclass(eq=False)
class Record:
    """One reminder as its callers know it; what the daemon does by itself is not kept here.

    `ended_in` are Sessions where it is if it had ended before a transfer. `touched` is the tick of
    the last change, `settled` whether an admission was sent since, `refused` how often a host
    refused it in this life.
    """

    id: str
    session: str
    rule: Json
    prompt: str
    revision: int
    paused: bool
    target: str
    ends: bool
    snoozed_from: int | None
    touched: int
    ended_in: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    changes: int = 0
    settled: bool = False
    refused: int = 0
    forgotten_from: bool = False

    @property
    def once(self) -> bool:
        return bool(self.rule.keys() & {"after_seconds", "at"})

    @property
    def number(self) -> int:
        return int(self.id[1:])

    def see(self, view: Json) -> None:
        """Take over what an answer shows."""
        self.session, self.rule, self.prompt = view["session_id"], view["rule"], view["prompt"]
        self.revision, self.paused = view["revision"], view["paused"]
        if self.target != view["scheduled_at"]:
            self.target, self.settled = view["scheduled_at"], False
        self.ended_in = set()

    def facts(self) -> Json:
        names = ("rule", "prompt", "revision", "snoozed_from")
        return {name: getattr(self, name) for name in names}


@dataclass(eq=False)
class Op:
    """One request that was sent: what it asks for, whom it touches, and its answer."""

    verb: str
    asked: Json
    records: list[Record]
    sessions: set[str]
    answer: Future[Any]


def facts_in(reminder: Reminder) -> Json:
    """What a row says of what callers know."""
    return {
        "rule": selector_of(reminder.rule),
        "prompt": reminder.prompt,
        "revision": reminder.revision,
        "snoozed_from": reminder.snoozed_from,
    }


class Ledger:
    """Records by id, requests without an answer, receipts that were seen in the file."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.ops: list[Op] = []
        self.receipts: dict[str, tuple[str, str, str, str]] = {}
        self.gone: dict[str, int] = {}
        self.rows: dict[str, Reminder] = {}
        self.forgotten: set[str] = set()
        self.answered = 0

    def busy(self, record: Record | None, *sessions: str) -> bool:
        """Whether a request without an answer touches the same."""
        return any(record in op.records or op.sessions.intersection(sessions) for op in self.ops)

    # --- answers

    def collect(self, tick: int) -> None:
        """Take over what was answered meanwhile."""
        for op in [op for op in self.ops if op.answer.done()]:
            error = op.answer.exception()
            if isinstance(error, ConnectionError):
                continue  # it met the kill
            self.ops.remove(op)
            for record in op.records:
                record.touched = tick
            if error is None:
                self.answered += 1
                getattr(self, f"_{op.verb}")(op, op.answer.result(), tick)

    def _create(self, op: Op, result: Json, tick: int) -> None:
        assert result["created"] is not op.asked.get("there", False), (op, result)
        self.make(result["reminder"], tick)

    _snooze = _create

    def make(self, view: Json, tick: int, snoozed_from: int | None = None) -> Record:
        """A reminder that is new to the ledger."""
        known = self.records.get(view["id"])
        if known is not None:  # a retry of a creation that was found in the file
            return known
        assert view["id"] not in self.gone, view
        record = self.records[view["id"]] = Record(
            id=view["id"],
            session=view["session_id"],
            rule=view["rule"],
            prompt=view["prompt"],
            revision=view["revision"],
            paused=view["paused"],
            target=view["scheduled_at"],
            ends="until" in view or "max_occurrences" in view or "expires_after_seconds" in view,
            snoozed_from=int(view["snoozed_from"][1:]) if "snoozed_from" in view else snoozed_from,
            touched=tick,
        )
        return record

    def _changed(self, op: Op, result: Json, tick: int) -> None:
        (record,) = op.records
        before = record.revision
        record.see(result["reminder"])
        record.changes += record.revision != before
        for name, value in op.asked.get("wanted", {}).items():
            assert getattr(record, name) == value, (op, result)

    _update = _pause = _resume = _skip = _changed

    def _run_now(self, op: Op, result: Json, tick: int) -> None:
        op.records[0].runs.add(result["occurrence_id"])

    def _delete(self, op: Op, result: Json, tick: int) -> None:
        assert result["deleted"], (op, result)
        self._forget(op, result, tick)

    def _forget(self, op: Op, result: Json, tick: int) -> None:
        for record in op.records:
            if op.verb == "delete" or record.session == op.asked["session"]:
                self._lose(record, tick)

    def _lose(self, record: Record, tick: int) -> None:
        if self.records.pop(record.id, None):
            self.gone[record.id] = tick

    def _transfer(self, op: Op, result: Json, tick: int) -> None:
        for record in op.records:
            record.ended_in.add(record.session)
            record.session = op.asked["to"]

    # --- the file

    def compare(self, file: File, tick: int, *, calm: bool) -> None:
        """Hold the file to what was answered, and settle what was not."""
        self._find_made(file, tick)
        for record in self.records.values():
            record.forgotten_from |= bool(self.forgotten)
        for op in self.ops:
            for record in op.records:
                record.touched = tick
            if op.verb in ("delete", "forget"):
                self._settle_loss(op, file, tick)
            elif op.verb == "transfer":
                self._settle_transfer(op, file)
        for record in list(self.records.values()):
            reminder = file.reminders.get(record.id)
            assert reminder is not None, f"lost: {record}"
            self._compare_row(record, reminder, file)
        unknown = file.reminders.keys() - self.records.keys()
        assert not unknown, f"nobody made {unknown}, or they were deleted"
        self._compare_receipts(file)
        if calm and not self.forgotten:
            self._check_nothing_skipped(file)
        self.forgotten.clear()
        self.ops.clear()
        self.receipts, self.rows = file.receipts, file.reminders

    def _find_made(self, file: File, tick: int) -> None:
        """Creations without an answer that are in the file: each once, and whole."""
        for op in self.ops:
            if op.verb not in ("create", "snooze") or op.asked.get("there"):
                continue
            found = [
                reminder
                for reminder in file.reminders.values()
                if reminder.id not in self.records and _is_made_by(op, reminder)
            ]
            assert len(found) <= 1, found
            op.asked["there"] = bool(found)
            if "key" in op.asked:
                assert (op.asked["key"] in file.keys) is bool(found)
            for reminder in found:
                view = {
                    "id": reminder.id,
                    "session_id": reminder.session_id,
                    "rule": selector_of(reminder.rule),
                    "prompt": reminder.prompt,
                    "revision": reminder.revision,
                    "paused": reminder.paused,
                    "scheduled_at": instant_text(reminder.scheduled_at),
                    **dict.fromkeys(op.asked.get("ends", ())),
                }
                assert (reminder.session_id, reminder.revision) == (op.asked["session"], 1), op
                assert reminder.rule.kind in next(iter(op.asked["rule"])), op
                self.make(view, tick, reminder.snoozed_from)

    def _settle_loss(self, op: Op, file: File, tick: int) -> None:
        left = [record.id in file.reminders for record in op.records if record.id in self.records]
        assert len(set(left)) <= 1, f"half: {op}"
        if left and not left[0]:
            for record in op.records:
                self._lose(record, tick)

    def _settle_transfer(self, op: Op, file: File) -> None:
        active = {
            file.reminders[record.id].session_id
            for record in op.records
            if file.reminders[record.id].status == "active"
        }
        assert len(active) <= 1, f"half: {op}"
        for record in op.records:
            record.ended_in |= {op.asked["from"], op.asked["to"]}
            record.session = next(iter(active), op.asked["to"])

    def _compare_row(self, record: Record, reminder: Reminder, file: File) -> None:
        op = next((op for op in self.ops if record in op.records), None)
        before, found = record.facts(), facts_in(reminder)
        if met_a_kill := op is not None and found != before:
            assert op is not None
            self._check_met_a_kill(op, record, reminder)
            record.changes += 1
        else:
            assert found == before, f"not as answered: {record} {reminder}"
        active = reminder.status == "active"
        assert reminder.session_id == record.session or (
            not active and reminder.session_id in record.ended_in
        ), f"elsewhere: {record} {reminder}"
        if active and not met_a_kill:
            assert reminder.paused == record.paused, f"not as answered: {record} {reminder}"
        self._compare_runs(op, record, file)
        record.session, record.ended_in = reminder.session_id, set()
        record.rule, record.prompt = found["rule"], found["prompt"]
        record.revision, record.paused = reminder.revision, reminder.paused
        record.target, record.settled = instant_text(reminder.scheduled_at), not active
        record.refused = 0

    def _check_met_a_kill(self, op: Op, record: Record, reminder: Reminder) -> None:
        """A change without an answer that is in the file is there whole."""
        assert op.verb in ("update", "pause", "resume", "skip"), f"half: {op} {reminder}"
        assert reminder.revision == record.revision + 1, f"{op} {reminder}"
        if op.verb == "update":
            assert reminder.prompt == op.asked["wanted"]["prompt"], f"half: {op} {reminder}"
            rule = op.asked.get("rule")
            assert rule is None or reminder.rule.kind in next(iter(rule)), f"half: {op} {reminder}"
        elif reminder.status == "active" and op.verb != "skip":
            assert reminder.paused is (op.verb == "pause"), f"half: {op} {reminder}"

    def _compare_runs(self, op: Op | None, record: Record, file: File) -> None:
        """What was asked for by hand waits, or has its receipt."""
        prefix = f"{record.id}@now-"
        found = {each for each in [*file.runs, *file.receipts] if each.startswith(prefix)}
        if not record.forgotten_from:
            assert record.runs <= found, f"lost: {record.runs - found}"
        more = found - record.runs
        assert len(more) <= (op is not None and op.verb == "run_now"), f"nobody asked for {more}"
        record.runs |= more

    def _compare_receipts(self, file: File) -> None:
        for occurrence_id, receipt in self.receipts.items():
            left = file.receipts.get(occurrence_id)
            assert left == receipt or (left is None and receipt[1] in self.forgotten), receipt

    def _check_nothing_skipped(self, file: File) -> None:
        """Where no clock was set and nobody changed it, a target moves on by receipts only."""
        for reminder_id, old in self.rows.items():
            new = file.reminders.get(reminder_id)
            unchanged = new is not None and new.revision == old.revision
            if new is None or not unchanged or new.scheduled_at == old.scheduled_at:
                continue
            assert new.scheduled_at > old.scheduled_at, f"moved: {old} {new}"
            low, high = instant_text(old.scheduled_at), instant_text(new.scheduled_at)
            assert new.expires_after_seconds or any(
                receipt[0] == reminder_id and low <= receipt[2] < high
                for receipt in file.receipts.values()
            ), f"skipped: {old} {new}"


def _is_made_by(op: Op, reminder: Reminder) -> bool:
    if op.verb == "snooze":
        seconds = op.asked["rule"]["after_seconds"]
        rule = {"after_seconds": seconds}
        return reminder.snoozed_from == op.records[0].number and selector_of(reminder.rule) == rule
    return reminder.snoozed_from is None and reminder.prompt == op.asked["prompt"]


def check_healed(file: File, now: str, admitted: set[str]) -> None:
    """When everything that was due has come: each record stands where its rule and receipts say."""
    assert not file.runs
    sent = {each for each, receipt in file.receipts.items() if receipt[3] == "admitted"}
    assert sent <= admitted, f"never admitted: {sent - admitted}"
    for reminder in file.reminders.values():
        if reminder.status == "active" and not reminder.paused:
            assert instant_text(reminder.scheduled_at) > now, f"overdue: {reminder}"
        if isinstance(reminder.rule, OneShot):
            continue
        if reminder.status == "active":
            assert reminder.scheduled_at == first(reminder.rule, counted_from(reminder)), reminder


def delivered(file: File) -> Iterator[tuple[Reminder, int]]:
    """One-shots that were never re-timed and delivered, with how many admissions have receipts."""
    for reminder in file.reminders.values():
        once = isinstance(reminder.rule, OneShot) and reminder.timing_revision == 1
        if once and reminder.ended_reason == "delivered":
            own = [
                each
                for each, receipt in file.receipts.items()
                if receipt[0] == reminder.id and receipt[3] == "admitted" and "@now-" not in each
            ]
            yield reminder, len(own)
