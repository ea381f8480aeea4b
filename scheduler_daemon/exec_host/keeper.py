"""The process that carries out one attempt, and tells its folder what came of it.

It leads a session of its own: neither ctrl-C nor the end of the host ends what an agent has begun.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from scheduler_daemon.exec_host import command
from scheduler_daemon.exec_host.folders import FolderRefused, opened, way_to
from scheduler_daemon.exec_host.runs import (
    FOLLOWUP,
    FOLLOWUP_VARIABLE,
    TEXT,
    Order,
    Report,
    Run,
)

LONGEST_ARGUMENT = 131_071
"""In bytes: MAX_ARG_STRLEN of the kernel without the ending NUL, execve(2)."""

_NOT_FOR_AGENTS = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_PID")


def main(path: str) -> None:
    """Carry out the order of the folder at `path`."""
    run = Run(Path(path))
    try:
        report = carry_out(run)
    except FolderRefused as refused:
        report = Report("failed", str(refused))
    except Exception as defect:  # noqa: BLE001 - whatever it is, somebody shall read it
        report = Report("failed", f"{type(defect).__name__} in the keeper: {defect}")
    run.write(report)


def carry_out(run: Run) -> Report:
    """Deliver in the first of the ways that leads to the Session. Raises FolderRefused."""
    order = run.order()
    fd = opened(order.directory, order.allowed)
    try:
        report = _by_server(run, order)
        return _by_command(run, order, way_to(fd)) if report is None else report
    finally:
        os.close(fd)


def _by_server(run: Run, order: Order) -> Report | None:
    """None where no server is known, or none listens."""
    if order.server is None:
        return None
    from scheduler_daemon.exec_host import opencode  # only here: http comes with it

    text = (run.path / TEXT).read_text("utf-8")
    return opencode.send(order.server, order.session, order.directory, text)


def _by_command(run: Run, order: Order, cwd: str) -> Report:
    text, env = run.path / TEXT, _environment(order, run.path / FOLLOWUP)
    report = command.run(_filled(order.command, order), order, cwd, env, text)
    if report.outcome != "busy" or not order.when_busy:
        return report
    argv = _filled(order.when_busy, order, text.read_text("utf-8"))
    if any(len(os.fsencode(word)) > LONGEST_ARGUMENT for word in argv):
        return report
    second = command.run(argv, order, cwd, env, text)
    return report if second.outcome == "failed" else second


def _filled(argv: Sequence[str], order: Order, text: str = "") -> list[str]:
    """The words with the id and the text in their places; neither becomes a word of its own.

    The text, which may hold anything, is put in last.
    """
    return [word.replace("{session}", order.session).replace("{text}", text) for word in argv]


def _environment(order: Order, followup: Path) -> dict[str, str]:
    """The host's own. PWD is what some agents take for the directory, links and all."""
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_AGENTS}
    return {**kept, "PWD": order.directory, FOLLOWUP_VARIABLE: str(followup)}
