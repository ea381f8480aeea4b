"""One connection to a daemon, spoken by hand: a client that pipelines, or a scripted host."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

DEADLINE_SECONDS = 60.0
"""How long anything that must come is waited for: machines may be slow."""

Json: TypeAlias = dict[str, Any]

Reply: TypeAlias = "Json | None"
"""The members of a host's answer. None is silence, an empty one hangs up."""

ADMITTED: Reply = {"result": {"status": "admitted"}}
BUSY: Reply = {"result": {"status": "busy", "retry_after_seconds": 300}}
GONE: Reply = {"result": {"status": "gone"}}
ERROR: Reply = {"error": {"code": -32000, "message": "this one breaks me"}}
SILENCE: Reply = None
HANG_UP: Reply = {}


class Refused(Exception):
    """An error answer; `code` is its data.code."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.data: Json = error["data"]
        self.code: str = error["data"]["code"]


@dataclass(frozen=True)
class Followup:
    """One `session.followup` as it came; `at` is when, in monotonic seconds."""

    request_id: str
    at: float
    params: Json

    @property
    def session(self) -> str:
        name: str = self.params["session_id"]
        return name

    @property
    def occurrences(self) -> list[str]:
        return [each["occurrence_id"] for each in self.params["occurrences"]]

    @property
    def reminders(self) -> list[str]:
        return [each["reminder_id"] for each in self.params["occurrences"]]

    @property
    def prompts(self) -> list[str]:
        return [each["prompt"] for each in self.params["occurrences"]]


class Peer:
    """Reads on a thread of its own; calls may be made from any one thread.

    Once attached it answers each follow-up by `script`, from Session to reply, and `reply` for
    the others. All that came are in `followups`; `next_followup` takes them in turn.
    """

    def __init__(self, path: Path) -> None:
        self.script: dict[str, Reply] = {}
        self.reply: Reply = ADMITTED
        self.followups: list[Followup] = []
        self._untaken: list[Followup] = []
        self._answers: dict[int, Future[Any]] = {}
        self._last_id = 0
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End the connection; a daemon that is frozen or dead does not matter."""
        with suppress(OSError):  # the other end was quicker
            self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._socket.close()

    def begin(self, method: str, **params: object) -> Future[Any]:
        """Send a request; its result, or Refused, comes when it comes."""
        self._last_id += 1
        answer: Future[Any] = Future()
        with self._changed:
            self._answers[self._last_id] = answer
        self._send({"id": self._last_id, "method": method, "params": params})
        return answer

    def call(self, method: str, **params: object) -> Any:
        """Send a request and wait for its result. Raises Refused."""
        return self.begin(method, **params).result(DEADLINE_SECONDS)

    def create(self, session: str, prompt: str, **selector: object) -> Json:
        """Make a reminder; gives it as the daemon shows it."""
        made: Json = self.call("reminder.create", session_id=session, prompt=prompt, **selector)
        return dict(made["reminder"])

    def attach(self, sessions: list[str] | str, **more: object) -> None:
        self.call("host.attach", **{"name": "scripted", "sessions": sessions, **more})

    def ready(self, session: str) -> None:
        self._send({"method": "session.ready", "params": {"session_id": session}})

    def answer(self, followup: Followup, reply: Reply = ADMITTED) -> None:
        """Answer a follow-up now, whatever the script says."""
        if reply is None:
            return
        if reply:
            self._send({"id": followup.request_id, **reply})
        else:
            self._socket.shutdown(socket.SHUT_RDWR)

    def next_followup(self, session: str | None = None) -> Followup:
        """The next follow-up (of the Session) that was not taken yet, waited for."""

        def found() -> Followup | None:
            return next((f for f in self._untaken if session in (None, f.session)), None)

        with self._changed:
            self._changed.wait_for(lambda: found() is not None, DEADLINE_SECONDS)
            followup = found()
            assert followup is not None, f"no follow-up came for {session or 'any Session'}"
            self._untaken.remove(followup)
            return followup

    def nothing_comes(self, seconds: float) -> None:
        """AssertionError when a follow-up is there or comes within the time."""
        with self._changed:
            assert not self._changed.wait_for(lambda: self._untaken, seconds), self._untaken

    def hung_up(self) -> None:
        """Return when the daemon has closed the connection."""
        self._reader.join(DEADLINE_SECONDS)
        assert not self._reader.is_alive()

    def _send(self, message: Json) -> None:
        frame = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n"
        with self._sending:
            self._socket.sendall(frame)

    def _read(self) -> None:
        # A reset by a killed daemon says no more than an end.
        with suppress(OSError), self._socket.makefile("rb") as lines:
            for line in lines:
                self._take(json.loads(line))
        with self._changed:
            for answer in self._answers.values():
                answer.set_exception(ConnectionError("the daemon closed the connection"))

    def _take(self, message: Json) -> None:
        if message.get("method") == "session.followup":
            followup = Followup(message["id"], time.monotonic(), message["params"])
            with self._changed:
                self.followups.append(followup)
                self._untaken.append(followup)
                self._changed.notify_all()
            self.answer(followup, self.script.get(followup.session, self.reply))
            return
        with self._changed:
            answer = self._answers.pop(message["id"])
        if "error" in message:
            answer.set_exception(Refused(message["error"]))
        else:
            answer.set_result(message["result"])
