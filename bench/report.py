"""What a benchmark found: figures of several runs, and ratios of two figures taken run by run.

Times on one machine drift, so a ratio is of what was measured in the same run, never of two files.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import sqlite3
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from scheduler_daemon import __version__


def machine(folder: Path) -> dict[str, str | int]:
    """What the figures were measured on; `folder` is where the databases lie."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "filesystem": _file_system(folder),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _file_system(folder: Path) -> str:
    """The type of the file system that holds the folder; proc(5), `mountinfo`."""
    found = ("", "unknown")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4]
        if folder.resolve().is_relative_to(point) and len(point) >= len(found[0]):
            found = (point, after.split()[0])
    return found[1]


@dataclass(frozen=True, slots=True)
class Bound:
    """What a median should be; None for no bound on that side."""

    at_least: float | None = None
    at_most: float | None = None

    def __str__(self) -> str:
        sides = [("at least", self.at_least), ("at most", self.at_most)]
        return ", ".join(f"{word} {_short(end)}" for word, end in sides if end is not None)

    def __bool__(self) -> bool:
        return self != Bound()

    def met(self, value: float) -> bool:
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most)


@dataclass(slots=True)
class _Figure:
    unit: str
    values: list[float] = field(default_factory=list)


@dataclass
class Report:
    """The figures of one benchmark, in the order in which they were first added.

    `scale` 1 is the size that the aims speak of; at another they are shown and not judged.
    """

    name: str
    scale: float
    machine: dict[str, str | int]
    figures: dict[str, _Figure] = field(default_factory=dict)
    bounds: dict[str, Bound] = field(default_factory=lambda: defaultdict(Bound))
    ratios: list[tuple[str, str, Bound]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str) -> None:
        """One run's value of a figure."""
        self.figures.setdefault(name, _Figure(unit)).values.append(value)

    def aim(self, name: str, bound: Bound) -> None:
        """What the median of a figure should be."""
        self.bounds[name] = bound

    def compare(self, name: str, other: str, bound: Bound | None = None) -> None:
        """Report the first figure over the second; one that was not measured is left out."""
        if name in self.figures and other in self.figures:
            self.ratios.append((name, other, bound or Bound()))

    def note(self, text: str) -> None:
        """A sentence below the figures."""
        if text not in self.notes:
            self.notes.append(text)

    def as_json(self) -> dict[str, Any]:
        """Everything, for a machine."""
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        figures = {
            name: {"unit": each.unit, **_spread(each.values), **self._judged(name)}
            for name, each in self.figures.items()
        }
        return {
            "bench": self.name,
            "version": __version__,
            "at": at,
            "scale": self.scale,
            "machine": self.machine,
            "figures": figures,
            "ratios": [self._ratio(*each) for each in self.ratios],
            "notes": self.notes,
        }

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.as_json(), indent=1) + "\n", encoding="utf-8")

    def __str__(self) -> str:
        """Everything, for a person."""
        found = self.as_json()
        about = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        wide = max([20, *map(len, self.figures)])
        lines = [f"{self.name}, scale {self.scale:g}: {about}"]
        lines.append(f"  {'':<{wide}} {'median':>11} {'least':>11} {'most':>11}  runs")
        for name, each in found["figures"].items():
            row = " ".join(f"{_short(each[key]):>11}" for key in ("median", "min", "max"))
            runs = f"{len(each['runs']):>4}"
            lines.append(f"  {name:<{wide}} {row}  {runs}  {each['unit']}{_verdict(each)}")
        for each in found["ratios"]:
            row = f"{_short(each['median'])} ({_short(each['min'])} to {_short(each['max'])})"
            lines.append(f"  {each['of']} / {each['to']}: {row}{_verdict(each)}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _ratio(self, name: str, other: str, bound: Bound) -> dict[str, Any]:
        pairs = zip(self.figures[name].values, self.figures[other].values, strict=False)
        spread = _spread([over / under for over, under in pairs])
        return {"of": name, "to": other, **spread, **self._verdict_of(bound, spread["median"])}

    def _judged(self, name: str) -> dict[str, Any]:
        return self._verdict_of(self.bounds[name], median(self.figures[name].values))

    def _verdict_of(self, bound: Bound, value: float) -> dict[str, Any]:
        if not bound:
            return {}
        met = bound.met(value) if self.scale == 1 else None
        return {"aim": str(bound), "met": met}


def _spread(values: list[float]) -> dict[str, Any]:
    rounded = [float(f"{value:.6g}") for value in values]
    return {
        "median": median(rounded),
        "min": min(rounded),
        "max": max(rounded),
        "runs": rounded,
    }


def _verdict(each: dict[str, Any]) -> str:
    if "aim" not in each:
        return ""
    said = {True: "met", False: "NOT met", None: "not judged at this scale"}[each["met"]]
    return f"   [aim: {each['aim']}: {said}]"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def progress(text: str) -> None:
    """Say on stderr what is going on; stdout has the result alone."""
    print(f"  … {text}", file=sys.stderr, flush=True)
