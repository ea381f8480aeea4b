"""The options that several verbs share, and a parser whose errors are one line; no verb here."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from scheduler_daemon.cli import machine_zone, output
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


class Once(argparse.Action):
    """Stores a value that may be given once: of two times, one would be lost without a word."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} may be given once")
        setattr(namespace, self.dest, values)


def add_selectors(parser: Parser, *, required: bool) -> None:
    """The six ways to say when, of which one is taken, and their zone."""
    group = parser.add_argument_group("WHEN (one of these)")
    one = group.add_mutually_exclusive_group(required=required)
    for flag, metavar, text in (
        ("--after", "20m", "once, this long from now: 90s, 20m, 1h30m, 2d"),
        ("--at", "TIME", 'once: 2026-12-24T18:00:00+01:00, or "2026-12-24 18:00" with --tz'),
        ("--every", "1h", "again and again at this distance, at least 5m; no calendar"),
        ("--daily", "09:00", "every day at this time of --tz"),
        ("--weekly", "DAYS@TIME", "mon,wed,fri@09:00 or mon-fri@17:30, on the clock of --tz"),
        ("--cron", "EXPR", 'five fields, "*/15 9-17 * * mon-fri", on the clock of --tz'),
    ):
        one.add_argument(flag, action=Once, metavar=metavar, help=text)
    group.add_argument("--tz", action=Once, metavar="ZONE", help="Europe/Berlin, UTC: whose clock")


def selector_of(args: argparse.Namespace) -> dict[str, Any]:
    """The selector that was typed, as a member of `params`; {} for none. Raises MisuseError."""
    for kind in ("after", "at", "every", "daily", "weekly", "cron"):
        text = getattr(args, kind)
        if text is not None:
            from scheduler_daemon.cli.selectors_input import selector  # only to say when

            return selector(kind, text, args.tz, lambda: machine_zone.suggestion(os.environ))
    if args.tz is not None:
        raise MisuseError("--tz goes with --at, --daily, --weekly or --cron")
    return {}


def typed_clock(args: argparse.Namespace, scheduled_at: str) -> str | None:
    """The instant on the clock of `--tz` (RFC 9557), where a reminder keeps no zone of its own."""
    if args.at is None or args.tz is None:
        return None
    from scheduler_daemon.rules import canonical_zone, local_text, parse_instant_text

    return local_text(parse_instant_text(scheduled_at), canonical_zone(args.tz))


def clock_name() -> str | None:
    """What the clock of this machine is called, where that can be found out."""
    return machine_zone.label(os.environ)


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


def add_context(parser: Parser) -> None:
    """Strings of the caller's own, for its agent host."""
    parser.add_argument(
        "--context",
        action="append",
        metavar="KEY=VALUE",
        help="kept and handed back to the agent host, not read; may be repeated",
    )


def context_of(args: argparse.Namespace) -> dict[str, str] | None:
    """The context that was typed, None where none was. Raises MisuseError."""
    if args.context is None:
        return None
    context: dict[str, str] = {}
    for item in args.context:
        key, equals, value = item.partition("=")
        if not equals:
            raise MisuseError(f"--context takes KEY=VALUE, not {item!r}")
        if key in context:
            raise MisuseError(f"--context has {key!r} twice")
        context[key] = value
    return context
