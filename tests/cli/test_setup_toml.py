"""The table in Codex's file, whatever it, its tools and people have made of it since."""

from __future__ import annotations

import pytest

from scheduler_daemon.cli.exits import FailedError
from tests.cli.test_setup_undo import MakeStand
from tests.cli.test_setup_undo import stand as stand

MORE_OF_CODEX = """
# mine
default_tools_approval_mode = "approve"

[mcp_servers.reminders.tools.reminder_list]
approval_mode = "approve"

# of the next
[next]
x = 1
"""


def test_what_codex_and_people_add_to_the_table_changes_nothing_and_goes_with_it(
    stand: MakeStand,
) -> None:
    """Codex writes down there which tools it need not ask for."""
    one = stand("codex")
    one.has(b"[mcp_servers] # all\n")
    one.set_up()
    text = one.path.read_text()
    one.path.write_text(text + MORE_OF_CODEX.removeprefix("\n"))
    assert one.plan() == []
    one.undo()
    assert one.path.read_text() == (
        "[mcp_servers] # all\n# mine\n\n\n# of the next\n[next]\nx = 1\n"
    )


def test_a_table_that_a_person_turned_off_is_not_said_to_be_there_and_can_be_taken_out(
    stand: MakeStand,
) -> None:
    one = stand("codex")
    one.has(b"x = 1\n")
    one.set_up()
    one.path.write_text(one.path.read_text() + "enabled = false\n")
    with pytest.raises(FailedError, match="is there, but `enabled = false` turns it off"):
        one.plan()
    one.undo()
    assert one.path.read_text() == "x = 1\n"


@pytest.mark.parametrize("header", ['[mcp_servers."reminders"]', "[ mcp_servers . 'reminders' ]"])
def test_a_table_whose_name_a_tool_writes_otherwise_is_taken_out(
    stand: MakeStand, header: str
) -> None:
    one = stand("codex")
    one.has(b"x = 1\n")
    one.set_up()
    text = one.path.read_text().replace("[mcp_servers.reminders]", header)
    one.path.write_text(text + "[next]\ny = [\n[1, 2],\n]\n")
    one.undo()
    assert one.path.read_text() == "x = 1\n[next]\ny = [\n[1, 2],\n]\n"


@pytest.mark.parametrize("line", ["mine", "[mine]"])
def test_where_a_table_cannot_be_told_from_what_came_since_that_is_the_reason(
    stand: MakeStand, line: str
) -> None:
    one = stand("codex")
    one.set_up()
    text = f'{one.path.read_text()}[q]\nw = """\n[mcp_servers.reminders]\n{line}\n"""\n'
    one.path.write_text(text)
    with pytest.raises(FailedError, match=r"reminders\] cannot be told from the rest"):
        one.undo()
    assert one.path.read_text() == text
