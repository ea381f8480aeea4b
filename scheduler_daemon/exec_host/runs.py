"""A folder for each attempt to deliver a message: what the keeper is to do, and what came of it.

A keeper is a process of its own, so that a turn outlives the host that began it. The folder tells
the next host whether the keeper still lives (it holds a lock that its host took for it), or how it
ended; a folder that has neither is of one that was killed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["done", "busy", "unknown", "failed", "uncertain"]

FOLLOWUP = "followup.json"
TEXT = "text"
FOLLOWUP_VARIABLE = "SCHEDULER_FOLLOWUP_FILE"
"""Names the follow-up's file to a command; what the command starts has it too."""
_ORDER = "order.json"
_REPORT = "report.json"


@dataclass(frozen=True, slots=True)
class Order:
    """What a keeper is to do; `timeout` is in seconds, the rest is as in a Profile."""

    session: str
    directory: str
    allowed: Sequence[str]
    timeout: float
    command: Sequence[str]
    busy: Sequence[str]
    unknown: Sequence[str]
    when_busy: Sequence[str]
    server: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it; `reason` is for people. `uncertain`: it may have come through, or not."""

    outcome: Outcome
    reason: str | None = None


class Run:
    """The folder of one attempt; made by `prepare`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        return self.path.is_dir()

    def prepare(self, order: Order, followup: dict[str, Any], text: str) -> int:
        """Make the folder whole; return a descriptor that holds its lock while any copy is open."""
        beside = self.path.with_suffix(".new")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(mode=0o700, parents=True)
        _write(beside / FOLLOWUP, json.dumps(followup, ensure_ascii=False, indent=1))
        _write(beside / TEXT, text)
        _write(beside / _ORDER, json.dumps(asdict(order)))
        fd = os.open(beside / _ORDER, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_EX)
        beside.rename(self.path)
        return fd

    def is_kept(self) -> bool:
        """Whether a keeper works on it."""
        fd = os.open(self.path / _ORDER, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def order(self) -> Order:
        return Order(**json.loads((self.path / _ORDER).read_text("utf-8")))

    def write(self, report: Report) -> None:
        """Say how it ended, in one step, and let what was to be said go."""
        beside = self.path / f"{_REPORT}.new"
        _write(beside, json.dumps(asdict(report)))
        beside.rename(self.path / _REPORT)
        for name in (FOLLOWUP, TEXT):
            (self.path / name).unlink(missing_ok=True)

    def processes(self) -> list[int]:
        """All that the command of this attempt is and has started, in whatever group; proc(5)."""
        mark = os.fsencode(f"{FOLLOWUP_VARIABLE}={self.path / FOLLOWUP}")
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):  # it has ended, or is another user's
                if mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def report(self) -> Report | None:
        """How it ended; None where its keeper could not say."""
        try:
            return Report(**json.loads((self.path / _REPORT).read_text("utf-8")))
        except FileNotFoundError:
            return None

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class Runs:
    """All attempts, below one folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, followup_id: str, attempt: int) -> Run:
        """The attempt's folder, there or not. Whatever the id holds, the name is a plain one."""
        return Run(self._path / f"{_name(followup_id)}.{attempt}")

    def sweep(self, open_ids: Sequence[str]) -> None:
        """Remove the folders of messages that have ended, which are those not in `open_ids`."""
        kept = set(map(_name, open_ids))
        for path in self._path.glob("*.*"):
            if path.stem not in kept:
                Run(path).remove()


def _name(followup_id: str) -> str:
    return hashlib.sha256(followup_id.encode()).hexdigest()[:24]


def _write(path: Path, text: str) -> None:
    """A file for this user only, on disk when this returns."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
