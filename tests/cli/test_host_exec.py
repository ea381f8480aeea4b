"""schedctl host-exec and spool: what they take, and what they say; what they do is elsewhere."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler_daemon.client.spool import Spool
from scheduler_daemon.errors import PermissionDenied
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon
from tests.client.followups import followup

Schedctl = Callable[..., Ended]

NOW = dt.datetime(2026, 8, 7, 1, 0, tzinfo=dt.UTC)
SESSION = "5b0c7e1c-7f3a-4c34-9f0e-2f0d3f6a9b11"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path


@pytest.fixture
def spool(home: Path) -> Iterator[Spool]:
    """The usual queue, with a message of each kind: waiting, failed, running, done."""
    made = Spool(home / ".local/state/scheduler-daemon/host-exec.db")
    for number in range(1, 5):
        made.admit([followup(f"r{number}@1", session=f"s{number}")], NOW)
        made.begin(NOW)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=30)
    made.put_off(1, "busy", later, NOW, "the Session is busy")
    made.end(2, "failed", NOW, "exit status 1: \x1b[2J")
    made.end(4, "done", NOW)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--profile", "auto"], 2, "name the Sessions to take, or give --all"),
        (["s1", "--all", "--profile", "auto"], 2, "name the Sessions to take, or give --all"),
        (["--all"], 2, "give --profile NAME (or auto), or behind -- a COMMAND"),
        (["--all", "--profile", "auto", "--", "x"], 2, "give --profile NAME (or auto), or"),
        (["--all", "--profile", "auto", "--agent", "x"], 2, "--agent is for a COMMAND"),
        (["--all", "--profile", "cluade"], 2, "no profile 'cluade': claude, codex, opencode, dsh"),
        (["--all", "--timeout", "5", "--", "x"], 2, "--timeout 5 lacks a unit"),
        (["--all", "--timeout", "0s", "--", "x"], 2, "--timeout is at least 1s"),
        (["--all", "--max-parallel", "0", "--", "x"], 2, "takes a whole number, 1 to 1000"),
        (["my chat", "--", "x"], 2, "'my chat' is no id that command has"),
        (["s1", "--profile", "claude"], 2, "'s1' is no id that claude has"),
        (["--all", "--profile", "auto", "--profiles", "/no"], 6, "/no cannot be read"),
        (["--status"], 1, "no host-exec runs, and none has"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_can(
    schedctl: Schedctl, words: list[str], status: int, message: str
) -> None:
    ended = schedctl("host-exec", *words)
    assert (ended.status, ended.out) == (status, "")
    assert message in ended.err


@pytest.fixture
def refusing(daemon: ScriptedDaemon) -> ScriptedDaemon:
    """A daemon that refuses every host, so that a command ends."""

    def attach(params: object) -> object:
        raise PermissionDenied("not you")

    daemon.answers["host.attach"] = attach
    return daemon


@pytest.mark.parametrize(
    ("words", "sessions"),
    [
        (["--all", "--profile", "auto"], "*"),
        (["--all", "--profile", "dsh"], "*"),
        ([SESSION, "--profile", "claude", "--allow-dir", "a", "--allow-dir", "/b"], [SESSION]),
        (["s1", "s2", "--agent", "mine", "--", "./x", "-a", "{session}", "--"], ["s1", "s2"]),
    ],
)
def test_it_attaches_what_it_was_told_and_writes_down_what_it_is(
    schedctl: Schedctl, refusing: ScriptedDaemon, home: Path, words: list[str], sessions: object
) -> None:
    ended = schedctl("host-exec", "--name", "me", *words)
    assert (ended.status, "not you" in ended.err) == (5, True)
    assert refusing.params_of("host.attach")[0] == {"name": "me", "sessions": sessions}
    status = schedctl("host-exec", "--status", "--json")
    told = json.loads(status.out)
    assert (status.status, told["running"], told["messages"]) == (1, False, [])
    assert (told["host"]["name"], told["host"]["sessions"]) == ("me", sessions)
    allowed = [str(Path.cwd() / "a"), "/b"] if "--allow-dir" in words else [str(home)]
    assert told["host"]["allowed"] == allowed


def test_profiles_of_ones_own_are_where_the_configuration_is(
    schedctl: Schedctl, refusing: ScriptedDaemon, home: Path
) -> None:
    path = home / ".config/scheduler-daemon/profiles.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[mine]\ncommand = ["sh", "{session}"]\n')
    assert "not you" in schedctl("host-exec", "--all", "--profile", "mine").err
    path.write_text("[mine]\n")
    ended = schedctl("host-exec", "--all", "--profile", "auto")
    assert (ended.status, "[mine] has no command" in ended.err) == (6, True)


def test_a_warning_says_what_is_not_in_path(schedctl: Schedctl, refusing: ScriptedDaemon) -> None:
    assert "not in PATH: dsh" in schedctl("host-exec", "--all", "--profile", "dsh").err
    ended = schedctl("host-exec", "--all", "--profile", "auto")
    assert "not in PATH: claude, codex, opencode, dsh" in ended.err


def test_its_help_is_a_page(schedctl: Schedctl) -> None:
    assert "-- COMMAND" in schedctl("host-exec", "--help").out
    assert "retry NUMBER" in schedctl("spool", "--help").out


def test_status_shows_the_host_and_what_waits(schedctl: Schedctl, spool: Spool) -> None:
    assert "no host-exec has worked on this queue yet" in schedctl("host-exec", "--status").out
    about = {"pid": 7, "name": "me", "started_at": "2026-08-07T01:00:00.000Z"}
    spool.describe({**about, "profile": "auto", "sessions": "*", "allowed": ["/home/ana"]})
    ended = schedctl("host-exec", "--status")
    assert (ended.status, ended.err) == (1, "")
    assert "no host-exec runs; the last began" in ended.out
    spool.hold()
    ended = schedctl("host-exec", "--status")
    assert ended.status == 0
    assert "host-exec runs as process 7 since" in ended.out
    assert "auto for every Session, in /home/ana" in ended.out
    assert "s2" in ended.out
    spool.describe({**about, "profile": "x", "sessions": ["s1", "s2"], "allowed": ["/a"]})
    assert "x for Session s1, s2, in /a" in schedctl("host-exec", "--status").out


def test_the_list_shows_what_is_not_done_and_why(schedctl: Schedctl, spool: Spool) -> None:
    lines = schedctl("spool", "list").out.splitlines()
    assert lines[0].split() == [
        *("NUMBER", "STATE", "SINCE", "ATTEMPTS", "SESSION", "REMINDERS", "WHY"),
    ]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["1", "queued"],
        ["2", "failed"],
        ["3", "running"],
    ]
    assert "the Session is busy; again in" in lines[1]
    assert r"exit status 1: \x1b[2J" in lines[2]
    everything = schedctl("spool", "list", "--all", "--json").out.splitlines()
    assert [json.loads(line)["state"] for line in everything] == [
        *("queued", "failed", "running", "done"),
    ]
    assert json.loads(everything[2])["followup"] == followup("r3@1", session="s3")
    assert "reason" not in json.loads(everything[3])


def test_retry_and_drop_are_done_and_told(schedctl: Schedctl, spool: Spool) -> None:
    ended = schedctl("spool", "drop", "1", "2")
    assert ended.out == "message 1 is dropped\nmessage 2 is dropped\n"
    assert (ended.status, ended.err) == (0, "")
    ended = schedctl("spool", "retry", "1")
    assert ended.out == "message 1 is tried again\n"
    assert "no host-exec runs; it comes once one does" in ended.err
    spool.hold()
    assert schedctl("spool", "retry", "2").err == ""
    states = [each.state for each in spool.messages(ended=True)]
    assert states == ["queued", "queued", "running", "done"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "spool takes list, retry or drop, not nothing"),
        (["show"], 2, "spool takes list, retry or drop, not 'show'"),
        (["retry"], 2, "retry or drop with the numbers it shows"),
        (["list", "1"], 2, "retry or drop with the numbers it shows"),
        (["drop", "r1"], 2, "a message is named by its number, not 'r1'"),
        (["drop", "9"], 1, "there is no message 9"),
        (["drop", "3"], 1, "message 3 is running now"),
        (["retry", "4"], 1, "message 4 is done: there is nothing to retry"),
        (["list", "--spool", "{home}/.local"], 1, "Is a directory"),
    ],
)
def test_what_cannot_be_done_is_said(
    schedctl: Schedctl, spool: Spool, home: Path, words: list[str], status: int, message: str
) -> None:
    ended = schedctl("spool", *(word.format(home=home) for word in words))
    assert (ended.status, message in ended.err) == (status, True)


def test_without_a_queue_there_is_nothing_to_list_and_nothing_is_made(
    schedctl: Schedctl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = schedctl("spool", "list")
    assert (ended.status, "there is no queue" in ended.err) == (0, True)
    assert schedctl("spool", "retry", "1").status == 1
    assert list(home.iterdir()) == []
    Spool(home / "q.db").close()
    queue = str(home / "q.db")
    assert "nothing waits here" in schedctl("spool", "list", "--spool", queue).err
    monkeypatch.setattr("scheduler_daemon.places.home_directory", lambda environ, uid: None)
    assert "add --spool PATH" in schedctl("spool", "list").err


def test_a_queue_that_breaks_under_a_command_is_an_error_in_a_line(
    schedctl: Schedctl, spool: Spool
) -> None:
    spool._conn.execute("ALTER TABLE messages RENAME TO elsewhere")
    ended = schedctl("spool", "list")
    assert (ended.status, "no such table" in ended.err) == (1, True)
