"""Foreign text made fit to stand in one line of a log or a message. No other formatting."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""`text` with everything that could end a line or steer a terminal as a `\x1b`-like escape.

    What `str.isprintable` lets through stays: no controls, no line separators, no marks that
    change the direction of reading, no lone surrogates. Backslashes are not doubled: this is
    for eyes, not for reading back.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
