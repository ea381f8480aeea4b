"""What the daemon's own way to make frames has to agree with."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_daemon.wire import frames
from scheduler_daemon.wire.encoding import encode

TEXT = st.text(st.characters())  # lone surrogates, too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


@given(VALUES)
def test_its_frames_are_those_of_every_other_process(value: object) -> None:
    assert encode(value) == frames.encode(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_the_same_number(value: float) -> None:
    assert json.loads(encode(value)) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_null(value: float) -> None:
    assert encode({"seconds": value}) == b'{"seconds":null}\n'


def test_what_json_has_no_form_for_is_refused() -> None:
    with pytest.raises(TypeError):
        encode({"a": object()})
