"""Bytes to lines to strict JSON, and back; what a line means is the matter of messages.py.

JSON is taken as RFC 8259 has it, narrowed to what every reader agrees on (RFC 7493, I-JSON):
no duplicate keys, no `NaN` or `Infinity`, no integers beyond 2^53-1, no byte order mark.
"""

from __future__ import annotations

import json

from scheduler_daemon.errors import InvalidRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

MAX_FRAME_BYTES = 1 << 20
"""The longest frame that every peer accepts, in bytes, its newline not counted."""

MAX_DEPTH = 64
"""How deep arrays and objects may nest: far beyond any message, far below any stack."""

MAX_INTEGER = 2**53 - 1

MAX_OUTSIDE_STRINGS = 20_000
"""Bytes of a frame that may stand outside its strings, commas, colons and blanks not counted.

Far beyond any message to the daemon: a megabyte of `{},{},` would keep it busy for half a second.
"""

MAX_STRINGS = 10_000
"""Strings that a frame may hold, names of members among them: several times any message."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
REFUSED = -32000
"""The JSON-RPC code of everything that is not one of the four above."""


class WireError(InvalidRequest):
    """What came is not a message of the protocol; its code is `invalid_request`.

    `rpc_code` is one of the four JSON-RPC codes above. `request_id` is the id to answer with,
    None where none could be read or where what came was no request.
    """

    def __init__(self, rpc_code: int, message: str, *, request_id: str | int | None = None) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.request_id = request_id


class FrameTooLong(WireError):
    """A line passed the limit. What follows on the connection cannot be read.

    `lines` are the complete lines that came in the same bytes before it.
    """

    def __init__(self, max_bytes: int, lines: list[bytes]) -> None:
        super().__init__(INVALID_REQUEST, f"a frame (one line) has at most {max_bytes} bytes")
        self.lines = lines


class FrameTooCostly(WireError):
    """A line has more strings, or more outside them, than anybody who means well would send."""

    def __init__(self) -> None:
        super().__init__(
            INVALID_REQUEST,
            f"a message holds at most {MAX_STRINGS} strings, and outside them at most "
            f"{MAX_OUTSIDE_STRINGS} bytes, commas, colons and blanks not counted",
        )


class Splitter:
    """Cuts a stream of bytes into lines and holds at most one unfinished line.

    Only new bytes are searched and appended, so a line that comes in small pieces costs no more
    than one that comes whole.
    """

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._broken = False

    @property
    def partial(self) -> int:
        """Bytes of a line that has begun and not ended."""
        return len(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the lines that they complete, without their newlines.

        Raises FrameTooLong as soon as a line is longer than `max_bytes`, ended or not, and again
        at every later call: the rest of such a line must never be taken for a line of its own.
        """
        if self._broken:
            raise FrameTooLong(self._max_bytes, [])
        first, newline, rest = data.partition(b"\n")
        self._held += first
        lines: list[bytes] = []
        if newline:
            lines = [bytes(self._held), *rest.split(b"\n")]
            self._held = bytearray(lines.pop())
        for index, line in enumerate((*lines, self._held)):
            if len(line) > self._max_bytes:
                self._broken = True
                self._held = bytearray()
                raise FrameTooLong(self._max_bytes, lines[:index])
        return lines


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode(message: object) -> bytes:
    r"""One frame with its newline: compact UTF-8, a lone surrogate as its `\udXXX` escape.

    Raises ValueError for `nan` and `inf`, TypeError for what JSON has no form for.
    """
    return (_ENCODER.encode(message) + "\n").encode("utf-8", "backslashreplace")


def check_cost(line: bytes) -> None:
    """Refuse a line that takes long to read, whatever it is. Raises FrameTooCostly."""
    if len(line) <= MAX_OUTSIDE_STRINGS:
        return
    if _unescaped(line).count(b'"') > 2 * MAX_STRINGS:
        raise FrameTooCostly
    if len(_outside_strings(line).translate(None, b",: \t\r")) > MAX_OUTSIDE_STRINGS:
        raise FrameTooCostly


def decode(line: bytes) -> object:
    """The value of one line of strict JSON.

    Raises WireError: PARSE_ERROR for what is not JSON in UTF-8, INVALID_REQUEST for JSON that
    readers do not agree on (duplicate keys, huge numbers, nesting deeper than MAX_DEPTH).
    """
    try:
        value: object = _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise WireError(PARSE_ERROR, "a line must be UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"{error.msg} at character {error.pos}"
        raise WireError(PARSE_ERROR, f"a line must be one JSON object: {where}") from None
    except RecursionError:
        raise _too_deep() from None
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _depth_exceeded(line):
        raise _too_deep()
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise WireError(INVALID_REQUEST, "an object may have each key only once")
    return members


def _integer(digits: str) -> int:
    # Looking at the length first keeps int() from quadratic work on a line full of digits.
    if len(digits) <= 17 and -MAX_INTEGER <= (number := int(digits)) <= MAX_INTEGER:
        return number
    raise WireError(INVALID_REQUEST, f"an integer lies between -{MAX_INTEGER} and {MAX_INTEGER}")


def _float(digits: str) -> float:
    number = float(digits)
    if number in (_INFINITY, -_INFINITY):
        raise WireError(INVALID_REQUEST, "a number must fit a double (RFC 8259, section 6)")
    return number


def _constant(name: str) -> NoReturn:
    raise WireError(PARSE_ERROR, f"{name} is not JSON")


def _too_deep() -> WireError:
    return WireError(INVALID_REQUEST, f"arrays and objects nest at most {MAX_DEPTH} deep")


_INFINITY = float("inf")
_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
_AS_ARRAYS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _depth_exceeded(line: bytes) -> bool:
    """Whether valid JSON nests too deep: each round takes the innermost level away."""
    brackets = _outside_strings(line).translate(_AS_ARRAYS, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _outside_strings(line: bytes) -> bytes:
    """What is left of JSON without its strings; of what is no JSON, something no longer."""
    return b"".join(_unescaped(line).split(b'"')[::2])


def _unescaped(line: bytes) -> bytes:
    """JSON without the backslashes and quotes that its strings hold."""
    return line.replace(rb"\\", b"").replace(rb"\"", b"")
