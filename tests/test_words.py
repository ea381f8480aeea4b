"""What a reminder may say, and what things may be called."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_daemon import words
from scheduler_daemon.errors import InvalidPrompt


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("look", "look"),
        ("  look\n", "look"),
        ("\u3000\u00a0look\u2029", "look"),
        ("two\nlines\tand \u2028 more", "two\nlines\tand \u2028 more"),
        ("\u202e\U0001f600\x1b[2J", "\u202e\U0001f600\x1b[2J"),
        ("x" * 10, "x" * 10),
        (" " + "x" * 10 + " ", "x" * 10),
    ],
)
def test_a_prompt_is_kept_without_the_blanks_around_it(value: str, kept: str) -> None:
    assert words.prompt(value, max(10, len(kept))) == kept


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("", "must not be empty"),
        (" \n\t ", "must not be empty"),
        ("x" * 11, "has 11 characters, at most 10"),
        ("a\0b", "except NUL and lone surrogates"),
        ("\ud800", "except NUL and lone surrogates"),
        ("a\udfffb", "except NUL and lone surrogates"),
        (None, "must be a string"),
        (7, "must be a string"),
        (True, "must be a string"),
        (["look"], "must be a string"),
        ({"text": "look"}, "must be a string"),
    ],
)
def test_a_prompt_that_cannot_be_kept_is_refused(value: Any, says: str) -> None:
    with pytest.raises(InvalidPrompt, match=says) as refusal:
        words.prompt(value, 10)
    assert refusal.value.field == "prompt"


def test_lengths_are_counted_in_characters() -> None:
    assert words.prompt("\U0001f600" * 10, 10)
    assert words.title("\U0001f600" * 120)


def test_a_title_may_be_empty_which_is_none() -> None:
    assert words.title(" build ") == "build"
    assert words.title("") is None
    assert words.title(" \n") is None


@pytest.mark.parametrize("value", ["x" * 121, "\0", "\udc00", None, 0, [], {}])
def test_a_title_that_cannot_be_kept_is_refused(value: Any) -> None:
    with pytest.raises(InvalidPrompt) as refusal:
        words.title(value)
    assert refusal.value.field == "title"


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_other_unicode_is_a_prompt(text: str) -> None:
    if text.strip():
        assert words.prompt(text, 10**6) == text.strip()


@pytest.mark.parametrize("value", ["s", "x" * 200, "two words", "ü/*?\u00a0\u202e", "**", " * "])
def test_a_name_is_anything_printable_of_at_most_200_characters(value: str) -> None:
    assert words.name(value) == value
    assert words.session_name(value) == value


@pytest.mark.parametrize(
    "value", ["", "x" * 201, "\0", "a\nb", "\x1f", "\x7f", "\x85", "\u2028", "\u2029", "\ud800"]
)
def test_a_name_that_is_too_long_or_holds_a_control_character_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="1 to 200 characters"):
        words.name(value)
    with pytest.raises(ValueError, match="1 to 200 characters"):
        words.session_name(value)


def test_a_star_names_no_session_but_may_name_other_things() -> None:
    with pytest.raises(ValueError, match="names none"):
        words.session_name("*")
    assert words.name("*") == "*"


def test_a_context_holds_at_most_4_kib_counted_as_utf_8() -> None:
    fits = {"key": "ü" * 2046, "a": ""}
    assert words.context(fits) == fits
    assert words.context({}) == {}
    with pytest.raises(ValueError, match="has 4097 bytes, at most 4096"):
        words.context({"key": "ü" * 2046, "ab": ""})


@pytest.mark.parametrize("value", [{"a": "\ud800"}, {"\ud800": "a"}, {"a": "\0"}, {"\0": "a"}])
def test_a_context_holds_no_nul_and_no_lone_surrogate(value: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="may not hold"):
        words.context(value)
