"""Talks to a daemon over its socket and writes down each frame, broken into lines for reading."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scheduler_daemon.wire.frames import MAX_FRAME_BYTES

WIDTH = 98
DEADLINE_SECONDS = 60.0

Json = dict[str, Any]


def readable(value: object, indent: int = 0, used: int = 2) -> str:
    """JSON that stays on a line where it fits in WIDTH, and fills lines with members where not.

    `used` is how much of the first line is taken already.
    """
    flat = json.dumps(value, ensure_ascii=False)
    if indent + used + len(flat) <= WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    inner = indent + 2
    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}: {readable(v, inner, len(k) + 5)}" for k, v in value.items()]
    else:
        parts = [readable(item, inner, 1) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([opening, *_filled(parts, inner), " " * indent + closing])


def _filled(parts: list[str], indent: int) -> list[str]:
    lines: list[str] = []
    for index, part in enumerate(parts):
        text = part + ("," if index + 1 < len(parts) else "")
        joined = f"{lines[-1]} {text}" if lines else ""
        if lines and "\n" not in joined and len(joined) <= WIDTH:
            lines[-1] = joined
        else:
            lines.append(" " * indent + text)
    return lines


class Recorder:
    """One connection. What `call`, `notify`, `answer`, `line` and `receive` move is written down.

    `edit` makes a frame fit for the page (examples for uid, paths, versions).
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        edit: Callable[[Json], Json],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._edit = edit
        self._requests: list[Json] = []
        self._last_id = 0
        self._writes = True
        self.lines: list[str] = []

    @classmethod
    async def connect(cls, socket: Path, edit: Callable[[Json], Json]) -> Recorder:
        reader, writer = await asyncio.open_unix_connection(socket, limit=MAX_FRAME_BYTES)
        return cls(reader, writer, edit)

    async def call(self, method: str, params: Mapping[str, object] | None = None) -> Json:
        """Send a request and wait for its answer; what the daemon asks meanwhile is kept."""
        self._last_id += self._writes
        request_id = self._last_id if self._writes else f"unwritten {method}"
        request: Json = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            request["params"] = dict(params)
        await self._send(request)
        while True:
            frame = await self._read()
            if "method" not in frame:
                assert frame["id"] == request_id
                return frame
            self._requests.append(frame)

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        await self._send({"jsonrpc": "2.0", "method": method, "params": dict(params)})

    async def receive(self) -> Json:
        """The daemon's next request."""
        return self._requests.pop(0) if self._requests else await self._read()

    async def answer(self, request: Json, result: Mapping[str, object]) -> None:
        await self._send({"jsonrpc": "2.0", "id": request["id"], "result": dict(result)})

    async def line(self, text: str) -> Json:
        """Send a line as it is, and read what comes back."""
        self._note("→", text)
        self._writer.write(text.encode() + b"\n")
        return await self._read()

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Nothing that moves inside is written down."""
        self._writes = False
        try:
            yield
        finally:
            self._writes = True

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def _send(self, frame: Json) -> None:
        self._note("→", readable(self._edit(frame)))
        self._writer.write(json.dumps(frame).encode() + b"\n")
        await self._writer.drain()

    async def _read(self) -> Json:
        async with asyncio.timeout(DEADLINE_SECONDS):
            line = await self._reader.readline()
        frame: Json = json.loads(line)
        self._note("←", readable(self._edit(frame)))
        return frame

    def _note(self, arrow: str, text: str) -> None:
        if self._writes:
            self.lines.append(f"{arrow} {text}")
