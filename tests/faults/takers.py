"""The hosts of a run of random kills: what comes to them, what they say, and what that proves."""

from __future__ import annotations

from typing import Any

from tests.faults.ledger import File
from tests.faults.scene import SESSIONS, Scene
from tests.support.peer import ADMITTED, ERROR, GONE, SILENCE, Followup, Peer

Json = dict[str, Any]

TIMEOUT_SECONDS = 30.0
"""followup_timeout_seconds."""

REFUSALS = 3
"""So often refused in a row, a message lets others pass."""


class Host:
    """One connection; `open` are follow-ups that wait for its answer, and since when they do."""

    def __init__(self, scene: Scene) -> None:
        self.peer = Peer(scene.build.socket)
        self.peer.reply = SILENCE
        self.looked = 0
        self.open: dict[str, tuple[Followup, float]] = {}
        self.closed = False


class Takers:
    """All hosts, over all lives. What they admitted they keep.

    `admitted` has the life in which each occurrence was, `lost` what a kill left without a
    receipt, and why that was; `on_file` what had its receipt when this life began.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._random = scene.random
        self.hosts: list[Host] = []
        self.admitted: dict[str, int] = {}
        self.lost: dict[str, str] = {}
        self.on_file: set[str] = set()
        self._carried: dict[str, list[str]] = {}
        self._newest: dict[str, str] = {}
        self._in_time: dict[str, Host] = {}

    # --- what they do

    def attach(self) -> None:
        fresh = not self.hosts or self._random.random() < 0.3
        host = Host(self._scene) if fresh else self._random.choice(self.hosts)
        if fresh:
            self.hosts.append(host)
        several = self._random.sample(SESSIONS, self._random.randint(1, 3))
        sessions: Any = "*" if self._random.random() < 0.5 else several
        if not host.closed:
            self._scene.note(f"attach {self.hosts.index(host)} {sessions}")
            host.peer.begin("host.attach", name="host", sessions=sessions)

    def detach(self) -> None:
        if host := self._some():
            host.peer.begin("host.detach", sessions=[self._random.choice(SESSIONS)])

    def leave(self) -> None:
        host = self._some()
        if host is None or len(self.hosts) == 1:
            return
        self._scene.note(f"leave {self.hosts.index(host)}")
        host.closed = True
        host.peer.close()
        # What it answered just now the daemon may find the connection broken before it reads.
        self._in_time = {each: by for each, by in self._in_time.items() if by is not host}

    def ready(self) -> None:
        if host := self._some():
            host.peer.ready(self._random.choice(SESSIONS))

    def reply(self) -> None:
        """Answer something that waits, now or long after its time-out, once or twice."""
        waiting = [host for host in self.hosts if host.open and not host.closed]
        if not waiting:
            return
        host = self._random.choice(waiting)
        followup, since = host.open[self._random.choice(list(host.open))]
        retry = {"status": "busy", "retry_after_seconds": self._random.randint(1, 5)}
        said = self._random.choice([*[ADMITTED] * 8, {"result": retry}, GONE, ERROR, SILENCE])
        if said is SILENCE:
            return
        del host.open[followup.request_id]
        self._scene.note(f"reply {followup.request_id} {said}")
        if said == ADMITTED:
            self._admit(host, followup, in_time=self._scene.passed - since < TIMEOUT_SECONDS - 1)
        elif said == ERROR:
            for reminder_id in followup.reminders:
                if record := self._scene.ledger.records.get(reminder_id):
                    record.refused += 1
        for _ in range(self._random.choice([1] * 9 + [2])):
            host.peer.answer(followup, said)

    def admit_all(self) -> None:
        """Admit everything that waits."""
        for host in self.hosts:
            for followup, _ in list(host.open.values()):
                del host.open[followup.request_id]
                self._scene.note(f"admit {followup.request_id}")
                self._admit(host, followup, in_time=True)
                host.peer.answer(followup)

    def _admit(self, host: Host, followup: Followup, *, in_time: bool) -> None:
        """The host puts it into its queue, durably: from here on it has it."""
        self._scene.counts["admissions"] += 1
        if in_time:
            self._in_time[followup.request_id] = host
        for each, reminder_id in zip(followup.occurrences, followup.reminders, strict=True):
            self.admitted[each] = self._scene.life
            self._newest[reminder_id] = each
            if record := self._scene.ledger.records.get(reminder_id):
                record.settled = True

    def _some(self) -> Host | None:
        there = [host for host in self.hosts if not host.closed]
        return self._random.choice(there) if there else None

    # --- what comes

    def look(self) -> None:
        """Take what came since the last look."""
        for host in self.hosts:
            came = host.peer.followups
            while host.looked < len(came):
                followup = came[host.looked]
                host.looked += 1
                self._check(followup)
                host.open[followup.request_id] = (followup, self._scene.passed)

    def unrecorded(self) -> list[str]:
        """Admissions in time of which the daemon has not said yet that their receipts are written.

        Those that it has are forgotten.
        """
        for line in list(self._scene.build.told.lines):
            word, _, followup_id = line.partition(" ")
            if word == "recorded":
                self._in_time.pop(followup_id, None)
        return list(self._in_time)

    def _check(self, followup: Followup) -> None:
        params = followup.params
        self._scene.note(f"push {followup.request_id} {followup.session} {followup.occurrences}")
        self._carried[followup.request_id] = followup.occurrences
        decided_at, tick = params["decided_at"], self._scene.ticks.get(params["decided_at"])
        assert tick is not None, f"no clock ever showed {decided_at}"
        for each in params["occurrences"]:
            assert each["occurrence_at"] <= decided_at, f"early: {each}"
            self._check_wanted(each, tick)
            self._count_repeat(each["occurrence_id"], each["reminder_id"])
        if self._scene.calm:
            self._check_order(followup, tick)

    def _check_wanted(self, each: Json, tick: int) -> None:
        """It is of a reminder that was made, and was neither deleted nor paused before the tick."""
        ledger, reminder_id = self._scene.ledger, each["reminder_id"]
        record = ledger.records.get(reminder_id)
        if record is not None:
            rests = record.paused and not ledger.busy(record) and record.touched < tick
            assert not rests or "@now-" in each["occurrence_id"], f"paused: {each}"
        elif reminder_id in ledger.gone:
            assert ledger.gone[reminder_id] >= tick, f"deleted: {each}"
        else:
            asked = [op.verb for op in ledger.ops]
            assert "create" in asked or "snooze" in asked, f"nobody made it: {each}"

    def _count_repeat(self, occurrence_id: str, reminder_id: str) -> None:
        counts = self._scene.counts
        assert occurrence_id not in self.on_file, f"has its receipt: {occurrence_id}"
        life = self.admitted.get(occurrence_id)
        if life is None:
            if self._newest.get(reminder_id) in self.lost and "@now-" not in occurrence_id:
                counts["later occurrences in place of a lost receipt"] += 1
            return
        if life == self._scene.life:
            why = "pushed again before the late answer"  # check_life: never what was read
        else:
            assert occurrence_id in self.lost, f"repeated: {occurrence_id}"
            why = self.lost[occurrence_id]
        counts["repeats"] += 1
        counts[f"repeat: {why}"] += 1

    def _check_order(self, followup: Followup, tick: int) -> None:
        """No one-shot that was surely due waits behind this message."""
        first = followup.params["occurrences"][0]
        by_hand = "@now-" in first["occurrence_id"]
        place = (first["occurrence_at"], by_hand, int(first["reminder_id"][1:]))
        for record in self._scene.due.get(tick, ()):
            if record.session != followup.session or record.id not in self._scene.ledger.records:
                continue
            if record.touched >= tick or record.settled or record.refused >= REFUSALS:
                continue
            if record.id in followup.reminders:
                continue
            assert not followup.params["batch"], f"waits behind a batch: {record} {followup}"
            assert place < (record.target, False, record.number), f"order: {record} {followup}"

    # --- when the process is dead

    def check_life(self, file: File) -> None:
        """What was read was not pushed again, and what was recorded is in the file."""
        read: set[str] = set()
        for line in self._scene.build.told.lines:
            word, _, followup_id = line.partition(" ")
            carried = set(self._carried.get(followup_id, ()))
            if word == "push":
                assert not carried & read, f"read, and pushed again: {carried & read}"
            elif word == "read":
                read |= carried
            elif word == "recorded":
                left = carried - file.receipts.keys()
                assert not left or self._scene.forgot, f"recorded, and not there: {left}"
        for each, life in self.admitted.items():
            if life == self._scene.life:
                why = "before its receipt" if each in read else "before it was read"
                self.lost[each] = f"killed after the admission, {why}"
        self.on_file = set(file.receipts)
        self.lost = {each: why for each, why in self.lost.items() if each not in self.on_file}
        self.hosts.clear()
        self._in_time.clear()
