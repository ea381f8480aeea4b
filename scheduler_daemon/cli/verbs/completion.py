"""`schedctl completion`: a shell's completions, made from what the verbs say of themselves."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli import exits, extras, output
from scheduler_daemon.cli.parser import Parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHELLS = ("bash", "zsh", "fish")
USAGE = "|".join(SHELLS)
ABOUT = """\
Print a script that lets a shell complete verbs, options, their values and
files. Needs the package shtab. One line for the shell's own file:

  ~/.bashrc                    source <(schedctl completion bash)
  ~/.zshrc, after compinit     eval "$(schedctl completion zsh)"
  ~/.config/fish/config.fish   schedctl completion fish | source"""
EXAMPLES = """\
  schedctl completion bash
  schedctl completion fish | source"""

_FILES = frozenset({"FILE", "PATH"})
_FOLDERS = frozenset({"DIR", "FOLDER"})
"""What the help calls a value that the shell completes by looking at the disk."""


def options(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=" or ".join(SHELLS))


def run(args: argparse.Namespace) -> int:
    extras.need("shtab", "shtab", "completion")
    text = script(whole(), args.shell)
    if args.json:
        output.say(output.json_line({"shell": args.shell, "script": text}))
    else:
        print(text)
    return exits.DONE


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completions of a command and of all that stands below it, for one of SHELLS."""
    import shtab  # only here: a plain installation does not have it

    _point_to_disk(parser)
    return shtab.complete(parser, shell)


def whole() -> argparse.ArgumentParser:
    """One parser with every verb in it. For its descriptions: `main` reads command lines."""
    from scheduler_daemon.cli import main  # which imports this module when it is called for

    class OfVerb(Parser):
        def __init__(self, *, verb: str, **_: Any) -> None:
            module, _parser = main.load(verb)
            super().__init__(verb, module.USAGE, module.ABOUT, module.EXAMPLES)
            module.options(self)

    parser = argparse.ArgumentParser("schedctl", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print the version")
    verbs = parser.add_subparsers(metavar="VERB", parser_class=OfVerb)
    for verb, summary in main.VERBS.items():
        verbs.add_parser(verb, help=summary, verb=verb)
    return parser


def _point_to_disk(parser: argparse.ArgumentParser) -> None:
    """Tell shtab which values are files or folders: the metavar of an argument says it."""
    import shtab

    for action in parser._actions:  # noqa: SLF001  argparse has no other list of them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                _point_to_disk(below)
        elif action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in _FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
