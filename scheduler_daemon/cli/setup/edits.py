"""What is put into a file of somebody else, and taken out again: bytes in, bytes out."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from scheduler_daemon.cli.setup import weaving
from scheduler_daemon.cli.setup.jsonc import Broken
from scheduler_daemon.cli.setup.weaving import InTheWay, Piece

__all__ = ["Broken", "Edit", "InTheWay", "JsonEdit", "TextEdit", "TomlEdit", "edit_of"]


class Edit(Protocol):
    """One file's part of a setup. What it takes or gives is None where there is no file."""

    def put(self, data: bytes | None) -> bytes:
        """With what is wanted; the same bytes where all is there. Raises Broken, InTheWay."""

    def cut(self, data: bytes) -> bytes | None:
        """Without it, wherever it is as it was put. Raises Broken, InTheWay."""

    def members(self) -> dict[str, Any]:
        """Itself as JSON, for `edit_of`."""


@dataclass(frozen=True, slots=True)
class JsonEdit:
    """Members of a file in JSON, with comments or without."""

    pieces: tuple[Piece, ...]

    def put(self, data: bytes | None) -> bytes:
        text = _text(data)
        for piece in self.pieces:
            match weaving.state(text, piece):
                case "missing":
                    text = weaving.put(text, piece)
                case "other":
                    raise InTheWay(f"{piece} is there already, and says something else")
        return text.encode()

    def cut(self, data: bytes) -> bytes | None:
        text = _text(data)
        for piece in reversed(self.pieces):
            match weaving.state(text, piece):
                case "there":
                    text = weaving.take(text, piece)
                case "other":
                    raise InTheWay(f"{piece} says something else now")
        return text.encode()

    def members(self) -> dict[str, Any]:
        return {"pieces": self.pieces}


@dataclass(frozen=True, slots=True)
class TomlEdit:
    """One table of a file in TOML, put behind everything else with a comment before it."""

    at: tuple[str, str]
    table: Mapping[str, Any]
    comment: str

    def put(self, data: bytes | None) -> bytes:
        text = _text(data)
        whole = _toml(text)
        there = whole.get(self.at[0], {})
        if not isinstance(there, dict) or there.get(self.at[1], self.table) != self.table:
            raise InTheWay(f"{'.'.join(self.at)} is there already, and says something else")
        if self.at[1] in there:
            return text.encode()
        newline = _newline(text)
        gap = "" if not text.strip("\ufeff") else newline if text.endswith("\n") else newline * 2
        new = text + gap + self._block(newline)
        return self._checked(new, {**whole, self.at[0]: {**there, self.at[1]: self.table}})

    def cut(self, data: bytes) -> bytes | None:
        text = _text(data)
        whole = _toml(text)
        there = whole.get(self.at[0], {})
        if self.at[1] not in there:
            return data
        newline = _newline(text)
        before, found, after = text.partition(self._block(newline))
        if not found:
            raise InTheWay(f"{'.'.join(self.at)} says something else now")
        left = {key: each for key, each in there.items() if key != self.at[1]}
        rest = {**whole, self.at[0]: left}
        if before.endswith(newline * 2):
            before = before.removesuffix(newline)
        return self._checked(before + after, rest if left else _without(rest, self.at[0]))

    def members(self) -> dict[str, Any]:
        return {"at": self.at, "table": self.table, "comment": self.comment}

    def _block(self, newline: str) -> str:
        lines = [f"# {self.comment}", f"[{'.'.join(self.at)}]"]
        lines += [f"{key} = {_toml_value(value)}" for key, value in self.table.items()]
        return "".join(line + newline for line in lines)

    def _checked(self, text: str, wanted: Mapping[str, Any]) -> bytes:
        try:
            if _toml(text) == wanted:
                return text.encode()
        except Broken:
            pass
        raise Broken(f"a table [{'.'.join(self.at)}] behind the rest would not be read as one")


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A whole file."""

    text: str

    def put(self, data: bytes | None) -> bytes:
        if data not in (None, self.text.encode()):
            raise InTheWay("it is there already, and says something else")
        return self.text.encode()

    def cut(self, data: bytes) -> bytes | None:
        if data != self.text.encode():
            raise InTheWay("it says something else now")
        return None

    def members(self) -> dict[str, Any]:
        return {"text": self.text}


def edit_of(members: Mapping[str, Any]) -> Edit:
    """The edit that gave these members."""
    if "pieces" in members:
        return JsonEdit(tuple(Piece(*each) for each in members["pieces"]))
    if "table" in members:
        return TomlEdit(tuple(members["at"]), members["table"], members["comment"])
    return TextEdit(members["text"])


def _text(data: bytes | None) -> str:
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise Broken(f"byte {error.start} is not UTF-8") from None


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _without(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: each for name, each in table.items() if name != key}


def _toml(text: str) -> dict[str, Any]:
    """What the text means, fractions as they are written: not a number is like itself then."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"), parse_float=str)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Broken(str(error) or "it is nested too deeply") from None


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_toml_value(each)}" for key, each in value.items())
        return f"{{ {inside} }}"
    return json.dumps(value, ensure_ascii=False)
