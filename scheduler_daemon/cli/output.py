"""What goes to the terminal: safe text, JSON lines and tables; what is said is elsewhere.

Whatever came from outside is shown with its control characters escaped: a stored prompt must not
move the cursor, clear the screen or turn the writing direction of the line it stands in.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Sequence
from itertools import accumulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

# C0, DEL, C1, line and paragraph separators, bidirectional controls, lone surrogates.
_UNSAFE = (
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e"
    "\u2066-\u2069\ufeff\ud800-\udfff]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
ROOMY = 100
"""In cells: a narrower terminal has no room for an instant beside how far it is away."""
_NARROW = 6
"""In cells: what a column keeps as long as others are wider."""
_LEAST = 4
"""In cells: a column that would keep less than that, and less than it needs, is not shown."""


def safe(text: str) -> str:
    r"""The text on one line, every control character as its escape (`\n`, `\x1b`, `\u202e`)."""
    if text.isprintable():
        return text
    return re.sub(_UNSAFE, lambda match: _SHORT.get(match[0]) or _escape(match[0]), text)


def safe_lines(text: str) -> list[str]:
    """The text cut at its own line feeds, each line safe."""
    return [safe(line) for line in text.split("\n")]


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def json_line(value: object) -> str:
    """The value as one line of JSON, readable in every language and safe to print."""
    return safe_json(json.dumps(value, ensure_ascii=False))


def safe_json(text: str) -> str:
    """One line of JSON, safe to print: the same value."""
    # All of these stand inside strings, where the escape means the same character.
    if text.isprintable():
        return text
    return re.sub(_UNSAFE, lambda match: f"\\u{ord(match[0]):04x}", text)


def say(line: str) -> None:
    """One line of data, on stdout. It must be safe already."""
    print(line)


def note(text: str) -> None:
    """One line that is not data, on stderr or nowhere: it changes no status and is never data."""
    if sys.stderr is None:  # closed; print() would take stdout then
        return
    try:
        print(f"schedctl: {safe(text)}", file=sys.stderr, flush=True)
    except OSError:
        abandon(sys.stderr)


def use_utf8() -> None:
    """Write UTF-8 whatever the locale says, and escape what has no form in it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def abandon(stream: TextIO) -> None:
    """Let what is still buffered go nowhere, so that nothing complains about it on the way out."""
    try:
        descriptor = stream.fileno()
    except (OSError, AttributeError):
        return  # no file behind it: nothing can complain
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def terminal_width() -> int | None:
    """Columns of the terminal that reads stdout, or of COLUMNS; None where neither is."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, AttributeError):
        return None


def colours() -> bool:
    """Whether what is said reaches a terminal that is to show colours.

    NO_COLOR with any value but an empty one forbids them (https://no-color.org), TERM=dumb too.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()


def cells(text: str) -> int:
    """How many columns a terminal needs for the text: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(_CELLS.__getitem__, text))


class _Cells(dict[str, int]):
    """The cells of each character that was asked for: one page has ten thousands of them."""

    def __missing__(self, character: str) -> int:
        self[character] = count = _cells_of(character)
        return count


_CELLS = _Cells()


def _cells_of(character: str) -> int:
    if character.isascii():
        return 1
    import unicodedata  # only for text that needs it

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """The text in at most `width` >= 1 cells, ending in `…` where something is missing."""
    if cells(text) <= width:
        return text
    if text.isascii():
        return text[: width - 1] + "…"
    ends = accumulate(map(_CELLS.__getitem__, text))
    return text[: next(index for index, end in enumerate(ends) if end >= width)] + "…"


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, *, firm: int = 1
) -> list[str]:
    """Lines of a table of safe cells under their headers, at most `width` columns wide if set.

    The widest column is cut first, so that one long word costs only itself; the first `firm`
    columns are cut only when the others have nothing left to give. The last columns are left out
    where there is no room for all.
    """
    lines = [headers, *rows]
    widths = [max(map(cells, column)) for column in zip(*lines, strict=True)]
    if width is not None:
        widths = widths[: _shown(widths, width)]
        lines = [line[: len(widths)] for line in lines]
        room = width - 2 * (len(widths) - 1)
        _shrink(widths, range(firm, len(widths)), room, _NARROW)
        _shrink(widths, range(len(widths)), room, 1)
    return [_row(line, widths) for line in lines]


def show_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, firm: int = 1) -> None:
    """A table on stdout, as wide as the terminal; uncut where no terminal reads it."""
    for line in table(headers, rows, terminal_width(), firm=firm):
        say(line)


def red(line: str) -> str:
    """A safe line that a terminal shows in red (ECMA-48, SGR), to its end and no further."""
    return f"\x1b[31m{line}\x1b[0m"


def _shown(widths: Sequence[int], width: int) -> int:
    """How many columns there is room for, at least the first."""
    needed = accumulate(min(each, _LEAST) + 2 for each in widths)
    return max(1, sum(1 for each in needed if each - 2 <= width))


def _shrink(widths: list[int], columns: range, room: int, floor: int) -> None:
    """Cut the widest of `columns`, cell by cell, until all fit `room` or none is above `floor`."""
    for column in columns:
        widths[column] = min(widths[column], max(room, floor))
    while columns and sum(widths) > room:
        widest = max(columns, key=widths.__getitem__)
        if widths[widest] <= floor:
            return
        widths[widest] -= 1


def _row(line: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for text, width in zip(line, widths, strict=True):
        shown = cut(text, width)
        parts.append(shown + " " * (width - cells(shown)))
    return "  ".join(parts).rstrip()
