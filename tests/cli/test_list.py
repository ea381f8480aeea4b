"""list against a scripted daemon: its table, its colours, its JSON, and what it asks for."""

from __future__ import annotations

import datetime as dt
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from scheduler_daemon import wall
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]

HOSTILE = "hi\x1b[2J\nthere 你好"


def two_pages(params: dict[str, Any]) -> object:
    if "cursor" in params:
        return {"items": [shapes.reminder(2, title="Second")]}
    return {"items": [shapes.reminder(1, prompt=HOSTILE)], "next_cursor": "c"}


def test_list_in_json_prints_one_reminder_a_line_of_all_pages(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["reminder.list"] = two_pages
    ended = schedctl("list", "--json")
    lines = ended.out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["r1", "r2"]
    assert json.loads(lines[0])["prompt"] == HOSTILE
    assert "\x1b" not in ended.out


def test_list_is_a_table_of_all_pages_that_no_prompt_can_break(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["reminder.list"] = two_pages
    lines = schedctl("list").out.splitlines()
    assert len(lines) == 3
    assert lines[0].split() == ["ID", "COMES", "AT", "SESSION", "RULE", "WORDS"]
    assert lines[1].endswith("hi\\x1b[2J\\nthere 你好")
    assert lines[2].endswith("Second: Check the build")


def test_list_does_not_say_of_what_lies_beyond_its_end_that_it_comes(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    beyond = shapes.reminder(7, kind="every", until="2026-12-24T13:10:00.000Z")
    daemon.answers["reminder.list"] = lambda _: {"items": [beyond]}
    assert "not again" in schedctl("list").out.splitlines()[1]


def table_of(out: str) -> list[list[str]]:
    """The cells of each line but the header's."""
    return [re.split("  +", line) for line in out.splitlines()[1:]]


def test_list_shows_each_time_on_the_clock_of_its_rule_else_of_the_machine(
    schedctl: Schedctl, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    local = {"scheduled_at_local": "2999-12-24T22:20:00+09:00[Asia/Tokyo]"}
    daemon.answers["reminder.list"] = lambda params: {
        "items": [shapes.reminder(1, **local), shapes.reminder(2)]
    }
    assert [row[2] for row in table_of(schedctl("list").out)] == [
        "2999-12-24 22:20:00 Asia/Tokyo",
        "2999-12-24 13:20:00 UTC",
    ]


def test_list_says_how_far_away_each_is(
    schedctl: Schedctl, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wall, "now", lambda: dt.datetime(2026, 12, 24, 13, 0, tzinfo=dt.UTC))
    soon, past = {"scheduled_at": "2026-12-24T17:00:00.000Z"}, "2026-12-24T12:57:00.000Z"
    daemon.answers["reminder.list"] = lambda params: {
        "items": [
            shapes.reminder(1, **soon),
            shapes.reminder(2, state="overdue", scheduled_at=past),
            shapes.reminder(3, state="paused", **soon),
            shapes.reminder(4, state="ended", ended_at=past),
            shapes.reminder(5, state="scheduled", scheduled_at=past),
        ]
    }
    comes = ["in 4 h", "overdue 3 min", "paused", "ended 3 min ago", "3 min ago"]
    assert [row[1] for row in table_of(schedctl("list").out)] == comes


def test_wide_shows_whole_texts_and_what_each_waits_for_on_any_terminal(
    schedctl: Schedctl, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    late = shapes.reminder(state="overdue", prompt="x" * 5000, waiting_for={"why": "no_host"})
    daemon.answers["reminder.list"] = lambda params: {"items": [late]}
    header, line = schedctl("list", "--wide").out.splitlines()
    wanted = ["ID", "COMES", "AT", "SESSION", "RULE", "WAITS FOR", "WORDS"]
    assert re.split("  +", header) == wanted
    assert re.split("  +", line)[-2:] == ["a host", "x" * 5000]


def on_a_terminal(words: list[str], environ: dict[str, str]) -> list[str]:
    """The lines that a terminal gets from a command of its own."""
    ours, theirs = pty.openpty()
    without = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    with subprocess.Popen(
        [sys.executable, "-m", "scheduler_daemon.cli", *words],
        stdout=theirs,
        env={**without, "COLUMNS": "120", **environ},
    ) as running:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # EIO: the command has ended
            while more := os.read(ours, 1 << 16):
                shown += more
        assert running.wait(60) == 0
    os.close(ours)
    return shown.decode().split("\r\n")[:-1]


@pytest.fixture
def two(daemon: ScriptedDaemon) -> None:
    daemon.answers["reminder.list"] = lambda params: {
        "items": [shapes.reminder(1, state="overdue", prompt=HOSTILE), shapes.reminder(2)]
    }


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("environ", [{"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": ""}])
def test_a_terminal_shows_what_is_overdue_in_red_and_no_words_can_end_that(
    environ: dict[str, str],
) -> None:
    header, late, other = on_a_terminal(["list"], environ)
    assert late.startswith("\x1b[31mr1  overdue ")
    assert late.endswith("hi\\x1b[2J\\nthere 你好\x1b[0m")
    assert "\x1b" not in header + other


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (["list"], {"TERM": "xterm", "NO_COLOR": "1"}),
        (["list"], {"TERM": "dumb"}),
        (["list", "--json"], {"TERM": "xterm"}),
    ],
)
def test_a_terminal_that_is_to_have_no_colours_and_json_get_none(
    words: list[str], environ: dict[str, str]
) -> None:
    lines = on_a_terminal(words, environ)
    assert "r1" in "".join(lines)
    assert "\x1b" not in "".join(lines)


@pytest.mark.usefixtures("two")
def test_a_pipe_has_no_colours(schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in schedctl("list", "--wide").out


@pytest.mark.parametrize("width", [120, 80, 40])
def test_list_fits_the_terminal(
    schedctl: Schedctl, daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    daemon.answers["reminder.list"] = lambda params: {
        "items": [
            shapes.reminder(prompt="你" * 5000, session_id="x" * 200),
            shapes.reminder(state="overdue"),
        ]
    }
    monkeypatch.setenv("COLUMNS", str(width))
    lines = schedctl("list").out.splitlines()
    assert all(len(line) <= width for line in lines)
    assert (" AT " in lines[0]) == (width >= 100)
    assert "overdue" in lines[2]


def test_list_passes_its_filters_on(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    daemon.answers["reminder.list"] = lambda params: {"items": [shapes.reminder()]}
    words = ["--session", "s1", "--status", "all", "--order", "target", "--all-owners"]
    out = schedctl("list", *words).out
    assert daemon.params_of("reminder.list") == [
        {"session_id": "s1", "status": "all", "order": "target", "owner_uid": "*"}
    ]
    assert out.splitlines()[0].split()[:2] == ["ID", "OWNER"]
    assert "1000" in out


def test_an_empty_list_says_so_beside_the_data(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    daemon.answers["reminder.list"] = lambda params: {"items": []}
    ended = schedctl("list")
    assert (ended.status, ended.out) == (0, "")
    assert "there is no reminder yet; `schedctl create --help`" in ended.err
    assert schedctl("list", "--json") == (0, "", "")
    assert "there is no such reminder" in schedctl("list", "--session", "s1").err


def test_a_list_without_active_ones_tells_of_ended_ones(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["reminder.list"] = lambda params: {
        "items": [shapes.reminder(state="ended")] if params.get("status") == "all" else []
    }
    ended = schedctl("list", "--owner", "0")
    assert (ended.status, ended.out) == (0, "")
    hint = "`schedctl list --status all --owner 0` shows ended ones"
    assert ended.err == f"schedctl: there is no active reminder; {hint}\n"
    assert daemon.params_of("reminder.list")[1] == {"status": "all", "limit": 1, "owner_uid": 0}
    assert "there is no such reminder" in schedctl("list", "--status", "ended").err
