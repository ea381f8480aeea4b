"""What an agent can do with its tools, on a real daemon, in both generations of the protocol."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

from scheduler_daemon.mcp.results import SHOWN_CHARACTERS
from tests.mcp.agent import BERLIN, MODES, agent
from tests.support.inprocess import DEADLINE_SECONDS, Running

NOW = {
    "utc": "2026-01-01T12:00:00.000Z",
    "local": "2026-01-01T13:00:00+01:00[Europe/Berlin]",
    "weekday": "Thursday",
    "time_zone": BERLIN,
}
HOUR = {"after_seconds": 3600}
DAILY = {"daily": {"time": "09:00", "time_zone": "America/New_York"}}


async def delivered(on: Running, reminder_id: str) -> None:
    """Take what is due of the Session `mine`; return when the receipt of this one is written."""
    host = await on.peer()
    await host.call("host.attach", name="terminal", sessions=["mine"])
    host.admit(await host.followup())
    async with asyncio.timeout(DEADLINE_SECONDS):
        while (await host.call("reminder.get", id=reminder_id))["reminder"]["state"] != "ended":
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("mode", MODES)
async def test_a_reminder_is_made_listed_changed_paused_resumed_snoozed_and_deleted(
    on: Running, mode: str
) -> None:
    async with agent(on.path, mode=mode) as me:
        made = await me.call("reminder_create", prompt="Check it", title="Build", when=HOUR)
        assert made == {
            "now": NOW,
            "created": True,
            "reminder": {
                "id": "r1",
                "title": "Build",
                "prompt": "Check it",
                "when": HOUR,
                "rule_text": "once, 1 hour after it was set",
                "state": "scheduled",
                "scheduled_at": "2026-01-01T13:00:00.000Z",
                "scheduled_at_local": "2026-01-01T14:00:00+01:00[Europe/Berlin]",
                "revision": 1,
                "created_at": "2026-01-01T12:00:00.000Z",
                "waiting_for": {"why": "target"},
            },
        }
        listed = await me.call("reminder_list")
        assert listed == {"now": NOW, "reminders": [made["reminder"]]}
        changed = await me.call(
            "reminder_update", id="r1", revision=1, prompt="Look", when=DAILY, clear=["title"]
        )
        assert changed["updated"]
        reminder = changed["reminder"]
        assert "title" not in reminder
        assert (reminder["prompt"], reminder["revision"]) == ("Look", 2)
        assert reminder["scheduled_at_local"] == "2026-01-01T09:00:00-05:00[America/New_York]"
        paused = await me.call("reminder_pause", id="r1")
        assert paused["reminder"]["state"] == "paused"
        resumed = await me.call("reminder_resume", id="r1")
        assert resumed["reminder"]["state"] == "scheduled"
        snoozed = await me.call("reminder_snooze", id="r1", when={"after_seconds": 600})
        assert snoozed["created"]
        assert snoozed["reminder"]["snoozed_from"] == "r1"
        assert snoozed["reminder"]["prompt"] == "Look"
        assert await me.call("reminder_delete", id="r1") == {
            "now": NOW,
            "id": "r1",
            "deleted": True,
        }
        assert [each["id"] for each in (await me.call("reminder_list"))["reminders"]] == ["r2"]


@pytest.mark.parametrize(
    ("when", "kept", "local"),
    [
        (HOUR, HOUR, "2026-01-01T14:00:00+01:00[Europe/Berlin]"),
        (
            {"at": "2026-07-01T18:00:00-04:00"},
            {"at": "2026-07-01T22:00:00.000Z"},
            "2026-07-02T00:00:00+02:00[Europe/Berlin]",
        ),
        (
            {"at_local": {"date": "2026-01-02", "time": "09:00", "time_zone": "asia/tokyo"}},
            {"at": "2026-01-02T00:00:00.000Z"},
            "2026-01-02T01:00:00+01:00[Europe/Berlin]",
        ),
        (
            {"every_seconds": 300},
            {"every_seconds": 300},
            "2026-01-01T13:05:00+01:00[Europe/Berlin]",
        ),
        (
            DAILY,
            {"daily": {"time": "09:00:00.000", "time_zone": "America/New_York"}},
            "2026-01-01T09:00:00-05:00[America/New_York]",
        ),
        (
            {"weekly": {"weekdays": [5, 1], "time": "09:00", "time_zone": BERLIN}},
            {"weekly": {"weekdays": [1, 5], "time": "09:00:00.000", "time_zone": BERLIN}},
            "2026-01-02T09:00:00+01:00[Europe/Berlin]",
        ),
        (
            {"cron": {"expression": "0 9 1 * *", "time_zone": "UTC"}},
            {"cron": {"expression": "0 9 1 * *", "time_zone": "UTC"}},
            "2026-02-01T09:00:00+00:00[UTC]",
        ),
    ],
)
async def test_every_way_to_say_when_is_taken_as_meant_and_previewed_alike(
    on: Running, when: dict[str, Any], kept: dict[str, Any], local: str
) -> None:
    async with agent(on.path) as me:
        previewed = await me.call("reminder_preview", when=when, count=1)
        assert previewed["items"][0]["local"] == local
        reminder = await me.create(when=when)
        assert reminder["when"] == kept
        assert reminder["scheduled_at_local"] == local
        assert reminder["rule_text"] == previewed["rule_text"]
        again = await me.create(when=reminder["when"])
        assert again["scheduled_at"] == reminder["scheduled_at"]


@pytest.mark.parametrize(
    "when",
    [
        {"after_seconds": 7200},
        {"at": "2026-01-01T15:00:00+01:00"},
        {"at_local": {"date": "2026-01-01", "time": "15:00", "time_zone": BERLIN}},
    ],
)
async def test_an_ended_reminder_is_snoozed_to_whenever_it_is_to_come_again(
    on: Running, when: dict[str, Any]
) -> None:
    async with agent(on.path) as me:
        await me.create("Call Ada", title="Call", when={"after_seconds": 60})
        on.clock.advance(60)
        await delivered(on, "r1")
        snoozed = (await me.call("reminder_snooze", id="r1", when=when))["reminder"]
        assert (snoozed["prompt"], snoozed["title"]) == ("Call Ada", "Call")
        minute = 60 if "after_seconds" in when else 0
        assert snoozed["scheduled_at"] == f"2026-01-01T14:{minute // 60:02}:00.000Z"


async def test_ends_are_kept_changed_and_cleared(on: Running) -> None:
    ends = {"until": "2027-01-01T00:00:00+01:00", "max_occurrences": 5}
    async with agent(on.path) as me:
        made = await me.create(when=DAILY, expires_after_seconds=60, **ends)
        assert made["until"] == "2026-12-31T23:00:00.000Z"
        assert (made["max_occurrences"], made["expires_after_seconds"]) == (5, 60)
        previewed = await me.call("reminder_preview", when=DAILY, max_occurrences=2)
        assert len(previewed["items"]) == 2
        changed = await me.call(
            "reminder_update",
            id=made["id"],
            revision=1,
            max_occurrences=6,
            clear=["until", "expires_after_seconds"],
        )
        assert changed["reminder"]["max_occurrences"] == 6
        assert not {"until", "expires_after_seconds"} & set(changed["reminder"])
        both = await me.refused(
            "reminder_update", id=made["id"], revision=2, title="T", clear=["title"]
        )
        assert (both["code"], both["field"]) == ("invalid_request", "clear")


async def test_a_stale_revision_is_refused_with_the_reminder_as_it_is(on: Running) -> None:
    async with agent(on.path) as me:
        await me.create()
        await me.call("reminder_update", id="r1", revision=1, title="T")
        error = await me.refused("reminder_update", id="r1", revision=1, title="U")
        assert error["code"] == "reminder_conflict"
        assert (error["reminder"]["title"], error["reminder"]["revision"]) == ("T", 2)
        assert await me.call(
            "reminder_update", id="r1", revision=error["reminder"]["revision"], title="T"
        ) == {"now": NOW, "updated": False, "reminder": error["reminder"]}


async def test_re_timing_an_overdue_one_says_what_will_not_come(on: Running) -> None:
    async with agent(on.path) as me:
        await me.create(when={"after_seconds": 60})
        on.clock.advance(120)
        changed = await me.call("reminder_update", id="r1", revision=1, when=HOUR)
        assert changed["dropped_occurrence"] == "2026-01-01T12:01:00.000Z"


async def test_the_list_tells_whether_a_reminder_came_and_what_it_waits_for(on: Running) -> None:
    async with agent(on.path) as me:
        await me.create(when={"after_seconds": 60})
        on.clock.advance(61)
        (waiting,) = (await me.call("reminder_list"))["reminders"]
        assert (waiting["state"], waiting["waiting_for"]["why"]) == ("overdue", "no_host")
        assert "last_dispatch" not in waiting
        await delivered(on, "r1")
        (came,) = (await me.call("reminder_list", status="all"))["reminders"]
        assert (came["state"], came["ended_reason"]) == ("ended", "delivered")
        assert came["last_dispatch"] == {
            "occurrence_at": "2026-01-01T12:01:00.000Z",
            "outcome": "admitted",
            "admitted_at": "2026-01-01T12:01:01.000Z",
            "host": "terminal",
        }
        assert (await me.call("reminder_list"))["reminders"] == []


async def test_a_list_is_filtered_and_goes_on_with_a_cursor(on: Running) -> None:
    async with agent(on.path) as me:
        for number in range(3):
            await me.create(f"number {number}", when={"after_seconds": 100 - number})
        first = await me.call("reminder_list", limit=2, order="target")
        assert [each["id"] for each in first["reminders"]] == ["r3", "r2"]
        rest = await me.call("reminder_list", limit=2, order="target", cursor=first["next_cursor"])
        assert [each["id"] for each in rest["reminders"]] == ["r1"]
        assert "next_cursor" not in rest
        found = await me.call("reminder_list", text="NUMBER 1")
        assert [each["id"] for each in found["reminders"]] == ["r2"]


async def test_a_list_cuts_long_prompts_and_shows_one_whole_when_it_is_asked_for(
    on: Running,
) -> None:
    whole = "x" * 32_768
    async with agent(on.path) as me:
        made = await me.create(whole)
        assert made["prompt"] == whole
        (cut,) = (await me.call("reminder_list"))["reminders"]
        assert (len(cut["prompt"]), cut["prompt_is_cut"]) == (SHOWN_CHARACTERS + 1, True)
        (one,) = (await me.call("reminder_list", id=made["id"]))["reminders"]
        assert one == made


@pytest.mark.parametrize(
    ("arguments", "code", "field"),
    [
        ({"when": {"at": "2026-01-01T11:59:59Z"}}, "not_future", "when.at"),
        ({"when": {"at": "tomorrow"}}, "invalid_rule", "when.at"),
        ({"when": {"at_local": {"date": "2026-01-02"}}}, "invalid_rule", "when.at_local.time"),
        (
            {"when": {"daily": {"time": "09:00", "time_zone": "CET"}}},
            "invalid_time_zone",
            "when.daily.time_zone",
        ),
        ({"when": {"every_seconds": 60}}, "frequency_too_high", "when.every_seconds"),
        ({"when": {"after_seconds": "60"}}, "invalid_rule", "when.after_seconds"),
        ({"when": {"after_seconds": None}}, "invalid_rule", "when.after_seconds"),
        (
            {"when": {"cron": {"expression": "0 0 31 2 *", "time_zone": "UTC"}}},
            "time_out_of_range",
            "when.cron.expression",
        ),
        ({"when": {}}, "invalid_selector", "when"),
        ({"prompt": " "}, "invalid_prompt", "prompt"),
        ({"prompt": "a\0b"}, "invalid_prompt", "prompt"),
        ({"prompt": "x" * 32_769}, "invalid_prompt", "prompt"),
        ({"prompt": 3}, "invalid_request", "prompt"),
        ({"title": "x" * 121}, "invalid_prompt", "title"),
        ({"until": "soon", "when": DAILY}, "invalid_rule", "until"),
        ({"owner_uid": 0}, "invalid_request", "owner_uid"),
        ({"prompt": "x" * 2_000_000}, "invalid_request", None),
        ({"when": {"after_seconds": 10**30}}, "invalid_request", None),
        ({"when": {"after_seconds": [[[]] * 9] * 9000}}, "invalid_request", None),
    ],
    ids=lambda value: f"{value:.60}" if isinstance(value, str) else None,
)
async def test_what_is_refused_says_its_code_and_member_and_the_server_goes_on(
    on: Running, arguments: dict[str, Any], code: str, field: str | None
) -> None:
    async with agent(on.path) as me:
        error = await me.refused("reminder_create", **{"prompt": "p", "when": HOUR, **arguments})
        assert (error["code"], error.get("field")) == (code, field)
        assert error["message"]
        assert (await me.call("reminder_list"))["reminders"] == []


async def test_a_time_that_has_passed_is_refused_with_the_present_one(on: Running) -> None:
    async with agent(on.path) as me:
        error = await me.refused("reminder_create", prompt="p", when={"at": "2025-12-31T00:00:00Z"})
        assert NOW["utc"] in error["message"]


async def test_an_unknown_tool_is_refused_with_those_that_there_are(on: Running) -> None:
    async with agent(on.path) as me:
        error = await me.refused("reminder_skip", id="r1")
        assert error["message"].endswith("reminder_resume, reminder_snooze, reminder_preview")


async def test_without_a_zone_to_assume_times_are_shown_in_utc(on: Running) -> None:
    async with agent(on.path, zone=None) as me:
        shown = (await me.call("reminder_list"))["now"]
        assert (shown["local"], shown["time_zone"]) == ("2026-01-01T12:00:00+00:00[UTC]", "UTC")
