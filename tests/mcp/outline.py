"""The tools as a page that a person can read: `python -m tests.mcp.outline` writes it anew."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scheduler_daemon.mcp import guidance
from scheduler_daemon.mcp.calling import Setup
from scheduler_daemon.mcp.server import listed
from scheduler_daemon.mcp.session import Sources

PAGE = Path(__file__).parent / "tools.txt"
ZONE = "America/New_York"

Schema = dict[str, Any]


def outline() -> str:
    """All that a client is told where hooks say the Session; a `*` marks what is required."""
    lines = _words(guidance.instructions(ZONE), "")
    told: list[Schema] = []
    for tool in listed(Setup(Sources(argument=True), lambda: ZONE)):
        hints = tool.annotations.model_dump(exclude={"title"}) if tool.annotations else {}
        lines += ["", f"{tool.name}: {tool.title}", *_words(tool.description or "", "  ")]
        lines.append(f"  [{', '.join(name for name, holds in hints.items() if holds)}]")
        lines += ["  takes", *_members(tool.input_schema, "    ", told)]
        lines += ["  gives", *_members(tool.output_schema or {}, "    ", told)]
    return "\n".join(lines) + "\n"


def _members(schema: Schema, indent: str, told: list[Schema]) -> Iterator[str]:
    for name, member in schema["properties"].items():
        star = "*" if name in schema.get("required", ()) else ""
        bounds = "".join(f", {key} {value}" for key, value in member.items() if key not in _SHOWN)
        inside = member.get("items", member)
        again = "properties" in inside and inside in told
        yield f"{indent}{name}{star}: {_type(member)}{bounds}{', as above' if again else ''}"
        if not again:
            yield from _words(member.get("description", ""), indent + "    | ")
        if "properties" in inside and not again:
            told.append(inside)
            yield from _members(inside, indent + "  ", told)


_SHOWN = {"type", "description", "properties", "required", "items", "additionalProperties"}


def _type(schema: Schema) -> str:
    if schema["type"] != "array":
        return str(schema["type"])
    items = schema["items"]
    bounds = "".join(f", {key} {value}" for key, value in items.items() if key in _BOUNDS)
    return f"array of {items['type']}{bounds}"


_BOUNDS = {"minimum", "maximum", "enum"}


def _words(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, 98, initial_indent=indent, subsequent_indent=indent)


if __name__ == "__main__":
    PAGE.write_text(outline(), encoding="utf-8")
