"""What this machine's zone is called, for a suggestion."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_daemon.cli.machine_zone import label, suggestion


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":Europe/Berlin", "Europe/Berlin"),
        ("/usr/share/zoneinfo/America/Argentina/Salta", "America/Argentina/Salta"),
        ("/usr/share/zoneinfo/right/Europe/Paris", "Europe/Paris"),
        ("", "UTC"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", None),
        ("Local", None),
    ],
)
def test_tz_goes_before_everything_else(tmp_path: Path, value: str, name: str | None) -> None:
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert suggestion({"TZ": value}, str(tmp_path)) == name


def test_the_link_goes_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert suggestion({}, str(tmp_path)) == "Asia/Tokyo"
    (tmp_path / "localtime").symlink_to("../usr/share/zoneinfo/Asia/Kolkata")
    assert suggestion({}, str(tmp_path)) == "Asia/Kolkata"


def test_a_machine_that_tells_nothing_has_no_name(tmp_path: Path) -> None:
    assert suggestion({}, str(tmp_path)) is None
    (tmp_path / "timezone").write_bytes(b"\xff\xfe")
    assert suggestion({}, str(tmp_path)) is None


def test_a_label_is_the_clock_that_is_shown(tmp_path: Path) -> None:
    """A slim machine without zone files shows UTC, and must not call it Berlin."""
    etc, zones = tmp_path / "etc", tmp_path / "zones"
    (zones / "Europe").mkdir(parents=True)
    etc.mkdir()
    (etc / "timezone").write_text("Europe/Berlin")
    assert label({}, str(etc), str(zones)) == "UTC"
    (etc / "localtime").write_text("")
    assert label({}, str(etc), str(zones)) == "Europe/Berlin"
    berlin = {"TZ": "Europe/Berlin"}
    assert label(berlin, str(etc), str(zones)) is None
    assert label({**berlin, "TZDIR": str(tmp_path)}, str(etc), str(zones)) is None
    (zones / "Europe/Berlin").write_text("")
    assert label(berlin, str(etc), str(zones)) == "Europe/Berlin"
    assert label({"TZ": ""}, str(etc), str(zones)) == "UTC"
    assert label({"TZ": "CET-1CEST"}, str(etc), str(zones)) is None
