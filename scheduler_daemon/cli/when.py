"""The options that say when: of six ways one, and the zone whose clock is meant."""

from __future__ import annotations

import argparse
import os

from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.machine_zone import suggestion
from scheduler_daemon.cli.parser import Parser
from scheduler_daemon.cli.selectors_input import has_offset, point, selector
from scheduler_daemon.errors import InvalidTimeZone, SchedulerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
        one.add_argument(flag, metavar=metavar, help=text)
    group.add_argument("--tz", metavar="ZONE", help="Europe/Berlin, UTC: whose clock")


def selector_of(args: argparse.Namespace) -> dict[str, Any]:
    """The selector that was typed, as a member of `params`; {} for none. Raises MisuseError."""
    until_on_a_clock = args.until is not None and not has_offset(args.until)
    for kind in ("after", "at", "every", "daily", "weekly", "cron"):
        text = getattr(args, kind)
        if text is not None:
            counts = kind in ("after", "every") and until_on_a_clock
            return selector(kind, text, None if counts else args.tz, machine_zone)
    if args.tz is not None and not until_on_a_clock:
        raise MisuseError("--tz goes with --at, --daily, --weekly, --cron or --until")
    return {}


def instant_of(option: str, text: str, time_zone: str | None) -> str:
    """The instant of `option TEXT`, as the `at` string takes it. Raises MisuseError.

    Without an offset it is a time on the clock of `--tz TIME_ZONE`.
    """
    value = point(text, option, time_zone, machine_zone)
    if isinstance(value, str):
        return value
    import datetime as dt

    from scheduler_daemon.model import At
    from scheduler_daemon.rules import instant_text, parse_rule  # only for a clock

    try:
        rule = parse_rule({"at": value}, dt.datetime.min.replace(tzinfo=dt.UTC))
    except SchedulerError as error:
        raise MisuseError(f"{option} {text}: {error.message.removesuffix('.')}") from None
    assert isinstance(rule, At)
    return instant_text(rule.instant)


def machine_zone() -> str | None:
    """The machine's zone for a suggestion, None where the daemon would not take the name."""
    name = suggestion(os.environ)
    if name is None:
        return None
    from scheduler_daemon.rules import canonical_zone  # only after a mistake

    try:
        return canonical_zone(name)
    except InvalidTimeZone:
        return None


def on_its_clock(at: str, local: str | None) -> str | None:
    """The instant on the clock of `local` (RFC 9557), None where that is None."""
    if local is None:
        return None
    from scheduler_daemon.rules import local_text, parse_instant_text  # only for a clock

    return local_text(parse_instant_text(at), local.partition("[")[2].rstrip("]"))


def typed_clock(args: argparse.Namespace, scheduled_at: str) -> str | None:
    """The instant on the clock of `--tz` (RFC 9557), where a reminder keeps no zone of its own."""
    if args.at is None or args.tz is None:
        return None
    from scheduler_daemon.rules import canonical_zone, local_text, parse_instant_text

    return local_text(parse_instant_text(scheduled_at), canonical_zone(args.tz))
