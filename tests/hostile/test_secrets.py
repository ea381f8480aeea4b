"""Words of reminders stand in the file and on the wire, and in no line of the log above debug."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.inprocess import line, request
from tests.support.peer import ADMITTED, BUSY, DEADLINE_SECONDS, Peer, Refused
from tests.support.process import DaemonProcess, Lines

pytestmark = pytest.mark.acceptance

SECRET = "xyzzy-plugh"
WORDS = {
    "prompt": f"the prompt {SECRET}",
    "title": f"the title {SECRET}",
    "context": {f"key {SECRET}": f"value {SECRET}"},
}
COLUMNS = ("context", "title", "prompt")


def connected(process: DaemonProcess) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(process.socket))
    sock.settimeout(DEADLINE_SECONDS)
    return sock


def everything_that_can_happen(process: DaemonProcess) -> None:
    with connected(process) as watching:
        watching.sendall(line(request(1, "daemon.watch")))
        what_callers_and_hosts_do(process)
        said = b""
        while SECRET.encode() not in said:
            said += watching.recv(1 << 16)


def what_callers_and_hosts_do(process: DaemonProcess) -> None:
    """Made, refused, changed, sent, not taken, taken, watched, looked at, and rows that break."""
    caller, host = process.peer(), process.peer()
    for session, seconds in (("refuses", 1), ("busy", 1), ("takes", 1), ("far", 90_000)):
        caller.call("reminder.create", session_id=session, after_seconds=seconds, **WORDS)
    caller.call("reminder.create", session_id="far", every_seconds=300, **WORDS)
    host.script |= {
        "refuses": {"error": {"code": 1, "message": f"no {SECRET}", "data": SECRET}},
        "busy": BUSY,
        "takes": ADMITTED,
    }
    host.attach("*", name="h")
    for number, why in (("r1", "refused"), ("r2", "busy"), ("r3", "ended")):
        while caller.call("reminder.get", id=number)["reminder"]["waiting_for"]["why"] != why:
            pass
    what_is_refused(caller)
    caller.call("reminder.update", id="r4", revision=1, prompt=f"more {SECRET}")
    for method in ("pause", "resume", "run_now", "skip"):
        caller.call(f"reminder.{method}", id="r5")
    caller.call("reminder.snooze", id="r4", seconds=600)
    caller.call("reminder.list", text=SECRET)
    caller.call("session.transfer", **{"from": "far", "to": "near"})
    caller.call("reminder.delete", id="r4")
    broken_lines(process)
    broken_rows(process, caller)
    caller.call("session.forget", session_id="takes")


def what_is_refused(caller: Peer) -> None:
    """A refusal may quote what came, to whoever sent it."""
    refused: list[tuple[str, dict[str, Any]]] = [
        ("reminder.create", {"session_id": "s", "prompt": SECRET, "after_seconds": SECRET}),
        ("reminder.create", {"session_id": "s", "prompt": [SECRET], "after_seconds": 1}),
        ("reminder.create", {"session_id": "s", "prompt": SECRET, "cron": SECRET}),
        ("reminder.create", {"session_id": "s", "prompt": SECRET, SECRET: 1}),
        ("reminder.update", {"id": "r5", "revision": 9, "prompt": SECRET}),
        ("reminder.get", {"id": SECRET}),
        (f"{SECRET}.method", {}),
    ]
    for method, params in refused:
        with pytest.raises(Refused):
            caller.call(method, **params)


def broken_lines(process: DaemonProcess) -> None:
    """Lines that are none, and one too long: the connection ends with a word about it."""
    with connected(process) as sock:
        sock.sendall(b'{"prompt":"' + SECRET.encode() + b"\n")
        sock.sendall(line(request(1, "reminder.get", id=SECRET * 5000)))
        sock.sendall(b'"' + SECRET.encode() * 100_000)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 16):
            pass


def broken_rows(process: DaemonProcess, caller: Peer) -> None:
    """Edits by hand, past all checks."""
    numbers = iter(range(100, 200))
    for column in COLUMNS:
        made = caller.create(f"broken {next(numbers)}", f"p {SECRET}", every_seconds=300)
        conn = sqlite3.connect(process.database, timeout=DEADLINE_SECONDS, isolation_level=None)
        try:
            conn.execute("PRAGMA ignore_check_constraints = ON")
            conn.execute(
                f"UPDATE reminders SET {column} = ? WHERE id = ?",
                (f"{SECRET}\x00{SECRET}" * 1000, made["id"]),
            )
        except sqlite3.Error:
            pass  # a column that is made of others, or a type that the table refuses
        finally:
            conn.close()
    process.signal(signal.SIGHUP)
    caller.call("reminder.list")
    caller.call("session.list")


def written(log: Lines, level: str) -> list[str]:
    """The lines of a level and above."""
    levels = ["debug", "info", "warning", "error", "critical"]
    wanted = set(levels[levels.index(level) :])
    return [text for text in log.lines if json.loads(text)["level"] in wanted]


def test_no_words_stand_in_the_log_above_debug(folder: Path) -> None:
    """Not even where everything is logged: those at debug are for whoever asks for them."""
    process = DaemonProcess(folder, settings={"log_level": "debug"})
    try:
        process.start()
        everything_that_can_happen(process)
        assert process.stop() == 0
        lines = written(process.logs[-1], "info")
    finally:
        process.close()
    events = {json.loads(text)["event"] for text in lines}
    assert {"reminder_created", "followup_not_admitted", "row_set_aside"} <= events
    assert [text for text in lines if SECRET in text] == []


def test_no_words_stand_in_what_systemd_is_told_or_in_the_command_line(
    process: DaemonProcess,
) -> None:
    process.start()
    everything_that_can_happen(process)
    shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert SECRET.encode() not in shown
