"""Reads docs/protocol.md: its sections, its tables of members, its transcripts.

What the reader of the page does not see steers it: `<!-- shape: Name -->` above a table names the
TypedDict that the table describes, `<!-- transcript: name -->` above a fenced block the recording
that fills it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
_TRANSCRIPT = re.compile(
    r"(^<!-- transcript: ([^\n]+) -->\n```text\n)(.*?)(^```$)", re.DOTALL | re.MULTILINE
)
_SHAPE = re.compile(r"<!-- shape: (\w+) -->\n((?:\|.*\n)+)")
_CODE = re.compile(r"`([^`]+)`")


def section(text: str, heading: str) -> str:
    """What stands under `heading` (with its marks: `## Errors`), down to the next of its level."""
    marks = heading.split(" ")[0]
    after = text.split(f"\n{heading}\n", 1)[1]
    return re.split(rf"\n#{{1,{len(marks)}}} ", after, maxsplit=1)[0]


def headings(text: str, marks: str) -> list[str]:
    """The titles of one level: `##`."""
    return re.findall(rf"^{marks} (.+)$", text, re.MULTILINE)


def rows(table: str) -> list[list[str]]:
    """The cells of a table's lines, without its head."""
    lines = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in cells] for cells in lines[2:]]


def first_table(text: str) -> list[list[str]]:
    """The rows of the first table in `text`."""
    found = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert found is not None
    return rows(found[0])


def shape_tables(text: str) -> list[tuple[str, list[list[str]]]]:
    """Each table of members with the name of its TypedDict, in the order of the page."""
    return [(name, rows(table)) for name, table in _SHAPE.findall(text)]


def code_words(text: str) -> list[str]:
    """What stands in backquotes."""
    return _CODE.findall(text)


def transcripts(text: str) -> dict[str, str]:
    """The fenced blocks that a recording fills, by name."""
    return {name: body for _, name, body, _ in _TRANSCRIPT.findall(text)}


def with_transcripts(text: str, recorded: Mapping[str, str]) -> str:
    """The page with each block replaced by its recording; raises KeyError for one without."""
    return _TRANSCRIPT.sub(lambda block: block[1] + recorded[block[2]] + block[4], text)
