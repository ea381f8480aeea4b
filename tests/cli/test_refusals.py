"""What a refusal costs: its exit status, and what it says to do next."""

from __future__ import annotations

import pytest

from scheduler_daemon.cli import refusals
from scheduler_daemon.errors import (
    ERRORS,
    InvalidPrompt,
    Overloaded,
    SchedulerError,
)

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
