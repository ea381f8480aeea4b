"""Lines that the SDK could not read are mended, all others stay as they came."""

from __future__ import annotations

import io
import json

import pytest

from scheduler_daemon.mcp.stdin import Lines


def read(data: bytes) -> list[str]:
    lines = Lines(io.BytesIO(data))
    return list(iter(lines.readline, ""))


def test_half_a_character_becomes_the_replacement_character() -> None:
    line = r'{"a": "half \ud83d, \uDE00\uD83D", "b\udfff": "whole \ud83d\ude00"}' + "\n"
    (mended,) = read(line.encode())
    assert json.loads(mended) == {"a": "half �, ��", "b�": "whole 😀"}
    assert mended.endswith("\n")


@pytest.mark.parametrize(
    "line",
    [
        r'{"a": "\\ud83d is an escape written out"}',
        r'{"a": "\ud83d\ude00"}',
    ],
)
def test_what_holds_no_half_means_the_same(line: str) -> None:
    (mended,) = read(line.encode() + b"\n")
    assert json.loads(mended) == json.loads(line)


@pytest.mark.parametrize(
    "line",
    [
        '{"a": 1}\n',
        r"no JSON \ud83d" + "\n",
        '{"a": "line \u2028 and paragraph \u2029 \x85 separators"}\n',
        '{"a": "at the end"}',
        r'{"\ud83d": ' + "[" * 200_000 + "]" * 200_000 + "}\n",
        "\n",
    ],
)
def test_what_is_whole_or_no_json_is_left_alone(line: str) -> None:
    assert read(line.encode()) == [line]


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    assert read(b'{"a": "\xff"}\n{"b": 1}\n') == ['{"a": "�"}\n', '{"b": 1}\n']
