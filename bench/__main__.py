"""Runs the benchmark that is named and prints what it found."""

from __future__ import annotations

import sys

from bench import client, retention

BENCHES = {"client": client.run, "retention": retention.run}

if len(sys.argv) != 2 or sys.argv[1] not in BENCHES:
    sys.exit(f"usage: python -m bench {{{','.join(BENCHES)}}}")
print(BENCHES[sys.argv[1]]())
