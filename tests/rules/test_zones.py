from __future__ import annotations

import datetime as dt
import itertools

import pytest

from scheduler_daemon.errors import InvalidTimeZone
from scheduler_daemon.rules import canonical_zone, local_text, zone_data_version
from scheduler_daemon.rules.zones import EARLIEST, gap_around, load_zone, resolve

FIRST = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC)


def utc(*fields: int) -> dt.datetime:
    return dt.datetime(*fields, tzinfo=dt.UTC)  # type: ignore[misc,arg-type] # year, month, day, …


def test_links_keep_their_name() -> None:
    assert canonical_zone("us/EASTERN") == "US/Eastern"


@pytest.mark.parametrize("name", ["Asia/To\u212ayo", "Asıa/Tokyo", "Europe/İstanbul"])
def test_names_are_matched_in_ascii_only(name: str) -> None:
    """A Kelvin sign, a dotless and a dotted i lower to letters that names have."""
    with pytest.raises(InvalidTimeZone):
        canonical_zone(name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Berlin", ' Perhaps "Europe/Berlin" is meant.'),
        ("America/New York", ' Perhaps "America/New_York" is meant.'),
        ("GMT", ' Perhaps "Etc/GMT" is meant.'),
        ("Louisville", ""),  # two zones end so
        ("Atlantis", ""),
        ("", ""),
        ("x" * 65, ""),
        (5, ""),
    ],
    ids=itertools.count(),
)
def test_a_refused_name_comes_with_the_one_that_was_perhaps_meant(name: object, hint: str) -> None:
    with pytest.raises(InvalidTimeZone) as caught:
        canonical_zone(name, field="daily.time_zone")
    assert caught.value.message.endswith("." + hint)
    assert caught.value.field == "daily.time_zone"


def test_a_zone_is_loaded_once_and_by_its_accepted_name_only() -> None:
    assert load_zone("Europe/Berlin") is load_zone("Europe/Berlin")
    assert load_zone("Europe/Berlin").key == "Europe/Berlin"
    with pytest.raises(InvalidTimeZone):
        load_zone("../../etc/passwd")


def test_the_release_of_the_zone_data_can_be_told() -> None:
    assert len(zone_data_version()) >= 5
    assert zone_data_version()[:4].isdigit()


@pytest.mark.parametrize(
    ("reading", "instant"),
    [
        (utc(2026, 3, 8, 1, 59, 59), utc(2026, 3, 8, 6, 59, 59)),
        (utc(2026, 3, 8, 2, 30), utc(2026, 3, 8, 7, 30)),  # 03:30 EDT
        (utc(2026, 3, 8, 3), utc(2026, 3, 8, 7)),
        (utc(2026, 11, 1, 1, 30), utc(2026, 11, 1, 5, 30)),  # the first, in EDT
        (utc(2026, 11, 1, 2), utc(2026, 11, 1, 7)),
        (utc(1, 1, 1), utc(1, 1, 1, 4, 56, 2)),  # local mean time
        (LAST, None),
    ],
)
def test_a_reading_resolves_forward_out_of_a_gap_and_to_the_first_of_two(
    reading: dt.datetime, instant: dt.datetime | None
) -> None:
    """New York goes from 02:00 EST to 03:00 EDT on 2026-03-08 and back on 2026-11-01."""
    assert resolve(reading - EARLIEST, load_zone("America/New_York")) == instant


@pytest.mark.parametrize(
    ("zone", "reading", "gap"),
    [
        ("America/New_York", utc(2026, 3, 8, 1, 59, 59), None),
        ("America/New_York", utc(2026, 3, 8, 3), None),
        ("America/New_York", utc(2026, 11, 1, 1, 30), None),
        ("America/New_York", utc(2026, 3, 8, 2), (utc(2026, 3, 8, 2), utc(2026, 3, 8, 3))),
        (
            "America/New_York",
            utc(2026, 3, 8, 2, 59, 59, 999_000),
            (utc(2026, 3, 8, 2), utc(2026, 3, 8, 3)),
        ),
        (
            "Australia/Lord_Howe",
            utc(2026, 10, 4, 2, 10),
            (utc(2026, 10, 4, 2), utc(2026, 10, 4, 2, 30)),
        ),
        ("Pacific/Apia", utc(2011, 12, 30, 12), (utc(2011, 12, 30), utc(2011, 12, 31))),
        # From -00:44:30 to UTC.
        ("Africa/Monrovia", utc(1972, 1, 7, 0, 20), (utc(1972, 1, 7), utc(1972, 1, 7, 0, 44, 30))),
    ],
)
def test_a_gap_is_found_with_its_two_ends(
    zone: str, reading: dt.datetime, gap: tuple[dt.datetime, dt.datetime] | None
) -> None:
    found = gap_around(reading - EARLIEST, load_zone(zone))
    assert (found and tuple(EARLIEST + end for end in found)) == gap


@pytest.mark.parametrize(
    ("instant", "zone", "text"),
    [
        (
            utc(2026, 3, 9, 13),
            "America/New_York",
            "2026-03-09T09:00:00-04:00[America/New_York]",
        ),
        (utc(2026, 3, 9, 13, 0, 0, 5000), "UTC", "2026-03-09T13:00:00.005+00:00[UTC]"),
        (utc(2026, 3, 9), "Asia/Kathmandu", "2026-03-09T05:45:00+05:45[Asia/Kathmandu]"),
        (utc(1960, 1, 1), "Africa/Monrovia", "1959-12-31T23:15:30-00:44[Africa/Monrovia]"),
        (FIRST, "Asia/Tokyo", "0001-01-01T09:18:59+09:19[Asia/Tokyo]"),
        (FIRST, "America/New_York", "0001-01-01T00:00:00Z[America/New_York]"),
        (LAST, "Asia/Tokyo", "9999-12-31T23:59:59.999Z[Asia/Tokyo]"),
    ],
)
def test_a_local_text_follows_rfc_9557(instant: dt.datetime, zone: str, text: str) -> None:
    assert local_text(instant, zone) == text
