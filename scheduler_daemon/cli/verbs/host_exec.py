"""`schedctl host-exec`: the host of command-line agents, one command for each follow-up."""

from __future__ import annotations

import argparse
import os
import shutil

from scheduler_daemon import wall
from scheduler_daemon.cli import exits, output, profile_tables, queue, times
from scheduler_daemon.cli.durations import seconds_of
from scheduler_daemon.cli.exits import FailedError, MisuseError
from scheduler_daemon.cli.parser import Parser, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from scheduler_daemon.exec_host.choosing import Choice
    from scheduler_daemon.exec_host.host import Plan
    from scheduler_daemon.exec_host.profiles import Profile

USAGE = "{SESSION ... | --all} {--profile NAME | -- COMMAND ...} [options]"
ABOUT = """\
Be the host of command-line agents: write each follow-up into a queue of its
own, then run one command in the directory of its Session, the message on stdin,
the id in the place of {session}. No shell reads anything. The command finds the
structured form in the file that $SCHEDULER_FOLLOWUP_FILE names.

A profile says how an agent is run: claude, codex, opencode, dsh, or those of
~/.config/scheduler-daemon/profiles.toml. It takes reminders whose context has
its name as `agent`; `auto` takes those of every profile. Whatever names no
agent comes to a COMMAND, or to the one profile of Sessions that are named here.

A command that ends with 0 has delivered. 75 means busy: again in ten seconds;
67 means that the Session is not known. Others are tried again with growing
pauses, and shown by `schedctl spool list` when that did not help. A command
outlives this host: the next one finds it, or what came of it."""
EXAMPLES = """\
  schedctl host-exec --all --profile auto
  schedctl host-exec 5b0c7e1c-7f3a-4c34-9f0e-2f0d3f6a9b11 --profile claude
  schedctl host-exec --all -- my-agent --resume {session}
  schedctl host-exec --status"""

_COMMAND = "command"
"""The name of the profile that a command line makes."""


def options(parser: Parser) -> None:
    parser.takes_command = True
    parser.add_argument("sessions", metavar="SESSION", nargs="*", help="the Sessions it takes")
    parser.add_argument("--all", action="store_true", help="take every Session of this user")
    parser.add_argument("--profile", metavar="NAME", help="how the agent is run, or auto")
    parser.add_argument("--profiles", metavar="FILE", help="profiles of one's own, instead of ~")
    parser.add_argument("--agent", metavar="NAME", help="the agent that COMMAND is, in contexts")
    parser.add_argument(
        "--allow-dir",
        action="append",
        metavar="DIR",
        help="run only in this directory and below, if it is this user's; may be repeated (~)",
    )
    parser.add_argument(
        "--max-parallel",
        type=whole(1, 1000),
        default=4,
        metavar="4",
        help="how many commands may run at once; in one Session it is always one",
    )
    parser.add_argument("--timeout", default="1h", metavar="1h", help="end a command after so long")
    parser.add_argument("--name", default="host-exec", help="its name in receipts")
    parser.add_argument("--status", action="store_true", help="show how it is, and run nothing")
    queue.add_spool(parser)


def run(args: argparse.Namespace) -> int:
    path = queue.path_of(args)
    if args.status:
        return _status(args, path)
    from scheduler_daemon.exec_host import host  # only here: asyncio and SQLite come with it

    plan = _plan(args)
    with queue.opened(path) as spool:
        host.run(plan, spool, _about(args, plan))
    return exits.DONE


def _plan(args: argparse.Namespace) -> Plan:
    from scheduler_daemon.exec_host.host import Plan

    if bool(args.sessions) == args.all:
        raise MisuseError("name the Sessions to take, or give --all")
    timeout = seconds_of(args.timeout, "--timeout")
    if timeout < 1:
        raise MisuseError("--timeout is at least 1s")
    home = os.path.expanduser("~")  # noqa: PTH111
    return Plan(
        name=args.name,
        sessions="*" if args.all else args.sessions,
        choice=_choice(args),
        allowed=[os.path.abspath(each) for each in args.allow_dir or [home]],  # noqa: PTH100
        timeout=timeout,
        max_parallel=args.max_parallel,
        home=os.getcwd(),  # noqa: PTH109
        socket=args.socket,
    )


def _choice(args: argparse.Namespace) -> Choice:
    from scheduler_daemon.exec_host.choosing import Choice

    if bool(args.profile) == bool(args.command):
        raise MisuseError("give --profile NAME (or auto), or behind -- a COMMAND of your own")
    if args.agent and not args.command:
        raise MisuseError("--agent is for a COMMAND; a profile has its agent in its table")
    if args.command:
        own = _own(args.command, args.agent)
        return Choice([own], _checked(own, args.sessions))
    profiles = profile_tables.known(args.profiles)
    if args.profile == "auto":
        own_names = [each for each in profiles.values() if each.agent == each.name]
        _warn_of_missing(own_names)
        return Choice(own_names, None)
    if args.profile not in profiles:
        raise MisuseError(f"there is no profile {args.profile!r}: {', '.join(profiles)}, or auto")
    profile = profiles[args.profile]
    _warn_of_missing([profile])
    return Choice([profile], None if args.all else _checked(profile, args.sessions))


def _own(command: list[str], agent: str | None) -> Profile:
    """A profile for a command line; a path in it is one from here, wherever it will run."""
    from scheduler_daemon.exec_host.profiles import Profile

    program = os.path.abspath(command[0]) if "/" in command[0] else command[0]  # noqa: PTH100
    return Profile(_COMMAND, [program, *command[1:]], agent)


def _checked(profile: Profile, sessions: list[str]) -> Profile:
    """The profile, which can run all that was named. Raises MisuseError."""
    for each in sessions:
        if not profile.has_session(each):
            raise MisuseError(
                f"{each!r} is no id that {profile.name} has: it is an argument of a command, so it "
                f"consists of letters, digits and ._:@+- and matches {profile.session!r}"
            )
    return profile


def _warn_of_missing(profiles: list[Profile]) -> None:
    """One line where nothing that could be run is there now; it may come later."""
    if not any(shutil.which(each.command[0]) for each in profiles):
        programs = ", ".join(each.command[0] for each in profiles)
        output.note(f"warning: not in PATH: {programs}; what comes for them will wait or fail")


def _about(args: argparse.Namespace, plan: Plan) -> dict[str, Any]:
    from scheduler_daemon.client.spool import text_of

    return {
        "pid": os.getpid(),
        "name": plan.name,
        "started_at": text_of(wall.now()),
        "profile": args.profile or args.command[0],
        "sessions": plan.sessions,
        "allowed": list(plan.allowed),
    }


def _status(args: argparse.Namespace, path: Path) -> int:
    """Show the host and its queue; FAILED where none runs."""
    if not path.exists():
        raise FailedError(f"no host-exec runs, and none has: there is no queue {path}")
    with queue.opened(path) as spool:
        runs, about = spool.bell.is_held(), spool.description()
        messages = list(spool.messages())
    if args.json:
        items = [queue.view(each) for each in messages]
        output.say(output.json_line({"running": runs, "host": about, "messages": items}))
    else:
        output.say(output.safe(_sentence(runs, about)))
        queue.show(messages)
    return exits.DONE if runs else exits.FAILED


def _sentence(runs: bool, about: dict[str, Any]) -> str:
    if not about:
        return "no host-exec has worked on this queue yet"
    since = times.relative(times.instant(about["started_at"]), wall.now())
    sessions = about["sessions"]
    whose = "every Session" if sessions == "*" else f"Session {', '.join(sessions)}"
    what = f"{about['profile']} for {whose}, in {', '.join(about['allowed'])}"
    if not runs:
        return f"no host-exec runs; the last began {since}: {what}"
    return f"host-exec runs as process {about['pid']} since {since}: {what}"
