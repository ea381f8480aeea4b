"""The queue of a host: what is in it, what comes next, and what is known for a repeat."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_daemon.client.spool import KEPT_DAYS, Spool, SpoolRefused, text_of
from tests.client.followups import followup, occurrence

NOW = dt.datetime(2026, 8, 7, 1, 0, tzinfo=dt.UTC)
SOON = dt.timedelta(seconds=10)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "state" / "queue.db")
    yield made
    made.close()


def admit(spool: Spool, *ids: str, session: str = "s1", push: int = 1) -> int | None:
    return spool.admit([followup(*ids, session=session, push=push)], NOW)


def begin(spool: Spool, now: dt.datetime = NOW) -> int | None:
    message = spool.begin(now)
    return None if message is None else message.number


def test_the_file_its_folder_and_what_sqlite_puts_beside_it_are_for_the_user_alone(
    spool: Spool,
) -> None:
    old = os.umask(0)
    try:
        assert admit(spool, "r1@1") == 1
        spool.hold()
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in spool.path.parent.iterdir()}
    assert stat.S_IMODE(spool.path.parent.stat().st_mode) == 0o700
    assert set(modes.values()) == {0o600}
    assert {"queue.db", "queue.db-wal", "queue.db.host"} <= set(modes)


def test_what_was_admitted_is_there_when_the_file_is_opened_again(spool: Spool) -> None:
    admit(spool, "r1@1")
    again = Spool(spool.path)
    (message,) = again.messages()
    assert (message.number, message.session_id, message.state) == (1, "s1", "queued")
    assert message.followup == followup("r1@1")
    assert message.admitted_at == message.changed_at == "2026-08-07T01:00:00.000Z"
    again.close()


def test_a_repeat_is_dropped_whatever_became_of_the_message(spool: Spool) -> None:
    assert admit(spool, "r1@1") == 1
    assert admit(spool, "r1@1", push=2) == 1
    begin(spool)
    assert admit(spool, "r1@1", push=3) == 1
    spool.end(1, "done", NOW)
    assert admit(spool, "r1@1", push=4) == 1
    assert begin(spool) is None


def test_of_a_message_that_is_known_in_part_only_the_rest_is_queued(spool: Spool) -> None:
    admit(spool, "r1@1")
    begin(spool)
    spool.end(1, "done", NOW)
    whole = followup("r2@1", "r1@1", "r3@1")
    assert spool.admit([whole], NOW) == 2
    second = spool.message(2)
    assert second is not None
    assert second.followup == {
        **whole,
        "text": '[head]\n\nreminder: "r2"\nprompt: "do r2"\n\n'
        'reminder: "r3"\nprompt: "do r3"\n\n[end]',
        "occurrences": [occurrence("r2@1"), occurrence("r3@1")],
    }
    assert admit(spool, "r1@1", "r3@1", push=2) == 1
    assert admit(spool, "r2@1", push=3) == 2


def test_of_the_messages_that_a_follow_up_becomes_known_ones_are_left_out(spool: Spool) -> None:
    admit(spool, "r1@1")
    begin(spool)
    spool.put_off(1, "failed", NOW + SOON, NOW, "exit status 1")
    assert spool.admit([followup("r1@1"), followup("r2@1")], NOW) == 2
    assert [each.followup["occurrences"] for each in spool.messages()] == [
        [occurrence("r1@1")],
        [occurrence("r2@1")],
    ]


def test_what_is_known_in_part_waits_while_its_session_is_occupied(spool: Spool) -> None:
    admit(spool, "r1@1")
    assert admit(spool, "r1@1", "r2@1") is None
    begin(spool)
    spool.end(1, "done", NOW)
    assert admit(spool, "r1@1", "r2@1", push=2) == 2


def test_a_session_with_something_waiting_or_running_takes_no_more(spool: Spool) -> None:
    admit(spool, "r1@1")
    assert spool.is_occupied("s1")
    assert admit(spool, "r2@1") is None
    assert admit(spool, "r2@1", session="s2") == 2
    begin(spool)
    assert admit(spool, "r3@1") is None
    spool.end(1, "failed", NOW, "no")
    assert not spool.is_occupied("s1")
    assert admit(spool, "r3@1") == 3


def test_messages_of_a_session_run_one_at_a_time_in_order_and_those_of_others_meanwhile(
    spool: Spool,
) -> None:
    spool.admit([followup("r1@1"), followup("r2@1"), followup("r3@1")], NOW)
    admit(spool, "r4@1", session="s2")
    assert [begin(spool), begin(spool), begin(spool)] == [1, 4, None]
    spool.end(1, "done", NOW)
    assert [begin(spool), begin(spool)] == [2, None]


def test_a_busy_session_keeps_its_order_and_costs_no_attempt(spool: Spool) -> None:
    spool.admit([followup("r1@1"), followup("r2@1")], NOW)
    begin(spool)
    spool.put_off(1, "busy", NOW + SOON, NOW, "a terminal has it")
    assert begin(spool) is None
    assert spool.next_due() == text_of(NOW + SOON)
    message = spool.begin(NOW + SOON)
    assert message is not None
    assert (message.number, message.attempts, message.failures) == (1, 1, 0)
    assert (message.waits, message.reason) == (None, "a terminal has it")


def test_what_failed_steps_aside_until_its_pause_is_over(spool: Spool) -> None:
    admit(spool, "r1@1")
    begin(spool)
    spool.put_off(1, "failed", NOW + SOON, NOW, "exit status 1")
    assert admit(spool, "r2@1") == 2
    assert begin(spool) == 2
    spool.end(2, "done", NOW)
    assert begin(spool) is None
    message = spool.begin(NOW + SOON)
    assert message is not None
    assert (message.number, message.attempts, message.failures) == (1, 2, 1)


def test_a_pause_that_no_clock_of_now_could_have_given_is_over(spool: Spool) -> None:
    admit(spool, "r1@1")
    begin(spool)
    year = dt.timedelta(days=365)
    spool.put_off(1, "failed", NOW + year, NOW, "it was next year then")
    assert begin(spool) == 1


def test_what_ran_when_its_host_ended_runs_again_as_the_same_attempt(spool: Spool) -> None:
    admit(spool, "r1@1")
    begin(spool)
    spool.put_back()
    message = spool.begin(NOW)
    assert message is not None
    assert (message.number, message.attempts) == (1, 1)


@pytest.mark.parametrize("state", ["failed", "unknown", "dropped", "queued"])
def test_a_person_lets_a_message_run_at_once_with_all_its_attempts_again(
    spool: Spool, state: str
) -> None:
    admit(spool, "r1@1")
    begin(spool)
    spool.put_off(1, "failed", NOW + SOON, NOW, "exit status 1")
    if state == "dropped":
        assert spool.drop(1, NOW)
    elif state != "queued":
        begin(spool, NOW + SOON)
        spool.end(1, "failed" if state == "failed" else "unknown", NOW, "no")
    assert spool.retry(1, NOW)
    message = spool.begin(NOW)
    assert message is not None
    assert (message.failures, message.state, message.not_before) == (0, "running", None)


def test_what_runs_or_is_done_is_left_alone(spool: Spool) -> None:
    admit(spool, "r1@1")
    begin(spool)
    assert not spool.drop(1, NOW)
    assert not spool.retry(1, NOW)
    spool.end(1, "done", NOW)
    assert not spool.drop(1, NOW)
    assert not spool.retry(1, NOW)
    assert not spool.retry(7, NOW)


def test_what_was_dropped_stays_known(spool: Spool) -> None:
    admit(spool, "r1@1")
    assert spool.drop(1, NOW)
    assert begin(spool) is None
    assert admit(spool, "r1@1", push=2) == 1
    assert list(spool.messages()) == []
    assert [each.state for each in spool.messages(ended=True)] == ["dropped"]


def test_of_what_is_done_no_words_stay(spool: Spool) -> None:
    spool.admit([followup(occurrence("r1@1", title="secret", prompt="secret"))], NOW)
    begin(spool)
    spool.end(1, "failed", NOW, "no")
    assert "secret" in str(spool.message(1))
    spool.retry(1, NOW)
    begin(spool)
    spool.end(1, "done", NOW)
    message = spool.message(1)
    assert message is not None
    assert message.followup["occurrences"][0]["occurrence_id"] == "r1@1"
    assert "secret" not in str(message)
    assert admit(spool, "r1@1") == 1


def test_what_is_done_goes_after_a_month_and_what_failed_stays(spool: Spool) -> None:
    for number, state in enumerate(("done", "failed", "done"), 1):
        admit(spool, f"r{number}@1")
        begin(spool)
        spool.end(number, "done" if state == "done" else "failed", NOW)
    late = NOW + dt.timedelta(days=KEPT_DAYS)
    admit(spool, "r4@1")
    begin(spool)
    spool.end(4, "done", late)
    spool.prune(late)
    assert [each.number for each in spool.messages(ended=True)] == [1, 2, 3, 4]
    spool.prune(late + SOON)
    assert [each.number for each in spool.messages(ended=True)] == [2, 4]
    assert admit(spool, "r1@1", push=9) == 5


def test_one_host_has_a_queue_and_others_may_ring_for_it(spool: Spool) -> None:
    other = Spool(spool.path)
    assert not other.bell.is_held()
    assert not other.bell.ring()
    fd = spool.hold()
    assert spool.hold() == fd
    assert other.bell.is_held()
    with pytest.raises(SpoolRefused, match="another host works on the queue"):
        other.hold()
    for _ in range(70_000):  # more than a pipe holds
        assert other.bell.ring()
    spool.bell.quiet()
    spool.bell.quiet()
    spool.close()
    assert not other.bell.is_held()
    other.hold()
    other.close()


def test_a_host_says_what_it_is(spool: Spool) -> None:
    assert spool.description() == {}
    spool.describe({"pid": 1})
    spool.describe({"pid": 2})
    assert spool.description() == {"pid": 2}


def test_a_file_that_is_no_queue_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    path.write_text("something else, and long enough to be looked at as a database " * 20)
    with pytest.raises(SpoolRefused, match=r"cannot be used: file is not a database"):
        Spool(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(SpoolRefused, match=r"cannot be opened: .*Is a directory"):
        Spool(path)


def test_a_queue_of_another_version_is_refused(spool: Spool) -> None:
    with sqlite3.connect(spool.path) as conn:
        conn.execute("PRAGMA user_version = 2")
    conn.close()
    with pytest.raises(SpoolRefused, match="it has form 2, and this program knows form 1"):
        Spool(spool.path)


def test_a_database_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE theirs (a)")
    conn.close()
    before = path.read_bytes()
    with pytest.raises(SpoolRefused, match="it is no queue of a host, and was left as it is"):
        Spool(path)
    assert path.read_bytes() == before


def test_a_bell_that_may_not_be_rung_is_an_error(spool: Spool, tmp_path: Path) -> None:
    (spool.path.parent / "queue.db.host").mkdir()
    with pytest.raises(IsADirectoryError):
        spool.bell.ring()


@pytest.mark.parametrize("how", ["ABORT", "ROLLBACK"])
def test_what_cannot_be_written_whole_is_not_written_at_all(spool: Spool, how: str) -> None:
    with closing(sqlite3.connect(spool.path)) as other:
        other.execute(
            "CREATE TRIGGER broken BEFORE INSERT ON occurrences"
            f" BEGIN SELECT RAISE({how}, 'no room'); END"
        )
        with pytest.raises(sqlite3.Error, match="no room"):
            admit(spool, "r1@1")
        assert other.execute("SELECT count(*) FROM messages").fetchone() == (0,)
        other.execute("DROP TRIGGER broken")
    assert admit(spool, "r1@1") == 1
