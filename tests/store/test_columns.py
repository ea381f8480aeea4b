"""Single columns that a hand may have written."""

from __future__ import annotations

import json

import pytest

from scheduler_daemon.store import columns


def test_a_flag_is_nought_or_one() -> None:
    assert (columns.flag(0), columns.flag(1)) == (False, True)
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        columns.flag(2)


def test_a_context_has_no_more_bytes_than_one_that_can_be_made() -> None:
    assert columns.context('{"a": "b"}') == {"a": "b"}
    with pytest.raises(ValueError, match="bytes"):
        columns.context(json.dumps({"a": "b" * 4096}))
