"""The rules of time in process: the first occurrence, a due decision, parsing; ours and theirs.

Each peer is asked as it answers fastest: croniter and CronSim search backwards for what is due
last, APScheduler's trigger can only walk forward, which is what its own scheduler does.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from time import perf_counter
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from bench.report import Bound, progress
from bench.setting import Setting
from scheduler_daemon.model import Rule
from scheduler_daemon.rules import cron as cron_rules
from scheduler_daemon.rules import decide, first, parse_rule

ZONE = "Europe/Berlin"
NOW = dt.datetime(2026, 8, 7, 12, 34, 56, tzinfo=dt.UTC)
DAY_AGO = NOW - dt.timedelta(days=1)
DECADE_AGO = NOW.replace(year=2016)
ENOUGH = 0.05
"""Seconds that one figure of one run is measured for, at scale 1."""
LONGEST_WALK = 40_000
"""Steps of a walk that is measured at all."""

OURS, CRONITER, CRONSIM, APSCHEDULER = "ours", "croniter", "CronSim", "APScheduler CronTrigger"
PEERS = {CRONITER: "croniter", CRONSIM: "cronsim", APSCHEDULER: "apscheduler"}


class Case(NamedTuple):
    """A rule: how it is sent to us, and the crontab line that says the same; steps of ten years."""

    name: str
    selector: dict[str, object]
    line: str
    steps: int


def _cron(line: str) -> dict[str, object]:
    return {"cron": {"expression": line, "time_zone": ZONE}}


CASES = (
    Case("dense cron", _cron("*/5 * * * *"), "*/5 * * * *", 1_051_000),
    Case("weekly cron", _cron("0 9 * * mon"), "0 9 * * mon", 522),
    Case("sparse cron", _cron("0 12 29 2 *"), "0 12 29 2 *", 3),
    Case("daily", {"daily": {"time": "09:00", "time_zone": ZONE}}, "0 9 * * *", 3653),
    Case(
        "weekly",
        {"weekly": {"time": "09:00", "time_zone": ZONE, "weekdays": [1, 3, 5]}},
        "0 9 * * mon,wed,fri",
        1566,
    ),
    Case("every", {"every_seconds": 3600}, "0 * * * *", 87_700),
)
AT_LEAST = {"sparse cron": 3.0}
"""How many times faster the first occurrence should be; 1 where nothing else is said."""
UNSATISFIABLE = "0 0 31 2 *"


def run(setting: Setting) -> None:
    """Microseconds of each answer; where a search goes in one process, all sides take turns."""
    there = {OURS, *(name for name, module in PEERS.items() if find_spec(module))}
    for number in range(setting.runs):
        progress(f"rules, run {number + 1} of {setting.runs}")
        for case in CASES:
            _firsts(setting, case, there)
            _decisions(setting, case, there)
            _parsing(setting, case, there)
        _unsatisfiable(setting, there)
    for case in CASES:
        _compare(setting, f"{case.name}, first", AT_LEAST.get(case.name, 1.0))
        _compare(setting, f"{case.name}, decision after a day", 1.0)
        _compare(setting, f"{case.name}, decision after ten years", 3.0)
        name = f"{case.name}, decision after"
        decade, day = f"{name} ten years: {OURS}", f"{name} a day: {OURS}"
        setting.report.compare(decade, day, Bound(at_most=1.25))
        _compare(setting, f"{case.name}, parse", 1.0)
    _compare(setting, "unsatisfiable cron", 1.0)
    setting.report.note("CronSim parses anew for each start; its time holds that")
    setting.report.note(f"walks of more than {LONGEST_WALK:,} steps are not measured")


def _compare(setting: Setting, name: str, times: float) -> None:
    for peer in PEERS:
        setting.report.compare(f"{name}: {peer}", f"{name}: {OURS}", Bound(at_least=times))


def _firsts(setting: Setting, case: Case, there: set[str]) -> None:
    rule = parse_rule(case.selector, DECADE_AGO)
    acts: dict[str, Callable[[], object]] = {OURS: lambda: first(rule, NOW)}
    local = NOW.astimezone(ZoneInfo(ZONE))
    if CRONITER in there:
        from croniter import croniter

        walker = croniter(case.line, local)
        acts[CRONITER] = lambda: walker.get_next(dt.datetime, start_time=local)
    if CRONSIM in there:
        from cronsim import CronSim

        acts[CRONSIM] = lambda: next(CronSim(case.line, local))
    if APSCHEDULER in there:
        trigger = _trigger(case)
        acts[APSCHEDULER] = lambda: trigger.get_next_fire_time(None, local)
    _measure(setting, f"{case.name}, first", acts)


def _decisions(setting: Setting, case: Case, there: set[str]) -> None:
    for words, since in (("a day", DAY_AGO), ("ten years", DECADE_AGO)):
        rule = parse_rule(case.selector, since)
        target = first(rule, since)
        assert target is not None
        acts = _deciders(case, there, rule, min(target, NOW), words)
        _measure(setting, f"{case.name}, decision after {words}", acts)


def _deciders(
    case: Case, there: set[str], rule: Rule, target: dt.datetime, words: str
) -> dict[str, Callable[[], object]]:
    acts: dict[str, Callable[[], object]] = {OURS: lambda: decide(rule, target, NOW)}
    local = NOW.astimezone(ZoneInfo(ZONE))
    since = target.astimezone(ZoneInfo(ZONE))
    if CRONITER in there:
        from croniter import croniter

        walker = croniter(case.line, local)
        acts[CRONITER] = lambda: (
            walker.get_prev(dt.datetime, start_time=local),
            walker.get_next(dt.datetime, start_time=local),
        )
    if CRONSIM in there:
        from cronsim import CronSim

        acts[CRONSIM] = lambda: (
            next(CronSim(case.line, local, reverse=True)),
            next(CronSim(case.line, local)),
        )
    if APSCHEDULER in there and (words == "a day" or case.steps <= LONGEST_WALK):
        trigger = _trigger(case)
        acts[APSCHEDULER] = lambda: _walk(trigger, since, local)
    return acts


def _walk(trigger: Any, since: dt.datetime, now: dt.datetime) -> object:
    at, last = trigger.get_next_fire_time(None, since), None
    while at is not None and at <= now:
        at, last = trigger.get_next_fire_time(at, now=at), at
    return last, at


def _trigger(case: Case) -> Any:
    from apscheduler.triggers.cron import CronTrigger

    return CronTrigger.from_crontab(case.line, ZONE)


def _parsing(setting: Setting, case: Case, there: set[str]) -> None:
    acts: dict[str, Callable[[], object]] = {OURS: lambda: _parsed_anew(case)}
    local = NOW.astimezone(ZoneInfo(ZONE))
    if CRONITER in there:
        from croniter import croniter

        acts[CRONITER] = lambda: croniter(case.line, local)
    if CRONSIM in there:
        from cronsim import CronSim

        acts[CRONSIM] = lambda: CronSim(case.line, local)
    if APSCHEDULER in there:
        acts[APSCHEDULER] = lambda: _trigger(case)
    _measure(setting, f"{case.name}, parse", acts)


def _parsed_anew(case: Case) -> object:
    """What is remembered of expressions is forgotten first."""
    cron_rules._parse.cache_clear()  # noqa: SLF001
    cron_rules._parse_field.cache_clear()  # noqa: SLF001
    return parse_rule(case.selector, NOW)


def _unsatisfiable(setting: Setting, there: set[str]) -> None:
    """How long it takes to know that a date never comes."""
    case = Case("", _cron(UNSATISFIABLE), UNSATISFIABLE, 0)
    local = NOW.astimezone(ZoneInfo(ZONE))
    acts: dict[str, Callable[[], object]] = {OURS: lambda: _refused(lambda: _parsed_anew(case))}
    if CRONITER in there:
        from croniter import croniter

        acts[CRONITER] = lambda: _refused(lambda: croniter(case.line, local).get_next(dt.datetime))
    if CRONSIM in there:
        from cronsim import CronSim

        acts[CRONSIM] = lambda: _refused(lambda: next(CronSim(case.line, local)))
    if APSCHEDULER in there:
        acts[APSCHEDULER] = lambda: _trigger(case).get_next_fire_time(None, local)
    _measure(setting, "unsatisfiable cron", acts)


def _refused(act: Callable[[], object]) -> None:
    with suppress(Exception):  # each library has classes of its own
        act()


def _measure(setting: Setting, name: str, acts: dict[str, Callable[[], object]]) -> None:
    for who, act in acts.items():
        begin = perf_counter()
        act()
        once = perf_counter() - begin
        times = max(1, min(100_000, int(ENOUGH * min(1.0, setting.scale) / max(once, 1e-7))))
        begin = perf_counter()
        for _ in range(times):
            act()
        setting.report.add(f"{name}: {who}", 1e6 * (perf_counter() - begin) / times, "µs")
