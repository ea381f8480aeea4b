"""Fails when a file's coverage, lines and branches together and each alone, is under its bound."""

from __future__ import annotations

import json
import sys
from pathlib import Path

PURE = ("scheduler_daemon/rules/", "scheduler_daemon/delivery/", "scheduler_daemon/wire/")


def share(covered: int, total: int) -> float:
    return 100.0 if total == 0 else 100.0 * covered / total


def main(report: str) -> int:
    files = json.loads(Path(report).read_text(encoding="utf-8"))["files"]
    low = []
    for name, entry in sorted(files.items()):
        found = entry["summary"]
        lines = share(found["covered_lines"], found["num_statements"])
        branches = share(found["covered_branches"], found["num_branches"])
        bound = 100.0 if name.startswith(PURE) else 95.0
        if min(lines, branches) < bound:
            low.append(f"{name}: lines {lines:.1f} %, branches {branches:.1f} %, wanted {bound} %")
    print("\n".join(low) or f"coverage: all {len(files)} files reach their bound")
    return bool(low)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
