"""Time zones: their names, their data, and which instant a local clock means; no rule lives here.

A reading is what a local clock shows, as the time since the local 0001-01-01T00:00, so that a
reading less the zone's offset is an instant's distance from `EARLIEST`; it reaches into the local
years 0 and 10000. All of it comes from one source of zone data per process: the `tzdata` package,
or the machine's where that is newer. No environment variable is read.

Searches rely on three facts of the zone data, which a test proves for every zone: no change of a
clock is longer than a day, no two changes lie within three days of one another, and none within
three days of the ends of the years 1 to 9999.
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped,unused-ignore] # the package has no types

from scheduler_daemon.errors import InvalidTimeZone
from scheduler_daemon.model import Instant
from scheduler_daemon.rules.instants import as_instant
from scheduler_daemon.rules.quoting import quoted

Reading: TypeAlias = dt.timedelta

DAY = dt.timedelta(days=1)
EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)
LATEST = dt.datetime.max.replace(tzinfo=dt.UTC)
SECOND = dt.timedelta(seconds=1)

MACHINE_ROOTS = tuple(
    Path(root)
    for root in (
        "/usr/share/zoneinfo",
        "/usr/lib/zoneinfo",
        "/usr/share/lib/zoneinfo",
        "/etc/zoneinfo",
    )
)
"""Where a machine keeps zone data (the places that Python looks in when nothing tells it)."""

_ZERO = dt.timedelta(0)
_VERSION = re.compile(r"(?:# version )?([0-9]{4}[a-z]{1,3})\s*")
_LONGEST_NAME = 64


class Source(NamedTuple):
    """A folder of compiled zone files and the release that they were made from (`2026a`)."""

    root: Path
    version: str


def zone_data_version() -> str:
    """The release of the zone data that this process uses, such as `2026a`."""
    return _source().version


def canonical_zone(name: object, *, field: str | None = None) -> str:
    """The zone database's own spelling of `name`, which is matched without regard to case.

    Raises InvalidTimeZone for anything but `UTC` and the `Area/Location` names that it holds.
    """
    if isinstance(name, str) and name.isascii():
        found = _names().get(name.lower()) if len(name) <= _LONGEST_NAME else None
        if found is not None:
            return found
    raise InvalidTimeZone(
        'A time zone is "UTC" or an IANA name of the form Area/Location, such as "Europe/Berlin"; '
        f"no abbreviation and no offset. Got {quoted(name)}.{_suggestion(name)}",
        field=field,
    )


@lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo:
    """The zone of a name; raises InvalidTimeZone for one that `canonical_zone` refuses."""
    name = canonical_zone(name)
    with (_source().root / name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def resolve(reading: Reading, zone: ZoneInfo) -> Instant | None:
    """The instant at which a local clock shows `reading`, None outside years 1 to 9999.

    As RFC 5545 and `fold=0` have it: the first of two such instants, and a reading inside a gap is
    moved forward by the length of the gap.
    """
    before, after = _offsets_around(reading, zone)
    offset = before
    if before != after and not _shows(reading, before, zone) and _shows(reading, after, zone):
        offset = after
    try:
        return EARLIEST + (reading - offset)
    except OverflowError:
        return None


def gap_around(reading: Reading, zone: ZoneInfo) -> tuple[Reading, Reading] | None:
    """The readings between which the clock jumps over this one; None when the clock shows it."""
    before, after = _offsets_around(reading, zone)
    if after <= before or _shows(reading, before, zone) or _shows(reading, after, zone):
        return None
    start = (reading - after) // SECOND
    seconds = range((after - before) // SECOND + 1)
    jump = SECOND * (
        start
        + bisect_left(
            seconds, True, key=lambda n: _shows(SECOND * (start + n) + after, after, zone)
        )
    )
    return jump + before, jump + after


def reading_at(instant: Instant, zone: ZoneInfo) -> Reading:
    """What the local clock shows."""
    return instant - EARLIEST + _offset(instant, zone)


def lowest_reading(instant: Instant, zone: ZoneInfo) -> Reading:
    """No reading below this one resolves to an instant after `instant`.

    A gap may carry a reading past `instant` that the clock has jumped over within the last day.
    """
    since = instant - EARLIEST
    return since + min(_offset(instant, zone), _offset(_moment(since - DAY), zone))


def highest_reading(instant: Instant, zone: ZoneInfo) -> Reading:
    """No reading above this one resolves to `instant` or earlier.

    An overlap may have shown later readings within the last day than the clock shows now.
    """
    since = instant - EARLIEST
    return since + max(_offset(instant, zone), _offset(_moment(since - DAY), zone))


def local_text(instant: Instant, zone_name: str) -> str:
    """The instant on that zone's clock: RFC 9557, with a fraction only when it is not zero.

    An offset with seconds (before zones had standard time) is rounded to the minute, as RFC 9557
    has no room for them. Where the local year has no four digits, the clock is UTC's. Raises
    ValueError as `as_instant` does.
    """
    instant = as_instant(instant)
    offset = _offset(instant, load_zone(zone_name))
    try:
        local = (instant + offset).replace(tzinfo=None)
    except OverflowError:
        return f"{_short(instant.replace(tzinfo=None))}Z[{zone_name}]"
    minutes = round(abs(offset) / dt.timedelta(minutes=1))
    sign = "-" if offset < dt.timedelta(0) else "+"
    return f"{_short(local)}{sign}{minutes // 60:02}:{minutes % 60:02}[{zone_name}]"


def choose_source(package: Source, names: Iterable[str], machine_roots: Iterable[Path]) -> Source:
    """The package's data, or a machine's with a readable, newer version that lacks no name."""
    for root in machine_roots:
        version = _version_in(root)
        if (
            version is not None
            and version > package.version
            and all((root / name).is_file() for name in names)
        ):
            return Source(root, version)
    return package


def _short(local: dt.datetime) -> str:
    return local.isoformat(timespec="milliseconds" if local.microsecond else "seconds")


def _moment(since: dt.timedelta) -> dt.datetime:
    """The instant so long after `EARLIEST`, the nearest end of the range outside it."""
    try:
        return EARLIEST + since
    except OverflowError:
        return EARLIEST if since < _ZERO else LATEST


def _offsets_around(reading: Reading, zone: ZoneInfo) -> tuple[dt.timedelta, dt.timedelta]:
    """The offsets before and after the only change of the clock that may concern this reading.

    No offset is as long as a day, so the instant of the reading lies between, if it has one.
    """
    return _offset(_moment(reading - DAY), zone), _offset(_moment(reading + DAY), zone)


def _shows(reading: Reading, offset: dt.timedelta, zone: ZoneInfo) -> bool:
    """Whether the clock has this offset, and so shows the reading, at the instant it leads to."""
    return _offset(_moment(reading - offset), zone) == offset


def _offset(instant: Instant, zone: ZoneInfo) -> dt.timedelta:
    # Only a reading that astimezone() made, with the fold it chose, is asked for its offset: of
    # others ZoneInfo.utcoffset() may be wrong, such as of 23:30 on 2023-10-28 in Nuuk.
    try:
        offset = instant.astimezone(zone).utcoffset()
    except OverflowError:  # a local year 0 or 10000; no clock changes so close to either end
        return _offset(instant + DAY if instant.year == dt.MINYEAR else instant - DAY, zone)
    assert offset is not None
    return offset


def _suggestion(name: object) -> str:
    """A hint at the zone that was perhaps meant: the only one whose last part is the same."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        return ""
    place = "/" + name.lower().replace(" ", "_").rpartition("/")[2]
    found = [zone for key, zone in _names().items() if key.endswith(place)]
    return f" Perhaps {quoted(found[0])} is meant." if len(found) == 1 else ""


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Every accepted name by its lower-case form."""
    return {name.lower(): name for name in _package_names() if name == "UTC" or "/" in name}


@lru_cache(maxsize=1)
def _source() -> Source:
    package = Source(_package_folder() / "zoneinfo", tzdata.IANA_VERSION)
    return choose_source(package, _package_names(), MACHINE_ROOTS)


def _package_names() -> list[str]:
    return (_package_folder() / "zones").read_text(encoding="utf-8").split()


def _package_folder() -> Path:
    return Path(tzdata.__file__).parent


def _version_in(root: Path) -> str | None:
    """The release that a folder says it holds, None where it says nothing that can be read."""
    for name in ("tzdata.zi", "+VERSION"):
        try:
            with (root / name).open(encoding="ascii", errors="replace") as file:
                match = _VERSION.fullmatch(file.readline(64))
        except OSError:
            continue
        if match is not None:
            return match[1]
    return None
