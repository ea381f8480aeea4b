"""The host itself: takes messages from the queue, and has each kept by a process of its own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, cast

from scheduler_daemon.client.answers import Busy, Gone, NotDelivered
from scheduler_daemon.client.host import AgentHost
from scheduler_daemon.client.spool import Spool
from scheduler_daemon.exec_host import keeping
from scheduler_daemon.exec_host.choosing import Choice, context_of
from scheduler_daemon.exec_host.runs import Order, Report, Run, Runs
from scheduler_daemon.log import configure, get_logger
from scheduler_daemon.wire.shapes import Followup

REPEATED = (
    "[This message may be here already: an earlier attempt to bring it did not end well.]\n\n"
)
"""Before the text of what is tried again, for the model to judge by."""
CUT_OFF = "the run was cut off: whether the message came through is not known"

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the host was told: `timeout` in seconds, `home` for messages that name no directory."""

    name: str
    sessions: list[str] | Literal["*"]
    choice: Choice
    allowed: Sequence[str]
    timeout: float
    max_parallel: int
    home: str
    socket: str | None = None


def run(plan: Plan, spool: Spool, about: dict[str, Any]) -> None:
    """Serve until SIGTERM or SIGINT; what runs then goes on, and is found by the next host.

    `about` is written into the queue for those who look. Raises what AgentHost.run raises.
    """
    configure("info", "auto", sys.stderr)
    spool.hold()
    spool.describe(about)
    log.info("host_started", queue=spool.path, **about)
    asyncio.run(_serve(plan, spool))


async def _serve(plan: Plan, spool: Spool) -> None:
    host = AgentHost(
        plan.name,
        plan.sessions,
        Deliverer(plan, spool).deliver,
        socket=plan.socket,
        spool=spool,
        accept=plan.choice.accept,
        max_parallel=plan.max_parallel,
    )
    running = asyncio.ensure_future(host.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    with suppress(asyncio.CancelledError):
        await running


class Deliverer:
    """Has messages of `spool` delivered."""

    def __init__(self, plan: Plan, spool: Spool) -> None:
        self._plan = plan
        self._spool = spool
        self._runs = Runs(spool.path.with_name(f"{spool.path.name}.runs"))
        self._sweep()

    async def deliver(self, message: Followup) -> Busy | Gone | None:
        """Wait for what comes of the message. Raises NotDelivered."""
        run, keeper = self._runs.of(message["followup_id"], message["attempt"]), None
        if not run.exists():
            self._sweep()
            keeper = self._start(run, message)
        await keeping.over(run, keeper)
        report = run.report()
        if report is None:
            await keeping.end_rest(run)
            report = Report("failed", CUT_OFF)
        log.info("run_ended", outcome=report.outcome, reason=report.reason, **_ids(message))
        return self._answer(run, report)

    def _answer(self, run: Run, report: Report) -> Busy | Gone | None:
        if report.outcome == "done":
            return None
        if report.outcome == "busy":
            run.remove()  # it costs no attempt, and the next one needs the folder's name
            return Busy()
        if report.outcome == "unknown":
            return Gone(report.reason)
        raise NotDelivered(report.reason or "", again=report.outcome == "failed")

    def _sweep(self) -> None:
        """Remove what is left of messages that have ended."""
        messages = self._spool.messages()
        unfinished = [each for each in messages if each.state in ("queued", "running")]
        self._runs.sweep([each.followup["followup_id"] for each in unfinished])

    def _start(self, run: Run, message: Followup) -> subprocess.Popen[bytes]:
        order = self._order(message)
        text = message["text"] if message["attempt"] == 1 else REPEATED + message["text"]
        keeper = keeping.start(run, order, cast("dict[str, Any]", message), text)
        log.info("run_started", program=order.command[0], cwd=order.directory, **_ids(message))
        return keeper

    def _order(self, message: Followup) -> Order:
        context = context_of(message["occurrences"][0])
        profile = self._plan.choice.profile(context.agent)
        if profile is None:
            raise NotDelivered(f"this host runs no profile for the agent {context.agent!r}")
        return Order(
            session=message["session_id"],
            directory=context.cwd or self._plan.home,
            allowed=self._plan.allowed,
            timeout=self._plan.timeout,
            command=profile.command,
            busy=profile.busy,
            unknown=profile.unknown,
            when_busy=profile.when_busy,
            server=profile.server,
        )


def _ids(message: Followup) -> dict[str, object]:
    return {
        "session_id": message["session_id"],
        "occurrence_ids": [each["occurrence_id"] for each in message["occurrences"]],
        "attempt": message["attempt"],
    }
