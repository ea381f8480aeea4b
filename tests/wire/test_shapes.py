"""The shapes as the protocol's reference."""

from __future__ import annotations

import inspect
from typing import get_type_hints, is_typeddict

import pytest

from scheduler_daemon.wire import calls, shapes

SHAPES = {
    shape for module in (shapes, calls) for shape in vars(module).values() if is_typeddict(shape)
}

EMPTY = {calls.Watching, shapes.Lagged}
"""Those without members: that they come is all that they say."""


@pytest.mark.parametrize("shape", sorted(SHAPES, key=str))
def test_every_shape_says_what_it_is_and_its_types_can_be_read(shape: type) -> None:
    assert inspect.getdoc(shape)
    assert bool(get_type_hints(shape, include_extras=True)) == (shape not in EMPTY)


def test_a_left_out_member_is_not_required_and_a_needed_one_is() -> None:
    assert shapes.Reminder.__required_keys__ >= {"id", "rule", "waiting_for"}
    assert shapes.Followup.__optional_keys__ == frozenset()
