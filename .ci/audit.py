"""Reads a report of pip-audit, which calls dependencies free of known faults that it never saw."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(report: str) -> int:
    found = json.loads(Path(report).read_text(encoding="utf-8"))["dependencies"]
    unseen = [each["name"] for each in found if "skip_reason" in each]
    faults = [
        f"{each['name']} {each['version']}: {v['id']}"
        for each in found
        for v in each.get("vulns", ())
    ]
    if faults:
        print("known vulnerabilities:", *faults, sep="\n  ")
    elif len(unseen) == len(found):
        print("SKIPPED: pip-audit reached none of its data; docs/packaging.md says when it has to")
    elif unseen:
        print("pip-audit could not look at", ", ".join(unseen))
    else:
        print(f"{len(found)} dependencies, no known vulnerability")
    return bool(faults) or 0 < len(unseen) < len(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
