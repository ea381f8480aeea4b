"""Bytes that somebody may send: requests that are nearly right, broken ones, and noise."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import strategies as st

from scheduler_daemon.server.methods import METHODS

Json = dict[str, Any]

FOLLOWUP = "@followup"
"""Stands for the id of the newest follow-up, which is known only when it was sent."""

LIKELY_TEXTS = ["s", "r1", "*", "UTC", "Europe/Berlin", "../x", "09:00", "0 9 * * *", "active"]
ODD_TEXTS = ["", "\0", "\ud800", "\u202e\x1b[2J", "r" + "9" * 18, "x" * 300, "\N{SNOWMAN}" * 200]
INSIDE = [b"[" * 1500, b"[1,2,3]", b"{}", b"\xff"]
CURSORS = [base64.urlsafe_b64encode(raw).decode() for raw in INSIDE]
TEXTS = st.text(st.characters(), max_size=8) | st.sampled_from(
    [*LIKELY_TEXTS, *ODD_TEXTS, *CURSORS, "2030-01-01T00:00:00Z"]
)
NUMBERS = st.one_of(
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.integers(-2, 400),
    st.sampled_from([2**53, -(2**63), 2**64, 10**30]),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), NUMBERS, st.floats(allow_nan=False, allow_infinity=False), TEXTS
)
INNER = st.sampled_from(["time", "time_zone", "weekdays", "expression", "date"]) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(INNER, inner, max_size=4),
    max_leaves=8,
)
IDS = st.one_of(st.integers(0, 99), st.integers(0, 99).map(str), st.integers(0, 99), VALUES)
MEMBERS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"])

SELECTORS: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"after_seconds": 1},
        {"after_seconds": 3600},
        {"every_seconds": 300},
        {"daily": {"time": "02:30", "time_zone": "Europe/Berlin"}},
        {"cron": {"expression": "0 0 29 2 *", "time_zone": "UTC"}},
        {},
    ]
)
RIGHT: dict[str, st.SearchStrategy[Any]] = {
    "session_id": st.sampled_from("st"),
    "prompt": st.just("p"),
    "id": st.sampled_from([f"r{number}" for number in range(1, 9)]),
    "sessions": st.sampled_from([["s"], ["s", "t"], "*"]),
    "name": st.just("h"),
    "revision": st.integers(1, 3),
    "from_": st.just("s"),
    "to": st.just("t"),
    "seconds": st.just(1),
}


def line(value: object) -> bytes:
    """A value as a line without its end; lone surrogates as escapes."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


@st.composite
def params_of(draw: st.DrawFn, method: str) -> Json:
    """Params of which most are right, some wrong and some unknown."""
    fields = list(METHODS[method].params.model_fields)
    params = {field.rstrip("_"): draw(RIGHT[field]) for field in fields if field in RIGHT}
    if "id" in params:
        params.pop("session_id")
    if "after_seconds" in fields:
        params |= draw(SELECTORS)
    if draw(st.integers(0, 2)) == 0:
        params |= draw(st.dictionaries(st.sampled_from(fields or ["x"]), VALUES, max_size=2))
        params |= draw(st.dictionaries(TEXTS, VALUES, max_size=1))
    return params


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """One request as a line, most often with an id that an answer can have."""
    method = draw(st.sampled_from(sorted(METHODS)))
    params = draw(params_of(method))
    frame: Json = {"jsonrpc": "2.0", "id": draw(IDS), "method": method, "params": params}
    if draw(st.integers(0, 4)) == 0:
        frame |= draw(st.dictionaries(MEMBERS, VALUES, max_size=1))
    return line(frame)


STATUSES = st.sampled_from(["admitted", "busy", "gone", "", None, 1])
RESULTS = st.fixed_dictionaries({"status": STATUSES}, optional={"message_id": VALUES})
ANSWERS = st.builds(
    lambda answer, more: line({"jsonrpc": "2.0", "id": FOLLOWUP, **answer, **more}),
    st.fixed_dictionaries({"result": RESULTS}) | st.fixed_dictionaries({"error": VALUES}),
    st.dictionaries(MEMBERS, VALUES, max_size=1),
)
ENVELOPES = st.dictionaries(
    MEMBERS, st.sampled_from(["2.0", "hello", "session.ready"]) | VALUES, max_size=6
).map(line)
DEEP = st.builds(
    lambda opening, closing, depth, inside: opening * depth + inside + closing * depth,
    st.sampled_from([b"[", b'{"a":']),
    st.sampled_from([b"]", b"}", b""]),
    st.sampled_from([3, 63, 64, 65, 1000, 5000]),
    st.sampled_from([b"", b"0", b'"x"']),
)
ODD_BYTES = [b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\0", b"\r", b"\n\n"]
ODD_JSON = [b'"id":1,', b'"id":2,"id":2,', b"\\u0000", b"\\ud800", b"NaN", b"-Infinity", b"1e999"]
PUNCTUATION = [b"{", b"}", b"[", b"]", b'"', b"\\", b",", b" ", b"\t", b"\n", b"-0"]
PIECES = st.sampled_from(
    [*ODD_BYTES, *ODD_JSON, *PUNCTUATION, b"9" * 400, b"{}" * 500, b"[]," * 8000]
)


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A line with something cut out, put in, doubled or cut off."""
    data = draw(requests() | ANSWERS)
    for _ in range(draw(st.integers(1, 3))):
        at, to = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        put = draw(PIECES | st.binary(max_size=4))
        data = draw(
            st.sampled_from(
                [
                    data[:at] + put + data[at:],
                    data[:at] + put + data[to:],
                    data[:at] + data[to:],
                    data[:to] + data[at:],
                ]
            )
        )
    return data


BATCHES = st.lists(requests(), max_size=3).map(lambda each: b"[" + b",".join(each) + b"]")
OTHERWISE = st.builds(
    lambda data, name: data.decode("utf-8", "replace").encode(name),
    requests(),
    st.sampled_from(["utf-16", "utf-32", "utf-16-le", "utf-8-sig"]),
)
LINES = st.one_of(
    *(requests(), requests(), broken(), broken(), ANSWERS, ENVELOPES, DEEP, BATCHES, OTHERWISE),
    *(VALUES.map(line), st.binary(max_size=200)),
)
INPUTS = st.lists(LINES, min_size=1, max_size=4).map(b"\n".join)
"""Some lines that come at once, the last of them not ended yet."""
