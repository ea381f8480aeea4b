"""The machine's zone, locale, folder and environment change nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import hashlib, json, locale, time
from scheduler_daemon.errors import SchedulerError
from scheduler_daemon.rules import *
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
time.tzset()
digest = hashlib.sha256(zone_data_version().encode())
for name in ("at", "calendar", "cron", "decide"):
    lines = open(f"{VECTORS}/{name}.jsonl", encoding="utf-8").read().splitlines()[1::7]
    for case in map(json.loads, lines):
        now = parse_instant_text(case["now"])
        try:
            rule, target = parse_selector(case.get("input") or case["rule"], now)
            said = [instant_text(target), describe(rule), selector_of(rule)]
            said.append(local_text(target, zone_of(rule) or "Asia/Tokyo"))
        except SchedulerError as error:
            said = [error.code, error.message]
        digest.update(json.dumps(said).encode())
print(digest.hexdigest())
"""


def run(folder: Path, **environment: str) -> str:
    script = f"VECTORS = {str(ROOT / 'tests' / 'vectors')!r}\n{SCRIPT}"
    finished = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(tmp_path_factory.mktemp("plain"), TZ="UTC", LC_ALL="C")


@pytest.mark.parametrize(
    "environment",
    [
        {"TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
        {"TZ": ":/nonexistent", "LC_ALL": "C.UTF-8", "PYTHONTZPATH": "/nonexistent"},
        {"TZ": "EST5EDT,M3.2.0,M11.1.0", "LC_ALL": "ar_EG", "TZDIR": "/nonexistent"},
        {"TZ": "right/UTC", "LC_TIME": "de_DE.UTF-8", "PYTHONUTF8": "0", "PYTHONTZPATH": ""},
    ],
    ids=lambda environment: environment["TZ"],
)
def test_the_result_does_not_depend_on_the_surroundings(
    plain: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    decoy = tmp_path / "Europe" / "Berlin"
    decoy.parent.mkdir()
    decoy.write_bytes(b"not a zone")
    assert run(tmp_path, **environment) == plain
