"""A parser whose errors are one line, and the options that most verbs share; no verb here."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import output
from scheduler_daemon.cli.exits import MisuseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps examples as they are; told its width, because finding it out imports much."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=min(output.terminal_width() or 80, 100))


class Parser(argparse.ArgumentParser):
    """The parser of one verb; what it cannot parse is a MisuseError."""

    def __init__(self, verb: str, usage: str, about: str, examples: str) -> None:
        super().__init__(
            prog=f"schedctl {verb}",
            usage=f"schedctl {verb} {usage}",
            description=about,
            epilog=f"examples:\n{examples}",
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        self.add_argument("--json", action="store_true", help="print JSON instead of words")
        self.add_argument(
            "--socket", metavar="PATH", help="the daemon's socket, where it is not found by itself"
        )

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments"):
            message += "; words that belong together want quotes around them"
        raise MisuseError(message)


def add_owner(parser: Parser, *, reading: bool) -> None:
    """Whose reminders: an admin may name another user, and for `reading` all of them."""
    group = parser.add_argument_group("for root and the daemon's own user")
    one = group.add_mutually_exclusive_group()
    one.add_argument("--owner", metavar="USER", help="another user's, a name or a uid")
    if reading:
        one.add_argument("--all-owners", action="store_true", help="everybody's")


def owner_of(args: argparse.Namespace) -> Any:
    """`owner_uid`: a uid, `"*"` where everybody's may be read, None for one's own.

    Raises MisuseError.
    """
    if getattr(args, "all_owners", False):
        return "*"
    if args.owner is None:
        return None
    if args.owner.isascii() and args.owner.isdigit() and len(args.owner) <= 10:
        return int(args.owner)
    import pwd  # only for a name

    try:
        return pwd.getpwnam(args.owner).pw_uid
    except KeyError:
        raise MisuseError(f"--owner {args.owner!r} is no user of this machine") from None
