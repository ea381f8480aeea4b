"""`schedctl setup mcp-json`: the entry for any client, printed or in a file that others share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler_daemon.cli.parser import Parser
from scheduler_daemon.cli.verbs import mcp
from tests.cli.test_setup import FILES, Schedctl, held
from tests.cli.test_setup import home as home

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")


def test_any_client_gets_an_entry_to_paste(schedctl: Schedctl, home: Path) -> None:
    printed = schedctl("setup", "mcp-json", "--session", "my chat")
    assert (printed.status, printed.err) == (0, "")
    entry = json.loads(printed.out)["mcpServers"]["reminders"]
    assert entry["args"][-1] == "--session=my chat"
    line = schedctl("setup", "mcp-json", "--session", "my chat", "--json").out
    assert json.loads(line) == json.loads(printed.out)
    assert line.count("\n") == 1
    assert held(home) == {}


def test_an_entry_for_a_name_that_begins_with_a_dash_is_one_that_starts(
    schedctl: Schedctl, home: Path
) -> None:
    printed = schedctl("setup", "mcp-json", "--session=-x")
    entry = json.loads(printed.out)["mcpServers"]["reminders"]
    words = entry["args"][entry["args"].index("mcp") + 1 :]
    made = Parser("mcp", "", "", "")
    mcp.options(made)
    assert made.read(words).session == "-x"


@pytest.mark.parametrize("name", ["", "A=B", "1A", "A B", "Ä"])
@pytest.mark.parametrize("verb", [["mcp"], ["setup", "mcp-json"]])
def test_what_names_no_variable_is_refused(
    schedctl: Schedctl, home: Path, verb: list[str], name: str
) -> None:
    ended = schedctl(*verb, f"--session-from-env={name}")
    assert (ended.status, ended.out) == (2, "")
    assert "takes the name of a variable, of letters, digits and _" in ended.err


def test_or_one_in_a_file_beside_others(
    schedctl: Schedctl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    path = home / ".mcp.json"
    before = '{"mcpServers": {"mine": {"command": "x"}}}'
    path.write_text(before)
    words = ("setup", "mcp-json", "--file", ".mcp.json")
    assert schedctl(*words, "--session-from-env", "CHAT", "--yes").status == 0
    servers = json.loads(path.read_text())["mcpServers"]
    assert list(servers) == ["mine", "reminders"]
    assert servers["reminders"]["args"][-2:] == ["--session-from-env", "CHAT"]
    other = schedctl(*words, "--session", "x", "--yes")
    assert (other.status, "is there already" in other.err) == (1, True)
    assert schedctl(*words, "--undo", "--yes").status == 0
    assert path.read_text() == before


@pytest.mark.parametrize("undone_first", ["opencode", "mcp-json"])
def test_each_of_two_setups_in_one_file_is_taken_out_by_itself(
    schedctl: Schedctl, home: Path, undone_first: str
) -> None:
    path = home / FILES["opencode"][1]
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    words = {"opencode": ["opencode"], "mcp-json": ["mcp-json", "--file", str(path)]}
    assert schedctl("setup", "opencode", "--yes").status == 0
    assert schedctl("setup", *words["mcp-json"], "--session", "x", "--yes").status == 0
    (undone_last,) = set(words) - {undone_first}
    first = schedctl("setup", *words[undone_first], "--undo", "--yes")
    assert (first.status, first.err) == (0, "")
    kept, gone = ("mcpServers", "mcp") if undone_first == "opencode" else ("mcp", "mcpServers")
    assert "reminders" in json.loads(path.read_text())[kept]
    assert not json.loads(path.read_text()).get(gone)
    last = schedctl("setup", *words[undone_last], "--undo", "--yes")
    assert (last.status, last.err) == (0, "")
    assert "reminders" not in path.read_text()
    assert set(held(home)) == {FILES["opencode"][1]}
