"""Durations as a person types them, `1h30m`; how a span of time is said is in times.py."""

from __future__ import annotations

import re

from scheduler_daemon.cli.exits import MisuseError

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_FORM = "(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?"
_MAX_DIGITS = 9
"""More digits than any calendar needs, and few enough that the sum stays an integer of JSON."""


def seconds_of(text: str, option: str) -> int:
    """Whole seconds of `N[d|h|m|s]`, units descending and each at most once (`1d12h`, `90m`).

    Raises MisuseError, naming `option`; a bare number is refused, because nothing says its unit.
    """
    if re.fullmatch("[0-9]+", text):
        raise MisuseError(
            f"{option} {text} lacks a unit: write {text}s, {text}m, {text}h or {text}d"
        )
    match = re.fullmatch(_FORM, text)
    if not text or match is None:
        raise MisuseError(
            f"{option} takes a duration such as 90s, 20m, 1h30m or 2d (days, hours, minutes and "
            f"seconds in this order, each once), not {text!r}"
        )
    if any(len(digits or "") > _MAX_DIGITS for digits in match.groups()):
        raise MisuseError(f"{option} takes numbers of at most {_MAX_DIGITS} digits")
    pairs = zip(match.groups(), _UNITS.values(), strict=True)
    return sum(int(digits) * unit for digits, unit in pairs if digits)
