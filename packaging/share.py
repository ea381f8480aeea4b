"""Make the man pages and completions from the help texts, laid out as below /usr/share.

    python packaging/share.py build/share

Needs the `dev` extra. A page has the date of SOURCE_DATE_EPOCH where that is set, else today's.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from argparse_manpage.manpage import Manpage

from scheduler_daemon import __main__ as daemon
from scheduler_daemon import __version__
from scheduler_daemon.cli import main as schedctl
from scheduler_daemon.cli.verbs.completion import SHELLS, script, whole

COMPLETIONS = {
    "bash": "bash-completion/completions/{}",
    "zsh": "zsh/site-functions/_{}",
    "fish": "fish/vendor_completions.d/{}.fish",
}
"""Where each shell looks below a share folder; {} is the command."""


def main(folder: str) -> None:
    """Write everything below `folder`."""
    share = Path(folder)
    for path, text in {**pages(), **completions()}.items():
        (share / path).parent.mkdir(parents=True, exist_ok=True)
        (share / path).write_text(text, encoding="utf-8")


def completions() -> dict[str, str]:
    """Text by path, for both commands and each shell."""
    commands = {"schedctl": whole, "scheduler-daemon": daemon.command_line}
    return {
        COMPLETIONS[shell].format(name): script(parser(), shell) + "\n"
        for name, parser in commands.items()
        for shell in SHELLS
    }


def pages() -> dict[str, str]:
    """Text by path: schedctl(1), schedctl-VERB(1) for each verb, scheduler-daemon(8)."""
    verbs = {f"man/man1/schedctl-{verb}.1": verb_page(verb) for verb in schedctl.VERBS}
    return {
        "man/man1/schedctl.1": schedctl_page(),
        "man/man8/scheduler-daemon.8": daemon_page(),
        **verbs,
    }


def schedctl_page() -> str:
    parser = argparse.ArgumentParser(
        "schedctl", usage="schedctl VERB ...", description=schedctl.ABOUT
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    return page(
        parser,
        "keep and look after reminders for agents",
        {
            "VERBS": entries(
                (f"schedctl-{verb}(1)", summary) for verb, summary in schedctl.VERBS.items()
            ),
            "EXAMPLES": verbatim(schedctl.EXAMPLES),
            "EXIT STATUS": escaped(schedctl.EXIT_STATUS),
            "SEE ALSO": "scheduler\\-daemon(8)",
        },
    )


def verb_page(verb: str) -> str:
    module, parser = schedctl.load(verb)
    parser.epilog = None  # the examples get their own section
    parser.prog = f"schedctl-{verb}"
    sections = {"EXAMPLES": verbatim(module.EXAMPLES), "SEE ALSO": "schedctl(1)"}
    return page(parser, schedctl.VERBS[verb], sections)


def daemon_page() -> str:
    """One page for all commands, since all of them take the settings."""
    parser = argparse.ArgumentParser(
        "scheduler-daemon",
        usage="scheduler-daemon COMMAND [options]",
        description=daemon.DESCRIPTION,
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    daemon.add_settings(parser)
    return page(
        parser,
        "keep reminders of agents and bring them back in time",
        {
            "COMMANDS": entries(daemon.COMMANDS.items()),
            "CONFIGURATION": escaped(daemon.EPILOG),
            "SEE ALSO": "schedctl(1)",
        },
        section=8,
    )


def page(
    parser: argparse.ArgumentParser, summary: str, sections: dict[str, str], section: int = 1
) -> str:
    """A man page of what a parser says, and of `sections`, which are roff by heading."""
    made = Manpage(parser)
    made.section, made.description = section, summary
    made.source, made.manual = f"scheduler-daemon {__version__}", "scheduler-daemon"
    for heading, content in sections.items():
        made.add_section(heading, ">", content)
    return str(made)


def entries(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of names, each with its meaning below it."""
    return "\n".join(f".TP\n\\fB{escaped(name)}\\fR\n{escaped(text)}" for name, text in pairs)


def verbatim(text: str) -> str:
    """Lines that stay as they are; man-pages(7) calls it an example."""
    return f".EX\n{escaped(text)}\n.EE"


def escaped(text: str) -> str:
    """Plain text as roff: nothing in it is a request, and a dash is one that can be typed."""
    text = text.strip("\n").replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


if __name__ == "__main__":
    main(*sys.argv[1:])
