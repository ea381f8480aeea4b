"""`schedctl doctor`: what is wrong in the daemon's file and around it, and how to mend it."""

from __future__ import annotations

import argparse
import os

from scheduler_daemon.cli import database, exits, output
from scheduler_daemon.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from scheduler_daemon.store.finding import Finding

USAGE = "[options]"
ABOUT = """\
Look through the database: damage, schema, counts, every reminder and receipt,
what is set aside and why, leftovers, rights, the log of writes, free disk.
Says in a sentence what is wrong and how to mend it, and ends with exit status
1 then. What it merely explains (a target that somebody moved) is no fault.
While another program holds the file it cannot look, and ends with 3.

With --fix it does what is safe: it counts anew, puts back what can be read
again, computes a target that cannot be read, sets aside what else cannot,
gives identities and instants to what lacks them, drops what belongs to
nothing, and closes files to others. The daemon may run;
it is told to read the file again. You need the rights of the daemon's user."""
EXAMPLES = """\
  schedctl doctor
  schedctl doctor --fix
  sudo schedctl doctor --database /var/lib/scheduler-daemon/scheduler.db --json"""


_ROUNDS = 5
"""What is mended may show what else can be."""


def options(parser: Parser) -> None:
    parser.add_argument("--fix", action="store_true", help="mend what can be mended safely")
    database.add_database(parser)


def run(args: argparse.Namespace) -> int:
    from scheduler_daemon.store import doctor  # only here: SQLite comes with it

    path = database.locate(args)
    done: list[str] = []
    with database.refusing():
        found = doctor.look(path)
        for _ in range(_ROUNDS if args.fix else 0):
            more = doctor.mend(path, found, database.stamp()[0]) if _is_fixable(found) else []
            if not more:
                break
            done += more
            found = doctor.look(path)
        done += _tell(doctor.holder(path)) if done else []
    problems = [each for each in found if each.kind == "problem"]
    if args.json:
        output.say(output.json_line(_view(path, found, done)))
    else:
        _show(path, found, problems, done)
    return exits.FAILED if problems else exits.DONE


def _is_fixable(found: list[Finding]) -> bool:
    return any(each.fixable for each in found)


def _tell(daemon: int | None) -> list[str]:
    """Let a daemon that runs read the file again."""
    if daemon is None:
        return []
    import signal

    try:
        os.kill(daemon, signal.SIGHUP)
    except OSError as error:
        return [
            f"the daemon (process {daemon}) could not be told: {error.strerror}; send it SIGHUP"
        ]
    return [f"the daemon (process {daemon}) reads the file again"]


def _view(path: Path, found: list[Finding], done: list[str]) -> dict[str, object]:
    items = [
        {"code": each.code, "kind": each.kind, "text": each.text}
        | ({"mend": each.mend} if each.mend else {})
        | {"fixable": each.fixable}
        for each in found
    ]
    return {"database": str(path), "findings": items, "fixed": done}


def _show(path: Path, found: list[Finding], problems: list[Finding], done: list[str]) -> None:
    for line in done:
        output.say(output.safe(f"fixed: {line}"))
    for each in found:
        mend = f"; {each.mend}" if each.mend else ""
        output.say(output.safe(f"{each.kind}: {each.text}{mend}"))
    if not problems:
        output.say(output.safe(f"all is well with {path}"))
