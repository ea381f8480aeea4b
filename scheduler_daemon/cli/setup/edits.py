"""What is put into a file of somebody else, and taken out again: bytes in, bytes out."""

from __future__ import annotations

import json
import re
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

    def cut(self, data: bytes, before: bytes | None) -> bytes | None:
        """Without it, wherever it is as it was put into `before`, and without what that made.

        Raises Broken, InTheWay.
        """

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

    def cut(self, data: bytes, before: bytes | None) -> bytes | None:
        text = _text(data)
        for piece in reversed(self.pieces):
            match weaving.state(text, piece):
                case "there":
                    text = weaving.tidied(weaving.take(text, piece), piece, _text(before))
                case "other":
                    raise InTheWay(f"{piece} says something else now")
        is_bare = "".join(text.split()) == "{}"
        return None if before is None and is_bare else text.encode()

    def members(self) -> dict[str, Any]:
        return {"pieces": self.pieces}


@dataclass(frozen=True, slots=True)
class TomlEdit:
    """One table of a file in TOML, put behind everything else with a comment before it.

    Whoever reads the file may have put more into the table since: leave that a person gave, say.
    """

    at: tuple[str, str]
    table: Mapping[str, Any]
    comment: str

    def put(self, data: bytes | None) -> bytes:
        text = _text(data)
        whole = _toml(text)
        if self._is_in(whole):
            self._check_enabled(whole)
            return text.encode()
        newline = "\r\n" if "\r\n" in text else "\n"
        gap = "" if not text.strip("\ufeff") else newline if text.endswith("\n") else newline * 2
        new = text + gap + "".join(line + newline for line in self._lines())
        tables = {**whole.get(self.at[0], {}), self.at[1]: self.table}
        return self._checked(new, {**whole, self.at[0]: tables}, "cannot stand there as a table")

    def cut(self, data: bytes, before: bytes | None) -> bytes | None:
        text = _text(data)
        whole = _toml(text)
        if not self._is_in(whole):
            return data
        tables = {key: each for key, each in whole[self.at[0]].items() if key != self.at[1]}
        left = "".join(self._left(text))
        data = self._checked(left, {**whole, self.at[0]: tables}, "cannot be told from the rest")
        return None if before is None and not left.strip() else data

    def members(self) -> dict[str, Any]:
        return {"at": self.at, "table": self.table, "comment": self.comment}

    def _is_in(self, whole: Mapping[str, Any]) -> bool:
        """Whether the table is there, with more or without. Raises InTheWay for another."""
        tables = whole.get(self.at[0], {})
        there = tables.get(self.at[1], {}) if isinstance(tables, dict) else None
        if there == {}:
            return False
        if not isinstance(there, dict) or not self.table.items() <= there.items():
            raise InTheWay(f"{'.'.join(self.at)} is there, and says something else")
        return True

    def _check_enabled(self, whole: Mapping[str, Any]) -> None:
        """Raises InTheWay where a person has turned off what is there."""
        if whole[self.at[0]][self.at[1]].get("enabled") is False:
            raise InTheWay(f"{'.'.join(self.at)} is there, but `enabled = false` turns it off")

    def _lines(self) -> list[str]:
        lines = [f"# {self.comment}", f"[{'.'.join(self.at)}]"]
        return [*lines, *(f"{key} = {_toml_value(value)}" for key, value in self.table.items())]

    def _left(self, text: str) -> list[str]:
        """The lines without the table, those below it and its comment; others' comments stay."""
        kept: list[str] = []
        ours = False
        for line in re.findall(r"[^\n]*\n|[^\n]+", text):
            words = line.strip()
            if words.startswith("["):
                ours = self._is_header(words)
            if words == self._lines()[0]:
                if kept and not kept[-1].strip():
                    kept.pop()
            elif not ours or not words or words.startswith("#"):
                kept.append(line)
        return kept

    def _is_header(self, words: str) -> bool:
        """Whether a line begins the table or one below it, however its name is written."""
        try:
            found: Any = _toml(words)
        except Broken:
            return False
        for name in self.at:
            found = found.get(name) if isinstance(found, dict) else None
        return found is not None

    def _checked(self, text: str, wanted: Mapping[str, Any], problem: str) -> bytes:
        """The text, which means this. Raises Broken with the `problem` where it does not."""
        try:
            if {self.at[0]: {}, **_toml(text)} == wanted:
                return text.encode()
        except Broken:
            pass
        raise Broken(f"[{'.'.join(self.at)}] {problem}")


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A whole file."""

    text: str

    def put(self, data: bytes | None) -> bytes:
        if data not in (None, self.text.encode()):
            raise InTheWay("it is there already, and says something else")
        return self.text.encode()

    def cut(self, data: bytes, before: bytes | None) -> bytes | None:
        if data != self.text.encode():
            raise InTheWay("it says something else now")
        return before

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
