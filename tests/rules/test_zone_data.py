"""Where zone data comes from, and the facts about it that the search relies on."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo, _common  # the reader of its files

import pytest

from scheduler_daemon.rules import zones
from scheduler_daemon.rules.zones import Source, canonical_zone, choose_source, load_zone

NAMES = ["Europe/Berlin", "UTC"]
PACKAGE = Source(Path("package"), "2026a")
DAY = 86400


def machine(folder: Path, version_file: str, text: str, names: list[str] = NAMES) -> Path:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"TZif")
    (folder / version_file).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("version_file", "text"),
    [
        ("tzdata.zi", "# version 2026b\nR d 1916 o\n"),
        ("+VERSION", "2026b\n"),
        ("+VERSION", "2026za"),
    ],
)
def test_the_machine_is_the_source_where_it_is_newer_and_whole(
    tmp_path: Path, version_file: str, text: str
) -> None:
    root = machine(tmp_path, version_file, text)
    chosen = choose_source(PACKAGE, NAMES, [tmp_path / "absent", root])
    assert chosen.root == root
    assert chosen.version in text


@pytest.mark.parametrize(
    "text", ["# version 2026a\n", "# version 2025z\n", "", "# version unknown\n", "\x00\xff"]
)
def test_the_package_is_the_source_where_the_machine_is_no_newer_or_does_not_say(
    tmp_path: Path, text: str
) -> None:
    assert choose_source(PACKAGE, NAMES, [machine(tmp_path, "tzdata.zi", text)]) == PACKAGE


def test_the_package_is_the_source_where_the_machine_lacks_a_zone(tmp_path: Path) -> None:
    root = machine(tmp_path, "tzdata.zi", "# version 2026b\n", ["UTC"])
    (root / "Europe").mkdir()
    assert choose_source(PACKAGE, NAMES, [root]) == PACKAGE


def test_a_version_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    root = machine(tmp_path, "+VERSION", "2026b\n")
    (root / "tzdata.zi").mkdir()
    assert choose_source(PACKAGE, NAMES, [root]).version == "2026b"


def test_every_accepted_name_has_a_zone_and_is_utc_or_an_area_and_location() -> None:
    names = zones._names()
    assert len(names) > 400
    for lower, name in names.items():
        assert name == "UTC" or "/" in name
        assert canonical_zone(lower) == name
        assert isinstance(load_zone(name), ZoneInfo)


def test_caches_are_bounded() -> None:
    limit = load_zone.cache_info().maxsize
    assert limit is not None
    assert limit >= len(zones._names())


def transitions(name: str) -> list[tuple[int, int, int]]:
    """The listed transitions, also those of the same offset: when, from, to; all in seconds."""
    with (zones._source().root / name).open("rb") as file:
        index, times, offsets, *_ = _common.load_data(file)
    listed = [offsets[0], *(offsets[n] for n in index)]
    steps = zip(times, pairwise(listed), strict=True)
    return [(when, before, after) for when, (before, after) in steps]


def changes(name: str) -> list[tuple[int, int, int]]:
    """The listed changes of a zone's offset."""
    return [found for found in transitions(name) if found[1] != found[2]]


def changes_by_rule(name: str) -> list[tuple[int, int, int]]:
    """The changes of two years to come, to the day: these the file may give as a rule only."""
    zone, start = load_zone(name), dt.datetime(2040, 1, 1, tzinfo=dt.UTC)
    offsets = [
        (n * DAY, int((start + dt.timedelta(days=n)).astimezone(zone).utcoffset() / SECOND))  # type: ignore[operator] # never None
        for n in range(731)
    ]
    return [(when, a, b) for (_, a), (when, b) in pairwise(offsets) if a != b]


SECOND = dt.timedelta(seconds=1)


def test_no_clock_changes_by_more_than_a_day_or_twice_within_three_days() -> None:
    """The search for occurrences relies on both."""
    for name in zones._names().values():
        for found in (changes(name), changes_by_rule(name)):
            assert all(abs(after - before) <= DAY for _, before, after in found), name
            assert all(b[0] - a[0] >= 3 * DAY for a, b in pairwise(found)), name


def test_no_clock_changes_near_the_ends_of_the_years() -> None:
    """So the offset there is that of three days inside."""
    for name in zones._names().values():
        zone = load_zone(name)
        for end, inwards in ((zones.EARLIEST, 1), (zones.LATEST, -1)):
            offsets = {zones._offset(end + n * inwards * zones.DAY, zone) for n in range(4)}
            assert len(offsets) == 1, name


def one_name_for_each_content() -> list[str]:
    root = zones._source().root
    return list({(root / name).read_bytes(): name for name in zones._names().values()}.values())


def exact(name: str, near: tuple[int, int, int]) -> tuple[int, int, int]:
    """The change that `changes_by_rule` knows to the day only, with its time from 1970."""
    (day, before, after), zone = near, load_zone(name)
    start = dt.datetime(2040, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=day - DAY)
    seconds = bisect_left(
        range(DAY), True, key=lambda n: zones._offset(start + n * SECOND, zone) == after * SECOND
    )
    return int(start.timestamp()) + seconds, before, after


def expected(reading: int, change: tuple[int, int, int]) -> int:
    """The earliest instant that shows a reading, or where a gap moves it: the definition."""
    when, before, after = change
    shown_before, shown_after = reading - before < when, reading - after >= when
    return reading - (after if shown_after and not shown_before else before)


def test_every_reading_resolves_to_the_earliest_instant_that_shows_it() -> None:
    """Around every transition of every zone file, by what the file itself lists."""
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    since = epoch - zones.EARLIEST
    for name in one_name_for_each_content():
        zone = load_zone(name)
        by_rule = [exact(name, near) for near in changes_by_rule(name)]
        for change in (*transitions(name), *by_rule):
            when, *offsets = change
            ends = {when + offset for offset in offsets}
            for reading in {end + n for end in ends for n in (-1800, -1, 0, 1800)}:
                found = zones.resolve(since + reading * SECOND, zone)
                assert found == epoch + expected(reading, change) * SECOND, (name, reading)
