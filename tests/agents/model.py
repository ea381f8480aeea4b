"""A stand-in for a model on 127.0.0.1: real agents finish real turns with it, without a network.

It answers every turn with `ACK` and the end of what the user said last, keeps every request, and
calls a tool when the user says `CALLTOOL:name{"json": "arguments"}`. Three forms of requests are
understood, all streamed: OpenAI's chat and Responses, and Anthropic's Messages.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.agents.forms import Call, Events, Reply, chat, messages, responses

Json = dict[str, Any]

_WANTED = re.compile(r"CALLTOOL:([\w-]+)(\{.*\})?")


@dataclass
class Model:
    """Where the stand-in listens, and what it was asked, in order."""

    url: str = ""
    requests: list[Json] = field(default_factory=list)

    def turns(self, said: str) -> list[str]:
        """What the user has said, turn by turn, in the longest request in which `said` occurs.

        Agents also ask for titles and summaries, in conversations of their own.
        """
        longest: list[str] = []
        for request in list(self.requests):
            texts = [_text(each) for each in _conversation(request) if each.get("role") == "user"]
            if len(texts) >= len(longest) and any(said in text for text in texts):
                longest = texts
        return longest


@contextmanager
def model() -> Iterator[Model]:
    """A stand-in that listens on a free port until left."""
    stand_in = Model()

    class Handler(_Handler):
        asked = stand_in.requests

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand_in.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield stand_in
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _conversation(request: Json) -> list[Json]:
    turns = request.get("messages") or request.get("input") or []
    return [each for each in turns if isinstance(each, dict)] if isinstance(turns, list) else []


def _text(part: object) -> str:
    """The text of a message, whatever its form nests it in."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return " ".join(map(_text, part))
    if isinstance(part, dict):
        return _text(part.get("text") or part.get("content") or "")
    return ""


def _answers_a_tool(request: Json) -> bool:
    last = (_conversation(request) or [{}])[-1]
    blocks = last.get("content")
    results = isinstance(blocks, list) and any(
        isinstance(each, dict) and each.get("type") == "tool_result" for each in blocks
    )
    return results or last.get("role") == "tool" or "output" in str(last.get("type", ""))


def _reply(request: Json) -> Reply:
    said = [_text(each) for each in _conversation(request) if each.get("role") == "user"]
    text = said[-1] if said else ""
    wanted = _WANTED.search(text)
    if wanted is not None and not _answers_a_tool(request):
        for call in _tools(request):
            if wanted[1] in call.name:
                return Call(call.name, wanted[2] or "{}", call.namespace)
    return "ACK " + text[-120:]


def _tools(request: Json) -> Iterator[Call]:
    for tool in request.get("tools") or []:
        if tool.get("type") == "namespace":  # Codex keeps the tools of an MCP server in one
            for inner in tool.get("tools", []):
                yield Call(inner.get("name", ""), "{}", tool["name"])
        yield Call(tool.get("name") or tool.get("function", {}).get("name") or "", "{}")


class _Handler(BaseHTTPRequestHandler):
    asked: list[Json]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as its base has it
        """Say nothing."""

    def do_GET(self) -> None:
        self._send("application/json", b'{"object": "list", "data": []}')

    def do_HEAD(self) -> None:
        self._send("application/json", b"")

    def do_POST(self) -> None:
        request = json.loads(self._body())
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._send("application/json", b'{"input_tokens": 1}')
            return
        self.asked.append(request)
        form = {"completions": chat, "responses": responses, "messages": messages}
        answer = form[path.rpartition("/")[2]](_reply(request))
        if request.get("stream"):
            self._send("text/event-stream", b"".join(_streamed(answer.events)))
        else:
            self._send("application/json", json.dumps(answer.whole).encode())

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _streamed(events: Events) -> Iterator[bytes]:
    """The lines of text/event-stream; a dict's `type` is also the event's name."""
    for event in events:
        if isinstance(event, dict) and "type" in event:
            yield f"event: {event['type']}\n".encode()
        yield (
            b"data: " + (event if isinstance(event, str) else json.dumps(event)).encode() + b"\n\n"
        )
