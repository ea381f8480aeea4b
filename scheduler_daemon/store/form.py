"""The form of an export (docs/export.md): what a line may hold, and a line as text and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NoReturn

from scheduler_daemon.store.columns import shown
from scheduler_daemon.store.companions import COLUMNS
from scheduler_daemon.store.rows import REMINDER_COLUMNS

FORMAT = "scheduler-daemon export"
VERSION = 1

LONGEST_LINE = 4 * 1024 * 1024
"""In bytes: a prompt of 32,768 characters with a context that fitted a frame is shorter."""

HEADER = {"format", "version", "schema", "exported_at", "last_id", "facts"}

TABLES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "reminder": ("reminders", "number", REMINDER_COLUMNS),
    "words": ("past_words", "reminder_number, words_revision", tuple(COLUMNS["words"])),
    "receipt": ("dispatches", "number", tuple(COLUMNS["receipt"])),
    "key": ("idempotency_keys", "owner_uid, session_id, key", tuple(COLUMNS["key"])),
    "run": ("runs", "number", tuple(COLUMNS["run"])),
}
"""What a line may hold, in this order: its table, the order of its rows, and their columns."""

_HALVES = "[\ud800-\udc7f\udd00-\udfff]"
"""Lone surrogates but those by which Python's `surrogateescape` names bytes."""

_MOST_DIGITS = 19
_LARGEST = 2**63 - 1
"""Of SQLite: also what is kept set aside because it is too large comes back."""

_SQLITE = b"SQLite format 3\0"


class NotUnderstood(Exception):
    """A line cannot be taken as what it should be; the message says why, and what would be."""


def write(value: dict[str, Any]) -> str:
    """A line without its end; bytes in the file that are no UTF-8 become U+FFFD.

    So does half of a character, which a context may have as an escape.
    """
    text = re.sub(_HALVES, "\ufffd", json.dumps(value, ensure_ascii=False))
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file with their ends; of one that is too long only so much that it shows."""
    return iter(lambda: file.readline(LONGEST_LINE + 1), b"")


def read(line: bytes) -> dict[str, Any]:
    """The object of one line. Raises NotUnderstood."""
    if len(line) > LONGEST_LINE:
        raise NotUnderstood(f"longer than {LONGEST_LINE} bytes, which no line of an export is")
    if line.startswith(_SQLITE):
        raise NotUnderstood("this is a database, not an export; `schedctl restore` takes it")
    try:
        value = _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise NotUnderstood(f"byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise NotUnderstood(_not_json(line, error)) from None
    except RecursionError:
        raise NotUnderstood("arrays or objects nest too deep") from None
    if not isinstance(value, dict):
        raise NotUnderstood("a line is one JSON object, {…}")
    return value


def _not_json(line: bytes, error: json.JSONDecodeError) -> str:
    if not line.strip():
        return "it is empty"
    if error.doc.startswith("\ufeff"):
        return "it begins with a byte order mark; an export has none"
    if not line.endswith(b"\n"):
        return "it is not whole: the file was cut off"
    return f"not JSON at character {error.pos + 1}: {error.msg}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotUnderstood(f"{shown(twice)} is there twice")
    return members


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > _MOST_DIGITS or not -_LARGEST - 1 <= int(digits) <= _LARGEST:
        raise NotUnderstood(f"{digits[:_MOST_DIGITS]}… is a number larger than any that is kept")
    return int(digits)


def _float(digits: str) -> NoReturn:
    raise NotUnderstood(f"{digits[:_MOST_DIGITS]} is not written as a whole number")


def _constant(name: str) -> NoReturn:
    raise NotUnderstood(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
