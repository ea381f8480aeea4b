"""Runs the benchmark that is named, prints what it found and writes it to a JSON file."""

from __future__ import annotations

import argparse
import importlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.report import Report, machine
from bench.setting import Setting

BENCHES = {
    "creates": "bench.creates:many",
    "one-client": "bench.creates:one",
    "drain": "bench.drain:many_sessions",
    "drain-one-session": "bench.drain:one_session",
    "drain-cold": "bench.cold:run",
    "lateness": "bench.lateness:run",
    "start": "bench.standing:start",
    "memory": "bench.standing:memory",
    "idle": "bench.standing:idle",
    "management": "bench.management:run",
    "rules": "bench.rules:run",
    "cli": "bench.cli:run",
    "size": "bench.size:run",
    "retention": "bench.retention:run",
}
RESULTS = Path("bench-results")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    names = list(BENCHES) if options.name == "all" else [options.name]
    for name in names:
        _run(name, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("name", choices=[*BENCHES, "all"])
    parser.add_argument("--runs", type=int, default=5, help="how often each side is measured")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is the size of the aims")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="PATH",
        help="default: bench-results/NAME.json; of all: a folder",
    )
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where databases are made")
    return parser


def _run(name: str, options: argparse.Namespace) -> None:
    options.folder.mkdir(parents=True, exist_ok=True)
    # Named alike for all of them, a file would keep the last.
    alone = options.json is not None and options.name != "all"
    path = options.json if alone else (options.json or RESULTS) / f"{name}.json"
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder) as folder:
        report = Report(name, options.scale, machine(Path(folder)))
        module, _, function = BENCHES[name].partition(":")
        run = getattr(importlib.import_module(module), function)
        run(Setting(report, options.scale, options.runs, Path(folder).absolute()))
    report.write(path)
    print(report, flush=True)


if __name__ == "__main__":
    main()
