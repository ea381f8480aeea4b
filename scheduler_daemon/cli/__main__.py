"""Runs schedctl as `python -m scheduler_daemon.cli`."""

from __future__ import annotations

import sys

from scheduler_daemon.cli.main import run

sys.exit(run())
