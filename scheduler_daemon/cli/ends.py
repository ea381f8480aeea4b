"""The options that let a reminder end: until when, how often, and how late it may still come."""

from __future__ import annotations

import argparse

from scheduler_daemon.cli.durations import seconds_of
from scheduler_daemon.cli.parser import Parser, whole
from scheduler_daemon.cli.selectors_input import has_offset
from scheduler_daemon.cli.when import instant_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST_OCCURRENCES = 1_000_000_000
"""As the daemon has it (wire/params.py)."""


def add_ends(parser: Parser, *, expiry: bool = True, clearing: bool = False) -> None:
    """The ends of a rule, how late it may come for `expiry`, and for `clearing` what takes away."""
    group = parser.add_argument_group("END")
    times = whole(1, _MOST_OCCURRENCES)
    _add(group, clearing, "--until", metavar="WHEN", help=_UNTIL)
    _add(group, clearing, "--max-occurrences", type=times, metavar="N", help=_COUNT)
    if expiry:
        _add(group, clearing, "--expires-after", metavar="DURATION", help=_EXPIRY)


_UNTIL = 'what recurs ends with 2026-12-24T18:00:00+01:00, or "2026-12-24 18:00" with --tz'
_COUNT = "what recurs ends when it has come so often"
_EXPIRY = "not sent any more when it is later than this: 90s, 20m, 1h30m, 2d"


def _add(group: argparse._ArgumentGroup, clearing: bool, flag: str, **about: Any) -> None:
    one = group.add_mutually_exclusive_group()
    one.add_argument(flag, **about)
    if clearing:
        one.add_argument(f"--no-{flag[2:]}", action="store_true", help=f"no {flag} any more")


def ends_of(args: argparse.Namespace) -> dict[str, Any]:
    """The ends that were typed, as keywords of Client. Raises MisuseError."""
    ends: dict[str, Any] = {}
    if args.until is not None:
        zone = None if has_offset(args.until) else args.tz
        ends["until"] = instant_of("--until", args.until, zone)
    if args.max_occurrences is not None:
        ends["max_occurrences"] = args.max_occurrences
    if getattr(args, "expires_after", None) is not None:
        ends["expires_after_seconds"] = seconds_of(args.expires_after, "--expires-after")
    return ends


def cleared_ends_of(args: argparse.Namespace) -> dict[str, None]:
    """The ends to be taken away, as keywords of Client.update."""
    wanted = {
        "until": args.no_until,
        "max_occurrences": args.no_max_occurrences,
        "expires_after_seconds": args.no_expires_after,
    }
    return {name: None for name, gone in wanted.items() if gone}
