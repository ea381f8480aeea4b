"""Put a member into JSON with comments, or take it out; every other byte stays as it is.

What comes out is read again, and must mean what it meant before, with that member more or less.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from scheduler_daemon.cli.setup.jsonc import Broken, Member, Node, Value, meaning, parse, plain

_BLANK = " \t\r\n"
_BARE = re.compile(rf"{{[{_BLANK}]*}}|\[[{_BLANK}]*\]")
_NEWLINE = re.compile(r"\r\n|\n|\r")

State: TypeAlias = Literal["missing", "there", "other"]


class InTheWay(ValueError):
    """Something else stands where the member would; the message says what."""


class Piece(NamedTuple):
    """A value below the names `at`; `listed`: as one more element of the array there."""

    at: Sequence[str]
    value: Value
    listed: bool = False

    def __str__(self) -> str:
        return ".".join(self.at)


def state(text: str, piece: Piece) -> State:
    """Whether the piece is in the text, or something else where it would be.

    Raises Broken, InTheWay.
    """
    there = _walk(parse(text, piece.at), piece)[1]
    if there is None or piece.listed:
        return "missing" if there is None or _element(there, piece) is None else "there"
    return "there" if plain(there) == meaning(piece.value) else "other"


def put(text: str, piece: Piece) -> str:
    """The text with the piece, which is missing; what leads there is made.

    Raises Broken, InTheWay.
    """
    root = parse(text, piece.at)
    holders, there = _walk(root, piece)
    value: Value = [piece.value] if piece.listed and there is None else piece.value
    for name in reversed(piece.at[max(len(holders), 1) :]):
        value = {name: value}
    if root is None:
        return _from_nothing(text, {piece.at[0]: value})
    holder = there or holders[-1]
    key = None if there else piece.at[len(holders) - 1]
    new = _grown(text, root, holder, key, value)
    now = _read_again(new, piece)
    grown = next(node for node in _all(now) if node.start == holder.start)
    ours = grown.members[-1]
    same = plain(now, but=ours) == plain(root)
    if not same or (ours.key, plain(ours.node)) != (key, meaning(value)):
        raise Broken("this cannot be written without changing the rest")
    return new


def take(text: str, piece: Piece) -> str:
    """The text without the piece, which is there. Raises Broken, InTheWay."""
    root = parse(text, piece.at)
    holders, there = _walk(root, piece)
    assert root is not None  # or it would be missing
    assert there is not None
    holder = there if piece.listed else holders[-1]
    ours = _element(there, piece) if piece.listed else holder.get(piece.at[-1])
    assert ours is not None
    left = plain(root, but=ours)
    for neat in (True, False):  # a comment up to the end of its line may need what stands around
        new = _shrunk(text, holder, ours, neat=neat)
        try:
            if plain(_read_again(new, piece)) == left:
                return new
        except Broken:
            continue
    raise Broken("this cannot be taken out without changing the rest")


def tidied(text: str, piece: Piece, before: str) -> str:
    """The text, from which `piece` was taken, without what was made for it and holds nothing now.

    `before` is the text that it was put into. What has a comment inside stays. Raises Broken,
    InTheWay.
    """
    for depth in range(len(piece.at) - (not piece.listed), 0, -1):
        empty: Value = [] if piece.listed and depth == len(piece.at) else {}
        made = Piece(piece.at[:depth], empty)
        if state(before, made) != "missing" or not _is_bare(text, made):
            break
        text = take(text, made)
    return text


def _is_bare(text: str, piece: Piece) -> bool:
    """Whether there is an object or array there that holds nothing, no comment either."""
    there = _walk(parse(text, piece.at), piece)[1]
    return there is not None and _BARE.fullmatch(text[there.start : there.end]) is not None


def _walk(root: Node | None, piece: Piece) -> tuple[list[Node], Node | None]:
    """The objects on the way to a value, and the value, None where it is missing."""
    holders: list[Node] = []
    node = root
    for depth, name in enumerate(piece.at):
        if node is None:
            return holders, None
        if node.opening != "{":
            what = ".".join(piece.at[:depth]) or "the whole"
            raise InTheWay(f"{what} is something else than an object")
        holders.append(node)
        member = node.get(name)
        node = None if member is None else member.node
    if node is not None and piece.listed and node.opening != "[":
        raise InTheWay(f"{piece} is something else than an array")
    return holders, node


def _element(array: Node, piece: Piece) -> Member | None:
    wanted = meaning(piece.value)
    return next((each for each in array.members if plain(each.node) == wanted), None)


def _all(node: Node) -> Iterator[Node]:
    yield node
    for member in node.members:
        yield from _all(member.node)


def _read_again(text: str, piece: Piece) -> Node:
    root = parse(text, piece.at)
    assert root is not None  # nothing takes all away
    return root


def _from_nothing(text: str, value: Value) -> str:
    """The whole value behind what a text without a value has: blanks and comments."""
    newline = _newline_of(text)
    gap = newline if text.strip(_BLANK + "\ufeff") and text[-1] not in "\r\n" else ""
    return text + gap + json.dumps(value, indent=2).replace("\n", newline) + newline


def _grown(text: str, root: Node, holder: Node, key: str | None, value: Value) -> str:
    """The text with one more member behind all others of `holder`, laid out as they are."""
    inside = text[holder.start : holder.end]
    in_one_line = not _NEWLINE.search(inside) and (bool(holder.members) or _is_one_line(text, root))
    name = "" if key is None else f"{json.dumps(key)}: "
    end = len(text[: holder.end - 1].rstrip(_BLANK))  # behind the last comment, too
    tail = text[end:]
    if in_one_line:
        added = (" " if holder.members else "") + name + json.dumps(value)
    else:
        newline = _newline_of(text)
        base, indent, step = _indents(text, root, holder)
        words = name + json.dumps(value, indent=step)
        added = "\n" + indent + words.replace("\n", "\n" + indent)
        if not holder.members and not _NEWLINE.search(tail[: holder.end - 1 - end]):
            added += "\n" + base
        added = added.replace("\n", newline)
    if holder.members and holder.members[-1].comma is None:
        last = holder.members[-1].node.end
        return text[:last] + "," + text[last:end] + added + tail
    return text[:end] + added + tail


def _is_one_line(text: str, root: Node) -> bool:
    return bool(root.members) and not _NEWLINE.search(text[root.start : root.end])


def _indents(text: str, root: Node, holder: Node) -> tuple[str, str, str]:
    """The indent of the holder's line, of its members, and what one step is."""
    base = _indent(text, holder.start)[0]
    first, alone = _indent(text, root.members[0].start) if root.members else ("", False)
    step = first if first and alone else "  "
    if holder.members:
        indent, alone = _indent(text, holder.members[-1].start)
        if alone:
            return base, indent, step
    return base, base + step, step


def _indent(text: str, at: int) -> tuple[str, bool]:
    """The blanks that a line begins with, and whether nothing else stands before `at` in it."""
    start = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    line = text[start:at].removeprefix("\ufeff")
    blank = line[: len(line) - len(line.lstrip(" \t"))]
    return blank, blank == line


def _newline_of(text: str) -> str:
    found = _NEWLINE.search(text)
    return found[0] if found else "\n"


def _shrunk(text: str, holder: Node, ours: Member, *, neat: bool) -> str:
    """The text without one member and its comma; `neat`: and without the blanks before it."""
    start = len(text[: ours.start].rstrip(_BLANK)) if neat else ours.start
    cuts = [(start, ours.node.end)]
    place = holder.members.index(ours)
    if ours.comma is not None:
        cuts.append((ours.comma, ours.comma + 1))
    elif place:
        comma = holder.members[place - 1].comma
        assert comma is not None  # a member follows
        cuts.insert(0, (comma, comma + 1))
    for begin, end in reversed(cuts):
        text = text[:begin] + text[end:]
    return text
