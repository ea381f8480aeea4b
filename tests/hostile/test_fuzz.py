"""Whatever comes on the socket gets what the protocol says, costs nobody else, and is no defect.

`SCHEDULER_DAEMON_TEST_FUZZ=100000` makes so many inputs of each kind in place of some hundred.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NotRequired, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings

from scheduler_daemon.errors import ERRORS
from scheduler_daemon.wire import calls, shapes
from scheduler_daemon.wire.frames import MAX_FRAME_BYTES, WireError, check_cost
from scheduler_daemon.wire.messages import Request, parse
from tests.hostile.inputs import FOLLOWUP, INPUTS, Json
from tests.support.inprocess import line, request
from tests.support.peer import DEADLINE_SECONDS
from tests.support.process import DaemonProcess

EXAMPLES = int(os.environ.get("SCHEDULER_DAEMON_TEST_FUZZ", "300"))
GROWTH_BYTES = 64 << 20
"""How much memory the daemon may take beside what it has at first, however long the run."""

pytestmark = pytest.mark.acceptance

RESULTS: dict[str, Any] = {
    "hello": calls.Hello,
    "reminder.create": calls.Created,
    "reminder.get": calls.Got,
    "reminder.list": shapes.Page,
    "reminder.update": calls.Updated,
    "reminder.delete": calls.Deleted,
    "reminder.pause": calls.Paused,
    "reminder.resume": calls.Resumed,
    "reminder.snooze": calls.Snoozed,
    "reminder.skip": calls.Skipped,
    "reminder.run_now": calls.RunNow,
    "reminder.preview": calls.Preview,
    "reminder.history": shapes.Page,
    "session.list": shapes.Page,
    "session.forget": calls.Forgotten,
    "session.transfer": calls.Transferred,
    "daemon.status": shapes.Status,
    "daemon.watch": calls.Watching,
    "host.attach": calls.Attached,
    "host.detach": calls.Attached,
}
NUMBERS = {-32700, -32600, -32601, -32602}
UNWANTED = {"internal_error", "persistence_failed", "persistence_uncertain"}
TOLD = {"reminder.changed", "session.followup", "watch.lagged"}


def check_result(method: str, result: Json) -> None:
    """No member more or less than the protocol has."""
    hints = get_type_hints(RESULTS[method], include_extras=True)
    needed = {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
    assert needed <= result.keys() <= hints.keys(), (method, result.keys())


def check_error(error: Json) -> None:
    """A code of the closed set, its number of JSON-RPC, and a sentence on one line."""
    assert error.keys() == {"code", "message", "data"}
    code = error["data"]["code"]
    assert code in ERRORS, error
    assert code not in UNWANTED, error
    assert error["code"] == -32000 or (error["code"] in NUMBERS and code == "invalid_request")
    assert error["message"]
    assert "/sd-" not in error["message"]  # no path of ours
    assert "Traceback" not in error["message"]


def wanted(data: bytes) -> tuple[list[Request], int]:
    """The requests among lines that came, and how many lines are refused whole."""
    asked, refused = [], 0
    for each in data.split(b"\n"):
        if not each.strip():
            continue
        try:
            check_cost(each)
            message = parse(each)
        except WireError:
            refused += 1
        else:
            asked += [message] if isinstance(message, Request) else []
    return asked, refused


class Bench:
    """A daemon for a whole run: a connection that is sent what comes, and another that must not
    notice."""

    def __init__(self, process: DaemonProcess) -> None:
        self.process = process
        self._peer = self._connect()
        self._other = self._connect()
        self._last_id = 0
        self._followup = ""

    def _connect(self) -> Any:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(DEADLINE_SECONDS)
            sock.connect(str(self.process.socket))
            return sock.makefile("rwb", buffering=-1)

    def close(self) -> None:
        self._peer.close()
        self._other.close()

    def try_out(self, data: bytes) -> None:
        """Send the bytes, and hold what comes back to the protocol."""
        data = data.replace(FOLLOWUP.encode(), self._followup.encode())
        self._last_id += 1
        last = f"last {self._last_id}"
        self._peer.write(data + b"\n" + line(request(last, "hello")))
        self._peer.flush()
        self._check(data, self._until(last))
        self.ask_beside(request(1, "hello"))
        if self._last_id % 10 == 1:
            self.make_some()

    def make_some(self) -> None:
        """Reminders that come at once and later."""
        for selector in ({"after_seconds": 1}, {"every_seconds": 300}):
            made = request(1, "reminder.create", session_id="s", prompt="p", **selector)
            self.ask_beside(made)

    def ask_beside(self, frame: Json) -> None:
        """The other connection is served as ever."""
        self._other.write(line(frame))
        self._other.flush()
        assert "result" in json.loads(self._other.readline())

    def _until(self, last: str) -> list[Json]:
        answers: list[Json] = []
        while True:
            came = self._peer.readline()
            assert came.endswith(b"\n"), "it hung up"
            assert len(came) <= MAX_FRAME_BYTES + 1
            frame: Json = json.loads(came)
            assert frame["jsonrpc"] == "2.0"
            if "method" in frame:
                assert frame["method"] in TOLD
                self._followup = frame.get("id", self._followup)
            elif frame["id"] == last:
                return answers
            else:
                answers.append(frame)

    def _check(self, data: bytes, answers: list[Json]) -> None:
        asked, refused = wanted(data)
        assert len(answers) == len(asked) + refused
        methods = {_key(each.id): each.method for each in asked}
        counts = Counter(_key(each.id) for each in asked)
        for answer in answers:
            assert ("result" in answer) != ("error" in answer)
            key = _key(answer["id"])
            if "error" in answer:
                check_error(answer["error"])
            elif counts[key] == 1:
                check_result(methods[key], answer["result"])
        # An error for a whole line may have an id as well, of a request that was none.
        assert not counts - Counter(_key(each["id"]) for each in answers)

    def check_log(self) -> None:
        """Nothing is a defect or a fault of the daemon, whatever came."""
        entries = [json.loads(text) for text in self.process.logs[-1].lines]
        assert not [entry for entry in entries if entry["level"] in ("error", "critical")]

    def most_resident_bytes(self) -> int:
        """The most memory that the daemon ever had, proc(5)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
        return int(kib) * 1024


def _key(request_id: object) -> tuple[type, object]:
    return type(request_id), request_id


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    process = DaemonProcess(folder, settings={"max_active_per_session": 10**9})
    process.start()
    made = Bench(process)
    yield made
    made.close()
    process.close()


def checked(examples: int) -> settings:
    return settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=[*HealthCheck]
    )


def test_whatever_comes_gets_one_answer_each_and_costs_nobody_else(bench: Bench) -> None:
    bench.make_some()
    before = bench.most_resident_bytes()

    @checked(EXAMPLES)
    @given(INPUTS)
    def check(data: bytes) -> None:
        bench.try_out(data)

    check()
    grown = bench.most_resident_bytes() - before
    print(f"{EXAMPLES} inputs, the daemon grew by {grown >> 20} MiB to {before + grown >> 20} MiB")
    assert grown < GROWTH_BYTES
    bench.check_log()


def test_what_ends_within_a_line_is_told_so_and_the_connection_closed(bench: Bench) -> None:
    @checked(max(50, EXAMPLES // 10))
    @given(INPUTS)
    def check(data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        asked, refused = wanted(b"\n".join(lines))
        frames = [json.loads(came) for came in all_said(bench, data)]
        answers = [frame for frame in frames if "method" not in frame]
        assert len(answers) == len(asked) + refused + bool(rest)

    check()
    bench.check_log()


def all_said(bench: Bench, data: bytes) -> list[bytes]:
    """What the daemon says to one that sends this and no more, until it closes."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(DEADLINE_SECONDS)
        sock.connect(str(bench.process.socket))
        with suppress(BrokenPipeError):  # it closed before it had all
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as stream:
            return stream.readlines()


@pytest.mark.parametrize("rest", [b"", b"\n", b"x" * 5_000_000, b"\n{}" * 1000], ids=len)
def test_a_line_that_is_too_long_is_told_so_and_the_connection_closed(
    bench: Bench, rest: bytes
) -> None:
    """Whatever follows it; what came before it is answered."""
    before = line(request(1, "hello"))
    said = all_said(bench, before + b'"' + b"x" * MAX_FRAME_BYTES + rest)
    answer, refusal = map(json.loads, said)
    assert answer["result"]
    check_error(refusal["error"])
    assert refusal["id"] is None
