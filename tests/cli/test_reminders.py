"""create, update and delete against a scripted daemon."""

from __future__ import annotations

import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.errors import ReminderConflict
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon, serve

Schedctl = Callable[..., Ended]

CREATE = ("create", "--session", "s1", "--after", "20m")


@pytest.fixture(autouse=True)
def _answers(daemon: ScriptedDaemon) -> None:
    local = "2999-12-24T14:20:00+01:00[Europe/Berlin]"
    daemon.answers["reminder.create"] = lambda params: {
        "reminder": shapes.reminder(scheduled_at_local=local),
        "created": True,
    }
    daemon.answers["reminder.get"] = lambda params: {"reminder": shapes.reminder(revision=3)}
    daemon.answers["reminder.update"] = lambda params: {
        "reminder": shapes.reminder(revision=4),
        "updated": True,
    }
    daemon.answers["reminder.delete"] = lambda params: {"id": params["id"], "deleted": True}


def test_create_sends_the_strict_form_and_says_when_it_will_come(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    ended = schedctl(*CREATE, "Check the build")
    assert daemon.calls == [
        (
            "reminder.create",
            {"session_id": "s1", "prompt": "Check the build", "after_seconds": 1200},
        )
    ]
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("r7 will come in ")
    assert ended.out.endswith("at 14:20 (2999-12-24 14:20:00 Europe/Berlin)\n")


@pytest.mark.parametrize("verb", [("create", "--session", "s1", "hi"), ("update", "r7")])
def test_a_time_on_a_clock_that_was_typed_is_shown_on_that_clock(
    schedctl: Schedctl, daemon: ScriptedDaemon, verb: tuple[str, ...]
) -> None:
    made = {"reminder": shapes.reminder(kind="at"), "created": True, "updated": True}
    daemon.answers["reminder.create"] = daemon.answers["reminder.update"] = lambda params: made
    ended = schedctl(*verb, "--at", "2999-12-24 22:20", "--tz", "asia/tokyo")
    assert ended.out.endswith("at 22:20 (2999-12-24 22:20:00 Asia/Tokyo)\n")


def test_create_takes_words_context_and_key(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    schedctl(
        *("create", "--session", "s1", "--daily", "9:00", "--tz", "UTC", "--title", "Mail"),
        *("--context", "cwd=/a=b", "--context", "kind=", "--idempotency-key", "k1"),
        *("--owner", "12", "--", "--read it"),
    )
    assert daemon.params_of("reminder.create") == [
        {
            "session_id": "s1",
            "prompt": "--read it",
            "title": "Mail",
            "context": {"cwd": "/a=b", "kind": ""},
            "idempotency_key": "k1",
            "owner_uid": 12,
            "daily": {"time": "09:00", "time_zone": "UTC"},
        }
    ]


def test_create_in_json_prints_the_result_of_the_method(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["reminder.create"] = lambda params: {"created": True, "new": None}
    assert schedctl(*CREATE, "hi", "--json").out == '{"created": true, "new": null}\n'


def test_a_key_used_before_is_said(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    daemon.answers["reminder.create"] = lambda params: {
        "reminder": shapes.reminder(),
        "created": False,
    }
    assert schedctl(*CREATE, "hi").out.startswith("nothing new was made: r7 will come in")
    daemon.answers["reminder.create"] = lambda params: {
        "id": "r6",
        "deleted": True,
        "created": False,
    }
    assert schedctl(*CREATE, "hi").out == (
        "nothing was made: this key made r6, which has been deleted since\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--context", "novalue"], "KEY=VALUE"),
        (["--context", "a=1", "--context", "a=2"], "twice"),
        (["--owner", "no-such-user-here"], "no user of this machine"),
        (["--tz", "UTC"], "leave --tz away"),
    ],
)
def test_what_cannot_be_sent_is_misuse_and_is_not_sent(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], message: str
) -> None:
    ended = schedctl(*CREATE, *words, "hi")
    assert ended.status == 2
    assert message in ended.err
    assert daemon.calls == []


def test_an_owner_may_be_a_name(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    user = pwd.getpwuid(0)
    schedctl("delete", "r7", "--owner", user.pw_name)
    assert daemon.params_of("reminder.delete") == [{"id": "r7", "owner_uid": 0}]


def test_a_second_daemon_that_answers_is_warned_of(
    schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch, short_path: Path, daemon: ScriptedDaemon
) -> None:
    monkeypatch.delenv("SCHEDULER_DAEMON_SOCKET")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_path / "run"))
    monkeypatch.setenv("HOME", str(short_path))
    first = short_path / "run/scheduler-daemon/scheduler.sock"
    second = short_path / ".local/state/scheduler-daemon/scheduler.sock"
    with serve(first) as one, serve(second) as other:
        one.answers = daemon.answers
        ended = schedctl(*CREATE, "hi")
    assert ended.status == 0
    assert ended.out.startswith("r7 will come")
    assert ended.err.count("\n") == 1
    assert "2 daemons answer" in ended.err
    assert str(second) in ended.err
    assert (len(one.calls), other.calls) == (1, [])


def test_update_needs_no_revision_from_a_person(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    ended = schedctl("update", "r7", "--prompt", "New words")
    assert daemon.calls == [
        ("reminder.get", {"id": "r7"}),
        ("reminder.update", {"id": "r7", "revision": 3, "prompt": "New words"}),
    ]
    assert ended.status == 0
    assert ended.out.startswith("r7 will come in ")


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (["--title", "T"], {"title": "T"}),
        (["--no-title"], {"title": None}),
        (["--context", "a=1"], {"context": {"a": "1"}}),
        (["--every", "1h"], {"every_seconds": 3600}),
        (["--prompt", ""], {"prompt": ""}),
    ],
)
def test_update_changes_what_is_named(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], changes: dict[str, Any]
) -> None:
    assert schedctl("update", "r7", *words, "--json").status == 0
    assert daemon.params_of("reminder.update") == [{"id": "r7", "revision": 3, **changes}]


@pytest.mark.parametrize(
    ("words", "message"),
    [([], "say what should change"), (["--tz", "UTC"], "--tz goes with --at")],
)
def test_update_without_a_change_is_misuse(
    schedctl: Schedctl, daemon: ScriptedDaemon, words: list[str], message: str
) -> None:
    ended = schedctl("update", "r7", *words)
    assert ended.status == 2
    assert message in ended.err
    assert daemon.calls == []


def test_an_update_that_somebody_overtook_fails_and_says_what_to_do(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    def conflict(params: dict[str, Any]) -> object:
        raise ReminderConflict("it is at revision 4", reminder=shapes.reminder())

    daemon.answers["reminder.update"] = conflict
    ended = schedctl("update", "r7", "--title", "T")
    assert (ended.status, ended.out) == (1, "")
    assert "reminder_conflict" in ended.err
    assert "run this again" in ended.err


def test_update_says_what_it_gave_up_and_when_nothing_changed(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["reminder.update"] = lambda params: {
        "reminder": shapes.reminder(),
        "updated": False,
        "dropped_occurrence": "2026-12-24T13:20:00.000Z",
    }
    ended = schedctl("update", "r7", "--after", "1h")
    assert ended.out.startswith("nothing changed: r7 will come")
    assert "was overdue and will not be delivered" in ended.err


def test_delete_says_so(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    assert schedctl("delete", "r7") == (0, "r7 is deleted\n", "")
    assert daemon.calls == [("reminder.delete", {"id": "r7"})]
    assert schedctl("delete", "r7", "--json").out == '{"id": "r7", "deleted": true}\n'


def test_deleting_what_is_not_there_is_status_4(schedctl: Schedctl, daemon: ScriptedDaemon) -> None:
    daemon.answers["reminder.delete"] = lambda params: {"id": params["id"], "deleted": False}
    ended = schedctl("delete", "r9")
    assert (ended.status, ended.out) == (4, "")
    assert "you have no reminder r9" in ended.err
    ended = schedctl("delete", "r9", "--json")
    assert (ended.status, ended.out) == (4, '{"id": "r9", "deleted": false}\n')
