"""`schedctl`: finds the verb, runs it, and turns whatever ends it into one line and a status.

The verbs are modules of their own, imported when they are wanted, so that `schedctl list` does
not pay for `schedctl host`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from scheduler_daemon import __version__
from scheduler_daemon.cli import exits, output
from scheduler_daemon.cli.exits import ConfigurationError, FailedError, MisuseError, TakenError
from scheduler_daemon.cli.parser import Parser
from scheduler_daemon.client.finding import DaemonUnreachable
from scheduler_daemon.errors import ReminderNotFound, SchedulerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Verb(Protocol):
        """What a module of verbs/ has."""

        USAGE: str
        ABOUT: str
        EXAMPLES: str

        def options(self, parser: Parser) -> None:
            """Add what the verb takes."""

        def run(self, args: argparse.Namespace) -> int:
            """Do it; return the exit status."""


VERBS = {
    "create": "make a reminder for a Session",
    "list": "show reminders, one a line",
    "show": "show one reminder, and why it has not come yet",
    "update": "change the words, the time or the end of a reminder",
    "delete": "delete a reminder, or all of a Session",
    "pause": "keep a reminder from coming until it is resumed",
    "resume": "let a paused reminder come again",
    "snooze": "let the words of a reminder come again, in ten minutes say",
    "skip": "let the next time of a recurring reminder pass",
    "run-now": "let a reminder come once more at once",
    "history": "show what was delivered, newest first",
    "sessions": "show the Sessions; forget one, or move its reminders to another",
    "preview": "show when a rule would come, without storing anything",
    "export": "write everything as JSON lines, or what is coming for a calendar",
    "import": "put an export into a new database",
    "backup": "copy the database, also while the daemon runs",
    "restore": "put a backup in the place of the database",
    "doctor": "look what is wrong in the database, and mend it",
    "status": "show how the daemon is",
    "metrics": "print how the daemon is for Prometheus",
    "watch": "show what happens to reminders, as it happens",
    "setup": "give Claude Code, Codex, opencode or another MCP client the tools",
    "mcp": "serve reminders as tools of an agent (MCP)",
    "host": "be an agent host for trying out: print what is delivered",
    "host-exec": "be the host of command-line agents: run one for each follow-up",
    "spool": "show what host-exec has to deliver; try again, or drop it",
    "service": "let systemd start the daemon for this user",
    "demo": "see the whole promise in under a minute, kill -9 included",
    "rpc": "call any method of the protocol",
    "completion": "print the completions of bash, zsh or fish",
}

ABOUT = "Durable reminders for agents: made in a conversation, delivered back into it."
EXAMPLES = """\
  schedctl create --session s1 --after 20m "Check the build"
  schedctl create --session s1 --weekly mon-fri@09:00 --tz Europe/Berlin "Read the mail"
  schedctl show r7"""
EXIT_STATUS = """\
0 done, 1 failed, 2 misused, 3 daemon or its file not reachable, 4 no such reminder,
5 refused by a rule, a limit or for lack of permission, 6 bad configuration."""

_HELP = f"""usage: schedctl VERB ...

{ABOUT}

{{verbs}}

examples:
{EXAMPLES}

`schedctl VERB --help` says more. Verbs that show something take --json.
Exit status: {EXIT_STATUS}
"""

_WITH_VALUE = ("--socket", "--owner")


def run() -> int:
    """The console script: the exit status for `sys.argv`. Ends quietly on ctrl-C and SIGPIPE."""
    output.use_utf8()
    try:
        status = main(sys.argv[1:])
        print(end="", flush=True)
    except KeyboardInterrupt:
        status = exits.INTERRUPTED
    except BrokenPipeError:
        status = exits.BROKEN_PIPE
    except OSError as error:
        output.note(f"cannot write the output: {error.strerror}")
        status = exits.FAILED
    else:
        return status
    output.abandon(sys.stdout)
    return status


def main(words: Sequence[str]) -> int:
    """Run one command line; everything that a person should read about a failure is on stderr."""
    verb = ""
    try:
        verb, rest = _split([_utf8(word) for word in words])
        return _call(verb, rest) if verb else _top(rest)
    except MisuseError as error:
        how = f"schedctl {verb} --help" if verb in VERBS else "schedctl --help"
        if verb == "status" and "--check" in words:
            return _unknown(f"{error}; see `{how}`")
        return _fail(f"{error}; see `{how}`", exits.MISUSED)
    except FailedError as error:
        return _fail(str(error), exits.FAILED)
    except ConfigurationError as error:
        return _fail(str(error), exits.CONFIGURATION)
    except (DaemonUnreachable, TakenError) as error:
        return _fail(str(error), exits.UNREACHABLE)
    except SchedulerError as error:
        from scheduler_daemon.cli import refusals  # only after one

        return _fail(refusals.explain(error), refusals.status_of(error))
    except OSError as error:
        if error.filename is None:
            raise  # of the output: the console script knows what to do
        return _fail(f"{error.filename}: {error.strerror}", exits.FAILED)
    except Exception as error:  # noqa: BLE001  no traceback reaches a person
        return _defect(error, check=verb == "status" and "--check" in words)


def _defect(error: Exception, *, check: bool) -> int:
    """Say that this failed inside; most often an answer was not that of a daemon of ours."""
    message = (
        f"this failed inside schedctl ({type(error).__name__}: {error}); what answers on the "
        "socket may be no scheduler-daemon, or one of another version"
    )
    if not check:
        return _fail(output.safe(message), exits.FAILED)
    from scheduler_daemon.cli import health  # only for a plugin

    output.say(health.line(health.CRITICAL, output.safe(message)))
    return health.CRITICAL


def _fail(message: str, status: int) -> int:
    print(end="", flush=True)  # what was shown before comes before
    output.note(message)
    return status


def _unknown(message: str) -> int:
    """To whoever runs plugins, the usual status of a misuse would be an alarm."""
    from scheduler_daemon.cli import health  # only for a plugin

    output.say(health.line(health.UNKNOWN, message))
    return health.UNKNOWN


def _utf8(word: str) -> str:
    """The argument as it was typed, whatever the locale took it for. Raises MisuseError."""
    try:
        return os.fsencode(word).decode("utf-8")
    except UnicodeError:
        raise MisuseError(f"arguments are UTF-8, and {word!r} is not") from None


def _split(words: Sequence[str]) -> tuple[str, list[str]]:
    """The verb ("" for none) and everything else; options may stand before it."""
    skip = False
    for index, word in enumerate(words):
        if not skip and not word.startswith("-"):
            before = [option for option in words[:index] if option != "--"]
            return word, [*before, *words[index + 1 :]]
        skip = not skip and word in _WITH_VALUE
    return "", list(words)


def _top(words: Sequence[str]) -> int:
    if "--version" in words:
        output.say(f"schedctl {__version__}")
        return exits.DONE
    if {"-h", "--help"} & set(words):
        verbs = "\n".join(f"  {verb:<10} {summary}" for verb, summary in VERBS.items())
        print(_HELP.format(verbs=verbs), end="")
        return exits.DONE
    raise MisuseError(f"a verb is missing: {', '.join(VERBS)}")


def _call(verb: str, words: Sequence[str]) -> int:
    if verb == "help":
        return _call(words[0], ["--help"]) if words else _top(["--help"])
    if verb not in VERBS:
        raise MisuseError(f"there is no verb {verb!r}{_nearest(verb)}")
    module, parser = load(verb)
    try:
        args = parser.read(words)
    except SystemExit:  # --help has been printed
        return exits.DONE
    try:
        return module.run(args)
    except ReminderNotFound as error:
        if getattr(args, "id", None) is None:
            raise
        from scheduler_daemon.cli import refusals  # only after one

        raise refusals.not_found(args, error) from None


def load(verb: str) -> tuple[Verb, Parser]:
    """The module of a verb, and a parser of what it takes."""
    name = "import_" if verb == "import" else verb.replace("-", "_")
    module: Any = import_module(f"scheduler_daemon.cli.verbs.{name}")
    parser = Parser(verb, module.USAGE, module.ABOUT, module.EXAMPLES)
    module.options(parser)
    return module, parser


def _nearest(verb: str) -> str:
    from difflib import get_close_matches  # only for a mistake

    near = get_close_matches(verb, VERBS, n=1)
    return f"; did you mean `{near[0]}`?" if near else f": {', '.join(VERBS)}"
