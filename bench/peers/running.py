"""Runs the programs of this folder, each in an interpreter that has what it is about.

Each takes what it shall do as JSON and prints JSON as its last line. APScheduler 3 and 4 cannot
be in one environment: the second gets one of its own, made with pip when it is first wanted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from bench.report import progress

HERE = Path(__file__).parent
APART = Path(".venv-apscheduler4")
"""The environment of APScheduler 4, in the folder that the benchmarks are run in."""


class Peer(NamedTuple):
    """What others use today; `module` must be importable where `apart` names no packages."""

    name: str
    program: str
    module: str
    apart: tuple[str, ...] = ()


APSCHEDULER_3 = Peer("APScheduler 3", "apscheduler3", "apscheduler")
_APART = ("apscheduler==4.0.0a6", "sqlalchemy[asyncio]", "sniffio")
APSCHEDULER_4 = Peer("APScheduler 4", "apscheduler4", "", _APART)
HUEY = Peer("huey", "huey_sqlite", "huey")
PEERS = (APSCHEDULER_3, APSCHEDULER_4, HUEY)


def ask(peer: Peer, folder: Path, act: str, **what: Any) -> dict[str, Any] | None:
    """What a peer found, None where it is not to be had here, which is said."""
    python = _python(peer)
    if python is None:
        return None
    program = HERE / f"{peer.program}.py"
    asked = json.dumps({"act": act, "folder": str(folder), **what})
    found = subprocess.run([python, str(program), asked], capture_output=True, check=False)
    if found.returncode:
        last = found.stderr.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
        progress(f"{peer.name} failed: {last}")
        return None
    answer: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return answer


def missing() -> list[str]:
    """Peers that are not to be had here."""
    return [peer.name for peer in PEERS if _python(peer) is None]


def _python(peer: Peer) -> str | None:
    if not peer.apart:
        return sys.executable if find_spec(peer.module) else None
    python = APART / "bin" / "python"
    if not python.exists() and os.environ.get("SCHEDULER_DAEMON_BENCH_OFFLINE"):
        return None
    if not python.exists():
        progress(f"making an environment for {peer.name} in {APART}")
        venv.create(APART, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *peer.apart]
        if subprocess.run(install, check=False).returncode:
            progress(f"{peer.name} cannot be installed")
            return None
    return str(python.absolute())
