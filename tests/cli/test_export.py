"""`schedctl export --ics`: what stands in the file, for whom, and where it goes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import icalendar
import pytest

from scheduler_daemon.cli import ics
from scheduler_daemon.rules import parse_instant_text
from scheduler_daemon.wire.shapes import Reminder
from tests.cli import shapes
from tests.cli.conftest import Ended
from tests.cli.reading_back import recurring
from tests.cli.scripted import ScriptedDaemon
from tests.store.support import new_file

Schedctl = Callable[..., Ended]

NOW = parse_instant_text("2026-11-30T12:00:00.500Z")
AT = "2026-11-30T12:00:00.000Z"


def events(data: bytes | str) -> list[Any]:
    return list(icalendar.Calendar.from_ical(data).walk("VEVENT"))


def exported(*reminders: dict[str, Any] | Reminder) -> list[Any]:
    return events(ics.calendar(cast("list[Reminder]", reminders), NOW))


def rule_of(kind: str, value: object, **end: Any) -> str:
    """The one rule of the one event of a reminder."""
    (event,) = exported(recurring(kind, value, AT, **end))
    return str(event["RRULE"].to_ical().decode())


def test_a_one_shot_is_an_instant_that_blocks_no_time() -> None:
    shot = shapes.reminder(scheduled_at="2026-12-24T13:20:00.250Z", title="Build")
    (event,) = exported(shot)
    lines = event.to_ical().decode().split("\r\n")
    assert lines == [
        "BEGIN:VEVENT",
        "SUMMARY:Build",
        "DTSTART:20261224T132000Z",
        "DTSTAMP:20261130T120000Z",
        "UID:r7-20261224T130000@scheduler-daemon",
        "CATEGORIES:s1",
        "CREATED:20261224T130000Z",
        "DESCRIPTION:Check the build",
        "TRANSP:TRANSPARENT",
        "END:VEVENT",
        "",
    ]


def test_each_event_keeps_its_uid_and_no_two_have_one() -> None:
    odd = recurring("cron", {"expression": "30 2,4 31 * sun", "time_zone": "Europe/Berlin"}, AT)
    first, again = exported(odd), exported(odd)
    uids = [str(event["UID"]) for event in first]
    assert uids == [str(event["UID"]) for event in again]
    stamp = "20261224T130000@scheduler-daemon"
    names = ("", "-gap", "-weekdays", "-weekdays-gap", "-moved")
    assert uids == [f"r7{name}-{stamp}" for name in names]


@pytest.mark.parametrize(
    ("expression", "rule"),
    [
        ("0 9 * * *", "FREQ=DAILY"),
        ("0 9,17 * * *", "FREQ=DAILY;BYMINUTE=0;BYHOUR=9,17"),
        ("0 9 * * mon-fri", "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"),
        ("0 9 1,15 * *", "FREQ=MONTHLY;BYMONTHDAY=1,15"),
        ("0 9 1 1 *", "FREQ=MONTHLY;BYMONTHDAY=1;BYMONTH=1"),
        ("0 9 * 6 0", "FREQ=WEEKLY;BYDAY=SU;BYMONTH=6"),
        ("0 9 13 * */5", "FREQ=MONTHLY;BYDAY=FR,SU;BYMONTHDAY=13"),
    ],
)
def test_a_cron_rule_is_the_plainest_rule_of_a_calendar(expression: str, rule: str) -> None:
    value = {"expression": expression, "time_zone": "Europe/Berlin"}
    assert rule_of("cron", value) == rule


@pytest.mark.parametrize(
    ("seconds", "rule"),
    [
        (86_400, "FREQ=DAILY;INTERVAL=1"),
        (5 * 3_600, "FREQ=HOURLY;INTERVAL=5"),
        (5_400, "FREQ=MINUTELY;INTERVAL=90"),
        (301, "FREQ=SECONDLY;INTERVAL=301"),
    ],
)
def test_a_fixed_distance_is_said_in_its_largest_unit(seconds: int, rule: str) -> None:
    assert rule_of("every_seconds", seconds) == rule


@pytest.mark.parametrize("seconds", [86_400 * 365 * 9_000, 2**31 * 86_400 + 1, 10**10])
def test_a_distance_of_generations_leaves_only_the_target(seconds: int) -> None:
    target = "2026-12-24T00:00:00.000Z"
    far = shapes.reminder(kind="every", rule={"every_seconds": seconds}, scheduled_at=target)
    (event,) = exported(far)
    assert "RRULE" not in event


def test_an_end_is_a_count_or_an_instant_and_never_both() -> None:
    daily = {"time": "09:00", "time_zone": "Europe/Berlin"}
    counted = {"max_occurrences": 5, "dispatch_count": 2}
    assert rule_of("daily", daily, **counted) == "FREQ=DAILY;COUNT=3"
    until = {"until": "2026-12-02T08:30:00.000Z"}
    assert rule_of("daily", daily, **until) == "FREQ=DAILY;UNTIL=20261202T080000Z"
    assert rule_of("daily", daily, **counted, **until) == "FREQ=DAILY;UNTIL=20261202T080000Z"
    late = {"until": "2026-12-24T08:30:00.000Z"}
    assert rule_of("daily", daily, **counted, **late) == "FREQ=DAILY;UNTIL=20261203T080000Z"
    counted["max_occurrences"] = 10**9
    assert rule_of("daily", daily, **counted, **late) == "FREQ=DAILY;UNTIL=20261224T080000Z"


def test_the_end_of_a_rule_of_two_events_is_an_instant_while_it_can_be_counted() -> None:
    value = {"expression": "0 9 1 * mon", "time_zone": "Europe/Berlin"}
    few = exported(recurring("cron", value, AT, max_occurrences=4))
    assert {event["RRULE"].to_ical() for event in few} == {
        b"FREQ=MONTHLY;UNTIL=20261221T080000Z;BYMONTHDAY=1",
        b"FREQ=MONTHLY;UNTIL=20261221T080000Z;BYDAY=MO;BYMONTHDAY="
        + b",".join(b"%d" % day for day in range(2, 32)),
    }
    many = exported(recurring("cron", value, AT, max_occurrences=30_000))
    assert not [event for event in many if b"UNTIL" in event["RRULE"].to_ical()]
    one = exported(recurring("cron", value, AT, max_occurrences=1))
    assert [str(event["UID"]) for event in one] == ["r7-20261224T130000@scheduler-daemon"]


def test_a_day_that_no_month_has_makes_no_event() -> None:
    value = {"expression": "0 9 31 2 mon", "time_zone": "Europe/Berlin"}
    (event,) = exported(recurring("cron", value, AT))
    assert str(event["UID"]).startswith("r7-weekdays-")


def test_what_lies_beyond_its_end_does_not_come() -> None:
    daily = {"time": "09:00", "time_zone": "Europe/Berlin"}
    assert exported(recurring("daily", daily, AT, until="2026-11-30T00:00:00.000Z")) == []


def test_a_target_that_its_zone_no_longer_has_stays_as_it_was_committed() -> None:
    daily = recurring("daily", {"time": "09:00", "time_zone": "Europe/Berlin"}, AT)
    daily["scheduled_at"] = "2026-12-01T07:00:00.000Z"
    starts = {str(event["UID"]).split("-2")[0]: event["DTSTART"].dt for event in exported(daily)}
    assert starts["r7-moved"] == parse_instant_text("2026-12-01T07:00:00.000Z")
    assert starts["r7"] == parse_instant_text("2026-12-01T08:00:00.000Z")


def test_a_rule_on_utc_needs_no_zone_and_no_other_names_one_twice() -> None:
    def zones(*names: str) -> list[str]:
        rules = [recurring("daily", {"time": "09:00", "time_zone": name}, AT) for name in names]
        parsed = icalendar.Calendar.from_ical(ics.calendar(rules, NOW))
        return [str(zone["TZID"]) for zone in parsed.walk("VTIMEZONE")]

    assert zones("UTC") == []
    both = ["Asia/Kolkata", "Europe/Berlin"]
    assert zones("Europe/Berlin", "Asia/Kolkata", "Europe/Berlin") == both


WILD = 'a,b;c\\n"\x00\x07\r\nEND:VEVENT\x85\u2028 \x0b\tü ' + "x" * 200


def test_no_words_break_out_of_their_line() -> None:
    wild = shapes.reminder(prompt=WILD, session_id="a, b; c\u2028")
    data = ics.calendar([cast("Reminder", wild)], NOW)
    assert all(len(line) <= 75 for line in data.split(b"\r\n"))
    assert not [byte for byte in data if byte < 32 and byte not in b"\r\n\t"]
    (event,) = events(data)
    kept = WILD.replace("\r\n", "\n")
    for character in "\x00\x07\x85\u2028\x0b":
        kept = kept.replace(character, "\ufffd")
    assert str(event["DESCRIPTION"]) == kept
    assert str(event["SUMMARY"]) == 'a,b;c\\n"\ufffd\ufffd'
    assert event["CATEGORIES"].cats == ["a, b; c\ufffd"]


def test_the_first_words_stand_for_a_title() -> None:
    (event,) = exported(shapes.reminder(prompt="Check " * 20))
    assert str(event["SUMMARY"]) == ("Check " * 20)[:59] + "…"


def test_active_reminders_go_to_stdout_and_paused_ones_are_left_out(
    schedctl: Schedctl, daemon: ScriptedDaemon
) -> None:
    daemon.answers["reminder.list"] = lambda params: (
        {"items": [shapes.reminder(8)]}
        if "cursor" in params
        else {"items": [shapes.reminder(7), shapes.reminder(9, paused=True)], "next_cursor": "c"}
    )
    ended = schedctl("export", "--ics", "--session", "s1", "--owner", "4242")
    assert (ended.status, ended.err) == (0, "")
    assert [str(event["UID"]).split("-")[0] for event in events(ended.out)] == ["r7", "r8"]
    asked = {"session_id": "s1", "owner_uid": 4242}
    assert daemon.params_of("reminder.list") == [asked, {**asked, "cursor": "c"}]
    assert schedctl("export", "--ics", "-", "--all-owners").out.count("BEGIN:VEVENT") == 2


def test_a_file_is_written_without_a_word(
    schedctl: Schedctl, daemon: ScriptedDaemon, short_path: Path
) -> None:
    daemon.answers["reminder.list"] = lambda params: {"items": [shapes.reminder()]}
    path = short_path / "a.ics"
    assert schedctl("export", "--ics", str(path)) == (0, "", "")
    assert len(events(path.read_bytes())) == 1
    assert schedctl("export", str(path / "b"), "--ics").status == 1


def test_nothing_is_written_where_no_daemon_answers(schedctl: Schedctl, short_path: Path) -> None:
    path = short_path / "a.ics"
    assert schedctl("export", "--ics", str(path)).status == 3
    assert not path.exists()


@pytest.mark.parametrize(
    "words",
    [
        *(["--json"], ["--ics", "--json"], ["--ics", "a", "b"], ["--session", "s"]),
        *(["--owner", "0"], ["--all-owners"], ["--ics", "--database", "d"]),
        *(["--ics", "--config", "c"], ["--database", "d", "--config", "c"], ["--database="]),
    ],
)
def test_options_of_the_other_form_are_refused(schedctl: Schedctl, words: list[str]) -> None:
    ended = schedctl("export", *words)
    assert (ended.status, ended.out) == (2, "")


def test_a_missing_package_is_told_with_the_way_to_it(
    schedctl: Schedctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "icalendar", None)
    ended = schedctl("export", "--ics")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.endswith("pip install icalendar\n")


def test_json_lines_replace_nothing_unless_told(schedctl: Schedctl, tmp_path: Path) -> None:
    database = new_file(tmp_path)
    place = tmp_path / "kept"
    place.write_text("precious")
    words = ("export", "--database", str(database), str(place))
    ended = schedctl(*words)
    assert ended.status == 1
    assert "is there already; it is replaced with --force" in ended.err
    assert place.read_text() == "precious"
    assert schedctl(*words, "--force").status == 0
    assert place.read_text().startswith("{")


def test_json_lines_go_to_stdout_where_no_file_is_named(schedctl: Schedctl, tmp_path: Path) -> None:
    ended = schedctl("export", "--database", str(new_file(tmp_path)))
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("{")
