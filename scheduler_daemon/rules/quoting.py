"""How a refusal shows what it was given: short, escaped, harmless to print; no wording of rules."""

from __future__ import annotations

import json

QUOTED_CHARS = 60
"""At most this many characters of a text are repeated in a message."""

_LARGEST_SHOWN = 2**63


def quoted(value: object) -> str:
    """The value as a message shows it: the start of a text, in escaped ASCII; else a JSON word."""
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        if value != value:  # as NaN only
            return "not a number"
        return str(value) if abs(value) < _LARGEST_SHOWN else "a very large number"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "an object"


def _text(text: str) -> str:
    shown = json.dumps(text[:QUOTED_CHARS])
    return shown if len(text) <= QUOTED_CHARS else f'{shown[:-1]}…" ({len(text)} characters)'
