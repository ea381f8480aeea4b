"""What no client of the SDK sends, and what no daemon of ours answers."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

from scheduler_daemon.client import AsyncClient
from scheduler_daemon.mcp.calling import Calling, Setup
from scheduler_daemon.mcp.reminders import Reminders
from tests.mcp.agent import SESSION, agent


async def test_a_number_that_is_none_is_refused_before_it_is_sent(folder: Path) -> None:
    async with AsyncClient(folder / "none.sock") as client:
        calling = Calling(Setup(SESSION, lambda: None), Reminders(client), {}, None)
        when = {"every_seconds": float("nan")}
        result = await calling.carry_out("reminder_preview", {"when": when})
    (text,) = result.content
    assert json.loads(text.text)["error"]["message"] == "a number must be finite"  # type: ignore[union-attr]


@pytest.mark.parametrize("answer", [{}, {"reminder": {"id": "r1"}}, {"reminder": None}, [], None])
async def test_an_answer_that_is_not_understood_is_an_error_and_a_line_in_the_log(
    folder: Path, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                reply = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": answer}
                writer.write(json.dumps(reply).encode() + b"\n")
        finally:
            writer.close()

    path = folder / "foreign.sock"
    async with await asyncio.start_unix_server(serve, path), agent(path) as me:
        with caplog.at_level(logging.ERROR):
            error = await me.refused("reminder_pause", id="r1")
    assert error["code"] == "internal_error"
    assert "reminder_pause failed" in caplog.text
