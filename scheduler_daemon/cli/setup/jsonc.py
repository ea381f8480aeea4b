"""JSON with comments, as a tree that knows where everything stands in the text.

It takes what agents' own readers take: comments of both kinds, commas behind the last member, a
byte order mark, nothing at all. What stands nowhere in RFC 8259 beside that is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

Value: TypeAlias = "bool | int | str | list[Value] | dict[str, Value]"
"""What is written: as JSON has it, without null and fractions."""

Plain: TypeAlias = "str | tuple[object, ...]"
"""What a text means, for comparing: pairs in their order, numbers as they are written."""

_TRIVIA = re.compile(r"(?:[ \t\r\n]|//[^\r\n]*|/\*[\s\S]*?\*/)*")
_SCALAR = re.compile(r"(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\b")
_CLOSING = {"{": "}", "[": "]"}


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)


class Broken(ValueError):
    """The text is no JSON, also with comments; the message says where."""


@dataclass(slots=True, eq=False)
class Node:
    """A value from `start` to before `end`; `members` of objects and arrays, in their order."""

    start: int
    end: int
    text: str | None
    """A string as it is meant, anything else as it is written; None where there are members."""
    opening: str
    """`{` of an object, `[` of an array, `"` of a string, nothing of what has its own text."""
    members: list[Member] = field(default_factory=list)

    def get(self, key: str) -> Member | None:
        """The member with this name; of several the last, as JavaScript has it."""
        return next((each for each in reversed(self.members) if each.key == key), None)


@dataclass(slots=True, eq=False)
class Member:
    """A member of an object, or with None as `key` of an array; it begins with its name."""

    start: int
    key: str | None
    node: Node
    comma: int | None = None
    """Where the comma behind it stands."""


def parse(text: str, at: Sequence[str] = ()) -> Node | None:
    """The value of a text; None where it holds comments at most. Raises Broken.

    It is told apart on the way of the names `at`, and below. What stands beside is read by
    something faster, and keeps its own text: files of an agent have megabytes of it.
    """
    try:
        return _Reader(text).whole(at)
    except RecursionError:
        raise Broken("it is nested too deeply") from None


def plain(node: Node, but: Member | None = None) -> Plain:
    """What the value means, without the member `but` where it is one of its own or below."""
    if node.text is not None:
        return (node.opening, node.text)
    kept = (each for each in node.members if each is not but)
    return (node.opening, tuple((each.key, plain(each.node, but)) for each in kept))


def meaning(value: Value) -> Plain:
    """What `plain` gives for a text that holds this value."""
    node = parse(json.dumps(value))
    assert node is not None
    return plain(node)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1 if text.startswith("\ufeff") else 0

    def whole(self, at: Sequence[str]) -> Node | None:
        self._skip()
        if self._at == len(self._text):
            return None
        node = self._value(at)
        self._skip()
        if self._at < len(self._text):
            raise self._broken("something stands behind the end")
        return node

    def _value(self, at: Sequence[str] | None) -> Node:
        """The value here; `at` is what is left of the way, None beside it."""
        if at is None and (quick := self._quick()):
            return quick
        start = self._at
        opening = self._text[start : start + 1]
        if opening == '"':
            text = self._string()
            return Node(start, self._at, text, opening)
        if opening in _CLOSING:
            members = self._members(opening, at)
            return Node(start, self._at, None, opening, members)
        found = _SCALAR.match(self._text, start)
        if found is None:
            raise self._broken("a value is missing" if opening else "it ends too early")
        self._at = found.end()
        return Node(start, self._at, found[0], "")

    def _quick(self) -> Node | None:
        """The value here as it is written; None where it is no JSON without comments."""
        start = self._at
        try:
            _, self._at = _DECODER.raw_decode(self._text, start)
        except ValueError:
            return None
        return Node(start, self._at, self._text[start : self._at], "")

    def _string(self) -> str:
        try:
            text, self._at = _DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            self._at = error.pos
            raise self._broken("a string does not end, or has what no string has") from None
        assert isinstance(text, str)  # it began with a quotation mark
        return text

    def _members(self, opening: str, at: Sequence[str] | None) -> list[Member]:
        """All up to the closing bracket, which is passed."""
        closing = _CLOSING[opening]
        member = self._member if opening == "{" else self._element
        members: list[Member] = []
        self._at += 1
        while True:
            self._skip()
            if self._takes(closing):
                return members
            if members and members[-1].comma is None:
                raise self._broken("a comma is missing")
            members.append(member(at))
            self._skip()
            if self._takes(","):
                members[-1].comma = self._at - 1

    def _element(self, at: Sequence[str] | None) -> Member:
        return Member(self._at, None, self._value(None if at else at))

    def _member(self, at: Sequence[str] | None) -> Member:
        start = self._at
        if self._text[start : start + 1] != '"':
            raise self._broken("a name in quotation marks is missing")
        key = self._string()
        self._skip()
        if not self._takes(":"):
            raise self._broken("a colon is missing")
        self._skip()
        if at:
            at = at[1:] if at[0] == key else None
        return Member(start, key, self._value(at))

    def _takes(self, mark: str) -> bool:
        found = self._text.startswith(mark, self._at)
        self._at += found
        return found

    def _skip(self) -> None:
        found = _TRIVIA.match(self._text, self._at)
        assert found is not None  # it also matches nothing
        self._at = found.end()

    def _broken(self, what: str) -> Broken:
        before = self._text[: self._at]
        line = before.count("\n") + 1
        column = self._at - (before.rfind("\n") + 1) + 1
        return Broken(f"line {line}, column {column}: {what}")
