"""A record is deleted, re-timed or re-worded while its message is on its way."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import NewDaemon
from tests.acceptance.steps import in_seconds, let_pass, make_soon, overdue, receipts
from tests.support.peer import BUSY, SILENCE, Followup, Peer, Reply
from tests.support.process import DaemonProcess

pytestmark = pytest.mark.acceptance

Json = dict[str, object]


class Flight:
    """A daemon, a host, and the follow-up of one reminder that waits for the host's answer."""

    def __init__(self, daemon: DaemonProcess, kind: str) -> None:
        self.daemon = daemon
        self.host: Peer = daemon.start().peer()
        if kind == "one-shot":
            self.id = make_soon(self.host, "s1", "old words", title="old")
        else:
            self.id = self.host.create("s1", "old words", title="old", every_seconds=3600)["id"]
            daemon.stop()
            let_pass(daemon, "-1 hours")
            self.host = daemon.start().peer()
        self.host.reply = SILENCE
        self.host.attach(["s1"])
        self.followup = self.host.next_followup()

    def answer(self, reply: Reply) -> None:
        """The host answers the follow-up, and the daemon has done what follows from it."""
        self.host.answer(self.followup, reply)
        admitted = reply is not None and reply.get("result") == {"status": "admitted"}
        event = "followup_admitted" if admitted else "followup_not_admitted"
        self.daemon.logged(event, followup_id=self.followup.params["followup_id"])

    def admit(self) -> None:
        self.answer({"result": {"status": "admitted"}})

    def update(self, **changes: object) -> Json:
        result: Json = self.host.call("reminder.update", id=self.id, revision=1, **changes)
        return result

    def history(self) -> list[tuple[str, str]]:
        """Words that were sent, newest first."""
        page = self.host.call("reminder.history", session_id="s1")
        return [(each.get("title", ""), each["prompt"]) for each in page["items"]]

    def check_all_is_quiet(self) -> None:
        """Nothing comes, and the file has nothing that could."""
        self.host.nothing_comes(0.3)
        assert overdue(self.daemon) == []


@pytest.fixture(params=["one-shot", "batch"])
def flight(request: pytest.FixtureRequest, new_daemon: NewDaemon) -> Flight:
    return Flight(new_daemon(), request.param)


def test_deleted_in_flight_and_admitted_it_has_a_receipt_and_stays_deleted(
    flight: Flight,
) -> None:
    flight.host.call("reminder.delete", id=flight.id)
    flight.admit()
    assert receipts(flight.daemon, "s1") == flight.followup.occurrences
    assert flight.history() == [("old", "old words")]
    assert flight.daemon.sql("SELECT count(*) FROM reminders") == [(0,)]
    flight.check_all_is_quiet()


def test_deleted_in_flight_and_not_admitted_it_never_comes_again(flight: Flight) -> None:
    flight.host.call("reminder.delete", id=flight.id)
    flight.answer(BUSY)
    flight.host.ready("s1")
    assert receipts(flight.daemon, "s1") == []
    flight.check_all_is_quiet()


def test_re_timed_in_flight_and_admitted_it_still_comes_at_its_new_time(flight: Flight) -> None:
    """The receipt counts for what was sent, and the new timing stays as it was set."""
    new = in_seconds(1)
    result = flight.update(at=new)
    assert result["dropped_occurrence"] == flight.followup.params["occurrences"][0]["occurrence_at"]
    flight.admit()
    reminder = flight.host.call("reminder.get", id=flight.id)["reminder"]
    assert (reminder["status"], reminder["scheduled_at"]) == ("active", new)
    assert reminder["last_dispatch"]["occurrence_id"] == flight.followup.occurrences[0]
    second = flight.host.next_followup()
    assert second.occurrences == [f"{flight.id}@{new}"]
    flight.host.answer(second)
    flight.daemon.logged("followup_admitted", followup_id=second.params["followup_id"])
    assert receipts(flight.daemon, "s1") == [*flight.followup.occurrences, *second.occurrences]
    flight.check_all_is_quiet()


def test_re_timed_in_flight_and_not_admitted_the_old_occurrence_is_dropped(
    flight: Flight,
) -> None:
    new = in_seconds(1)
    flight.update(at=new)
    flight.answer(BUSY)
    flight.host.ready("s1")
    second = flight.host.next_followup()
    assert second.occurrences == [f"{flight.id}@{new}"]
    assert second.params["decided_at"] >= new
    flight.host.answer(second)
    flight.daemon.logged("followup_admitted", followup_id=second.params["followup_id"])
    assert receipts(flight.daemon, "s1") == second.occurrences
    flight.check_all_is_quiet()


def test_re_worded_in_flight_and_admitted_it_is_spent_and_history_has_the_words_sent(
    flight: Flight,
) -> None:
    flight.update(prompt="new words", title=None)
    flight.admit()
    assert flight.history() == [("old", "old words")]
    assert flight.daemon.sql("SELECT title, prompt FROM history") == [("old", "old words")]
    reminder = flight.host.call("reminder.get", id=flight.id)["reminder"]
    assert reminder["prompt"] == "new words"
    assert reminder["state"] == ("ended" if reminder["kind"] == "at" else "scheduled")
    flight.check_all_is_quiet()


def test_re_worded_in_flight_and_not_admitted_it_comes_again_with_the_new_words(
    flight: Flight,
) -> None:
    flight.update(prompt="new words", title=None)
    flight.answer(BUSY)
    flight.host.ready("s1")
    second: Followup = flight.host.next_followup()
    assert second.occurrences == flight.followup.occurrences
    assert second.prompts == ["new words"]
    assert "old words" not in second.params["text"]
    flight.host.answer(second)
    flight.daemon.logged("followup_admitted", followup_id=second.params["followup_id"])
    assert flight.history() == [("", "new words")]
    flight.check_all_is_quiet()


def test_words_and_time_changed_twice_in_flight_leave_one_receipt_and_the_last_timing(
    flight: Flight,
) -> None:
    flight.update(prompt="second words")
    flight.host.call("reminder.update", id=flight.id, revision=2, every_seconds=600)
    last = flight.host.call("reminder.update", id=flight.id, revision=3, after_seconds=500)
    flight.admit()
    reminder = flight.host.call("reminder.get", id=flight.id)["reminder"]
    assert reminder["scheduled_at"] == last["reminder"]["scheduled_at"]
    assert (reminder["kind"], reminder["revision"], reminder["state"]) == ("after", 4, "scheduled")
    assert receipts(flight.daemon, "s1") == flight.followup.occurrences
    assert flight.history() == [("old", "old words")]
    flight.check_all_is_quiet()
