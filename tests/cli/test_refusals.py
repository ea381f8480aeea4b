"""What a refusal costs: its exit status, and what it says to do next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_daemon.cli import refusals
from scheduler_daemon.errors import (
    ERRORS,
    InvalidPrompt,
    Overloaded,
    PersistenceFailed,
    PersistenceUncertain,
    ReminderNotFound,
    SchedulerError,
)
from scheduler_daemon.store.writer import FAILED, UNCERTAIN
from tests.cli.conftest import Ended
from tests.cli.scripted import ScriptedDaemon

EXPECTED = {
    "reminder_not_found": 4,
    "idempotency_conflict": 1,
    "reminder_conflict": 1,
    "reminder_ended": 1,
    "persistence_failed": 1,
    "persistence_uncertain": 1,
    "overloaded": 1,
    "internal_error": 1,
}


@pytest.mark.parametrize("code", ERRORS)
def test_every_code_has_its_exit_status_and_what_is_not_a_failure_is_a_refusal(code: str) -> None:
    assert refusals.status_of(ERRORS[code]("no")) == EXPECTED.get(code, 5)


def test_a_code_of_a_later_version_is_a_failure() -> None:
    class LaterError(SchedulerError):
        code = "later"

    assert refusals.status_of(LaterError("no")) == 1
    assert refusals.explain(LaterError("no")) == "no (later)"


def test_a_refusal_says_what_is_wrong_where_and_what_to_do_next() -> None:
    assert refusals.explain(InvalidPrompt("too long", field="prompt")) == (
        "too long (invalid_prompt [prompt])"
    )
    assert refusals.explain(Overloaded("Too many requests wait.")) == (
        "Too many requests wait (overloaded); try again in a moment"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "you have no reminder r9: `schedctl list --status all` shows all"),
        (["--owner", "7"], "7 has no reminder r9: `schedctl list --status all --owner 7` shows"),
        (["--all-owners"], "there is no reminder r9: `schedctl list --status all --all-owners`"),
    ],
)
def test_a_reminder_that_is_not_found_is_named_with_whose_it_would_be(
    schedctl: Callable[..., Ended], daemon: ScriptedDaemon, words: list[str], message: str
) -> None:
    def miss(params: dict[str, object]) -> object:
        raise ReminderNotFound("no reminder of yours has this id here; see reminder.list")

    daemon.answers["reminder.get"] = daemon.answers["reminder.history"] = miss
    ended = schedctl("show", "r9", *words)
    assert ended.status == 4
    assert ended.err.startswith(f"schedctl: {message}")
    assert "yours" not in ended.err
    assert "in Session 's1'" in schedctl("history", "r9", "--session", "s1", *words).err
    # Who speaks the protocol is answered in its words.
    assert "reminder.list" in schedctl("rpc", "reminder.get").err


@pytest.mark.parametrize("error", [PersistenceFailed(FAILED), PersistenceUncertain(UNCERTAIN)])
def test_a_failed_write_is_told_once_and_its_cause_is_not_guessed(error: SchedulerError) -> None:
    text = refusals.explain(error)
    assert text.count("stored") == 1
    assert "disk" not in text


def test_what_is_there_and_cannot_be_read_is_explained_by_the_daemon(
    schedctl: Callable[..., Ended], daemon: ScriptedDaemon
) -> None:
    def unreadable(params: dict[str, Any]) -> object:
        raise ReminderNotFound("stored in a form that cannot be read", field="id", set_aside=True)

    daemon.answers["reminder.get"] = unreadable
    ended = schedctl("show", "r9")
    assert ended.status == 4
    assert "stored in a form that cannot be read" in ended.err
