"""What acts inside the virtual machine: commands, calls to the daemon, and a host of its own.

One JSON object a line comes on the serial line, and one goes back for each: the result, or an
error. Standard library only; the project lies on a disk of the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tty
from pathlib import Path
from typing import Any

from tests.support.peer import Followup, Peer, Refused

SOCKET = Path("/run/scheduler-daemon/scheduler.sock")
Json = dict[str, Any]


class Host(Peer):
    """Takes everything at once, and notes when it came by the machine's own clock."""

    def __init__(self) -> None:
        self.came: list[Json] = []
        super().__init__(SOCKET)

    def answer(self, followup: Followup, reply: Any = None) -> None:
        came = {"at": time.time(), "occurrences": followup.params["occurrences"]}
        self.came.append(came)
        super().answer(followup, self.reply)


class Agent:
    """Does what it is told, one thing after the other."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._host: Host | None = None

    def serve(self) -> None:
        self._say({"ready": True})
        with os.fdopen(self._line, "rb", closefd=False) as lines:
            for line in lines:
                try:
                    what, words = json.loads(line)
                    self._say({"result": getattr(self, f"do_{what}")(*words)})
                except Refused as refusal:
                    self._say({"refused": refusal.code})
                except Exception as error:  # noqa: BLE001  for the test to read
                    self._say({"error": repr(error)})

    def do_sh(self, command: str) -> list[Any]:
        """A shell's command line: its exit status and its output."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return [done.returncode, done.stdout.decode("utf-8", "replace")]

    def do_attach(self, sessions: list[str]) -> None:
        """Be the host of these Sessions from now on, on a new connection."""
        if self._host is not None:
            self._host.close()
        self._host = Host()
        self._host.attach(sessions)

    def do_call(self, method: str, params: Json) -> Any:
        assert self._host is not None
        return self._host.call(method, **params)

    def do_came(self) -> list[Json]:
        """What has come to the host, and when by the clock of this machine."""
        assert self._host is not None
        return self._host.came

    def do_write(self, first: int) -> None:
        """Make reminders from this number on, without end; each that was answered is told."""
        assert self._host is not None
        for number in range(first, first + 10**9):
            session = f"s{number // 500}"  # no Session may have more than 1,000
            made = self._host.create(session, f"words {number}", at="2999-01-01T00:00:00Z")
            self._say({"kept": [made["id"], number]})

    def _say(self, message: Json) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._line, data) :]


def main(device: str) -> None:
    line = os.open(device, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(line)
    Agent(line).serve()


if __name__ == "__main__":
    main(sys.argv[1])
