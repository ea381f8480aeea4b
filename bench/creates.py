"""Durable creations per second: many clients at once, and one client one at a time."""

from __future__ import annotations

from bench import bare
from bench.daemon import ROOMY, Daemon
from bench.fill import PROMPT
from bench.peers import running as peers
from bench.report import Bound, progress
from bench.setting import Setting
from bench.wire import flood, request

CLIENTS = 64
DEEP = 4
"""Requests that each client has under way at once."""

OURS = "ours, 64 clients"
BARE, BARE_64 = "bare sqlite3, 1 row a commit", "bare sqlite3, 64 rows a commit"


def many(setting: Setting) -> None:
    """64 clients, each with 4 requests under way; every answer comes after its commit."""
    each = setting.size(20_000 // CLIENTS)
    for run in range(setting.runs):
        progress(f"creates, run {run + 1} of {setting.runs}")
        with setting.place() as folder:
            with Daemon(folder, *ROOMY) as daemon:
                frames = [
                    [creation(n, f"session-{client}-{n % 20}") for n in range(each)]
                    for client in range(CLIENTS)
                ]
                seconds = flood(daemon.socket, frames, DEEP)
            setting.report.add(OURS, CLIENTS * each / seconds, "creates/s")
            _others(setting)
    setting.report.compare(OURS, BARE, Bound(at_least=4))
    setting.report.compare(OURS, BARE_64)
    setting.report.compare(OURS, peers.APSCHEDULER_3.name, Bound(at_least=10))
    setting.report.compare(OURS, peers.APSCHEDULER_4.name, Bound(at_least=10))
    setting.report.compare(OURS, peers.HUEY.name, Bound(at_least=5))


ONE = "ours, one client"


def one(setting: Setting) -> None:
    """One client that sends the next request after the answer to the last."""
    count = setting.size(2000)
    for run in range(setting.runs):
        progress(f"one-client, run {run + 1} of {setting.runs}")
        with setting.place() as folder:
            with Daemon(folder, *ROOMY) as daemon:
                frames = [[creation(n, f"session-{n % 20}") for n in range(count)]]
                setting.report.add(ONE, count / flood(daemon.socket, frames, 1), "creates/s")
            _others(setting)
    setting.report.compare(ONE, BARE, Bound(at_least=0.5))
    setting.report.compare(ONE, peers.APSCHEDULER_3.name, Bound(at_least=1))
    setting.report.compare(ONE, peers.APSCHEDULER_4.name, Bound(at_least=1))
    setting.report.compare(ONE, peers.HUEY.name)
    setting.report.note("huey and APScheduler are called in their own process, without a socket")


def _others(setting: Setting) -> None:
    count = setting.size(1000)
    with setting.place() as place:
        setting.report.add(BARE, bare.inserts(place, count, at_once=1), "creates/s")
        if setting.report.name != "one-client":
            rate = bare.inserts(place, 10 * count, at_once=64)
            setting.report.add(BARE_64, rate, "creates/s")
    for peer in peers.PEERS:
        with setting.place() as place:
            found = peers.ask(peer, place, "create", count=count)
        if found is not None:
            setting.report.add(peer.name, found["per_second"], "creates/s")


def creation(number: int, session: str) -> bytes:
    """The frame of one creation."""
    return request(
        number, "reminder.create", session_id=session, prompt=PROMPT, after_seconds=86_400
    )
