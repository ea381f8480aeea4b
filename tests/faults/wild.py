"""A host over a real socket that may do anything: answer in every way, break off, attach again."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.inprocess import Json, line, request

ADMITTED: Json = {"status": "admitted"}

GOOD: list[Json] = [
    ADMITTED,
    {"status": "admitted", "message_id": "m1", "more": [1]},
    {"status": "busy"},
    {"status": "busy", "retry_after_seconds": 2},
    {"status": "gone"},
]
STRANGE: list[Any] = [None, 5, [], {}, {"status": "admit"}, {"status": ["admitted"]}, "admitted"]


class Wild:
    """What it got and has not answered is in `open`. `wrong` is what no daemon may do to it."""

    def __init__(self, path: Path, name: str, *, reads: bool = True) -> None:
        self.name = name
        self.open: list[Json] = []
        self.got: list[Json] = []
        self.wrong: list[str] = []
        self.admits = False
        self.half = b""
        self._asked: set[str] = set()
        self._attached = False
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.setblocking(False)
        self._sock.connect(str(path))
        self._reader = asyncio.create_task(self._read()) if reads else None

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        rest = b""
        with suppress(OSError):
            while data := await loop.sock_recv(self._sock, 65536):
                *lines, rest = (rest + data).split(b"\n")
                for each in lines:
                    self._take(json.loads(each))

    def _take(self, frame: Json) -> None:
        if frame.get("method") == "session.followup":
            self._take_followup(frame)
        elif frame.get("id") == "attach":
            self._attached = True

    def _take_followup(self, frame: Json) -> None:
        session = frame["params"]["session_id"]
        self.got.append(frame)
        if not self._attached:
            self.wrong.append(f"{self.name} got {session} before its attach was answered")
        if not self._asked & {session, "*"}:
            self.wrong.append(f"{self.name} got {session}, which it never asked for")
        if self.admits:
            self.result(frame, ADMITTED)
        else:
            self.open.append(frame)

    def send(self, *frames: Any) -> None:
        """Write what the socket takes; a daemon that closed, or a full socket, does not matter."""
        data, self.half = self.half, b""
        data += b"".join(each if isinstance(each, bytes) else line(each) for each in frames)
        with suppress(OSError):
            self._sock.send(data)

    def attach(self, sessions: list[str] | str, **more: Any) -> None:
        self._asked.update([sessions] if isinstance(sessions, str) else sessions)
        params = {"name": self.name, "sessions": sessions, **more}
        self.send(request("attach", "host.attach", **params))

    def detach(self, sessions: list[str] | str) -> None:
        self.send(request("detach", "host.detach", sessions=sessions))

    def ready(self, session: str) -> None:
        params = {"session_id": session}
        self.send({"jsonrpc": "2.0", "method": "session.ready", "params": params})

    def result(self, frame: Json, value: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": frame["id"], "result": value})

    def error(self, frame: Json) -> None:
        error = {"code": -32000, "message": "this one breaks me"}
        self.send({"jsonrpc": "2.0", "id": frame["id"], "error": error})

    def answer(self, rng: random.Random, frame: Json, others: list[Json]) -> None:
        """Answer in some way; `others` are follow-ups of other connections."""
        kind = rng.choice(["good"] * 6 + ["error", "strange", "broken", "doubled", "other", "half"])
        if kind == "good":
            self.result(frame, rng.choice([*GOOD, ADMITTED, ADMITTED]))
        elif kind == "error":
            self.error(frame)
        elif kind == "strange":
            self.result(frame, rng.choice(STRANGE))
        elif kind == "doubled":
            for value in rng.choices(GOOD, k=2):
                self.result(frame, value)
        elif kind == "other":
            self._answer_another(rng, others)
        else:
            whole = line({"jsonrpc": "2.0", "id": frame["id"], "result": ADMITTED})
            cut = rng.randrange(1, len(whole) - 1)
            self.send(whole[:cut] + (b"\n" if kind == "broken" else b""))
            # The rest of half a line goes with whatever is sent next, if anything is.
            self.half = whole[cut:] if kind == "half" else b""

    def _answer_another(self, rng: random.Random, others: list[Json]) -> None:
        ids = [each["id"] for each in others] + ["f0000000000000000", 7, None]
        self.send({"jsonrpc": "2.0", "id": rng.choice(ids), "result": ADMITTED})

    def half_close(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        self._sock.close()

    def check(self) -> None:
        assert self.wrong == []
        if self._reader and self._reader.done() and not self._reader.cancelled():
            self._reader.result()
