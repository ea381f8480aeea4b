"""`schedctl setup`: give an agent the tools, by its own configuration."""

from __future__ import annotations

import argparse
import os
import shutil

from scheduler_daemon.cli import asking, exits, extras, output
from scheduler_daemon.cli.exits import FailedError, MisuseError
from scheduler_daemon.cli.parser import Parser, variable
from scheduler_daemon.errors import SchedulerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scheduler_daemon.cli.setup.agents import Edits, Object, Places
    from scheduler_daemon.cli.setup.changing import Change

KINDS = ("claude", "codex", "opencode", "mcp-json")

PROVING = ("claude", "opencode")
"""Agents whose hook or plugin says which Session a call is from, and proves it."""

USAGE = "claude|codex|opencode|mcp-json [options]"
ABOUT = """\
Give an agent the tools of `schedctl mcp`: write the entry into its own
configuration, and the hook (Claude Code) or plugin (opencode) that says which
Session a call is from. It shows what would change, and asks.

Nothing else in these files changes, no comment and no space. What they held
before is kept, and --undo puts it back, byte for byte where nobody has changed
them since. An entry of that name which is not its own stays, and is told.

`mcp-json` prints the entry for any other MCP client, or writes it into a FILE
like .mcp.json; say with --session or --session-from-env which Session is meant."""
EXAMPLES = """\
  schedctl setup claude --dry-run
  schedctl setup claude
  schedctl setup codex --yes
  schedctl setup opencode --undo
  schedctl setup mcp-json --session my-chat
  schedctl setup mcp-json --session-from-env CHAT_ID --file .mcp.json"""


def options(parser: Parser) -> None:
    parser.add_argument("kind", choices=KINDS, metavar="AGENT", help=" or ".join(KINDS))
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would change, and do nothing"
    )
    parser.add_argument("--undo", action="store_true", help="take it out again")
    asking.add_yes(parser)
    group = parser.add_argument_group("for mcp-json")
    group.add_argument("--file", metavar="FILE", help="write it there, beside what it has")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="NAME", help="one Session for every call")
    which.add_argument(
        "--session-from-env",
        type=variable,
        metavar="VARIABLE",
        help="what this variable says when the client starts the server",
    )


def run(args: argparse.Namespace) -> int:
    _check(args)
    if args.undo:
        return _undo(args)
    extras.need("mcp_types", "mcp", "mcp")
    if args.kind == "mcp-json" and args.file is None:
        return _print_entry(args)
    from scheduler_daemon.cli.setup import changing, place

    of, records = _of(args), place.records()
    changes = changing.planned(of, _edits(args), records)
    if args.kind in PROVING and not changes and not args.dry_run:
        place.make_key()  # it may have been lost
    if not changes:
        return _done(args, [], f"nothing to change: {args.kind} has the tools already")
    _show(args, changes)
    if args.dry_run:
        return _done(args, changes, "")
    _agree(args, changes)
    if args.kind in PROVING:
        place.make_key()
    changing.carry_out(of, changes, records)
    _warn(args)
    return _done(args, changes, f"{args.kind} has the tools when it is started the next time")


def _of(args: argparse.Namespace) -> str:
    """What tells this setup from others: the kind, and where its configuration is."""
    if args.kind == "mcp-json":
        return f"{args.kind} {os.path.realpath(args.file)}"
    return f"{args.kind} {_places().folder(args.kind)}"


def _edits(args: argparse.Namespace) -> Edits:
    from pathlib import Path

    from scheduler_daemon.cli.setup import agents, place

    if args.kind == "mcp-json":
        return agents.in_file(Path(args.file).absolute(), _entry(args))
    return agents.AGENTS[args.kind](place.server(args.socket), _places())


def _places() -> Places:
    from scheduler_daemon.cli.setup import agents, place

    return agents.Places(os.environ, place.home())


def _entry(args: argparse.Namespace) -> Object:
    from scheduler_daemon.cli.setup import agents, place
    from scheduler_daemon.mcp.session import checked

    if args.session is not None:
        try:
            which = [f"--session={checked(args.session)}"]  # it may begin with a dash
        except SchedulerError as error:
            raise MisuseError(error.message) from None
    else:
        which = ["--session-from-env", args.session_from_env]
    return agents.any_client(place.server(args.socket), which)


def _check(args: argparse.Namespace) -> None:
    named = args.session is not None or args.session_from_env is not None
    if args.kind != "mcp-json":
        if named or args.file is not None:
            raise MisuseError(
                f"--file, --session and --session-from-env are for mcp-json: {args.kind} says by "
                "itself which Session is meant"
            )
    elif args.undo and args.file is None:
        raise MisuseError("say with --file which file the entry is to be taken out of")
    elif not args.undo and not named:
        raise MisuseError(
            "say which Session is meant: --session NAME, or --session-from-env VARIABLE"
        )


def _undo(args: argparse.Namespace) -> int:
    from scheduler_daemon.cli.setup import changing, place

    of, records = _of(args), place.records()
    done = [changing.undoing(record, records) for record in records.all_of(of)]
    if not done:
        raise FailedError(f"{args.kind} was not set up from here; nothing was changed")
    changes = [change for change in done if change.before != change.after]
    _show(args, changes)
    if args.dry_run:
        return _done(args, changes, "")
    if changes:
        _agree(args, changes)
    changing.undo(of, records)
    return _done(args, changes, f"what setup wrote for {args.kind} is gone")


def _agree(args: argparse.Namespace, changes: list[Change]) -> None:
    paths = ", ".join(str(change.path) for change in changes)
    asking.agree(f"Change {paths}", yes=args.yes)


def _show(args: argparse.Namespace, changes: list[Change]) -> None:
    if args.json:
        return
    from scheduler_daemon.cli.setup.showing import difference

    for change in changes:
        for line in difference(change):
            output.say(line)
        output.say("")


def _done(args: argparse.Namespace, changes: list[Change], sentence: str) -> int:
    if args.json:
        paths = [str(change.path) for change in changes]
        output.say(output.json_line({"agent": args.kind, "files": paths, "dry_run": args.dry_run}))
    elif sentence:
        output.say(output.safe(sentence))
    return exits.DONE


def _warn(args: argparse.Namespace) -> None:
    """What keeps the tools from working that no file of the agent's has."""
    from scheduler_daemon.cli.setup import place
    from scheduler_daemon.client.finding import answering

    if args.kind != "mcp-json" and shutil.which(args.kind) is None:
        output.note(f"warning: there is no {args.kind} in PATH")
    socket = place.socket_path(args.socket)
    if not answering(socket):
        output.note(f"warning: no daemon answers at {socket} yet: `schedctl service install`")


def _print_entry(args: argparse.Namespace) -> int:
    import json

    entry = {"mcpServers": _entry(args)}
    if args.json:
        output.say(output.json_line(entry))
    else:
        for line in json.dumps(entry, indent=2, ensure_ascii=False).split("\n"):
            output.say(output.safe_json(line))
    return exits.DONE
