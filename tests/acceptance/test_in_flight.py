"""A record is deleted, re-timed or re-worded while its message is on its way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.steps import (
    in_seconds,
    make_due,
    overdue,
    receipts,
    wait_for_receipt,
    wait_for_refusal,
)
from tests.support.peer import BUSY, SILENCE, Followup, Peer
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

Json = dict[str, Any]


class Flight:
    """The follow-up of one reminder, which waits for the host's answer."""

    def __init__(self, daemon: DaemonProcess, session: str, kind: str) -> None:
        self.daemon = daemon
        self.session = session
        self.host: Peer = daemon.peer()
        self.id = make_due(daemon, session, kind, prompt="old words", title="old")
        self.host.reply = SILENCE
        self.host.attach([session])
        self.followup = self.host.next_followup()

    def admit(self) -> None:
        """The host admits the message, and its receipt is written."""
        self.host.answer(self.followup)
        wait_for_receipt(self.daemon, self.followup)

    def refuse(self) -> None:
        """The host is busy, and ready again at once."""
        self.host.answer(self.followup, BUSY)
        wait_for_refusal(self.daemon, self.followup, "busy")
        self.host.ready(self.session)

    def admit_next(self) -> Followup:
        """The next follow-up of the Session, admitted."""
        followup = self.host.next_followup()
        self.host.answer(followup)
        wait_for_receipt(self.daemon, followup)
        return followup

    def update(self, **changes: object) -> Json:
        result: Json = self.host.call("reminder.update", id=self.id, revision=1, **changes)
        return result

    def reminder(self) -> Json:
        found: Json = self.host.call("reminder.get", id=self.id)["reminder"]
        return found

    def receipts(self) -> list[str]:
        return receipts(self.daemon, self.session)

    def history(self) -> list[tuple[str, str]]:
        """Words that were sent, newest first."""
        page = self.host.call("reminder.history", session_id=self.session)
        return [(each.get("title", ""), each["prompt"]) for each in page["items"]]

    def check_all_is_quiet(self) -> None:
        """Nothing comes, and the file has nothing that could."""
        self.host.nothing_comes(0.3)
        assert overdue(self.daemon, self.session) == []


@pytest.fixture(params=["one-shot", "batch"])
def flight(request: pytest.FixtureRequest, shared: DaemonProcess, session: str) -> Flight:
    return Flight(shared, session, request.param)


def test_deleted_in_flight_and_admitted_it_has_a_receipt_and_stays_deleted(
    flight: Flight,
) -> None:
    flight.host.call("reminder.delete", id=flight.id)
    flight.admit()
    assert flight.receipts() == flight.followup.occurrences
    assert flight.history() == [("old", "old words")]
    assert flight.daemon.sql("SELECT id FROM reminders WHERE id = ?", flight.id) == []
    flight.check_all_is_quiet()


def test_deleted_in_flight_and_not_admitted_it_never_comes_again(flight: Flight) -> None:
    flight.host.call("reminder.delete", id=flight.id)
    flight.refuse()
    flight.check_all_is_quiet()
    assert flight.receipts() == []


def test_re_timed_in_flight_and_admitted_it_still_comes_at_its_new_time(flight: Flight) -> None:
    """The receipt counts for what was sent, and the new timing stays as it was set."""
    new = in_seconds(1)
    result = flight.update(at=new)
    assert result["dropped_occurrence"] == flight.followup.params["occurrences"][0]["occurrence_at"]
    flight.admit()
    reminder = flight.reminder()
    assert (reminder["status"], reminder["scheduled_at"]) == ("active", new)
    assert reminder["last_dispatch"]["occurrence_id"] == flight.followup.occurrences[0]
    second = flight.admit_next()
    assert second.occurrences == [f"{flight.id}@{new}"]
    assert flight.receipts() == [*flight.followup.occurrences, *second.occurrences]
    flight.check_all_is_quiet()


def test_re_timed_in_flight_and_not_admitted_the_old_occurrence_is_dropped(
    flight: Flight,
) -> None:
    new = in_seconds(1)
    flight.update(at=new)
    flight.refuse()
    second = flight.admit_next()
    assert second.occurrences == [f"{flight.id}@{new}"]
    assert second.params["decided_at"] >= new
    assert flight.receipts() == second.occurrences
    flight.check_all_is_quiet()


def test_re_worded_in_flight_and_admitted_it_is_spent_and_history_has_the_words_sent(
    flight: Flight,
) -> None:
    flight.update(prompt="new words", title=None)
    flight.admit()
    assert flight.history() == [("old", "old words")]
    view = "SELECT title, prompt FROM history WHERE session_id = ?"
    assert flight.daemon.sql(view, flight.session) == [("old", "old words")]
    reminder = flight.reminder()
    assert reminder["prompt"] == "new words"
    assert reminder["state"] == ("ended" if reminder["kind"] == "at" else "scheduled")
    flight.check_all_is_quiet()


def test_re_worded_in_flight_and_not_admitted_it_comes_again_with_the_new_words(
    flight: Flight,
) -> None:
    flight.update(prompt="new words", title=None)
    flight.refuse()
    second = flight.admit_next()
    assert second.occurrences == flight.followup.occurrences
    assert second.prompts == ["new words"]
    assert "old words" not in second.params["text"]
    assert flight.history() == [("", "new words")]
    flight.check_all_is_quiet()


def test_words_and_time_changed_in_turn_in_flight_leave_one_receipt_and_the_last_timing(
    flight: Flight,
) -> None:
    flight.update(prompt="second words")
    flight.host.call("reminder.update", id=flight.id, revision=2, every_seconds=600)
    last = flight.host.call("reminder.update", id=flight.id, revision=3, after_seconds=500)
    flight.admit()
    reminder = flight.reminder()
    assert reminder["scheduled_at"] == last["reminder"]["scheduled_at"]
    assert (reminder["kind"], reminder["revision"], reminder["state"]) == ("after", 4, "scheduled")
    assert flight.receipts() == flight.followup.occurrences
    assert flight.history() == [("old", "old words")]
    flight.check_all_is_quiet()
