"""Whatever comes on the socket, the daemon answers, goes on, and never calls it a defect."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_daemon.server.methods import METHODS
from tests.support.inprocess import Json, Peer, line, request, running
from tests.support.process import short_folder

CODES = {
    "invalid_request",
    "invalid_prompt",
    "invalid_selector",
    "invalid_rule",
    "invalid_time_zone",
    "not_future",
    "time_out_of_range",
    "frequency_too_high",
    "idempotency_conflict",
    "reminder_not_found",
    "reminder_conflict",
    "reminder_ended",
}
"""What may come of params alone: no defect, no fault of the file."""

TEXTS = st.text(st.characters(), max_size=8) | st.sampled_from(
    ["s", "r1", "*", "UTC", "Europe/Berlin", "../x", "09:00", "0 9 * * *", "2027-01-01T00:00:00Z"]
)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.integers(-2, 400)
SCALARS = (
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
INNER = st.sampled_from(["time", "time_zone", "weekdays", "expression", "date"]) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(INNER, inner, max_size=4),
    max_leaves=8,
)
LIKELY = st.fixed_dictionaries(
    {"session_id": st.just("s"), "prompt": st.just("p"), "id": st.just("r1")},
)


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, Json]:
    """A method, and params of which some are right, some wrong and some unknown."""
    method = draw(st.sampled_from(sorted(METHODS)))
    fields = list(METHODS[method].params.model_fields)
    params = {name: value for name, value in draw(LIKELY).items() if name in fields}
    params |= draw(st.dictionaries(st.sampled_from(fields or ["x"]), VALUES, max_size=4))
    return method, params | draw(st.dictionaries(TEXTS, VALUES, max_size=1))


class Bench:
    """One connection to one daemon for a whole run, in a loop of its own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self._at_end = AsyncExitStack()
        self._peer = self.runner.run(self._connect())
        self._last_id = 0

    async def _connect(self) -> Peer:
        folder = short_folder()
        self._at_end.callback(shutil.rmtree, folder)
        daemon = await self._at_end.enter_async_context(running(folder))
        return await daemon.peer()

    def close(self) -> None:
        self.runner.run(self._at_end.aclose())
        self.runner.close()

    async def answered(self, method: str, params: Json) -> Json:
        self._last_id += 1
        self._peer.write(request(self._last_id, method, **params))
        frame = await self._peer.read()
        assert frame["id"] == self._last_id
        assert "error" not in frame or "/sd-" not in json.dumps(frame)  # no path of ours
        return frame

    async def still_there(self, data: bytes) -> list[Json]:
        """What came back for the bytes, when the connection has gone on after them."""
        self._last_id += 1
        self._peer.write(data, b"\n", request(self._last_id, "hello"))
        frames = [await self._peer.read()]
        while frames[-1]["id"] != self._last_id:
            frames.append(await self._peer.read())
        return frames[:-1]


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def test_random_params_of_every_method_give_a_result_or_a_code_that_says_why(
    bench: Bench,
) -> None:
    @settings(max_examples=200, deadline=None)
    @given(asked())
    def check(request: tuple[str, Json]) -> None:
        frame = bench.runner.run(bench.answered(*request))
        assert "result" in frame or frame["error"]["data"]["code"] in CODES, frame

    check()


MEMBERS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"])
ENVELOPES = st.dictionaries(
    MEMBERS | TEXTS, st.sampled_from(["2.0", "hello", "session.ready"]) | VALUES, max_size=6
)


def test_random_objects_and_bytes_leave_the_connection_as_it_was(bench: Bench) -> None:
    @settings(max_examples=150, deadline=None)
    @given(ENVELOPES.map(line) | VALUES.map(line) | st.binary(max_size=200))
    def check(data: bytes) -> None:
        for frame in bench.runner.run(bench.still_there(data.replace(b"\n", b" "))):
            assert "result" in frame or frame["error"]["data"]["code"] == "invalid_request"

    check()
