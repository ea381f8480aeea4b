"""From a target to the host that has the message: 1,000 in turn, and 1,000 at once."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

from bench.daemon import ROOMY, Daemon
from bench.fill import fill, now, one_shot
from bench.peers import running as peers
from bench.report import Bound, progress
from bench.setting import Setting
from bench.wire import Host
from scheduler_daemon.model import Instant
from scheduler_daemon.rules import parse_instant_text

SECONDS = 10
AHEAD = 4.0
"""Seconds that everything has to start before the first is due."""
SLOWEST = 20.0
"""The same for peers, which are handed the jobs one by one."""


def run(setting: Setting) -> None:
    """Each peer is given as many jobs over as long a time, and notes when each runs."""
    count = setting.size(1000, 20)
    span = SECONDS * min(1.0, count / 1000)
    for number in range(setting.runs):
        progress(f"lateness, run {number + 1} of {setting.runs}")
        _add(setting, "ours, apart", _ours(setting, count, span))
        _add(setting, "ours, at once", _ours(setting, count, 0.0))
        for peer in peers.PEERS:
            found = _peer(setting, peer, count, span)
            if found is not None:
                _add(setting, f"{peer.name}, apart", found)
    setting.report.aim("ours, apart: p50", Bound(at_most=1.5))
    setting.report.aim("ours, apart: p99", Bound(at_most=10))
    for peer in peers.PEERS:
        for which in ("p50", "p99"):
            other = f"{peer.name}, apart: {which}"
            setting.report.compare(f"ours, apart: {which}", other, Bound(at_most=1))


def _add(setting: Setting, name: str, late_ms: list[float]) -> None:
    late = sorted(late_ms)
    setting.report.add(f"{name}: p50", late[len(late) // 2], "ms")
    setting.report.add(f"{name}: p99", late[len(late) * 99 // 100], "ms")


def _ours(setting: Setting, count: int, span: float) -> list[float]:
    with setting.place() as folder:
        first = now() + dt.timedelta(seconds=AHEAD)
        targets = [first + _since(span, n, count) for n in range(count)]
        after = now() - dt.timedelta(hours=1)
        rows = [one_shot(f"session-{n}", after, target) for n, target in enumerate(targets)]
        fill(folder / "scheduler.db", *rows)
        with Daemon(folder, *ROOMY) as daemon:
            return _received(daemon.socket, count)


def _since(span: float, number: int, count: int) -> dt.timedelta:
    return dt.timedelta(milliseconds=round(1000 * span * number / count))


def _received(socket: Path, count: int) -> list[float]:
    late: list[float] = []
    with Host(socket, "*") as host:
        for frame in host.followups():
            seen = time.time()
            late.append(1000 * (seen - _target(frame).timestamp()))
            host.answer(frame)
            if len(late) == count:
                return late
    raise ConnectionError("the daemon closed the connection")


def _target(frame: bytes) -> Instant:
    at = frame.index(b'"occurrence_at":"') + 17
    return parse_instant_text(frame[at : at + 24].decode("ascii"))


def _peer(setting: Setting, peer: peers.Peer, count: int, span: float) -> list[float] | None:
    with setting.place() as folder:
        first = time.time() + max(AHEAD, SLOWEST * count / 1000)
        due = [first + span * n / count for n in range(count)]
        found = peers.ask(peer, folder, "lateness", due=due)
    return None if found is None else [float(each) for each in found["late_ms"]]
