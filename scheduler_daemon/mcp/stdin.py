r"""Lines from stdin as the SDK can read them.

Its JSON parser takes no lone surrogate (half a `😀` as `\ud83d`), which JavaScript clients send
where a model's words were cut there, and drops such a line without an answer: the agent would wait
for its time-out.
"""

from __future__ import annotations

import io
import json
import re
from typing import BinaryIO

_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")
_LONE = re.compile("[\ud800-\udfff]")


class Lines(io.TextIOWrapper):
    """A file of bytes as lines of text. What is no Unicode has become U+FFFD."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="utf-8", errors="replace")

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override] # as in its base
        line = super().readline(size)
        return _whole(line) if _ESCAPED.search(line) else line


def _whole(line: str) -> str:
    """JSON with each lone surrogate replaced; what is no JSON stays for the SDK to judge."""
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
    except (ValueError, RecursionError):
        return line
    return _LONE.sub("\ufffd", text) + "\n"
