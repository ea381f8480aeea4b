"""The loop of an agent that keeps its promises: what a person types and what is due take turns.

    python agent_loop.py my-chat

Type `remind me in 20s to stretch`, kill it before it is time, and start it again. The conversation
is in my-chat.jsonl, what is admitted and not yet said in my-chat.db. A real agent has its model in
the place of `model`, and its own tools.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from scheduler_daemon.client import AgentHost, Spool
from scheduler_daemon.errors import SchedulerError


class Chat:
    """One conversation: a Session of the daemon, and a file with a line for each turn."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.path = Path(f"{session}.jsonl")
        self.path.touch(mode=0o600)
        self.turns = self.kept()
        self.taking_turns = asyncio.Lock()
        self.host = AgentHost("agent-loop", [session], self.due, spool=Spool(f"{session}.db"))

    def kept(self) -> list[Any]:
        """The turns so far. Half a line is one that a kill cut off: a reminder's comes again."""
        *lines, half = self.path.read_bytes().split(b"\n")
        os.truncate(self.path, self.path.stat().st_size - len(half))
        return [json.loads(line) for line in lines]

    async def due(self, followup: Any) -> None:
        """The turn of a reminder. After a kill it comes again, with the same id."""
        if all(turn.get("followup") != followup["followup_id"] for turn in self.turns):
            await self.turn(followup["text"], followup=followup["followup_id"])

    async def turn(self, text: str, **more: str) -> None:
        async with self.taking_turns:
            call = model(text)
            answer = await self.remind(**call) if isinstance(call, dict) else call
            turn = {"said": text, "answer": answer, **more}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(turn) + "\n")
            self.turns.append(turn)
            print(answer, flush=True)

    async def remind(self, after_seconds: int, prompt: str) -> str:
        """The tool that the model has; the daemon's refusals are written for it to read."""
        try:
            made = await self.host.client.create(
                self.session, prompt, after_seconds=after_seconds, title="promised"
            )
        except (SchedulerError, ConnectionError) as error:
            return f"I cannot promise that: {error}"
        return f"I will at {made['reminder']['scheduled_at']}."


def model(text: str) -> str | dict[str, Any]:
    """Stands in for a model: an answer, or a call of the tool."""
    promise = re.fullmatch(r"remind me in ([0-9]+)s to (.+)", text)
    if promise:
        return {"after_seconds": int(promise[1]), "prompt": promise[2]}
    prompts = re.findall('^prompt: (".*")$', text, re.MULTILINE)  # of a follow-up
    if prompts:
        return "Now: " + "; ".join(map(json.loads, prompts))
    return "I can remind you: remind me in 20s to stretch"


async def main(session: str) -> None:
    chat = Chat(session)
    serving = asyncio.create_task(chat.host.run())
    while line := await asyncio.to_thread(sys.stdin.readline):
        await chat.turn(line.strip())
    await serving  # nobody types any more, and what was promised still comes


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
