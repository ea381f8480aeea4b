"""When a rule is due: `first` and `decide` over all kinds. No clock is read, nothing is kept."""

from __future__ import annotations

from functools import lru_cache

from scheduler_daemon.errors import NotFuture, TimeOutOfRange
from scheduler_daemon.model import After, At, Cron, Daily, Every, Instant, Rule, Weekly
from scheduler_daemon.rules.calendar import LocalRule, daily_or_weekly
from scheduler_daemon.rules.cron import parse_cron, times_of_day
from scheduler_daemon.rules.every import last_until, next_after
from scheduler_daemon.rules.instants import as_instant, instant_text, later
from scheduler_daemon.rules.month_dates import MonthDates
from scheduler_daemon.rules.zones import load_zone


def first(rule: Rule, after: Instant) -> Instant | None:
    """The first occurrence strictly after `after`; None when there is none up to year 9999.

    For an `After` rule that is the delay counted from `after`; for an `At` rule its instant, or
    None once that has passed; for an `Every` rule the next point of its grid, which runs both ways
    from its anchor. Raises ValueError as `as_instant` does.
    """
    after = as_instant(after)
    if isinstance(rule, After):
        return later(after, rule.seconds * 1000)
    if isinstance(rule, At):
        instant = as_instant(rule.instant)
        return instant if instant > after else None
    if isinstance(rule, Every):
        return next_after(as_instant(rule.anchor), rule.seconds, after)
    return _local_rule(rule).first_after(after)


def decide(rule: Rule, target: Instant, now: Instant) -> tuple[Instant, Instant | None]:
    """The due decision at `now`, which is not before `target`: what is due, and what is next.

    The first is the latest occurrence at or before `now`, never one before the committed target;
    the second the first strictly after `now`, None when there is none. The grid of an `Every` rule
    is counted from the target. A one-shot is its target, and nothing comes next. The cost does not
    depend on how far `now` lies after the target. Raises ValueError as `as_instant` does.
    """
    target, now = as_instant(target), as_instant(now)
    if isinstance(rule, After | At):
        return target, None
    if isinstance(rule, Every):
        latest = last_until(target, rule.seconds, now)
        following = next_after(target, rule.seconds, now)
    else:
        local_rule = _local_rule(rule)
        latest = local_rule.last_until(now)
        following = local_rule.first_after(now)
    # Zone data may have changed since the target was committed: it still counts.
    return target if latest is None else max(latest, target), following


def target_of(rule: Rule, now: Instant) -> Instant:
    """The first target of a rule made or changed at `now`.

    Raises NotFuture for an `At` rule that is not after `now` (`data["now"]` is the current instant
    as text), TimeOutOfRange where the rule has no occurrence up to the end of year 9999,
    ValueError as `as_instant` does.
    """
    target = first(rule, now)
    if target is not None:
        return target
    if isinstance(rule, At):
        text = instant_text(now)
        raise NotFuture(
            f"at is {instant_text(rule.instant)}, which is not in the future: it is {text} now. "
            "Give a later instant.",
            field="at",
            now=text,
        )
    field = f"{rule.kind}_seconds" if isinstance(rule, After | Every) else rule.kind
    raise TimeOutOfRange(
        f"{field} has no occurrence between now and the end of year 9999 UTC; give one that has.",
        field=field,
    )


def zone_of(rule: Rule) -> str | None:
    """The zone on whose clock a rule lives, None for a rule that lives on none."""
    return rule.time_zone if isinstance(rule, Daily | Weekly | Cron) else None


@lru_cache(maxsize=512)
def _local_rule(rule: Daily | Weekly | Cron) -> LocalRule:
    if isinstance(rule, Cron):
        fields = parse_cron(rule.expression)
        return LocalRule(MonthDates(fields), times_of_day(fields), load_zone(rule.time_zone))
    return daily_or_weekly(rule)
