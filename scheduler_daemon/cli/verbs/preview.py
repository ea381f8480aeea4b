"""`schedctl preview`: when a rule would come. Computed here, by the daemon's own rules."""

from __future__ import annotations

import argparse
import datetime as dt

from scheduler_daemon import wall
from scheduler_daemon.cli import exits, output, selectors_input, times
from scheduler_daemon.cli.ends import add_ends, ends_of
from scheduler_daemon.cli.exits import MisuseError
from scheduler_daemon.cli.machine_zone import clock_name
from scheduler_daemon.cli.parser import Parser, whole
from scheduler_daemon.cli.sentences import RECURRING
from scheduler_daemon.cli.when import add_selectors, selector_of
from scheduler_daemon.errors import SchedulerError
from scheduler_daemon.model import At, Instant, Rule
from scheduler_daemon.rules import (
    check_end,
    describe,
    first,
    instant_text,
    local_text,
    parse_rule,
    parse_selector,
    parse_until,
    zone_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # only a type checker reads the shapes
    from scheduler_daemon.wire.calls import Preview, PreviewItem

USAGE = "WHEN [options]"
ABOUT = """\
Show when a rule would come, over changes of the clock too. Nothing is stored,
and no daemon is needed."""
EXAMPLES = """\
  schedctl preview --daily 02:30 --tz America/New_York --from 2026-03-07T12:00:00Z
  schedctl preview --cron "0 9 1 * *" --tz Europe/Berlin --count 12
  schedctl preview --every 90m --until 2026-12-24T18:00:00Z --max-occurrences 3"""


def options(parser: Parser) -> None:
    add_selectors(parser, required=True)
    add_ends(parser, expiry=False)
    parser.add_argument(
        "--from",
        dest="start",
        metavar="INSTANT",
        help="count from 2026-03-07T12:00:00Z, say, instead of from now",
    )
    parser.add_argument(
        "--count", type=whole(1, 100), default=5, metavar="N", help="how many, 1 to 100 (default 5)"
    )


def run(args: argparse.Namespace) -> int:
    start = wall.now() if args.start is None else _start(args.start)
    rule, target = parse_selector(selector_of(args), start)
    until, most = _end(args)
    check_end(rule, target, until, most)
    count = min(args.count, most or args.count)
    result = _result(rule, _coming(rule, target, until, count))
    if args.json:
        output.say(output.json_line(result))
    else:
        _show(result, start)
    return exits.DONE


def _start(text: str) -> Instant:
    """The instant of `--from`. Raises MisuseError."""
    value = selectors_input.instant(text, "--from")
    try:
        rule = parse_rule({"at": value}, dt.datetime.min.replace(tzinfo=dt.UTC))
    except SchedulerError as error:
        raise MisuseError(f"--from {text}: {error.message.removesuffix('.')}") from None
    assert isinstance(rule, At)
    return rule.instant


def _end(args: argparse.Namespace) -> tuple[Instant | None, int | None]:
    """Until when and how often, None for no such end. Raises MisuseError."""
    ends = ends_of(args)
    until = parse_until(ends["until"]) if "until" in ends else None
    return until, ends.get("max_occurrences")


def _coming(rule: Rule, target: Instant, until: Instant | None, count: int) -> list[Instant]:
    """The target and what follows it; a one-shot has nothing more, a year 9999 neither."""
    instants = [target]
    if rule.kind in RECURRING:
        while len(instants) < count:
            following = first(rule, instants[-1])
            if following is None or (until is not None and following > until):
                break
            instants.append(following)
    return instants


def _result(rule: Rule, instants: list[Instant]) -> Preview:
    """What `reminder.preview` answers."""
    zone = zone_of(rule)
    items: list[PreviewItem] = []
    for at in instants:
        item: PreviewItem = {"at": instant_text(at)}
        if zone is not None:
            item["local"] = local_text(at, zone)
        items.append(item)
    return {"items": items, "rule_text": describe(rule)}


def _show(result: Preview, start: Instant) -> None:
    output.say(output.safe(f"{result['rule_text']}:"))
    here = clock_name()
    rows = []
    for item in result["items"]:
        at = times.moment(item["at"], item.get("local"), here)
        rows.append((times.clock(at), times.relative(at.local, start), item["at"]))
    output.show_table(("AT", "THAT IS", "IN UTC"), rows)
