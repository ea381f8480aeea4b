"""`schedctl spool`: what `schedctl host-exec` has admitted and not delivered, and what to do."""

from __future__ import annotations

import argparse

from scheduler_daemon import wall
from scheduler_daemon.cli import exits, output, queue
from scheduler_daemon.cli.exits import FailedError, MisuseError
from scheduler_daemon.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scheduler_daemon.client.spool import Spool

USAGE = "{list | retry NUMBER ... | drop NUMBER ...} [options]"
ABOUT = """\
Show the messages that `schedctl host-exec` has taken from the daemon and not
delivered yet, or could not deliver.

A message is queued, perhaps until its Session is free or a pause is over;
running; failed, after several attempts or one whose end nobody saw; or unknown:
the agent has no such Session. `retry` lets it run at once, also one that was
dropped, `drop` lets it never come."""
EXAMPLES = """\
  schedctl spool list
  schedctl spool list --all --json
  schedctl spool retry 12
  schedctl spool drop 12 13"""


def options(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)  # the usage has them
    parser.add_argument(
        "--all", action="store_true", help="list also what is done or dropped, for 30 days"
    )
    queue.add_spool(parser)


def run(args: argparse.Namespace) -> int:
    act, *words = args.words or [""]
    if act not in ("list", "retry", "drop"):
        given = repr(act) if act else "nothing"
        raise MisuseError(f"spool takes list, retry or drop, not {given}")
    numbers = [_number(word) for word in words]
    if bool(numbers) != (act != "list"):
        raise MisuseError("it is `schedctl spool list`, or retry or drop with the numbers it shows")
    path = queue.path_of(args)
    if not path.exists():
        if act == "list":
            output.note(f"there is no queue {path}: host-exec has not run yet")
            return exits.DONE
        raise FailedError(f"there is no queue {path}")
    with queue.opened(path) as spool:
        if act == "list":
            _list(args, spool)
        else:
            _change(spool, act, numbers)
    return exits.DONE


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 19):
        raise MisuseError(f"a message is named by its number, not {word!r}")
    return int(word)


def _list(args: argparse.Namespace, spool: Spool) -> None:
    messages = spool.messages(ended=args.all)
    if args.json:
        for message in messages:
            output.say(output.json_line(queue.view(message)))
    elif not queue.show(messages):
        output.note("nothing waits here, and nothing has failed")


def _change(spool: Spool, act: str, numbers: list[int]) -> None:
    change = spool.retry if act == "retry" else spool.drop
    for number in numbers:
        if not change(number, wall.now()):
            raise FailedError(_refusal(spool, act, number))
        output.say(f"message {number} " + ("is tried again" if act == "retry" else "is dropped"))
    if not spool.bell.ring() and act == "retry":
        output.note("no host-exec runs; it comes once one does")


def _refusal(spool: Spool, act: str, number: int) -> str:
    message = spool.message(number)
    if message is None:
        return f"there is no message {number}: `schedctl spool list --all` shows all"
    if message.state == "running":
        return f"message {number} is running now: wait, or end its command"
    return f"message {number} is {message.state}: there is nothing to {act}"
