"""The files of systemd/ as they are shipped, read by systemd's own tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.systemd.inside import UNITS

pytestmark = [
    pytest.mark.systemd,
    pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze"),
]

MOST_EXPOSED = 0.7


def analyze(*words: str, environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ["systemd-analyze", *words],
        capture_output=True,
        text=True,
        env=os.environ | {"SYSTEMD_LOG_TARGET": "console"} | (environ or {}),
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("form", ["system", "user"])
def test_every_line_is_one_that_systemd_knows(form: str, tmp_path: Path) -> None:
    units = tmp_path / "units"
    shutil.copytree(UNITS / form, units)
    services = sorted(units.glob("*.service"))
    for service in services:
        # The commands are not installed here; `verify` says so of these and of nothing else.
        text = re.sub("\nExecStart=[a-z-]+ ", "\nExecStart=/bin/true ", service.read_text())
        service.write_text(text)
    runtime = {"XDG_RUNTIME_DIR": str(tmp_path)}
    paths = map(str, services)
    said = analyze(f"--{form}", "--man=no", "verify", *paths, environ=runtime)
    mentioned = [line for line in said.splitlines() if "scheduler-daemon" in line]
    assert mentioned == []


def test_the_system_unit_is_hardly_exposed() -> None:
    unit = UNITS / "system/scheduler-daemon.service"
    if "--offline" not in analyze("--help"):
        pytest.skip("this systemd-analyze looks at no file")
    said = analyze("security", "--offline=true", "--no-pager", str(unit))
    figure = re.search(r"Overall exposure level for scheduler-daemon\.service: ([0-9.]+)", said)
    assert figure is not None, said
    assert float(figure[1]) <= MOST_EXPOSED


@pytest.mark.parametrize("form", ["system", "user"])
def test_peers_are_seen_as_who_they_are(form: str) -> None:
    """Whatever gives a service users of its own makes every peer `nobody`."""
    lines = (UNITS / form / "scheduler-daemon.service").read_text().splitlines()
    assert not {"PrivateUsers=yes", "DynamicUser=yes"} & set(lines)
    if form == "user":  # a user's manager can only do these with users of its own
        assert not [line for line in lines if line.startswith(("Protect", "Private"))]
