"""An undo after an agent has written its file anew: nothing that setup made is left in it."""

from __future__ import annotations

import json

import pytest

from scheduler_daemon.cli.setup.edits import TextEdit
from tests.cli.test_setup_undo import MakeStand
from tests.cli.test_setup_undo import stand as stand


def rewritten(data: bytes, **more: object) -> bytes:
    """As an agent writes it, with something of its own."""
    return json.dumps({**json.loads(data), **more}, indent=4).encode()


def test_objects_and_arrays_that_setup_made_go_with_what_was_in_them(stand: MakeStand) -> None:
    one = stand("claude")
    one.has(b'{"theme": "dark"}')
    one.set_up()
    for path, _ in one.edits:
        path.write_bytes(rewritten(path.read_bytes(), numStartups=1))
    one.undo()
    for data in one.held():
        assert data is not None
        assert json.loads(data) == {"theme": "dark", "numStartups": 1}


def test_those_that_were_there_before_stay(stand: MakeStand) -> None:
    one = stand("claude")
    before = b'{"mcpServers": {}, "hooks": {"PreToolUse": []}}'
    one.has(before)
    one.set_up()
    for path, _ in one.edits:
        path.write_bytes(rewritten(path.read_bytes(), numStartups=1))
    one.undo()
    for data in one.held():
        assert data is not None
        assert json.loads(data) == {**json.loads(before), "numStartups": 1}


def test_those_stay_in_which_somebody_has_put_something_else(stand: MakeStand) -> None:
    one = stand("opencode")
    one.has(b"{}")
    one.set_up()
    servers = {"mcp": {**json.loads(one.path.read_bytes())["mcp"], "mine": {}}}
    one.path.write_bytes(rewritten(one.path.read_bytes(), **servers))
    one.undo()
    assert json.loads(one.path.read_bytes()) == {"mcp": {"mine": {}}}


def test_one_that_has_a_comment_inside_stays(stand: MakeStand) -> None:
    one = stand("opencode")
    one.has(b"{}")
    one.set_up()
    text = one.path.read_text()
    one.path.write_text(text.replace('"mcp": {', '"mcp": { // mine', 1))
    one.undo()
    assert "// mine" in one.path.read_text()


@pytest.mark.parametrize("kind", ["claude", "codex", "opencode"])
def test_a_file_that_setup_made_goes_when_nothing_else_is_in_it(
    stand: MakeStand, kind: str
) -> None:
    one = stand(kind)
    one.set_up()
    for path, _ in one.edits:
        if path.suffix == ".json":
            path.write_bytes(rewritten(path.read_bytes()))
        elif path.suffix == ".toml":
            path.write_bytes(path.read_bytes() + b'default_tools_approval_mode = "approve"\n')
    one.undo()
    assert one.held() == [None] * len(one.edits)
    assert one.left() == []


def test_a_file_that_is_its_own_as_a_whole_is_taken_back_as_a_whole() -> None:
    assert TextEdit("// all\n").cut(b"// all\n", None) is None
