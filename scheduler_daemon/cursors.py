"""Opaque cursors: where a page ended, good only with the filters that it was made with.

What they hold is hidden by a key of this process: numbers of receipts are counted over all owners,
and would tell one how much is delivered to others. A restart makes them useless.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from typing import Any, NamedTuple

from scheduler_daemon.errors import InvalidRequest

MAX_CHARS = 2000
"""More than any cursor of ours has; what it holds is read by a recursive parser."""

MAX_TEXT = 200
"""A place begins with a target or with the name of a Session."""

NONCE_BYTES = 12

_KEY = secrets.token_bytes(32)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Cursor(NamedTuple):
    """Where a page ended: the last target and number, or the last Session's name and owner."""

    place: tuple[str, int]

    def text(self, filters: list[Any]) -> str:
        """The cursor as a caller gets it."""
        body = json.dumps(
            [_digest(filters), *self.place], separators=(",", ":"), ensure_ascii=False
        )
        nonce = secrets.token_bytes(NONCE_BYTES)
        return base64.urlsafe_b64encode(nonce + _hidden(nonce, body.encode())).decode().rstrip("=")

    @classmethod
    def read(cls, text: str, filters: list[Any], start: tuple[str, int] = ("", 0)) -> Cursor:
        """The cursor of `text`, `start` for an empty one. Raises invalid_request."""
        if not text:
            return cls(start)
        if len(text) > MAX_CHARS:
            raise _refusal()
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            digest, target, number = json.loads(_hidden(raw[:NONCE_BYTES], raw[NONCE_BYTES:]))
        except (ValueError, TypeError, RecursionError):
            raise _refusal() from None
        strange = type(number) is not int or abs(number) > 2**62
        if strange or not _is_text(target) or digest != _digest(filters):
            raise _refusal()
        return cls((target, number))


def _hidden(nonce: bytes, body: bytes) -> bytes:
    """The body hidden, or what was hidden shown again."""
    stream = hashlib.shake_256(_KEY + nonce).digest(len(body))
    return bytes(one ^ other for one, other in zip(body, stream, strict=True))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT and not _SURROGATE.search(value)


def _digest(filters: list[Any]) -> str:
    return hashlib.sha256(json.dumps(filters).encode()).hexdigest()[:12]


def _refusal() -> InvalidRequest:
    return InvalidRequest(
        "cursor is not one that this daemon gave for these filters; begin without one",
        field="cursor",
    )
