"""`schedctl mcp`: what is refused before an agent is served. What it serves is in tests/mcp."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_daemon.cli import main as cli
from scheduler_daemon.cli.verbs import mcp
from tests.cli.conftest import Ended

Schedctl = Callable[..., Ended]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--session", "*"], "must name one Session"),
        (["--session", "a\nb"], "no control characters"),
        (["--agent", "x" * 201], "1 to 200 characters"),
        (["--assume-zone", "CET"], "no abbreviation"),
        (["--assume-zone", ""], "IANA name"),
        (["--json"], "JSON already"),
        (["--session-from-env"], "needs a value"),
        (["--session-proof", "/key"], "is for --session-from-argument and --claude-hook"),
        (["more"], "unrecognized arguments"),
    ],
)
def test_a_wrong_option_is_one_line(schedctl: Schedctl, words: list[str], said: str) -> None:
    ended = schedctl("mcp", *words)
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_without_an_agent_on_its_pipes_it_says_so(
    schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, stream, None)
        status = cli.main(["mcp"])
    assert status == 1


def test_without_the_package_it_says_what_to_install(
    schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    ended = schedctl("mcp")
    assert (ended.status, ended.out) == (1, "")
    assert "pip install mcp" in ended.err


def test_a_variable_that_is_not_set_is_told_at_the_start(process: Callable[..., Ended]) -> None:
    pytest.importorskip("mcp_types", reason="needs the extra `mcp`")
    ended = process("mcp", "--session-from-env", "SD_NO_SUCH_VARIABLE")
    assert (ended.status, ended.out) == (0, "")
    assert ended.err == (
        "schedctl: warning: SD_NO_SUCH_VARIABLE is not set, so it names no Session\n"
    )


@pytest.mark.parametrize("key", ["", "00", "x" * 64, "00" * 32 + "\n"])
def test_it_serves_only_with_a_key_that_is_one(
    process: Callable[..., Ended], tmp_path: Path, key: str
) -> None:
    pytest.importorskip("mcp_types", reason="needs the extra `mcp`")
    (tmp_path / "key").write_text(key)
    ended = process("mcp", "--session-from-argument", "--session-proof", str(tmp_path / "key"))
    assert ended.status == (0 if len(key) > 64 else 1)
    assert ("run `schedctl setup` for this agent again" in ended.err) == (len(key) <= 64)


def test_in_a_directory_that_was_removed_reminders_keep_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert mcp._directory() is None
