"""`schedctl demo`: the whole promise, told while it happens, in a folder that goes away."""

from __future__ import annotations

import argparse
import datetime as dt
import shlex
import sqlite3
import textwrap
from typing import Any

from scheduler_daemon import wall
from scheduler_daemon.cli import exits, output
from scheduler_daemon.cli.exits import FailedError
from scheduler_daemon.cli.parser import Parser
from scheduler_daemon.cli.stage import Stage

USAGE = "[options]"
ABOUT = """\
See the whole promise in under a minute: a daemon in a temporary folder is
killed with SIGKILL while three reminders are pending, starts again, and
everything arrives once."""
EXAMPLES = """\
  schedctl demo"""

_SESSION = "conversation-1"
_SQL = (
    "SELECT reminder_id, occurrence_at, admitted_at, host, outcome FROM history"
    " ORDER BY occurrence_id"
)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_AHEAD = 6
"""Seconds from now to the targets: enough to make three reminders and to kill a daemon."""
_ARRIVAL = 20.0
_QUIET = 2.0
"""Seconds to wait for what must come, and for what must not."""


def options(parser: Parser) -> None:
    del parser  # nothing of its own


def run(args: argparse.Namespace) -> int:
    with Stage() as stage:
        outcome = Story(stage, silent=args.json).tell()
    if args.json:
        output.say(output.json_line(outcome))
    else:
        output.say("\nEverything arrived, once and in order, through a kill -9.")
        output.say("The processes have ended and the folder is gone.")
    return exits.DONE


class Story:
    """What happens, in order, and what is said meanwhile."""

    def __init__(self, stage: Stage, *, silent: bool) -> None:
        self._stage = stage
        self._silent = silent

    def tell(self) -> dict[str, Any]:
        """The outcome, in facts. Raises FailedError where the promise was not kept."""
        self._open()
        targets = self.make_reminders()
        self._kill()
        self._sleep_through(targets)
        followups = self._arrivals()
        receipts = self._receipts()
        check(followups, receipts)
        return {"followups": followups, "receipts": receipts}

    def _open(self) -> None:
        self._say(f"A daemon of its own, in {self._stage.folder}, and an agent host.")
        pid = self._stage.start_daemon()
        self._say(f"  the daemon is process {pid} and answers on its socket")
        self._stage.start_host(_SESSION)
        self._say(f"  the host takes the follow-ups of the Session {_SESSION}\n")

    def make_reminders(self) -> dt.datetime:
        """One one-shot and two recurring ones, all due in a few seconds; return when all are.

        Recurring rules come at least five minutes apart, but nothing says how near the first
        time may be: a daily time of day that is a few seconds ahead.
        """
        due = wall.now().replace(microsecond=0) + dt.timedelta(seconds=_AHEAD)
        time, day = due.strftime("%H:%M:%S"), _WEEKDAYS[due.weekday()]
        self._say(f"Three reminders: one due {_AHEAD - 1} seconds from now, two at {time} UTC:")
        self._schedctl(
            "create", "--session", _SESSION, "--after", f"{_AHEAD - 1}s", "Check the build"
        )
        self._schedctl(
            *("create", "--session", _SESSION, "--daily", time, "--tz", "UTC"),
            *("--title", "Mail", "Read the new mail"),
        )
        self._schedctl(
            *("create", "--session", _SESSION, "--weekly", f"{day}@{time}", "--tz", "UTC"),
            *("--title", "Report", "Write the report of the week"),
        )
        if wall.now() >= due:
            raise FailedError("this machine is too slow for the demo: their time came too soon")
        return due

    def _kill(self) -> None:
        assert self._stage.daemon is not None
        self._say("\nAll three are stored and pending. Now the daemon dies, unprepared:")
        self._say(f"$ kill -9 {self._stage.daemon.pid}")
        self._stage.kill_daemon()

    def _sleep_through(self, due: dt.datetime) -> None:
        self._say("  their time comes and goes while nobody is there ...")
        left = (due - wall.now()).total_seconds()
        if self._stage.followup(max(left, 0) + 1) is not None:
            raise FailedError("this machine is too slow for the demo: one came before the kill")
        pid = self._stage.start_daemon()
        self._say(f"  and the daemon is started again, as process {pid}\n")

    def _arrivals(self) -> list[dict[str, Any]]:
        self._say("The host finds it again by itself. What it receives, as the model reads it:")
        followups: list[dict[str, Any]] = []
        while followup := self._stage.followup(_QUIET if len(followups) == 2 else _ARRIVAL):
            followups.append(followup)
            count = len(followup["occurrences"])
            what = "one reminder" if count == 1 else f"{count} reminders in one"
            self._say(f"\nmessage {len(followups)}, {what}:")
            lines = output.safe_lines(followup["text"])
            self._say(textwrap.indent("\n".join(lines), "  | ", bool))
        return followups

    def _receipts(self) -> list[dict[str, Any]]:
        """The receipts as anyone may read them, with plain SQL, while the daemon runs."""
        self._say("\nThe receipts, on disk, for anyone with the rights to read them:")
        self._say(f"$ sqlite3 scheduler.db {shlex.quote(_SQL)}")
        database = sqlite3.connect(f"file:{self._stage.database}?mode=ro", uri=True)
        try:
            cursor = database.execute(_SQL)
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor]
        finally:
            database.close()
        cells = [[output.safe(str(value)) for value in row.values()] for row in rows]
        for line in output.table(names, cells, None):
            self._say(f"  {line}")
        return rows

    def _schedctl(self, *words: str) -> None:
        self._say(f"$ schedctl {shlex.join(words)}")
        self._say(textwrap.indent(self._stage.schedctl(*words).rstrip(), "  "))

    def _say(self, text: str) -> None:
        if not self._silent:
            print(text, flush=True)


def check(followups: list[dict[str, Any]], receipts: list[dict[str, Any]]) -> None:
    """Raises FailedError unless each came once: the one-shot alone, then one batch of two."""
    shapes = [(followup["batch"], len(followup["occurrences"])) for followup in followups]
    if shapes != [(False, 1), (True, 2)]:
        raise FailedError(f"the promise was not kept: what arrived was {shapes}")
    if [receipt["outcome"] for receipt in receipts] != ["admitted"] * 3:
        raise FailedError(f"the promise was not kept: the receipts are {receipts}")
