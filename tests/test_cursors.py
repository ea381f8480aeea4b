"""Cursors: opaque, good only with the filters they were made with, and never trusted."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_daemon.cursors import NONCE_BYTES, Cursor, _digest, _hidden
from scheduler_daemon.errors import InvalidRequest

FILTERS = ["list", 1000, "s", "active", "target"]
PLACE = ("2026-01-01T12:00:00.000Z", 42)


def made_of(*values: Any, digest: Any = None) -> str:
    """A cursor with these inside."""
    body = json.dumps([_digest(FILTERS) if digest is None else digest, *values])
    return hiding(body.encode())


def hiding(body: bytes) -> str:
    nonce = bytes(NONCE_BYTES)
    return base64.urlsafe_b64encode(nonce + _hidden(nonce, body)).decode().rstrip("=")


@pytest.mark.parametrize(
    "place",
    [
        PLACE,
        ("", 0),
        ("", 2**62),
        ("", -1),
        (PLACE[0], 10**18),
        ("my chat", 1000),
        ("\N{SNOWFLAKE}'\"\\/\u2028", 0),
        ("\N{GRINNING FACE}" * 200, 2**32 - 2),
        ('"\\' * 100, 2**32 - 2),
    ],
)
def test_a_cursor_is_read_back_as_it_was(place: tuple[str, int]) -> None:
    """Also where it is the longest name of a Session."""
    text = Cursor(place).text(FILTERS)
    assert text.isascii()
    assert "=" not in text
    assert Cursor.read(text, FILTERS).place == place


def test_a_cursor_does_not_tell_what_it_holds() -> None:
    """Numbers of receipts are counted over all owners."""
    one, other = (base64.urlsafe_b64decode(Cursor(PLACE).text(FILTERS) + "==") for _ in range(2))
    assert one != other
    assert b"2026" not in one + other


def test_what_nests_too_deep_is_no_cursor() -> None:
    with pytest.raises(InvalidRequest):
        Cursor.read(hiding(b"[" * 1400), FILTERS)


def test_no_cursor_is_the_start() -> None:
    assert Cursor.read("", FILTERS).place == ("", 0)
    assert Cursor.read("", FILTERS, start=("", 7)).place == ("", 7)


@pytest.mark.parametrize("position", range(len(FILTERS)))
def test_a_cursor_of_other_filters_is_refused(position: int) -> None:
    text = Cursor(PLACE).text(FILTERS)
    others = [*FILTERS]
    others[position] = "other"
    with pytest.raises(InvalidRequest) as refusal:
        Cursor.read(text, others)
    assert refusal.value.field == "cursor"
    assert "begin without one" in refusal.value.message


NO_CURSORS = [
    "x",
    "ä",
    "\ud800",
    "not base64!",
    base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    base64.urlsafe_b64encode(b"{}").decode(),
    base64.urlsafe_b64encode(b'{"a": 1, "b": 2, "c": 3}').decode(),
    base64.urlsafe_b64encode(b"7").decode(),
    base64.urlsafe_b64encode(b"[" * 100_000).decode(),
    made_of(),
    made_of("", 1, 2),
    made_of("", 1, digest=7),
    made_of("", "1"),
    made_of("", 1.0),
    made_of("", True),
    made_of("", 2**63),
    made_of("", -(2**63)),
    made_of(7, 1),
    made_of(None, 1),
    made_of("\ud800", 1),
    made_of("x" * 201, 1),
]


@pytest.mark.parametrize("text", NO_CURSORS, ids=range(len(NO_CURSORS)))
def test_what_is_no_cursor_of_ours_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Cursor.read(text, FILTERS)


@given(st.text(max_size=300))
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    try:
        Cursor.read(text, FILTERS)
    except InvalidRequest:
        return
    assert text == ""
