"""Lines out of bytes, and strict JSON both ways."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_daemon.wire.frames import (
    INVALID_REQUEST,
    MAX_DEPTH,
    MAX_INTEGER,
    PARSE_ERROR,
    FrameTooCostly,
    FrameTooLong,
    Splitter,
    WireError,
    check_cost,
    decode,
    encode,
)

INTEGERS = st.integers(-MAX_INTEGER, MAX_INTEGER)
# A high surrogate before a low one is one character in JSON, so such a pair cannot come back.
TEXTS = st.text(st.characters(exclude_categories=[])).filter(
    lambda text: (
        not any("\ud800" <= high < "\udc00" <= low <= "\udfff" for high, low in pairwise(text))
    )
)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


def split(pieces: list[bytes], max_bytes: int) -> tuple[list[bytes], bool]:
    """Every line that came out, and whether the limit was met."""
    splitter, lines = Splitter(max_bytes), list[bytes]()
    for piece in pieces:
        try:
            lines += splitter.feed(piece)
        except FrameTooLong as error:
            return lines + error.lines, True
    return lines, False


@given(st.binary(), st.lists(st.integers(0, 60)), st.integers(1, 40))
def test_any_bytes_in_any_split_give_the_same_lines(
    data: bytes, cuts: list[int], max_bytes: int
) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    assert split(pieces, max_bytes) == split([data], max_bytes)


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b"")), min_size=1))
def test_a_line_is_what_stands_between_two_newlines(lines: list[bytes]) -> None:
    splitter = Splitter()
    assert splitter.feed(b"\n".join(lines)) == lines[:-1]
    assert splitter.partial == len(lines[-1])
    assert splitter.feed(b"\n") == lines[-1:]
    assert not splitter.partial


def test_a_line_of_exactly_the_limit_passes_with_its_newline_not_counted() -> None:
    assert Splitter(4).feed(b"abcd\n") == [b"abcd"]
    assert Splitter(4).feed(b"abcd") == []


@pytest.mark.parametrize("data", [b"abcde", b"abcde\n", b"ok\nabcde", b"ok\nabcde\nmore\n"])
def test_a_longer_line_is_refused_whether_it_has_ended_or_not(data: bytes) -> None:
    splitter = Splitter(4)
    with pytest.raises(FrameTooLong, match="at most 4 bytes") as caught:
        splitter.feed(data)
    assert caught.value.lines == ([b"ok"] if data.startswith(b"ok") else [])
    assert caught.value.rpc_code == INVALID_REQUEST
    assert not splitter.partial


def test_the_rest_of_a_line_that_was_too_long_is_never_taken_for_a_line() -> None:
    splitter = Splitter(4)
    with pytest.raises(FrameTooLong):
        splitter.feed(b"abcde")
    with pytest.raises(FrameTooLong):
        splitter.feed(b"\nok\n")


def test_a_long_line_in_small_pieces_costs_no_more_than_its_length() -> None:
    splitter, piece = Splitter(), b"x" * 16
    started = time.process_time()
    for _ in range(1 << 16):
        splitter.feed(piece)
    assert splitter.feed(b"\n") == [b"x" * (1 << 20)]
    assert time.process_time() - started < 2.0  # quadratic work would take half a minute


@given(VALUES)
def test_what_was_encoded_decodes_to_the_same(value: object) -> None:
    frame = encode(value)
    assert frame.endswith(b"\n")
    assert frame.count(b"\n") == 1
    assert decode(frame[:-1]) == value


def test_a_frame_is_compact_utf_8() -> None:
    assert encode({"a": [1, "é\u2028\n"]}) == '{"a":[1,"é\u2028\\n"]}\n'.encode()


def test_a_lone_surrogate_travels_as_its_escape() -> None:
    assert encode("\ud83d") == b'"\\ud83d"\n'
    assert decode(b'"\\ud83d"') == "\ud83d"


def test_what_json_has_no_form_for_is_not_encoded() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(float("inf"))
    with pytest.raises(TypeError):
        encode({1, 2})


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" ",
        b"{",
        b"{} {}",
        b'{"a":1,}',
        b"{'a':1}",
        b"[01]",
        b"[1.]",
        b"[+1]",
        b'"\x01"',
        b'"\\x41"',
        b"nul",
        b"NaN",
        b'{"a":Infinity}',
        b"[-Infinity]",
        "[٣]".encode(),
        b'"\xff"',
        b'"\xed\xa0\x80"',  # a surrogate, which UTF-8 may not hold
        b"\xef\xbb\xbf{}",  # a byte order mark
        '{"a":1}'.encode("utf-16-le"),
    ],
)
def test_what_is_not_json_is_a_parse_error(line: bytes) -> None:
    with pytest.raises(WireError) as caught:
        decode(line)
    assert caught.value.rpc_code == PARSE_ERROR
    assert caught.value.code == "invalid_request"


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":1,"a":1}',
        b'[{"b":{"a":1,"\\u0061":2}}]',
        b"9007199254740992",
        b"[-9007199254740992]",
        b"[100000000000000000]",
        b"[" + b"9" * 100_000 + b"]",
        b"[1e999]",
        b"[-1e999]",
    ],
)
def test_json_that_readers_do_not_agree_on_is_refused(line: bytes) -> None:
    with pytest.raises(WireError) as caught:
        decode(line)
    assert caught.value.rpc_code == INVALID_REQUEST


@pytest.mark.parametrize(
    "text", ["9007199254740991", "-9007199254740991", "-0", "1e308", "-1e-999"]
)
def test_every_number_that_all_readers_hold_passes(text: str) -> None:
    assert decode(text.encode()) == json.loads(text)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[1,{"a":', "},2]")])
def test_nesting_passes_up_to_the_limit_and_no_deeper(opening: str, closing: str) -> None:
    times = MAX_DEPTH // (2 if "," in opening else 1)
    line = opening * times + "0" + closing * times
    assert decode(line.encode()) is not None
    with pytest.raises(WireError, match="at most 64 deep"):
        decode(f"[{line}]".encode())
    with pytest.raises(WireError, match="at most 64 deep"):
        decode((opening * 100_000 + "0" + closing * 100_000).encode())


def test_brackets_inside_strings_and_side_by_side_are_no_depth() -> None:
    value = {"prompt": '[{"\\' * 500, "items": [{"a": ["]"]}] * 500}
    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    "piece",
    [
        *(b"{},", b"[],", b"1,", b"1e1,", b"true,", b'{"a":1},', b"[" * 60 + b"]" * 60 + b","),
        *(b'"",', b'"a":"",', b'"\\"":"x",', b'"'),
    ],
)
def test_a_megabyte_that_takes_long_to_read_is_refused_at_once(piece: bytes) -> None:
    line = b"[" + piece * ((1 << 20) // len(piece)) + b"0]"
    began = time.process_time()
    with pytest.raises(FrameTooCostly, match=r"at most 10000 strings.*at most 20000 bytes, commas"):
        check_cost(line)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    "value",
    [
        {"prompt": '{"[1,2,3]}\\' * 50_000},
        {"sessions": [str(number) for number in range(9_998)]},
        {"prompt": '"' * 500_000},
        {"x": [[]] * 9_990},
        {"prompt": "😀" * 100_000},
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_is_long_inside_its_strings_costs_little(value: object, ascii_only: bool) -> None:
    check_cost(json.dumps(value, ensure_ascii=ascii_only).encode())


@given(st.binary(max_size=40).map(lambda part: part * 600))
def test_whatever_is_long_costs_no_more_than_its_length(line: bytes) -> None:
    with suppress(FrameTooCostly):
        check_cost(line)


@given(st.binary() | st.text().map(str.encode))
def test_no_bytes_raise_anything_but_a_wire_error(line: bytes) -> None:
    with suppress(WireError):
        decode(line)
