"""`schedctl sessions`: which Sessions have reminders, and what is done to a whole one."""

from __future__ import annotations

import argparse
import datetime as dt

from scheduler_daemon import wall
from scheduler_daemon.cli import asking, connection, exits, output, sentences, times
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.parser import Parser, add_owner, owner_of

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from typing import Any

    from scheduler_daemon.client import Client
    from scheduler_daemon.wire.shapes import Session

USAGE = "[forget NAME | transfer FROM TO] [options]"
ABOUT = """\
Show the Sessions that have reminders: how many, what comes next, whether a host
takes them (live) or not (cold), and what they wait for.

`forget NAME` removes all reminders and the history of a Session for good.
`transfer FROM TO` moves the active reminders of one Session to another, as
after a conversation went on under another name; its history stays."""
EXAMPLES = """\
  schedctl sessions
  schedctl sessions forget s1 --yes
  schedctl sessions transfer s1 s2"""

_ACTS = {"forget": "forget NAME", "transfer": "transfer FROM TO"}


def options(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)  # the usage has them
    asking.add_yes(parser)
    add_owner(parser, reading=True)


def run(args: argparse.Namespace) -> int:
    act, names = _act(args.words)
    if act and args.all_owners:
        raise MisuseError(f"--all-owners only shows Sessions; to {act} one, add --owner USER")
    owner = owner_of(args)
    with connection.connect(args) as client:
        if act == "forget":
            _forget(args, client, names[0], owner)
        elif act == "transfer":
            _transfer(args, client, names, owner)
        else:
            _list(args, client, owner)
    return exits.DONE


def _act(words: list[str]) -> tuple[str, list[str]]:
    """What is to be done ("" for showing) to which Sessions. Raises MisuseError."""
    if not words:
        return "", []
    act, *names = words
    if act not in _ACTS:
        raise MisuseError(f"sessions takes nothing, forget or transfer, not {act!r}")
    if len(names) != _ACTS[act].count(" "):
        raise MisuseError(f"it is `schedctl sessions {_ACTS[act]}`")
    return act, names


def _forget(args: argparse.Namespace, client: Client, name: str, owner: Any) -> None:
    if not args.yes:
        asking.agree(f"Forget {_whole(client, name, owner)}", yes=False)
    result = client.session_forget(name, owner_uid=owner)
    if args.json:
        output.say(output.json_line(result))
        return
    counts = (
        f"{sentences.counted(result['reminders'], 'reminder')} and "
        f"{sentences.counted(result['dispatches'], 'receipt')} are gone"
    )
    output.say(output.safe(f"Session {name!r} is forgotten: {counts}"))


def _whole(client: Client, name: str, owner: Any) -> str:
    """What a Session is made of, for the question."""
    found = (each for each in client.sessions(owner_uid=owner) if each["session_id"] == name)
    session = next(found, None)
    if session is None:
        return f"Session {name!r}, which has no reminder, and its history"
    count = session["active"] + session["ended"] + session["set_aside"]
    reminders = sentences.counted(count, "reminder")
    return f"Session {name!r}: {reminders} ({session['active']} active) and their history"


def _transfer(args: argparse.Namespace, client: Client, names: list[str], owner: Any) -> None:
    result = client.session_transfer(names[0], names[1], owner_uid=owner)
    if args.json:
        output.say(output.json_line(result))
        return
    moved = sentences.counted(result["reminders"], "active reminder")
    output.say(output.safe(f"{moved} moved from Session {names[0]!r} to Session {names[1]!r}"))


def _list(args: argparse.Namespace, client: Client, owner: Any) -> None:
    sessions = client.sessions(owner_uid=owner)
    if args.json:
        for session in sessions:
            output.say(output.json_line(session))
    elif shown := list(sessions):
        _show(shown, all_owners=args.all_owners)
    else:
        output.note("no Session has a reminder; `schedctl create --help` shows how to make one")


def _show(sessions: list[Session], *, all_owners: bool) -> None:
    now = wall.now()
    headers = ["HOST", "ACTIVE", "PAUSED", "OVERDUE", "ENDED", "NEXT", "SESSION", "WAITS FOR"]
    rows = [_row(session, now) for session in sessions]
    if all_owners:
        headers.insert(0, "OWNER")
        for row, session in zip(rows, sessions, strict=True):
            row.insert(0, str(session["owner_uid"]))
    output.show_table(headers, rows, firm=len(headers) - 2)


def _row(session: Session, now: dt.datetime) -> list[str]:
    target = session.get("next_target_at")
    waits = [sentences.waiting(session["waiting_for"], now)] if "waiting_for" in session else []
    runs = [f"{session['runs']} asked for by hand"] if session["runs"] else []
    aside = [f"{session['set_aside']} set aside"] if session["set_aside"] else []
    cells = [
        "live" if session["live"] else "cold",
        *(str(session[count]) for count in ("active", "paused", "overdue", "ended")),
        "" if target is None else times.relative(times.instant(target), now, short=True),
        session["session_id"],
        "; ".join([*waits, *runs, *aside]),
    ]
    return [output.safe(cell) for cell in cells]
