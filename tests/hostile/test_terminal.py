"""Stored words that would steer a terminal: every verb shows them escaped, in errors too."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from scheduler_daemon.cli.main import VERBS
from tests.support.peer import DEADLINE_SECONDS, Peer
from tests.support.process import DaemonProcess, Lines, short_folder

pytestmark = pytest.mark.acceptance

STEERING = "\x1b[2J\x1b]0;owned\x07\x9b31m\x85\u202e\u2066\u200f\u2028\ufeff\x7f\r\nroot# "
NAMED = "chat\u202e\u2067\u200e|'\"\\"
"""A name has no control characters, but it may turn the direction of reading."""

UNSAFE = {chr(n) for n in (*range(0x20), *range(0x7F, 0xA0))} - {"\n"} | set(
    "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
)

LINES: list[list[str]] = [
    ["list"],
    ["list", "--json"],
    ["list", "--session", NAMED, "--status", "all"],
    ["list", "--text", STEERING],
    ["show", "r1"],
    ["show", "r1", "--json"],
    ["show", "r3"],
    ["show", STEERING],
    ["history", "--session", NAMED],
    ["history", "--session", NAMED, "--json"],
    ["history", "r2"],
    ["history", "--session", STEERING],
    ["history", "r1", "--cursor", STEERING],
    ["sessions"],
    ["sessions", "--json"],
    ["sessions", "forget", STEERING, "--yes"],
    ["sessions", "transfer", NAMED, STEERING],
    ["status"],
    ["status", "--json"],
    ["status", "--check"],
    ["metrics"],
    ["preview", "--cron", STEERING, "--tz", "UTC"],
    ["preview", "--daily", "09:00", "--tz", STEERING],
    ["preview", "--at", STEERING],
    ["create", "--session", NAMED, "--after", "1h", "--title", STEERING, STEERING],
    ["create", "--session", NAMED, "--after", "1h", "--json", STEERING],
    ["create", "--session", STEERING, "--after", "1h", "x"],
    ["create", "--session", NAMED, "--after", STEERING, "x"],
    ["update", "r1", "--prompt", STEERING + "!"],
    ["update", "r1", "--title", STEERING, "--json"],
    ["pause", "r1"],
    ["pause", STEERING],
    ["resume", "r1"],
    ["resume", STEERING],
    ["snooze", "r1", "10m"],
    ["snooze", "r1", STEERING],
    ["skip", "r4"],
    ["skip", STEERING],
    ["run-now", "r1", "--json"],
    ["run-now", STEERING],
    ["delete", STEERING],
    ["delete", "--session", NAMED, "--all"],
    ["backup", f"/nowhere/{STEERING}"],
    ["restore", f"/nowhere/{STEERING}"],
    ["export"],
    ["export", f"/nowhere/{STEERING}"],
    ["export", "--ics", f"/nowhere/{STEERING}"],
    ["import", f"/nowhere/{STEERING}"],
    ["doctor"],
    ["doctor", "--database", f"/nowhere/{STEERING}"],
    ["service", STEERING],
    ["completion", STEERING],
    ["watch", "--session", STEERING],
    ["host", STEERING],
    ["host-exec", STEERING, "--profile", STEERING],
    ["host-exec", NAMED, "--profile", STEERING],
    ["host-exec", NAMED, "--", STEERING],
    ["spool", STEERING],
    ["spool", "retry", STEERING],
    ["spool", "drop", STEERING],
    ["mcp", STEERING],
    ["mcp", "--session", STEERING],
    ["demo", STEERING],
    ["setup", STEERING],
    ["setup", "mcp-json", "--session", STEERING],
    ["setup", "mcp-json", "--session", NAMED, "--file", f"/nowhere/{STEERING}", "--dry-run"],
    ["rpc", "daemon.status"],
    ["rpc", "reminder.list"],
    ["rpc", STEERING],
    ["rpc", "reminder.get", json.dumps({"id": STEERING})],
    ["rpc", "reminder.get", STEERING],
    [STEERING],
    [f"--{STEERING}"],
    ["list", f"--{STEERING}"],
]


class Stage(NamedTuple):
    """A daemon that holds hostile words, and a host that takes some of them and refuses others."""

    process: DaemonProcess
    host: Peer


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder, short = tmp_path_factory.mktemp("sd"), short_folder()
    process = DaemonProcess(
        folder,
        socket=short / "s.sock",
        environ={"SCHEDULER_DAEMON_STATE_DIRECTORY": str(folder / "state")},  # for its verbs
    )
    process.start()
    try:
        yield _filled(process)
    finally:
        process.close()
        shutil.rmtree(short)


def _filled(process: DaemonProcess) -> Stage:
    caller, host = process.peer(), process.peer()
    more = {"title": f"title {STEERING}", "context": {f"k{STEERING}": STEERING}}
    for session, seconds in ((NAMED, 3600), (f"{NAMED}2", 1), ("refused\u202e", 1)):
        caller.create(session, f"say {STEERING}", **more, after_seconds=seconds)
    caller.create(NAMED, f"say {STEERING}", **more, every_seconds=3600)
    host.script["refused\u202e"] = {"error": {"code": -32000, "message": f"no {STEERING}"}}
    host.reply = {"result": {"status": "admitted", "message_id": f"m{NAMED}"}}
    host.attach("*", name=f"host {NAMED}")
    while "last_error" not in caller.call("reminder.get", id="r3")["reminder"]["waiting_for"]:
        pass
    while not caller.call("reminder.history", id="r2")["items"]:
        pass
    return Stage(process, host)


def harmless(text: str) -> None:
    steering = {repr(character) for character in set(text) & UNSAFE}
    assert not steering, text


def test_every_verb_is_tried() -> None:
    assert {line[0] for line in LINES} >= set(VERBS)


@pytest.mark.parametrize("words", LINES, ids=lambda words: ascii(" ".join(words))[1:40])
def test_nothing_that_is_shown_steers_the_terminal(stage: Stage, words: list[str]) -> None:
    done = stage.process.schedctl(*words)
    harmless(done.stdout)
    harmless(done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stdout or done.stderr
    if "--json" in words or (words[0] == "rpc" and done.returncode == 0):
        assert [json.loads(line) for line in done.stdout.splitlines()]


def test_json_keeps_the_words_as_they_are(stage: Stage) -> None:
    shown = json.loads(stage.process.schedctl("show", "r3", "--json").stdout)
    reminder = shown.get("reminder", shown)
    assert reminder["prompt"] == f"say {STEERING}".strip()
    assert reminder["context"] == {f"k{STEERING}": STEERING}


def test_an_export_is_the_same_file_and_harmless_to_look_at(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    assert stage.process.schedctl("export", str(file)).returncode == 0
    lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    harmless("\n".join(lines))
    reminders = [json.loads(line).get("reminder") for line in lines]
    assert {"context": {f"k{STEERING}": STEERING}}.items() <= (reminders[1] or {}).items()


def test_a_calendar_on_the_terminal_has_no_control_characters(stage: Stage) -> None:
    """As a file it is another program's to show; RFC 5545 has no escapes for what turns text."""
    shown = stage.process.schedctl("export", "--ics").stdout.replace("\r\n", "\n")
    assert "BEGIN:VEVENT" in shown
    assert not {"\x1b", "\x9b", "\x07", "\x7f", "\x85", "\r"} & set(shown)


@contextmanager
def running(stage: Stage, *words: str) -> Iterator[Lines]:
    """A verb that goes on until it is ended, and what it prints on either stream."""
    command = [sys.executable, "-P", "-u", "-m", "scheduler_daemon.cli", *words]
    environ = stage.process.environ | {"SCHEDULER_DAEMON_SOCKET": str(stage.process.socket)}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as verb:
        assert verb.stdout is not None
        lines = Lines(verb.stdout)
        try:
            yield lines
        finally:
            verb.terminate()
            verb.wait(DEADLINE_SECONDS)
            lines.finish()


def test_what_is_watched_is_escaped(stage: Stage) -> None:
    caller = stage.process.peer()
    made = caller.create(NAMED, "first", title=STEERING, after_seconds=3600)
    with running(stage, "watch") as lines:
        # Only what happens after it began is shown: something happens until it has.
        for method in ("reminder.pause", "reminder.resume") * 1000:
            if len(lines.lines) > 1:
                break
            caller.call(method, id=made["id"])
    assert made["id"] in lines.lines[1]
    harmless("\n".join(lines.lines))


def test_what_a_host_prints_is_escaped(stage: Stage) -> None:
    session = f"tried{NAMED}"
    with running(stage, "host", session, "--take-over", "--name", f"n{NAMED}") as lines:
        lines.wait(lambda line: "ctrl-C" in line)
        caller = stage.process.peer()
        for _ in range(10_000):
            if len(caller.call("daemon.status")["hosts"]) == 2:
                break
        caller.create(session, f"now {STEERING}", title=STEERING, after_seconds=1)
        lines.wait(lambda line: "now " in line)
    harmless("\n".join(lines.lines))


@pytest.mark.parametrize(
    "words", [["delete", "--session", NAMED, "--all"], ["sessions", "forget", STEERING]]
)
def test_the_question_before_what_cannot_be_undone_is_escaped(
    stage: Stage, words: list[str]
) -> None:
    main, end = pty.openpty()
    environ = stage.process.environ | {"SCHEDULER_DAEMON_SOCKET": str(stage.process.socket)}
    command = [sys.executable, "-P", "-m", "scheduler_daemon.cli", *words]
    with subprocess.Popen(command, env=environ, stdin=end, stdout=end, stderr=end) as asking:
        os.close(end)
        os.write(main, b"n\n")
        asking.wait(DEADLINE_SECONDS)
    shown = b""
    try:
        while part := os.read(main, 1 << 16):
            shown += part
    except OSError:  # EIO: nobody has the other end any more
        pass
    os.close(main)
    assert b"? [y/N]" in shown
    harmless(shown.decode().replace("\r\n", "\n"))
