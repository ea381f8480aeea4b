"""The checks of what a reminder says, and of the strings that name things."""

from __future__ import annotations

import re

from scheduler_daemon.errors import InvalidPrompt

MAX_TITLE_CHARS = 120
MAX_CONTEXT_BYTES = 4096
MAX_NAME_CHARS = 200

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def prompt(value: object, most: int) -> str:
    """The prompt without surrounding blanks; 1 to `most` characters. Raises invalid_prompt."""
    text = _words(value, "prompt")
    if not text:
        raise InvalidPrompt("prompt must not be empty: say what is to be done", field="prompt")
    if len(text) > most:
        raise InvalidPrompt(
            f"prompt has {len(text)} characters, at most {most} are kept", field="prompt"
        )
    return text


def title(value: object) -> str | None:
    """The title without surrounding blanks, None for an empty one. Raises invalid_prompt."""
    text = _words(value, "title")
    if len(text) > MAX_TITLE_CHARS:
        raise InvalidPrompt(
            f"title has {len(text)} characters, at most {MAX_TITLE_CHARS} are kept", field="title"
        )
    return text or None


def _words(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidPrompt(f"{field} must be a string", field=field)
    if "\0" in value or _SURROGATE.search(value):
        raise InvalidPrompt(
            f"{field} may hold any Unicode text except NUL and lone surrogates", field=field
        )
    return value.strip()


def name(value: str) -> str:
    """A string that names something: 1 to 200 characters, none of them a control character.

    Raises ValueError.
    """
    if not 1 <= len(value) <= MAX_NAME_CHARS or _CONTROL.search(value) or _SURROGATE.search(value):
        raise ValueError(f"must have 1 to {MAX_NAME_CHARS} characters, no control characters")
    return value


def session_name(value: str) -> str:
    """The name of a Session: a name other than `*`. Raises ValueError."""
    if value == "*":
        raise ValueError("must name one Session, `*` names none")
    return name(value)


def context(value: dict[str, str]) -> dict[str, str]:
    """A context of at most 4 KiB, counted as the UTF-8 of its keys and values. ValueError."""
    try:
        size = sum(len(key.encode()) + len(text.encode()) for key, text in value.items())
    except UnicodeEncodeError:
        raise ValueError("may not hold lone surrogates") from None
    if size > MAX_CONTEXT_BYTES:
        raise ValueError(f"has {size} bytes, at most {MAX_CONTEXT_BYTES} are kept")
    if any("\0" in key or "\0" in text for key, text in value.items()):
        raise ValueError("may not hold NUL characters")
    return value
