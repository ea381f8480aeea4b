"""What tools take: every wrong argument is refused by its name, with what is accepted."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

from scheduler_daemon.errors import InvalidRequest, InvalidSelector
from scheduler_daemon.mcp import arguments as given

SOON = {"after_seconds": 60}
MINIMAL: dict[type[given.Arguments], dict[str, Any]] = {
    given.Create: {"prompt": "p", "when": SOON},
    given.List: {},
    given.Update: {"id": "r1", "revision": 1},
    given.One: {"id": "r1"},
    given.Snooze: {"id": "r1", "when": SOON},
    given.Preview: {"when": SOON},
}


@pytest.mark.parametrize("model", MINIMAL)
def test_what_is_required_is_enough_and_null_counts_as_left_out(
    model: type[given.Arguments],
) -> None:
    least = given.read(model, MINIMAL[model])
    nulls = {name: None for name in model.model_fields if name not in MINIMAL[model]}
    assert given.read(model, {**MINIMAL[model], **nulls}) == least


@pytest.mark.parametrize(
    ("model", "change", "field", "said"),
    [
        (given.Create, {"prompt": 3}, "prompt", "valid string"),
        (given.Create, {"prompt": ["p"]}, "prompt", "valid string"),
        (given.Create, {"when": "in an hour"}, "when", "valid dictionary"),
        (given.Create, {"when": "{half"}, "when", "valid dictionary"),
        (given.Create, {"when": [SOON]}, "when", "valid dictionary"),
        (given.Create, {"when": None}, "when", "valid dictionary"),
        (given.Create, {"title": 3}, "title", "valid string"),
        (given.Create, {"max_occurrences": "5"}, "max_occurrences", "valid integer"),
        (given.Create, {"max_occurrences": True}, "max_occurrences", "valid integer"),
        (given.Create, {"max_occurrences": 0}, "max_occurrences", "greater than or equal to 1"),
        (given.Create, {"expires_after_seconds": 1.5}, "expires_after_seconds", "valid integer"),
        (given.Update, {"revision": "1"}, "revision", "valid integer"),
        (given.Update, {"clear": "title"}, "clear", "valid list"),
        (given.Update, {"clear": ["prompt"]}, "clear.0", "'title', 'until'"),
        (given.List, {"status": "paused"}, "status", "'active', 'ended' or 'all'"),
        (given.List, {"limit": 101}, "limit", "less than or equal to 100"),
        (given.Preview, {"count": 0}, "count", "greater than or equal to 1"),
        (given.One, {"id": 7}, "id", "valid string"),
    ],
)
def test_a_wrong_value_is_named(
    model: type[given.Arguments], change: dict[str, Any], field: str, said: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        given.read(model, {**MINIMAL[model], **change})
    assert refusal.value.field == field
    assert refusal.value.message.startswith(f"{field}: ")
    assert said in refusal.value.message


@pytest.mark.parametrize("name", ["promt", "session_id", "owner_uid", "context", "x" * 9000, "\0"])
def test_an_argument_that_is_none_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(InvalidRequest, match="there are prompt, when, title") as refusal:
        given.read(given.Create, {name: "x"})
    assert len(refusal.value.message) < 300


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InvalidRequest, match="when: field required"):
        given.read(given.Create, {"prompt": "p"})


def test_an_object_that_came_as_json_text_is_taken_for_what_it_says() -> None:
    args = given.read(given.Create, {"prompt": "p", "when": ' {"after_seconds": 60}'})
    assert args.when == SOON


@pytest.mark.parametrize(
    ("when", "wire"),
    [
        (SOON, SOON),
        ({"at": "2026-12-24T18:00:00Z"}, {"at": "2026-12-24T18:00:00Z"}),
        ({"at_local": {"time": "09:00"}}, {"at": {"time": "09:00:00"}}),
        ({"at_local": {"time": "09:00:01"}}, {"at": {"time": "09:00:01"}}),
        ({"at_local": {"time": 9}}, {"at": {"time": 9}}),
        ({"at_local": "tomorrow"}, {"at": "tomorrow"}),
        ({"daily": {"time": "09:00"}}, {"daily": {"time": "09:00"}}),
    ],
)
def test_the_one_member_is_the_selector(when: dict[str, Any], wire: dict[str, Any]) -> None:
    assert given.selector_of(when) == wire


@pytest.mark.parametrize(
    ("when", "found"),
    [
        ({}, "got none"),
        ({"after_seconds": 60, "every_seconds": 300}, "got after_seconds and every_seconds"),
        ({"session_id": "another"}, "got session_id"),
        ({"owner_uid": "*"}, "got owner_uid"),
        ({"idempotency_key": "k"}, "got idempotency_key"),
        ({"x" * 9000: 1}, "got xxx"),
    ],
)
def test_when_takes_one_of_its_members_and_nothing_else(when: dict[str, Any], found: str) -> None:
    with pytest.raises(InvalidSelector) as refusal:
        given.selector_of(when)
    assert found in refusal.value.message
    assert len(refusal.value.message) < 400


def test_a_snooze_takes_no_recurring_rule() -> None:
    with pytest.raises(InvalidSelector, match="one of after_seconds, at, at_local; got daily"):
        given.selector_of({"daily": {}}, once=True)


@pytest.mark.parametrize(
    ("field", "when", "shown"),
    [
        ("at.time_zone", {"at_local": {}}, "when.at_local.time_zone"),
        ("at", {"at": "x"}, "when.at"),
        ("seconds", {"after_seconds": 0}, "when.after_seconds"),
        ("daily.time", {"daily": {}}, "when.daily.time"),
        ("prompt", {"daily": {}}, "prompt"),
        ("at", None, "at"),
        ("at", "text", "at"),
        ("at", {}, "at"),
        (None, {"at": "x"}, None),
    ],
)
def test_a_refused_member_has_the_name_that_the_tool_gives_it(
    field: str | None, when: Any, shown: str | None
) -> None:
    assert given.field_in_schema(field, when) == shown
