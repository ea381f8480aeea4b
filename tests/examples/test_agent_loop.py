"""The loop of an agent in examples/, and what a kill may leave of its conversation."""

from __future__ import annotations

import json
import sys

import pytest

from tests.examples.test_examples import EXAMPLES, Program
from tests.examples.test_examples import daemon as daemon
from tests.support.process import DaemonProcess
from tests.support.short import short_path as short_path

pytestmark = pytest.mark.acceptance


def test_half_a_line_that_a_kill_left_does_not_keep_the_agent_from_going_on(
    daemon: DaemonProcess,
) -> None:
    kept = daemon.folder / "my-chat.jsonl"
    whole = '{"said": "hello", "answer": "Hello."}\n'
    kept.write_text(whole + '{"said": "remind me in')
    loop = Program(daemon, sys.executable, str(EXAMPLES / "agent_loop.py"), "my-chat")
    try:
        loop.say("hello again")
        loop.prints("I can remind you")
    finally:
        loop.kill()
    lines = kept.read_text().splitlines()
    assert lines[0] + "\n" == whole
    assert [json.loads(line)["said"] for line in lines] == ["hello", "hello again"]
