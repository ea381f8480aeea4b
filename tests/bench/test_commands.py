"""Each benchmark runs, at a size where its figures mean nothing, and says what it promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import BENCHES
from bench.report import Bound, Report

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.acceptance


def bench(folder: Path, *words: str) -> str:
    """What `python -m bench` prints; no peer is fetched for it."""
    environ = {**os.environ, "SCHEDULER_DAEMON_BENCH_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "bench", *words, "--folder", str(folder)]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize("name", BENCHES)
def test_it_names_the_machine_and_its_figures_and_writes_them_down(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "found.json"
    printed = bench(tmp_path, name, "--scale", "0.001", "--runs", "1", "--json", str(path))
    found = json.loads(path.read_text())
    assert found["bench"] == name
    assert set(found["machine"]) == {"cpu", "cores", "kernel", "filesystem", "python", "sqlite"}
    assert found["figures"]
    for figure, each in found["figures"].items():
        assert figure in printed
        assert each["min"] <= each["median"] <= each["max"]
        assert len(each["runs"]) == 1
        assert each.get("met") is None  # an aim is judged at its own size only
    for each in found["ratios"]:
        assert f"{each['of']} / {each['to']}" in printed
        assert {each["of"], each["to"]} <= set(found["figures"])
    assert list(tmp_path.iterdir()) == [path]


def test_a_ratio_is_of_two_figures_of_the_same_run_and_is_judged_by_its_median() -> None:
    report = Report("some", 1.0, {})
    for fast, slow in ((10, 2), (30, 3), (8, 4)):
        report.add("fast", fast, "rows/s")
        report.add("slow", slow, "rows/s")
    report.compare("fast", "slow", Bound(at_least=6))
    report.compare("fast", "absent", Bound(at_least=6))
    (ratio,) = report.as_json()["ratios"]
    assert ratio["runs"] == [5, 10, 2]
    assert (ratio["median"], ratio["min"], ratio["max"]) == (5, 2, 10)
    assert ratio["met"] is False
    assert "fast / slow: 5 (2 to 10)   [aim: at least 6: NOT met]" in str(report)


def test_an_aim_of_a_figure_is_judged_by_its_median() -> None:
    report = Report("some", 1.0, {})
    for late in (1, 2, 90):
        report.add("late", late, "ms")
    report.aim("late", Bound(at_most=5))
    assert report.as_json()["figures"]["late"]["met"] is True
