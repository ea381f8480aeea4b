"""`schedctl setup` as a person meets it: what is shown, written, refused and put back."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_daemon import places
from scheduler_daemon.cli.setup import place
from scheduler_daemon.mcp.proof import read_key
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon
from tests.cli.test_asking import on_a_terminal

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

Schedctl = Callable[..., Ended]

FILES = {
    "claude": [".claude/settings.json", ".claude.json"],
    "codex": [".codex/config.toml"],
    "opencode": [".config/opencode/plugin/scheduler-daemon.js", ".config/opencode/opencode.json"],
}
"""What is written, in this order, where nothing was before."""


@pytest.fixture
def home(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, and no variable that leads elsewhere."""
    for name in list(os.environ):
        if name.startswith(("XDG_", "CLAUDE", "CODEX", "OPENCODE", "PYTHONPATH")):
            monkeypatch.delenv(name)
    made = short_path / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    return made


def held(home: Path) -> dict[str, bytes]:
    """All files of agents, and what they hold."""
    found = (path for path in home.rglob("*") if path.is_file())
    state = home / ".local"
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in found
        if not path.is_relative_to(state)
    }


@pytest.mark.parametrize("kind", FILES)
def test_what_was_not_there_is_made_shown_and_removed_again(
    schedctl: Schedctl, home: Path, kind: str
) -> None:
    dry = schedctl("setup", kind, "--dry-run")
    assert (dry.status, dry.err, held(home)) == (0, "", {})
    done = schedctl("setup", kind, "--yes")
    assert done.status == 0
    assert done.out == dry.out + f"{kind} has the tools when it is started the next time\n"
    made = held(home)
    assert set(made) == set(FILES[kind])
    for path, data in made.items():
        assert f"--- (no such file)\n+++ {home / path}\n" in done.out
        assert all(f"+{line[:150]}" in done.out for line in data.decode().splitlines())
        assert (home / path).stat().st_mode & 0o777 == 0o600
    again = schedctl("setup", kind, "--yes")
    assert (again.status, again.err) == (0, "")
    assert again.out == f"nothing to change: {kind} has the tools already\n"
    assert held(home) == made
    assert schedctl("setup", kind, "--undo", "--dry-run").status == 0
    assert held(home) == made
    gone = schedctl("setup", kind, "--undo", "--yes")
    assert gone.out.endswith(f"what setup wrote for {kind} is gone\n")
    assert [path.name for path in home.iterdir()] == [".local"]
    assert schedctl("setup", kind, "--undo", "--yes").err == (
        f"schedctl: {kind} was not set up from here; nothing was changed\n"
    )


def test_the_entries_start_this_schedctl_with_the_socket_of_the_daemon(
    schedctl: Schedctl, home: Path, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = home / "o'b in/schedctl"
    program.parent.mkdir()
    program.touch()
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", str(program.parent))
    (program.parent / "claude").touch(0o755)
    assert schedctl("setup", "claude", "--yes").err == ""
    entry = json.loads((home / ".claude.json").read_text())["mcpServers"]["reminders"]
    key = home / ".local/state/scheduler-daemon/setup/session-key"
    assert len(read_key(key)) == 32
    assert key.stat().st_mode & 0o777 == 0o600
    assert entry == {
        "type": "stdio",
        "command": str(program),
        "args": [
            *("mcp", "--socket", str(daemon.path)),
            *("--session-from-argument", "--session-proof", str(key), "--agent", "claude"),
        ],
        "alwaysLoad": True,
    }


def test_folders_that_variables_name_are_followed(
    schedctl: Schedctl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(home / name))
    for kind in FILES:
        assert schedctl("setup", kind, "--yes").status == 0
    assert set(held(home)) == {
        "CLAUDE_CONFIG_DIR/settings.json",
        "CLAUDE_CONFIG_DIR/.claude.json",
        "CODEX_HOME/config.toml",
        "XDG_CONFIG_HOME/opencode/plugin/scheduler-daemon.js",
        "XDG_CONFIG_HOME/opencode/opencode.json",
    }


def test_the_file_that_is_there_is_the_one_that_is_written(schedctl: Schedctl, home: Path) -> None:
    there = [home / ".claude/.config.json", home / ".config/opencode/opencode.jsonc"]
    for path in there:
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    for kind in ("claude", "opencode"):
        assert schedctl("setup", kind, "--yes").status == 0
    assert all("reminders" in path.read_text() for path in there)
    assert not {".claude.json", ".config/opencode/opencode.json"} & set(held(home))


@pytest.mark.parametrize("kind", FILES)
def test_what_was_set_up_otherwise_before_is_to_be_taken_out_first(
    schedctl: Schedctl, home: Path, kind: str
) -> None:
    """With another socket, say, or by another version."""
    assert schedctl("setup", kind, "--yes", "--socket", "/run/former").status == 0
    before = held(home)
    ended = schedctl("setup", kind, "--yes")
    assert (ended.status, held(home)) == (1, before)
    assert "nothing was changed: run this with --undo first" in ended.err
    assert schedctl("setup", kind, "--undo", "--yes").status == 0
    assert schedctl("setup", kind, "--yes").status == 0


def test_without_an_installed_command_the_interpreter_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/some where")
    made = place.server(None)
    assert made.words == [sys.executable, "-P", "-m", "scheduler_daemon.cli"]
    assert made.variables == {"PYTHONPATH": "/some where"}


def test_the_socket_is_that_which_was_named_that_answers_or_that_of_the_settings(
    home: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(short_path)
    assert place.socket_path("x.sock") == f"{short_path}/x.sock"
    assert place.socket_path(None) == f"{short_path}/d.sock"
    monkeypatch.delenv("SCHEDULER_DAEMON_SOCKET")
    monkeypatch.setattr(place, "answering", lambda: ["/run/one", "/run/two"])
    assert place.socket_path(None) == "/run/one"
    monkeypatch.setattr(place, "answering", list)
    settings = home / ".config/scheduler-daemon/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('socket = "/run/mine"\n')
    assert place.socket_path(None) == "/run/mine"


def test_settings_that_cannot_be_read_are_bad_configuration(
    schedctl: Schedctl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHEDULER_DAEMON_SOCKET")
    monkeypatch.setattr(place, "answering", list)
    monkeypatch.setenv("SCHEDULER_DAEMON_CONFIG", str(home / "none.toml"))
    assert schedctl("setup", "codex", "--yes").status == 6


def test_it_warns_of_an_agent_and_a_daemon_that_are_not_there(
    schedctl: Schedctl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    ended = schedctl("setup", "codex", "--yes")
    assert "warning: there is no codex in PATH\n" in ended.err
    assert "warning: no daemon answers at" in ended.err


def test_json_names_the_files(schedctl: Schedctl, home: Path) -> None:
    paths = [str(home / path) for path in FILES["opencode"]]
    shown = json.loads(schedctl("setup", "opencode", "--dry-run", "--json").out)
    assert shown == {"agent": "opencode", "files": paths, "dry_run": True}
    assert json.loads(schedctl("setup", "opencode", "--yes", "--json").out)["files"] == paths
    assert json.loads(schedctl("setup", "opencode", "--yes", "--json").out)["files"] == []
    undone = json.loads(schedctl("setup", "opencode", "--undo", "--yes", "--json").out)
    assert undone["files"] == paths[::-1]


def test_without_a_terminal_it_shows_and_does_nothing(schedctl: Schedctl, home: Path) -> None:
    ended = schedctl("setup", "codex")
    assert (ended.status, held(home)) == (2, {})
    assert "[mcp_servers.reminders]" in ended.out
    assert "There is no terminal to ask on: add --yes" in ended.err


@pytest.mark.parametrize(("typed", "status"), [(b"y\n", 0), (b"n\n", 1)])
def test_on_a_terminal_it_asks(home: Path, typed: bytes, status: int) -> None:
    ended, out, shown = on_a_terminal(typed, "setup", "codex")
    assert ended == status
    assert "+[mcp_servers.reminders]" in out
    assert f"Change {home}/.codex/config.toml? [y/N] " in shown
    assert (home / ".codex/config.toml").exists() == (status == 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["vim"], "invalid choice: 'vim'"),
        ([], "AGENT"),
        (["codex", "--file", "x"], "--file, --session and --session-from-env are for mcp-json"),
        (["codex", "--session", "x"], "are for mcp-json"),
        (["mcp-json"], "say which Session is meant"),
        (["mcp-json", "--session", "*"], "must name one Session"),
        (["mcp-json", "--undo"], "say with --file"),
        (["mcp-json", "--session", "x", "--session-from-env", "Y"], "not allowed with"),
    ],
)
def test_a_wrong_word_is_one_line(
    schedctl: Schedctl, home: Path, words: list[str], said: str
) -> None:
    ended = schedctl("setup", *words, "--yes")
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_without_the_package_it_says_what_to_install(
    schedctl: Schedctl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that could not be started helps nobody."""
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    ended = schedctl("setup", "codex", "--yes")
    assert (ended.status, held(home)) == (1, {})
    assert "pip install mcp" in ended.err


def test_without_a_home_there_is_nothing_to_set_up(
    schedctl: Schedctl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "home_directory", lambda *_: None)
    ended = schedctl("setup", "codex", "--yes")
    assert (ended.status, ended.err.count("no home directory")) == (1, 1)


def test_a_path_that_is_no_text_is_refused(
    schedctl: Schedctl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/\udcff")
    ended = schedctl("setup", "codex", "--yes")
    assert (ended.status, held(home)) == (1, {})
    assert "is not UTF-8" in ended.err
