"""Who hears of a change: by owner, by Session, once each."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from scheduler_daemon.watching import Watch, Watchers
from scheduler_daemon.wire import shapes

ADA, BOB = 1001, 1002


class Ear:
    """A watcher that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def hear(self, frame: bytes) -> None:
        assert frame.endswith(b"\n")
        self.heard.append(json.loads(frame))


def ear(watchers: Watchers, *watches: Watch) -> Ear:
    added = Ear()
    for watch in watches:
        watchers.add(added, watch)
    return added


@pytest.mark.parametrize(
    ("watch", "hears"),
    [
        (Watch(ADA, "s"), True),
        (Watch(ADA, None), True),
        (Watch(None, "s"), True),
        (Watch(None, None), True),
        (Watch(ADA, "t"), False),
        (Watch(BOB, "s"), False),
        (Watch(BOB, None), False),
        (Watch(None, "t"), False),
    ],
)
def test_a_change_is_heard_where_owner_and_session_fit(watch: Watch, hears: bool) -> None:
    watchers = Watchers()
    listening = ear(watchers, watch)
    watchers.tell(ADA, "s", "r1", "deleted")
    assert bool(listening.heard) is hears


def test_a_change_that_fits_several_watches_of_one_is_heard_once() -> None:
    watchers = Watchers()
    listening = ear(watchers, Watch(ADA, "s"), Watch(ADA, "s"), Watch(ADA, None), Watch(None, None))
    other = ear(watchers, Watch(ADA, "s"))
    watchers.tell(ADA, "s", "r1", "ended")
    assert len(listening.heard) == len(other.heard) == 1


def test_a_change_says_whose_and_what_and_no_more_than_there_is() -> None:
    watchers = Watchers()
    listening = ear(watchers, Watch(ADA, None))
    watchers.tell(ADA, "s", "r1", "dispatched")
    event = {"id": "r1", "owner_uid": ADA, "session_id": "s", "change": "dispatched"}
    assert listening.heard == [{"jsonrpc": "2.0", "method": "reminder.changed", "params": event}]


def test_a_change_carries_the_reminder_that_it_is_told_with() -> None:
    watchers = Watchers()
    listening = ear(watchers, Watch(ADA, None))
    reminder = cast("shapes.Reminder", {"id": "r1", "prompt": "p"})
    watchers.tell(ADA, "s", "r1", "created", reminder)
    assert listening.heard[0]["params"]["reminder"] == reminder


def test_a_move_is_heard_in_both_sessions_and_once_by_who_watches_both() -> None:
    watchers = Watchers()
    old, new = ear(watchers, Watch(ADA, "old")), ear(watchers, Watch(ADA, "new"))
    both = ear(watchers, Watch(ADA, "old"), Watch(ADA, "new"))
    everybody, other = ear(watchers, Watch(None, "old")), ear(watchers, Watch(BOB, "old"))
    watchers.tell(ADA, "new", "r1", "updated", also="old")
    assert [len(each.heard) for each in (old, new, both, everybody, other)] == [1, 1, 1, 1, 0]
    assert old.heard[0]["params"]["session_id"] == "new"


def test_who_watches_no_more_hears_no_more_of_it() -> None:
    watchers = Watchers()
    listening = ear(watchers, Watch(ADA, "s"), Watch(ADA, "t"))
    other = ear(watchers, Watch(ADA, "s"))
    watchers.remove(listening, Watch(ADA, "s"))
    watchers.tell(ADA, "s", "r1", "deleted")
    watchers.tell(ADA, "t", "r2", "deleted")
    assert [each["params"]["id"] for each in listening.heard] == ["r2"]
    assert len(other.heard) == 1


def test_whether_anybody_watches_is_known_at_every_moment() -> None:
    watchers = Watchers()
    known = [watchers.anybody]
    listening = ear(watchers, Watch(ADA, "s"), Watch(BOB, "t"))
    for watch in (Watch(ADA, "s"), Watch(BOB, "t")):
        known.append(watchers.anybody)
        watchers.remove(listening, watch)
    assert [*known, watchers.anybody] == [False, True, True, False]
    watchers.tell(ADA, "s", "r1", "deleted")
