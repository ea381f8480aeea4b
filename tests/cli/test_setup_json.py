"""A member is woven into JSON with comments, and taken out; every other byte stays."""

from __future__ import annotations

import json
import re
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_daemon.cli.setup import weaving
from scheduler_daemon.cli.setup.jsonc import Broken, meaning, parse, plain
from scheduler_daemon.cli.setup.weaving import InTheWay, Piece, put, state, take

MEMBER = Piece(("mcp", "reminders"), {"command": ["a b", 'ä"'], "enabled": True, "n": 1})
ELEMENT = Piece(("hooks", "PreToolUse"), {"matcher": "x"}, listed=True)

LAID_OUT = {
    "{}": '{\n  "a": {\n    "b": true\n  }\n}',
    "": '{\n  "a": {\n    "b": true\n  }\n}\n',
    "// nothing yet": '// nothing yet\n{\n  "a": {\n    "b": true\n  }\n}\n',
    "\ufeff\r\n": '\ufeff\r\n{\r\n  "a": {\r\n    "b": true\r\n  }\r\n}\r\n',
    '{"x": 1}': '{"x": 1, "a": {"b": true}}',
    '{"a": {}}': '{"a": {"b": true}}',
    '{\n\t"x": 1\n}': '{\n\t"x": 1,\n\t"a": {\n\t\t"b": true\n\t}\n}',
    '{\n    "a": {}\n}\n': '{\n    "a": {\n        "b": true\n    }\n}\n',
    '{\n  "a": {"x": 1}\n}': '{\n  "a": {"x": 1, "b": true}\n}',
    '{\n  "a": {\n    "x": 1, // mine\n  },\n}': (
        '{\n  "a": {\n    "x": 1, // mine\n    "b": true\n  },\n}'
    ),
    '{\r\n  "x": 1 /* one */ // two\r\n  // three\r\n}': (
        '{\r\n  "x": 1, /* one */ // two\r\n  // three\r\n  "a": {\r\n    "b": true\r\n  }\r\n}'
    ),
    '{ "x": 1,\n  "y": 2 }': '{ "x": 1,\n  "y": 2,\n  "a": {\n    "b": true\n  } }',
    "{ // why\n}": '{ // why\n  "a": {\n    "b": true\n  }\n}',
    '{"x":1//c\r}': '{"x":1,//c\r  "a": {\r    "b": true\r  }\r}',
}


@pytest.mark.parametrize("text", LAID_OUT)
def test_it_is_laid_out_as_what_stands_around_it(text: str) -> None:
    assert put(text, Piece(("a", "b"), True)) == LAID_OUT[text]


def test_a_list_gets_one_more_element_or_is_made() -> None:
    once = put("{}", ELEMENT)
    assert json.loads(once) == {"hooks": {"PreToolUse": [{"matcher": "x"}]}}
    other = ELEMENT._replace(value={"matcher": "y"})
    twice = put(once, other)
    assert json.loads(twice)["hooks"]["PreToolUse"] == [{"matcher": "x"}, {"matcher": "y"}]
    assert (state(twice, ELEMENT), state(once, other)) == ("there", "missing")
    assert json.loads(take(twice, ELEMENT))["hooks"]["PreToolUse"] == [{"matcher": "y"}]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"mcp": {"reminders": 1}}', '{"mcp": {}}'),
        ('{"mcp": {"reminders": 1, "x": 2}}', '{"mcp": { "x": 2}}'),
        ('{"mcp": {"x": 2, "reminders": 1}}', '{"mcp": {"x": 2}}'),
        ('{"mcp": {"x": 2, "reminders": 1,}}', '{"mcp": {"x": 2,}}'),
        ('{"mcp": {// c\n "reminders": 1}}', None),
        ('{"mcp": {"x": 2, // c\n "reminders": 1}}', None),
        ('{"mcp": {"reminders": 1 /* c */, "x": 2}}', '{"mcp": { /* c */ "x": 2}}'),
    ],
)
def test_it_is_taken_out_with_its_comma_and_no_comment(text: str, left: str | None) -> None:
    """Where a comment would swallow what follows, its blanks stay."""
    taken = take(text, MEMBER._replace(value=1))
    assert left in (None, taken)
    assert text.count("c") == taken.count("c")
    root = parse(taken)
    assert root is not None
    assert "reminders" not in str(plain(root))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1, column 2: a name in quotation marks is missing"),
        ('{"a"', "a colon is missing"),
        ('{"a": ', "it ends too early"),
        ('{"a": 1 "b": 2}', "line 1, column 9: a comma is missing"),
        ('{\n "a": nul}', "line 2, column 7: a value is missing"),
        ('{"a": "\n"}', "a string does not end"),
        ('{"a": "', "a string does not end"),
        ("{'a': 1}", "a name in quotation marks is missing"),
        ('{"a": 01}', "a comma is missing"),
        ('{"a": NaN}', "a value is missing"),
        ("{,}", "a name in quotation marks is missing"),
        ('{"a": 1,,}', "a name in quotation marks is missing"),
        ("{} {}", "line 1, column 4: something stands behind the end"),
        ('{"a": 1} /* x', "something stands behind the end"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(Broken, match=said):
        put(text, MEMBER)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "the whole is something else than an object"),
        ('{"mcp": []}', "mcp is something else than an object"),
        ('{"hooks": {"PreToolUse": {}}}', "hooks.PreToolUse is something else than an array"),
        ('{"hooks": 1}', "hooks is something else than an object"),
    ],
)
def test_another_kind_of_value_on_the_way_is_in_the_way(text: str, said: str) -> None:
    with pytest.raises(InTheWay, match=said):
        _ = [state(text, each) for each in (MEMBER, ELEMENT)]


def test_of_two_members_with_one_name_the_last_counts() -> None:
    """As in JavaScript, in which agents read these files."""
    assert put('{"mcp": {}, "mcp": {"x": 1}}', Piece(("mcp", "y"), 2)) == (
        '{"mcp": {}, "mcp": {"x": 1, "y": 2}}'
    )


def test_what_would_change_the_rest_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text is known for which that happens; what comes out is read again all the same."""
    monkeypatch.setattr(weaving, "_grown", lambda *_: '{"x": 2, "mcp": {"reminders": 1}}')
    with pytest.raises(Broken, match="cannot be written without changing the rest"):
        put('{"x": 1}', MEMBER._replace(value=1))
    monkeypatch.setattr(weaving, "_shrunk", lambda *_, neat: '{"x": 2}' if neat else "{")
    with pytest.raises(Broken, match="cannot be taken out without changing the rest"):
        take('{"x": 1, "mcp": {"reminders": 1}}', MEMBER._replace(value=1))


GAP = st.sampled_from(
    ["", "", " ", "\n", "\t", "\r\n", "\n  ", "// ,}\n", "/* {\n */", "//\r\n\t", ' // "a": \n  ']
)
NAMES = st.sampled_from(["mcp", "reminders", "hooks", "PreToolUse", "a\\u00e4", "\\n ä"])
SCALARS = st.sampled_from(
    ["1", "-0.50e+9", "true", "null", '""', '"a // b"', '"\\ud800}"', "1e400"]
)


@st.composite
def containers(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    """An object or an array of these, with gaps and perhaps a last comma."""
    opening, closing = draw(st.sampled_from([("{", "}"), ("{", "}"), ("[", "]")]))
    text = opening + draw(GAP)
    count = draw(st.integers(0, 3))
    for number in range(count):
        if opening == "{":
            text += f'"{draw(NAMES)}"{draw(GAP)}:{draw(GAP)}'
        text += draw(inner) + draw(GAP)
        if number < count - 1 or draw(st.booleans()):
            text += "," + draw(GAP)
    return text + closing


VALUES = st.recursive(SCALARS, containers, max_leaves=12)


@st.composite
def documents(draw: st.DrawFn) -> str:
    return draw(st.sampled_from(["", "\ufeff"])) + draw(GAP) + draw(containers(VALUES)) + draw(GAP)


@given(documents(), st.sampled_from([MEMBER, ELEMENT, Piece(("a",), "v")]))
def test_whatever_it_looks_like_only_bytes_are_added_and_only_one_meaning(
    text: str, piece: Piece
) -> None:
    try:
        if state(text, piece) != "missing":
            return
    except InTheWay:
        return
    new = put(text, piece)
    assert state(new, piece) == "there"
    assert is_grown(text, new)
    taken = take(new, piece)
    assert state(taken, piece) == "missing"
    assert re.findall(r"[/*]", taken) == re.findall(r"[/*]", text)


def is_grown(text: str, new: str) -> bool:
    """Whether `new` is the text with at most a comma in one place and more in another."""
    first = common(text, new)
    for comma in (0, 1):
        old, grown = text[first:], new[first + comma :]
        if common(old, grown) + common(old[::-1], grown[::-1]) >= len(old):
            return True
    return False


def common(one: str, other: str) -> int:
    """How many characters are the same at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def test_numbers_are_compared_as_they_are_written() -> None:
    assert meaning(1) != plain_of("1.0")
    assert plain_of("1e400") != plain_of("2e400")


def plain_of(text: str) -> object:
    node = parse(text)
    assert node is not None
    return plain(node)
