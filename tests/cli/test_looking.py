"""show, history, status and rpc against a scripted daemon."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

Schedctl = Callable[..., Ended]


def test_show_says_why_it_has_not_come_and_who_took_the_last_one(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    shown = shapes.reminder(
        title="Build",
        prompt="one\ntwo\x07\n\nfour",
        context={"cwd": "/a\n"},
        state="overdue",
        scheduled_at="2026-01-01T00:00:00.000Z",
        waiting_for={"why": "no_host"},
        last_dispatch=shapes.receipt(),
    )
    daemon.answers["reminder.get"] = lambda params: {"reminder": shown}
    ended = schedctl("show", "r7")
    assert daemon.calls == [("reminder.get", {"id": "r7"})]
    lines = ended.out.splitlines()
    assert lines[0] == "r7: once, 20 minutes after it was set"
    assert "no host is connected for Session 's1'" in lines[1]
    assert lines[2].startswith("Host 'editor' took it")
    assert "context cwd: /a\\n" in lines
    assert lines[-5:] == ["prompt:", "  one", "  two\\x07", "", "  four"]


def test_show_in_json_is_the_result_of_the_method(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["reminder.get"] = lambda params: {"reminder": shapes.reminder()}
    assert json.loads(schedctl("show", "r7", "--json").out) == {"reminder": shapes.reminder()}
    assert "Its time has not come" in schedctl("show", "r7").out


def test_history_is_a_table_and_says_that_there_is_more(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["reminder.history"] = lambda params: {
        "items": [
            shapes.receipt(prompt="Check\x1b it", title="Build"),
            shapes.receipt(prompt="Check it", outcome="skipped"),
        ],
        "next_cursor": "c2",
    }
    ended = schedctl("history", "r7", "--session", "s1", "--limit", "2", "--cursor", "c1")
    assert daemon.params_of("reminder.history") == [
        {"id": "r7", "session_id": "s1", "limit": 2, "cursor": "c1"}
    ]
    lines = ended.out.splitlines()
    assert lines[0].split() == ["ID", "DUE", "TAKEN", "OUTCOME", "HOST", "WORDS"]
    assert lines[1].endswith("admitted  editor  Build: Check\\x1b it")
    assert ended.err == "schedctl: there is more: add --cursor c2\n"


def test_history_in_json_is_one_page(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    page = {"items": [shapes.receipt(prompt="x")], "next_cursor": "c"}
    daemon.answers["reminder.history"] = lambda params: page
    ended = schedctl("history", "--session", "s1", "--json")
    assert json.loads(ended.out) == page
    assert ended.err == ""


def test_a_history_of_nothing(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    daemon.answers["reminder.history"] = lambda params: {"items": []}
    ended = schedctl("history", "r7")
    assert (ended.status, ended.out) == (0, "")
    assert "nothing has been delivered yet" in ended.err
    assert schedctl("history").status == 2


def test_status_tells_how_the_daemon_is(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    retry = {
        "session_id": "s2",
        "why": "refused",
        "attempts": 3,
        "next_try_at": "2999-01-01T00:00:00.000Z",
        "last_error": "bad\x1b",
    }
    told = shapes.status(
        hosts=[
            shapes.host(),
            shapes.host("big", ["a", "b"], session_count=7),
            shapes.host("all", "*"),
        ],
        retrying=[retry, {"session_id": "s3", "why": "in_flight", "attempts": 1}],
        next_wake_at="2999-01-01T00:00:00.000Z",
        last_persistence_error={
            "at": "2026-01-01T00:00:00.000Z",
            "code": "persistence_failed",
            "over": False,
        },
        free_disk_bytes=3 << 30,
        database="/var/lib/x\n.db",
        restart_wanted_for=["socket"],
    )
    daemon.answers["daemon.status"] = lambda params: told
    ended = schedctl("status")
    assert (ended.status, ended.err) == (0, "")
    for words in (
        "3 active, 2 overdue, 1 overdue without host",
        "/var/lib/x\\n.db",
        "persistence_failed",
        ", nothing written since\n",
        "free disk: 3072 MiB\n",
        "restart:   wanted for socket\n",
        "next wake:",
        "bad\\x1b",
        "0 of 16",
        "  s1\n",
        "  a, b and 5 more\n",
        "  every one\n",
    ):
        assert words in ended.out
    assert json.loads(schedctl("status", "--json").out) == told


def test_a_fault_of_the_file_may_be_over(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    fault = {"at": "2026-01-01T00:00:00.000Z", "code": "persistence_failed", "over": True}
    daemon.answers["daemon.status"] = lambda params: shapes.status(last_persistence_error=fault)
    assert ", written again since\n" in schedctl("status").out


def test_a_status_without_hosts_says_what_that_means(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["daemon.status"] = lambda params: shapes.status()
    out = schedctl("status").out
    assert "no agent host of yours is connected" in out
    assert "none: nothing waits for its time that a connected host of yours would take" in out
    assert "database" not in out


def test_a_status_without_reminders_has_nothing_to_wake_for(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    told = shapes.status()
    told["counts"]["active"] = 0
    daemon.answers["daemon.status"] = lambda params: told
    assert "none: you have no active reminder" in schedctl("status").out


def test_a_status_says_what_was_asked_for_by_hand_where_something_was(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    told = shapes.status()
    daemon.answers["daemon.status"] = lambda params: told
    assert "by hand" not in schedctl("status").out
    told["counts"]["runs"] = 2
    out = schedctl("status").out
    assert "by hand:   2 asked for and not admitted yet\n" in out
    assert "0 set aside\n" in out


def test_rpc_calls_any_method(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    daemon.answers["some.method"] = lambda params: [params, "é\x1b"]
    ended = schedctl("rpc", "some.method", '{"a": [1, null]}')
    assert ended.out == '[{"a": [1, null]}, "é\\u001b"]\n'
    assert schedctl("rpc", "some.method").out.startswith("[{},")


@pytest.mark.parametrize("params", ["{", "[]", "1", '{"a": NaN}', '{"a": 1, "a": 2}', ""])
def test_rpc_takes_one_strict_object(
    schedctl: Schedctl, daemon: ScriptedDaemon, params: str
) -> None:
    ended = schedctl("rpc", "some.method", params)
    assert (ended.status, ended.out) == (2, "")
    assert "JSON" in ended.err
    assert daemon.calls == []
