"""A change of a file as a person reads it: lines with + and -, and a few around them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from scheduler_daemon.cli import output
from scheduler_daemon.cli.setup.changing import Change

_LONG = 400
"""In characters: longer lines are JSON that nobody laid out, and cut into pieces to be shown."""
_WIDTH = 200
_PIECES = re.compile(r"(?<=[,{}\[\]])")
_CONTEXT = 3


def difference(change: Change) -> Iterator[str]:
    """The lines of it, safe to print. Raises nothing, whatever the bytes are."""
    before, after = _lines(change.before), _lines(change.after)
    yield output.safe(f"--- {change.path}" if change.before is not None else "--- (no such file)")
    yield output.safe(f"+++ {change.path}" if change.after is not None else "+++ (no such file)")
    # difflib takes long for what is long, and most of it is the same.
    start = max(_common(before, after) - _CONTEXT, 0)
    end = max(_common(before[start:][::-1], after[start:][::-1]) - _CONTEXT, 0)
    old, new = (lines[start : len(lines) - end] for lines in (before, after))
    for line in list(difflib.unified_diff(old, new, n=_CONTEXT, lineterm=""))[2:]:
        if not line.startswith("@@"):
            yield output.cut(output.safe(line.expandtabs(4)), _WIDTH)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines are the same at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _lines(data: bytes | None) -> list[str]:
    lines = (data or b"").decode("utf-8", "replace").splitlines()
    return [piece for line in lines for piece in _pieces(line)]


def _pieces(line: str) -> list[str]:
    return [line] if len(line) <= _LONG else [each for each in _PIECES.split(line) if each]
