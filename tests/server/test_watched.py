"""What really happens to reminders, as watchers hear it: each change once, when it is on disk."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

from scheduler_daemon.settings import MIB
from tests.server.test_watching import deaf, first_watcher, until_heard
from tests.support.inprocess import Blocked, Json, Peer, Running, needs_root, request, running

ME = os.getuid()
ADA = 54_321
HOUR: Any = {"every_seconds": 3600}


async def watcher(on: Running, **params: object) -> Peer:
    peer = await on.peer()
    assert await peer.call("daemon.watch", **params) == {}
    return peer


async def so_far(peer: Peer) -> list[Json]:
    """The changes heard up to now: an answer comes after them."""
    await peer.call("hello")
    heard, peer.requests = peer.requests, []
    assert all(frame["method"] == "reminder.changed" for frame in heard)
    return [frame["params"] for frame in heard]


def short(changes: list[Json]) -> list[tuple[str, str]]:
    return [(change["change"], change["id"]) for change in changes]


async def coming(peer: Peer, count: int) -> list[Json]:
    """The next changes, waited for, and no more than these up to then."""
    heard = [(await peer.followup())["params"] for _ in range(count)]
    return heard + await so_far(peer)


async def test_every_change_that_a_caller_makes_is_heard_once(on: Running, peer: Peer) -> None:
    watching = await watcher(on)
    await peer.create("s", **HOUR)
    await peer.call("reminder.update", id="r1", revision=1, prompt="other")
    await peer.call("reminder.pause", id="r1")
    await peer.call("reminder.resume", id="r1")
    await peer.call("reminder.skip", id="r1")
    await peer.call("reminder.snooze", id="r1", seconds=60)
    await peer.call("reminder.delete", id="r2")
    await peer.call("session.transfer", **{"from": "s", "to": "t"})
    await peer.call("session.forget", session_id="t")
    assert short(await so_far(watching)) == [
        ("created", "r1"),
        ("updated", "r1"),
        ("paused", "r1"),
        ("resumed", "r1"),
        ("updated", "r1"),
        ("created", "r2"),
        ("deleted", "r2"),
        ("updated", "r1"),
        ("deleted", "r1"),
    ]


async def test_what_one_caller_changed_comes_with_the_reminder_as_it_is_then(
    on: Running, peer: Peer
) -> None:
    watching = await watcher(on)
    await peer.create("s", **HOUR)
    for method, params in (
        ("reminder.update", {"revision": 1, "title": "t"}),
        ("reminder.pause", {}),
        ("reminder.resume", {}),
        ("reminder.skip", {}),
    ):
        now = (await peer.call(method, id="r1", **params))["reminder"]
        assert (await so_far(watching))[-1] == {
            "id": "r1",
            "owner_uid": ME,
            "session_id": "s",
            "change": {"pause": "paused", "resume": "resumed"}.get(method[9:], "updated"),
            "reminder": now,
        }


async def test_what_changes_nothing_is_not_heard(on: Running, peer: Peer) -> None:
    creation: Any = {"session": "s", "idempotency_key": "k", **HOUR}
    await peer.create(**creation)
    await peer.call("reminder.pause", id="r1")
    watching = await watcher(on)
    await peer.create(**creation)
    await peer.call("reminder.pause", id="r1")
    await peer.refused("reminder.update", id="r1", revision=1, prompt="p")
    now = (await peer.call("reminder.get", id="r1"))["reminder"]["revision"]
    await peer.call("reminder.update", id="r1", revision=now, prompt="p")
    await peer.call("reminder.delete", id="r9")
    await peer.refused("reminder.skip", id="r9")
    await peer.call("session.forget", session_id="t")
    assert await so_far(watching) == []


async def test_a_one_shot_that_is_admitted_is_dispatched_and_ends(on: Running, peer: Peer) -> None:
    await peer.create("s", after_seconds=60)
    await peer.call("host.attach", name="h", sessions=["s"])
    watching = await watcher(on)
    on.clock.advance(60)
    followup = await peer.followup()
    assert await so_far(watching) == []
    peer.admit(followup)
    event = {"id": "r1", "owner_uid": ME, "session_id": "s"}
    assert await coming(watching, 2) == [
        event | {"change": "dispatched"},
        event | {"change": "ended"},
    ]


async def test_recurring_ones_are_dispatched_together_and_go_on(on: Running, peer: Peer) -> None:
    await peer.create("s", **HOUR)
    await peer.create("s", **HOUR)
    await peer.call("host.attach", name="h", sessions=["s"])
    watching = await watcher(on)
    on.clock.advance(3600)
    peer.admit(await peer.followup())
    assert short(await coming(watching, 2)) == [("dispatched", "r1"), ("dispatched", "r2")]


async def test_one_that_is_run_by_hand_is_dispatched_and_does_not_end(
    on: Running, peer: Peer
) -> None:
    await peer.create("s", **HOUR)
    await peer.call("host.attach", name="h", sessions=["s"])
    watching = await watcher(on)
    await peer.call("reminder.run_now", id="r1")
    peer.admit(await peer.followup())
    assert short(await coming(watching, 1)) == [("dispatched", "r1")]


async def test_a_skip_that_leaves_nothing_ends_it(on: Running, peer: Peer) -> None:
    await peer.create("s", **HOUR, until="2026-01-01T13:30:00Z")
    watching = await watcher(on)
    on.clock.advance(700)  # until it is known that the clock can be trusted
    await peer.call("reminder.skip", id="r1")
    assert short(await so_far(watching)) == [("updated", "r1"), ("ended", "r1")]


async def test_what_is_too_old_to_be_sent_goes_on_or_ends(on: Running, peer: Peer) -> None:
    await peer.create("s", **HOUR, expires_after_seconds=60)
    await peer.create("s", after_seconds=60, expires_after_seconds=60)
    on.clock.advance(3900)
    watching = await watcher(on)
    await peer.call("host.attach", name="h", sessions=["s"])
    assert sorted(short(await coming(watching, 2))) == [("ended", "r2"), ("updated", "r1")]


async def test_a_change_is_heard_in_its_session_and_a_move_in_both(on: Running, peer: Peer) -> None:
    old, new = await watcher(on, session_id="old"), await watcher(on, session_id="new")
    other = await watcher(on, session_id="other")
    await peer.create("old", **HOUR)
    await peer.call("session.transfer", **{"from": "old", "to": "new"})
    await peer.call("reminder.delete", id="r1")
    assert short(await so_far(old)) == [("created", "r1"), ("updated", "r1")]
    heard = await so_far(new)
    assert short(heard) == [("updated", "r1"), ("deleted", "r1")]
    assert heard[0] == {"id": "r1", "owner_uid": ME, "session_id": "new", "change": "updated"}
    assert await so_far(other) == []


@needs_root
async def test_another_users_changes_are_heard_by_who_asked_for_them_alone(folder: Path) -> None:
    async with running(folder, allowed_uids=(ADA,)) as on:
        ada = await on.peer_as(ADA)
        own, everybody = await watcher(on), await watcher(on, owner_uid="*")
        of_ada = await watcher(on, owner_uid=ADA, session_id="s")
        hers = await on.peer_as(ADA)
        await hers.call("daemon.watch")
        root = await on.peer()
        await ada.create("s")
        await root.create("s")
        await root.call("reminder.delete", id="r1", owner_uid=ADA)
        his, heard = [("created", "r2")], [("created", "r1"), ("deleted", "r1")]
        assert short(await so_far(own)) == his
        assert short(await so_far(of_ada)) == short(await so_far(hers)) == heard
        assert short(await so_far(everybody)) == [heard[0], *his, heard[1]]


async def test_no_change_is_heard_before_it_is_on_disk(on: Running, peer: Peer) -> None:
    watching = await watcher(on)
    with Blocked(on.database):
        peer.write(
            request(1, "reminder.create", session_id="s", prompt="p", after_seconds=60),
        )
        await (await on.peer()).call("hello")
        assert await so_far(watching) == []
    change = (await watching.read())["params"]
    with sqlite3.connect(on.database) as conn:
        (found,) = conn.execute("SELECT count(*) FROM reminders").fetchone()
    conn.close()
    assert (change["change"], found) == ("created", 1)


async def test_a_receipt_is_heard_when_it_is_on_disk(on: Running, peer: Peer) -> None:
    await peer.create("s", after_seconds=60)
    await peer.call("host.attach", name="h", sessions=["s"])
    watching = await watcher(on)
    on.clock.advance(60)
    followup = await peer.followup()
    with Blocked(on.database):
        peer.admit(followup)
        while (await peer.call("reminder.get", id="r1"))["reminder"]["waiting_for"] != {
            "why": "receipt"
        }:
            pass
        assert await so_far(watching) == []
    assert (await watching.read())["params"]["change"] == "dispatched"


async def test_one_that_never_reads_while_ten_thousand_things_change_harms_nobody(
    on: Running, peer: Peer
) -> None:
    for _ in range(10):
        peer.write(
            *(
                request(n, "reminder.create", session_id="a", prompt="p", after_seconds=3600)
                for n in range(50)
            )
        )
        assert all(["result" in await peer.read() for _ in range(50)])
    reading = await watcher(on)
    async with deaf(on) as sock:
        for source, target in (("a", "b"), ("b", "a")) * 10:
            moved = await peer.call("session.transfer", **{"from": source, "to": target})
            assert moved == {"reminders": 500}
            assert len(await so_far(reading)) == 500
        assert first_watcher(on).waiting_bytes <= MIB
        late = await Peer.over(sock)
        await until_heard(late, None)
        await peer.create("c")
        assert (await until_heard(late, "r501"))[-1] == "r501"
        await late.close()
