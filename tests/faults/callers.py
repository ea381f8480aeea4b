"""The callers of a run of random kills: what they ask, of whom, two connections at once."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import Future
from typing import Any

from scheduler_daemon.rules import instant_text
from tests.faults.ledger import Op, Record
from tests.faults.scene import SESSIONS, Scene

Json = dict[str, Any]

RULES: list[Json] = [
    {"after_seconds": 1},
    {"after_seconds": 40},
    {"after_seconds": 700},
    {"every_seconds": 300},
    {"every_seconds": 1000},
    {"daily": {"time": "12:07", "time_zone": "Europe/Berlin"}},
    {"weekly": {"time": "14:00", "time_zone": "Asia/Tokyo", "weekdays": [1, 4, 5]}},
    {"cron": {"expression": "*/10 * * * *", "time_zone": "America/New_York"}},
]
MOST = 40
"""Reminders at a time."""

MOST_ASKED = 8
"""Requests without an answer at a time; never two that touch the same reminder or Session."""


class Callers:
    """Each method asks one thing, if there is somebody to ask it of, and waits for no answer."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._ledger = scene.ledger
        self._random = scene.random

    def ask_again(self, lost: list[Op]) -> None:
        """Ask once more what met a kill and has a key."""
        for op in lost:
            self._ask(op.verb, op.asked, op.records)

    def create(self) -> None:
        session = self._random.choice(SESSIONS)
        if len(self._ledger.records) >= MOST or self._ledger.busy(None, session):
            return
        rule, prompt = self._random.choice(RULES), f"words {next(self._scene.names)}"
        params: Json = {"session_id": session, "prompt": prompt, **rule}
        if "after_seconds" not in rule and self._random.random() < 0.3:
            until = instant_text(self._scene.build.now + dt.timedelta(seconds=100_000))
            params |= self._random.choice([{"max_occurrences": 3}, {"until": until}])
        elif self._random.random() < 0.15:
            params["expires_after_seconds"] = 60
        asked: Json = {"prompt": prompt, "rule": rule, "session": session, "params": params}
        asked["ends"] = params.keys() & {"until", "max_occurrences", "expires_after_seconds"}
        if self._random.random() < 0.5:
            asked["key"] = params["idempotency_key"] = f"key of {prompt}"
        self._ask("create", asked, [])

    def update(self) -> None:
        record = self._some()
        if record is None:
            return
        prompt = f"words {next(self._scene.names)}"
        params: Json = {"id": record.id, "revision": record.revision, "prompt": prompt}
        asked: Json = {"wanted": {"prompt": prompt}, "params": params}
        if self._random.random() < 0.5:
            asked["rule"] = self._random.choice(RULES)
            params |= asked["rule"]
        self._ask("update", asked, [record])

    def act(self, verb: str) -> None:
        """Pause, resume, skip, run or delete some reminder."""
        record = self._some()
        if record is None or (verb == "skip" and record.once):
            return
        asked: Json = {"params": {"id": record.id}}
        if verb in ("pause", "resume"):
            asked["wanted"] = {"paused": verb == "pause"}
        self._ask(verb, asked, [record])

    def snooze(self) -> None:
        record = self._some()
        if record is None or record.ended_in or len(self._ledger.records) >= MOST:
            return
        seconds = 10 + next(self._scene.names)  # by which it is known again
        key = f"snooze {seconds}"
        params = {"id": record.id, "seconds": seconds, "idempotency_key": key}
        asked = {"rule": {"after_seconds": seconds}, "session": record.session}
        self._ask("snooze", asked | {"key": key, "params": params}, [record])

    def transfer(self) -> None:
        session, to = self._random.sample(SESSIONS, 2)
        records = self._of(session, to)
        moving = [record for record in records if record.session == session]
        if not moving or self._under_way(records, session, to):
            return
        asked = {"from": session, "to": to, "params": {"from": session, "to": to}}
        self._ask("transfer", asked, moving, session, to)
        for record in records:
            record.touched = self._scene.tick

    def forget(self) -> None:
        session = self._random.choice(SESSIONS)
        records = self._of(session)
        if self._random.random() < 0.7 or self._under_way(records, session):
            return
        if any(record.ended_in for record in records):
            return  # not known whether they are there
        self._ledger.forgotten.add(session)
        self._scene.forgot = True
        asked = {"session": session, "params": {"session_id": session}}
        self._ask("forget", asked, records, session)

    def _of(self, *sessions: str) -> list[Record]:
        """Those that are in one of the Sessions, or may be."""
        every = self._ledger.records.values()
        return [each for each in every if {each.session, *each.ended_in} & set(sessions)]

    def _under_way(self, records: list[Record], *sessions: str) -> bool:
        """Whether a request without an answer has to do with the same."""
        if self._ledger.busy(None, *sessions) or any(map(self._ledger.busy, records)):
            return True
        return any(op.asked.get("session") in sessions for op in self._ledger.ops)

    def _some(self) -> Record | None:
        free = [
            record
            for record in self._ledger.records.values()
            if not self._ledger.busy(record, record.session)
        ]
        return self._random.choice(free) if free else None

    def _ask(self, verb: str, asked: Json, records: list[Record], *sessions: str) -> None:
        while len(self._ledger.ops) >= MOST_ASKED:
            self._scene.wait()
            self._ledger.collect(self._scene.tick)
        scope = "session" if verb in ("forget", "transfer") else "reminder"
        op = Op(verb, asked, records, set(sessions), Future())
        self._ledger.ops.append(op)
        self._scene.note(f"ask {verb} {asked['params']}")
        client = self._random.choice(self._scene.clients)
        op.answer = client.begin(f"{scope}.{verb}", **asked["params"])
        for record in records:
            record.touched = self._scene.tick
