"""What stands in examples/, run as its first lines say, with a real daemon that is killed."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import scheduler_daemon
from scheduler_daemon.client.spool import text_of
from scheduler_daemon.delivery.framing import BATCH_END, BATCH_HEAD
from tests.support.process import DaemonProcess, Lines, environment
from tests.support.short import short_path as short_path

pytestmark = pytest.mark.acceptance

EXAMPLES = Path(scheduler_daemon.__file__).parents[1] / "examples"


@pytest.fixture
def daemon(short_path: Path) -> Iterator[DaemonProcess]:
    made = DaemonProcess(short_path).start()
    yield made
    made.close()


class Program:
    """An example that runs; `say` types a line, `kill` ends it."""

    def __init__(self, daemon: DaemonProcess, *words: str) -> None:
        variables = {"SCHEDULER_DAEMON_SOCKET": str(daemon.socket)}
        self._process = subprocess.Popen(
            words,
            cwd=daemon.folder,
            env=environment(daemon.folder) | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.printed = Lines(self._process.stdout)

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def prints(self, text: str, since: int = 0) -> str:
        return self.printed.wait(lambda line: text in line, since)

    def kill(self) -> list[str]:
        """End it; what it has printed."""
        self._process.kill()
        self._process.wait()
        self.printed.finish()
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.printed.lines


def test_the_loop_of_an_agent_keeps_its_promise_though_everything_is_killed(
    daemon: DaemonProcess,
) -> None:
    words = (sys.executable, str(EXAMPLES / "agent_loop.py"), "my-chat")
    loop = Program(daemon, *words)
    try:
        loop.say("hello")
        loop.prints("I can remind you")
        loop.say("remind me in 3s to stretch; then rest")
        loop.prints("I will at ")
        loop.say("remind me in 0s to fly")
        loop.prints("I cannot promise that: after_seconds")
    finally:
        loop.kill()
    daemon.restart()
    loop = Program(daemon, *words)
    try:
        loop.prints("Now: stretch; then rest")
        loop.say("remind me in 1s to go on")
        loop.prints("Now: go on")
    finally:
        said = loop.kill()
    assert [line for line in said if line.startswith("Now")] == [
        "Now: stretch; then rest",
        "Now: go on",
    ]
    turns = (daemon.folder / "my-chat.jsonl").read_text().splitlines()
    assert [json.loads(turn)["said"][:9] for turn in turns] == [
        *("hello", "remind me", "remind me"),
        *("[schedule", "remind me", "[schedule"),
    ]


@pytest.mark.skipif(not shutil.which("node"), reason="there is no node")
def test_a_host_in_forty_lines_of_another_language_keeps_each_follow_up_once(
    daemon: DaemonProcess,
) -> None:
    example = EXAMPLES / "host.mjs"
    lines = [line.strip() for line in example.read_text().splitlines()]
    assert len([line for line in lines if line and not line.startswith("//")]) <= 40
    words = ("node", str(example), str(daemon.socket), "queue.jsonl", "s1", "s2")
    host = Program(daemon, *words)
    try:
        daemon.logged("host_attached", host="node")
        peer = daemon.peer()
        peer.create("s1", "Check the build ✓", after_seconds=1)
        host.prints('prompt: "Check the build ✓"')
        daemon.logged("followup_admitted")
        daemon.restart()
        daemon.logged("host_attached", host="node")
        peer = daemon.peer()
        peer.create("s2", "Call home", after_seconds=1)
        host.prints('prompt: "Call home"')
        daemon.logged("followup_admitted")
    finally:
        host.kill()
    daemon.sql("DELETE FROM dispatches")
    daemon.sql("UPDATE reminders SET status = 'active', ended_at = NULL, ended_reason = NULL")
    daemon.restart()
    host = Program(daemon, *words)  # what it has it does not print again
    try:
        for _ in range(2):
            daemon.logged("followup_admitted")
        peer = daemon.peer()
        peer.create("s1", "One more", after_seconds=1)
        host.prints('prompt: "One more"')
    finally:
        said = host.kill()
    assert [line for line in said if line.startswith("prompt")] == ['prompt: "One more"']


@pytest.mark.skipif(not shutil.which("node"), reason="there is no node")
def test_of_a_message_that_it_has_in_part_that_host_takes_the_rest(daemon: DaemonProcess) -> None:
    """The receipt of the first reminder is lost, and the second has come due since."""
    peer = daemon.peer()
    for prompt in ("First", "Second"):
        peer.create("s1", prompt, every_seconds=3600)
    past = text_of(dt.datetime.now(dt.UTC))
    put_due = "UPDATE reminders SET scheduled_at = ? WHERE id = ?"
    words = ("node", str(EXAMPLES / "host.mjs"), str(daemon.socket), "queue.jsonl", "s1")
    host = Program(daemon, *words)
    try:
        daemon.kill()
        daemon.sql(put_due, past, "r1")
        daemon.start()
        host.prints('prompt: "First"')
        daemon.logged("followup_admitted")
        daemon.kill()
        daemon.sql("DELETE FROM dispatches")
        daemon.sql("UPDATE reminders SET last_occurrence_at = NULL")
        for reminder in ("r1", "r2"):
            daemon.sql(put_due, past, reminder)
        daemon.start()
        host.prints('prompt: "Second"')
        both = [f"{reminder}@{past}" for reminder in ("r1", "r2")]
        assert sorted(daemon.logged("followup_admitted")["occurrences"]) == both
    finally:
        said = host.kill()
    assert [line for line in said if line.startswith(("[", "prompt"))] == [
        *(BATCH_HEAD[0], 'prompt: "First"', BATCH_END),
        *(BATCH_HEAD[0], 'prompt: "Second"', BATCH_END),
    ]
    lines = (daemon.folder / "queue.jsonl").read_text().splitlines()
    kept = [json.loads(line)["occurrences"] for line in lines if line]
    assert [[one["prompt"] for one in each] for each in kept] == [["First"], ["Second"]]
