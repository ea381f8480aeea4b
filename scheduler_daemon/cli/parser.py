"""A parser whose errors are one line, and the options that most verbs share; no verb here."""

from __future__ import annotations

import argparse
import re

from scheduler_daemon.cli import output
from scheduler_daemon.cli.exits import MisuseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, NoReturn

_REPEATED = frozenset({"context", "allow_dir"})
"""The options that may be given again; of other values all but the last would be lost."""
_QUOTABLE = frozenset({"prompt", "cron", "params"})
"""What a verb takes where words that were not understood may want quotes around them."""


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
        self.takes_command = False
        """Whether what stands behind `--` is a command, `args.command`, rather than more words."""
        self.add_argument("--json", action="store_true", help="print JSON instead of words")
        self.add_argument(
            "--socket",
            type=_path,
            metavar="PATH",
            help="the daemon's socket, where it is not found by itself",
        )

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """What was typed. Raises MisuseError, or SystemExit once the help has been printed.

        argparse gets options first, each in one word with its value, and the rest after them: by
        itself it takes `-hurry` for `-h`, and lets only neighbours share a list.
        """
        options: list[str] = []
        others: list[str] = []
        seen: set[str] = set()
        command: list[str] = []
        rest = iter(words)
        for word in rest:
            if word == "--":
                (command if self.takes_command else others).extend(rest)
            elif word == "-" or not word.startswith("-"):
                others.append(word)
            else:
                options.append(self._option(word, rest, seen))
        self._refuse_extra(others)
        args = self.parse_args([*options, *(["--"] if others else []), *others])
        if self.takes_command:
            args.command = command
        return args

    def _option(self, word: str, rest: Iterator[str], seen: set[str]) -> str:
        """The option that starts with `word` as one word; takes its value from `rest`."""
        name, equals, _ = word.partition("=")
        action = self._option_string_actions.get(name)
        if action is None:
            self.error(f"there is no option {name}; put -- before words that start with a dash")
        if action.nargs == 0:
            return word
        if name in seen and action.dest not in _REPEATED:
            self.error(f"{name} may be given once")
        seen.add(name)
        if equals:
            return word
        value = next(rest, None)
        if value is None:
            self.error(f"{name} needs a value")
        if value.startswith("-") and value != "-":
            self.error(f"{name} needs a value; one that starts with a dash is {name}={value}")
        return f"{name}={value}"

    def _refuse_extra(self, words: Sequence[str]) -> None:
        """Refuse more words than the verb has places for."""
        places = [action for action in self._actions if not action.option_strings]
        if len(words) <= len(places) or any(action.nargs == "*" for action in places):
            return
        hint = ""
        if any(action.dest in _QUOTABLE for action in self._actions):
            hint = "; words that belong together want quotes around them"
        self.error(f"unrecognized arguments: {' '.join(words[len(places) :])}{hint}")

    def error(self, message: str) -> NoReturn:
        raise MisuseError(message)


def _path(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("takes the path of a socket, and this one is empty")
    return text


def whole(low: int, high: int) -> Callable[[str], int]:
    """The `type` of an option that takes a whole number from `low` to `high`."""

    def number(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= 10
        if not (is_number and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"takes a whole number, {low} to {high}, not {text!r}")
        return int(text)

    return number


def variable(text: str) -> str:
    """The `type` of an option that names a variable of the environment (POSIX.1, "Name")."""
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", text):
        raise argparse.ArgumentTypeError(
            f"takes the name of a variable, of letters, digits and _, not {text!r}"
        )
    return text


def add_wide(parser: Parser) -> None:
    """For what is cut to the width of the terminal otherwise."""
    parser.add_argument(
        "--wide", action="store_true", help="whole texts and all columns, however wide"
    )


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
