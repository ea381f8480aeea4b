"""What this machine's zone is called, for a suggestion."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_daemon.cli.machine_zone import machine_zone


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
    assert machine_zone({"TZ": value}, str(tmp_path)) == name


def test_the_link_goes_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    assert machine_zone({}, str(tmp_path)) == "Asia/Tokyo"
    (tmp_path / "localtime").symlink_to("../usr/share/zoneinfo/Asia/Kolkata")
    assert machine_zone({}, str(tmp_path)) == "Asia/Kolkata"


def test_a_machine_that_tells_nothing_has_no_name(tmp_path: Path) -> None:
    assert machine_zone({}, str(tmp_path)) is None
    (tmp_path / "timezone").write_bytes(b"\xff\xfe")
    assert machine_zone({}, str(tmp_path)) is None
