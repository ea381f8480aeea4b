"""Pages of reminders and of receipts: order, filters, cursors, and what fits one frame."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler_daemon.errors import InvalidRequest, ReminderNotFound
from scheduler_daemon.store import pages as store_pages
from scheduler_daemon.wire.frames import encode
from scheduler_daemon.wire.messages import result
from tests.support.world import ADMIN, ADMIT, UID, Json, World, running_world


async def pages(world: World, read: Any, **asked: Any) -> list[list[Json]]:
    """The items of all pages, each page with the cursor of the one before."""
    found = []
    cursor: Json = {}
    while True:
        page = await read(**asked, **cursor)
        assert len(encode(result("x" * 200, page))) <= world.max_frame_bytes
        found.append(page["items"])
        if "next_cursor" not in page:
            return found
        cursor = {"cursor": page["next_cursor"]}


def ids(items: list[Json]) -> list[str]:
    return [item["id"] for item in items]


async def several(world: World) -> None:
    """r1 to r6 in two Sessions, r1 and r2 of which have ended."""
    await world.agent("s", "t", says=ADMIT)
    for session, seconds in (("s", 1), ("t", 2), ("s", 900), ("t", 800), ("s", 700), ("t", 700)):
        await world.create(session, f"{session}{seconds}", after_seconds=seconds)
    await world.advance(1)
    await world.advance(1)


# --- reminders


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, "3456"),
        ({"order": "created"}, "3456"),
        ({"order": "target"}, "5643"),
        ({"status": "ended"}, "12"),
        ({"status": "all"}, "123456"),
        ({"status": "all", "order": "target"}, "125643"),
        ({"session_id": "s"}, "35"),
        ({"session_id": "s", "order": "target"}, "53"),
        ({"session_id": "t", "status": "all", "order": "target"}, "264"),
        ({"session_id": "unknown"}, ""),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_reminders_are_listed_by_creation_or_target_in_pages(
    world: World, asked: Json, expected: str, limit: int
) -> None:
    await several(world)
    found = await pages(world, world.page, limit=limit, **asked)
    assert all(len(items) == limit for items in found[:-1])
    assert [each for items in found for each in ids(items)] == [f"r{n}" for n in expected]


async def test_an_overdue_reminder_is_active_and_says_so(world: World) -> None:
    await world.create(after_seconds=1)
    await world.advance(1)
    (item,) = (await world.page())["items"]
    assert (item["status"], item["state"]) == ("active", "overdue")


async def test_a_list_shows_the_last_dispatch_of_each(world: World) -> None:
    await several(world)
    items = (await world.page(status="all"))["items"]
    assert ["last_dispatch" in item for item in items] == [True] * 2 + [False] * 4
    assert "prompt" not in items[0]["last_dispatch"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"text": "S9"}, "3"),
        ({"text": "7"}, "56"),
        ({"text": "7", "session_id": "t"}, "6"),
        ({"text": "7", "status": "all", "order": "target"}, "56"),
        ({"due_before": "2026-01-01T12:13:20Z"}, "56"),
        ({"due_before": "2026-01-01T12:13:20.001Z", "order": "target"}, "564"),
        ({"status": "all", "due_before": "2026-01-01T12:00:02Z"}, "1"),
        ({"state": "ended"}, "12"),
        ({"state": "paused"}, "4"),
        ({"state": "overdue"}, ""),
        ({"state": "scheduled", "order": "target"}, "563"),
        ({"kind": "after", "state": "paused", "session_id": "t"}, "4"),
        ({"kind": "at"}, ""),
    ],
)
@pytest.mark.parametrize("rows", [1, 2, 100])
async def test_of_a_page_only_so_many_rows_are_looked_at_and_all_pages_have_what_is_wanted(
    world: World, asked: Json, expected: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those between may be short or empty."""
    monkeypatch.setattr(store_pages, "PAGE_ROWS", rows)
    await several(world)
    await world.act("pause", "r4")
    found = await pages(world, world.page, limit=2, **asked)
    assert all(len(items) <= min(rows, 2) for items in found)
    assert [each for items in found for each in ids(items)] == [f"r{n}" for n in expected]


async def test_what_changes_between_pages_is_neither_shown_twice_nor_a_reason_to_skip(
    world: World,
) -> None:
    await several(world)
    first = await world.page(limit=2)
    await world.delete("r3")
    await world.delete("r5")
    await world.create("s", after_seconds=1)
    second = await world.page(limit=2, cursor=first["next_cursor"])
    assert ids(first["items"]) + ids(second["items"]) == ["r3", "r4", "r6", "r7"]


@pytest.mark.parametrize(
    "other",
    [
        {"session_id": "t"},
        {"status": "all"},
        {"order": "target"},
        {"session_id": "s", "limit": 9},
        {"state": "scheduled"},
        {"kind": "after"},
        {"text": "s"},
        {"due_before": "2027-01-01T00:00:00Z"},
    ],
)
async def test_a_cursor_is_good_only_with_its_own_filters(world: World, other: Json) -> None:
    await several(world)
    cursor = (await world.page(limit=1))["next_cursor"]
    with pytest.raises(InvalidRequest, match="begin without one") as refused:
        await world.page(cursor=cursor, **other)
    assert refused.value.field == "cursor"
    await world.page(cursor=cursor, limit=50)


async def test_a_cursor_is_good_only_for_its_own_user(world: World) -> None:
    await several(world)
    cursor = (await world.page(limit=1))["next_cursor"]
    with pytest.raises(InvalidRequest):
        await world.page(ADMIN, cursor=cursor)
    await world.page(ADMIN, owner_uid=UID, cursor=cursor)


async def test_a_page_ends_before_its_frame_would_be_too_long(tmp_path: Path) -> None:
    async with running_world(tmp_path, max_frame_bytes=64 * 1024) as world:
        for number in range(6):
            await world.create("s", f"{number}" + "\x01" * 4000, after_seconds=60)
        found = await pages(world, world.page)
        assert [len(items) for items in found] == [2, 2, 2]
        assert [each for items in found for each in ids(items)] == [f"r{n}" for n in range(1, 7)]


async def test_the_longest_reminders_have_pages_of_the_usual_limit(world: World) -> None:
    for _ in range(6):
        await world.create("s", "\x01" * 32768, after_seconds=60)
    found = await pages(world, world.page)
    assert [len(items) for items in found] == [5, 1]


async def test_a_page_is_never_empty_before_the_end(tmp_path: Path) -> None:
    """One reminder always fits; if it did not, it would still be shown."""
    async with running_world(tmp_path, max_frame_bytes=1 << 20) as world:
        for _ in range(2):
            await world.create("s", "p" * 30000, after_seconds=60)
        desk = world.service._desk
        desk.bounds = replace(desk.bounds, max_frame_bytes=20_000)
        page = await world.page()
        assert ids(page["items"]) == ["r1"]
        assert "next_cursor" in page


async def test_rows_that_cannot_be_read_are_left_out_and_set_aside(world: World) -> None:
    await several(world)
    world.spoil("r3")
    world.spoil("r5")
    found = await pages(world, world.page, limit=1)
    assert [each for items in found for each in ids(items)] == ["r4", "r6"]
    assert (await world.status())["counts"]["set_aside"] == 2


# --- receipts


async def history_of_several(world: World) -> None:
    """Seven receipts: of r1, each five minutes, and of r2 in another Session, once."""
    await world.agent("s", "t", says=ADMIT)
    await world.create("s", "old words", title="t", every_seconds=300)
    await world.create("t", "once", after_seconds=1000)
    for round_number in range(6):
        await world.advance(300)
        if round_number == 2:
            await world.update("r1", prompt="new words")


async def test_receipts_are_listed_newest_first_with_the_words_that_were_sent(
    world: World,
) -> None:
    await history_of_several(world)
    ways: list[Json] = [{"id": "r1"}, {"session_id": "s"}, {"id": "r1", "session_id": "s"}]
    for asked in ways:
        items = (await world.history(**asked))["items"]
        instants = [item["occurrence_at"][11:19] for item in items]
        assert instants == sorted(instants, reverse=True)
        assert [item["prompt"] for item in items] == ["new words"] * 3 + ["old words"] * 3
        assert {item["title"] for item in items} == {"t"}
    (once,) = (await world.history(session_id="t"))["items"]
    assert once == {
        "followup_id": once["followup_id"],
        "occurrence_id": "r2@2026-01-01T12:16:40.000Z",
        "reminder_id": "r2",
        "session_id": "t",
        "occurrence_at": "2026-01-01T12:16:40.000Z",
        "decided_at": "2026-01-01T12:20:00.000Z",
        "admitted_at": "2026-01-01T12:20:00.000Z",
        "host": "host",
        "outcome": "admitted",
        "prompt": "once",
    }


@pytest.mark.parametrize("limit", [1, 2, 6, 100])
@pytest.mark.parametrize("asked", [{"id": "r1"}, {"session_id": "s"}])
async def test_receipts_come_in_pages(world: World, asked: Json, limit: int) -> None:
    await history_of_several(world)
    found = await pages(world, world.history, limit=limit, **asked)
    items = [item for page in found for item in page]
    assert len({item["occurrence_id"] for item in items}) == len(items) == 6
    assert all(len(page) == limit for page in found[:-1])


async def test_a_page_of_receipts_ends_before_its_frame_would_be_too_long(
    tmp_path: Path,
) -> None:
    async with running_world(tmp_path, max_frame_bytes=64 * 1024) as world:
        await world.agent("s", says=ADMIT)
        for number in range(5):
            await world.create("s", f"{number}" + "\x01" * 4000, after_seconds=1)
        await world.advance(1)
        found = await pages(world, world.history, session_id="s")
        assert [len(items) for items in found] == [2, 2, 1]


async def test_a_reminder_without_receipts_has_an_empty_history_and_no_other_has(
    world: World,
) -> None:
    await world.create()
    assert await world.history(id="r1") == {"items": []}
    assert await world.history(session_id="unknown") == {"items": []}
    others: list[Json] = [{"id": "r2"}, {"id": "r1", "session_id": "t"}]
    for asked in others:
        with pytest.raises(ReminderNotFound):
            await world.history(**asked)


async def test_a_history_is_of_a_reminder_or_a_session(world: World) -> None:
    with pytest.raises(InvalidRequest, match="id of a reminder or a session_id"):
        await world.history()


async def test_a_cursor_of_one_history_is_not_good_for_another(world: World) -> None:
    await history_of_several(world)
    cursor = (await world.history(id="r1", limit=1))["next_cursor"]
    with pytest.raises(InvalidRequest):
        await world.history(session_id="s", cursor=cursor)
    with pytest.raises(InvalidRequest):
        await world.page(cursor=cursor)
