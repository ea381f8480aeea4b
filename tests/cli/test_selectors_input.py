"""What a person types to say when, and the strict form that the wire wants."""

from __future__ import annotations

import pytest

from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.selectors_input import instant, selector


def _berlin() -> str | None:
    return "Europe/Berlin"


def _unknown() -> str | None:
    return None


ZONE = "Europe/Berlin"


@pytest.mark.parametrize(
    ("kind", "text", "zone", "params"),
    [
        ("after", "20m", None, {"after_seconds": 1200}),
        ("every", "1h", None, {"every_seconds": 3600}),
        ("at", "2026-12-24T18:00:00+01:00", None, {"at": "2026-12-24T18:00:00+01:00"}),
        ("at", "2026-12-24T17:00:00.25Z", None, {"at": "2026-12-24T17:00:00.25Z"}),
        ("at", "2026-12-24 18:00+01:00", None, {"at": "2026-12-24T18:00:00+01:00"}),
        ("at", "2026-12-24 9:05Z", None, {"at": "2026-12-24T09:05:00Z"}),
        (
            "at",
            "2026-12-24 18:00",
            ZONE,
            {"at": {"date": "2026-12-24", "time": "18:00:00", "time_zone": ZONE}},
        ),
        (
            "at",
            "2026-12-24T18:00:01.5",
            ZONE,
            {"at": {"date": "2026-12-24", "time": "18:00:01.5", "time_zone": ZONE}},
        ),
        ("daily", "09:00", ZONE, {"daily": {"time": "09:00", "time_zone": ZONE}}),
        ("daily", "9:00:30", ZONE, {"daily": {"time": "09:00:30", "time_zone": ZONE}}),
        (
            "weekly",
            "mon,wed,fri@09:00",
            ZONE,
            {"weekly": {"time": "09:00", "weekdays": [1, 3, 5], "time_zone": ZONE}},
        ),
        (
            "cron",
            "*/15 9-17 * * mon-fri",
            ZONE,
            {"cron": {"expression": "*/15 9-17 * * mon-fri", "time_zone": ZONE}},
        ),
    ],
)
def test_each_kind_reads_as_a_person_types_it(
    kind: str, text: str, zone: str | None, params: dict[str, object]
) -> None:
    assert selector(kind, text, zone, _unknown) == params


@pytest.mark.parametrize(
    ("days", "numbers"),
    [
        ("mon", [1]),
        ("sun,sat", [6, 7]),
        ("Monday, THU", [1, 4]),
        ("mon-fri", [1, 2, 3, 4, 5]),
        ("sat-mon", [1, 6, 7]),
        ("mon-mon", [1]),
        ("tues,mon-wed", [1, 2, 3]),
        ("1,7", [1, 7]),
        ("5 - 6", [5, 6]),
    ],
)
def test_weekdays_are_names_ranges_or_numbers_from_monday(days: str, numbers: list[int]) -> None:
    assert selector("weekly", f"{days}@8:30", "UTC", _unknown) == {
        "weekly": {"time": "08:30", "weekdays": numbers, "time_zone": "UTC"}
    }


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("at", "tomorrow"),
        ("at", "18:00"),
        ("at", "2026-12-24"),
        ("at", "2026-12-24t18:00:00z"),
        ("at", "2026-12-24  18:00"),
        ("at", "24.12.2026 18:00"),
        ("at", "2026-12-24T18:00:00+0100"),
        ("at", "٢026-12-24 18:00"),
        ("daily", "9am"),
        ("daily", "9"),
        ("daily", ""),
        ("weekly", "09:00"),
        ("weekly", "mo@09:00"),
        ("weekly", "@09:00"),
        ("weekly", "mon,@09:00"),
        ("weekly", "8@09:00"),
        ("weekly", "mon@9"),
        ("weekly", "-mon@09:00"),
    ],
)
def test_what_has_no_strict_form_is_refused_with_an_example(kind: str, text: str) -> None:
    with pytest.raises(MisuseError, match=rf"--{kind} takes"):
        selector(kind, text, "UTC", _unknown)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("at", "2026-12-24 18:00"),
        ("daily", "09:00"),
        ("weekly", "mon@09:00"),
        ("cron", "0 9 * * *"),
    ],
)
def test_a_missing_zone_is_asked_for_and_the_machines_own_is_suggested(
    kind: str, text: str
) -> None:
    with pytest.raises(MisuseError, match=r"needs --tz.*own is Europe/Berlin: add --tz Europe/Ber"):
        selector(kind, text, None, _berlin)
    with pytest.raises(MisuseError, match=r"needs --tz.*for example --tz Europe/Berlin"):
        selector(kind, text, None, _unknown)


def test_a_zone_beside_an_offset_is_refused_because_one_of_them_would_be_ignored() -> None:
    with pytest.raises(MisuseError, match="leave --tz away"):
        selector("at", "2026-12-24T18:00:00Z", "UTC", _unknown)


@pytest.mark.parametrize("kind", ["after", "every"])
def test_a_duration_has_no_zone(kind: str) -> None:
    with pytest.raises(MisuseError, match="leave --tz away"):
        selector(kind, "1h", "UTC", _unknown)


def test_whether_a_date_or_a_zone_exists_is_left_to_the_rules() -> None:
    assert selector("at", "2026-02-30 25:61", "No/Where", _unknown) == {
        "at": {"date": "2026-02-30", "time": "25:61:00", "time_zone": "No/Where"}
    }


def test_an_instant_has_its_offset() -> None:
    assert instant("2026-12-24 17:00Z", "--from") == "2026-12-24T17:00:00Z"
    for text in ("2026-12-24 17:00", "now"):
        with pytest.raises(MisuseError, match="--from takes an instant"):
            instant(text, "--from")
