"""docs/agents.md, each section from nothing: a reminder arrives though everything was killed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.agents.guides import DEADLINE_SECONDS, ROOT, Guide, blocks
from tests.agents.model import Model
from tests.agents.programs import AGENTS

pytestmark = pytest.mark.acceptance

NEEDS_SDK = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra `mcp` is not installed")
ASKED = "Remind me in 20 seconds to stretch."
CALL = (
    'CALLTOOL:reminder_create{"prompt": "Say that it is time to stretch.", '
    '"when": {"after_seconds": 8}}'
)
CLIENT = """
import asyncio, json
from mcp import Client, StdioServerParameters
entry = json.load(open(".mcp.json"))["mcpServers"]["reminders"]
wanted = {"prompt": "Stretch.", "when": {"after_seconds": 8}}
async def main():
    async with Client(StdioServerParameters(**entry)) as client:
        result = await client.call_tool("reminder_create", wanted)
        assert not result.is_error, result
asyncio.run(main())
"""

MakeGuide = Callable[..., Guide]


@pytest.fixture
def guide(short_path: Path) -> Iterator[MakeGuide]:
    with ExitStack() as stack:

        def make(more: dict[str, str] | None = None) -> Guide:
            made = Guide(short_path, more)
            stack.callback(made.close)
            return made

        yield make


def until(look: Callable[[], bool], failure: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not look():
        assert time.monotonic() < deadline, failure()
        time.sleep(0.2)


@NEEDS_SDK
@pytest.mark.parametrize("name", AGENTS)
def test_of_a_command_line_agent(
    guide: MakeGuide, short_path: Path, stand_in: Model, name: str
) -> None:
    agent = AGENTS[name](short_path, stand_in)
    one = guide(agent.whole_environ())
    (text,) = blocks(name)
    one.run(text.replace(ASKED, CALL), agent.project)
    until(
        lambda: '"done"' in one.run("schedctl spool list --all --json"),
        lambda: one.run("schedctl spool list --all --json"),
    )
    turns = stand_in.turns('prompt: "Say that it is time to stretch."')
    assert any((CALL if name != "dsh" else "Hello.") in turn for turn in turns)
    assert turns[-1].endswith("[end of the scheduled reminder]")


def prints(one: Guide, text: str, said: str) -> None:
    """Run a block whose last line stays; wait until that says something."""
    log = one.start(text)
    until(lambda: said in log.read_text("utf-8"), lambda: log.read_text("utf-8"))


@NEEDS_SDK
def test_of_any_mcp_client(guide: MakeGuide) -> None:
    one = guide()
    first, second = blocks("mcp-json")
    (one.home / "client.py").write_text(CLIENT)
    prints(one, f"{first}python client.py\n{second}", "Stretch.")


def test_of_an_own_host_in_python(guide: MakeGuide) -> None:
    one = guide()
    (one.home / "agent_loop.py").write_bytes((ROOT / "examples/agent_loop.py").read_bytes())
    (text,) = blocks("python")
    prints(one, text, "Now: stretch")


@pytest.mark.skipif(not shutil.which("socat"), reason="there is no socat")
def test_of_any_language_by_hand(guide: MakeGuide) -> None:
    one = guide()
    (text,) = blocks("socat")
    one.run(text)
    one.run(
        'export SCHEDULER_DAEMON_SOCKET="$HOME/reminders.sock"\n'
        "until schedctl history r1 --json | grep by-hand; do sleep 0.2; done"
    )
