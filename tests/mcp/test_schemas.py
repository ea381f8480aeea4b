"""The schemas of the tools: readable, plain enough for every agent, and true."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

from scheduler_daemon.mcp import guidance
from scheduler_daemon.mcp.arguments import selector_of
from scheduler_daemon.mcp.calling import Setup
from scheduler_daemon.mcp.schemas import EXAMPLE_ZONE, ONCE, RECURRING
from scheduler_daemon.mcp.server import listed
from scheduler_daemon.mcp.session import Sources
from scheduler_daemon.mcp.tools import TOOLS
from scheduler_daemon.rules import parse_selector
from tests.mcp import outline

Schema = dict[str, Any]

NOW = dt.datetime(2026, 8, 7, 1, 0, tzinfo=dt.UTC)
NAMES = list(TOOLS)


def tools(zone: str | None = "Asia/Tokyo", *, hooks: bool = False) -> dict[str, Any]:
    setup = Setup(Sources(argument=hooks), lambda: zone)
    return {tool.name: tool for tool in listed(setup)}


def subschemas(schema: Schema) -> Iterator[Schema]:
    yield schema
    for each in schema.get("properties", {}).values():
        yield from subschemas(each)
    if "items" in schema:
        yield from subschemas(schema["items"])


def test_the_page_of_the_tools_is_as_the_code_has_it() -> None:
    """`python -m tests.mcp.outline` writes it anew; look at what has changed."""
    assert outline.PAGE.read_text(encoding="utf-8") == outline.outline()


@pytest.mark.parametrize("name", NAMES)
def test_no_schema_has_references_unions_null_or_a_missing_type(name: str) -> None:
    tool = tools(hooks=True)[name]
    plain = {"type", "description", "properties", "required", "items", "additionalProperties"}
    bounds = {"minimum", "maximum", "enum", "minProperties", "maxProperties"}
    for schema in (tool.input_schema, tool.output_schema):
        assert schema["type"] == "object"
        for each in subschemas(schema):
            assert set(each) <= plain | bounds
            assert each["type"] in {"object", "array", "string", "integer", "boolean"}
            assert set(each.get("required", ())) <= set(each.get("properties", ()))
    for each in subschemas(tool.input_schema):
        assert each["type"] != "object" or each["additionalProperties"] is False


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_is_described_and_those_of_a_model_with_an_example(name: str) -> None:
    for member, schema in tools()[name].input_schema["properties"].items():
        told = schema["description"]
        assert "Example: " in told or member in ("when", "cursor"), member
    for member, schema in {**ONCE, **RECURRING}.items():
        assert re.search(rf'\{{"{member}": .*\}}', schema["description"]), member


@pytest.mark.parametrize("member", [*ONCE, *RECURRING])
def test_the_example_of_each_way_to_say_when_is_taken_by_the_rules(member: str) -> None:
    told = {**ONCE, **RECURRING}[member]["description"]
    found = re.search(r"\{.*\}", told)
    assert found is not None
    _, target = parse_selector(selector_of(json.loads(found[0])), NOW)
    assert target > NOW


def test_examples_have_the_zone_that_is_to_be_assumed() -> None:
    assert EXAMPLE_ZONE not in json.dumps(tools("Asia/Tokyo")["reminder_create"].input_schema)
    assert EXAMPLE_ZONE in json.dumps(tools(None)["reminder_create"].input_schema)


@pytest.mark.parametrize("name", NAMES)
def test_the_tools_that_take_a_time_say_which_zone_to_assume_and_no_other_does(name: str) -> None:
    takes_one = {"when", "until"} & set(tools()[name].input_schema["properties"])
    assert ("meant in Asia/Tokyo" in tools()[name].description) == bool(takes_one)
    assert ("ask before you take" in tools(None)[name].description) == bool(takes_one)
    assert (name in guidance.TIMED) == bool(takes_one)


def test_everyone_is_told_the_zone_and_where_the_present_time_is() -> None:
    assert "meant in Asia/Tokyo" in guidance.instructions("Asia/Tokyo")
    assert "ask before you take" in guidance.instructions(None)
    assert "`now`" in guidance.instructions(None)


@pytest.mark.parametrize("name", NAMES)
def test_the_session_is_in_the_schema_and_required_only_where_a_hook_puts_it_there(
    name: str,
) -> None:
    without, with_hooks = tools()[name].input_schema, tools(hooks=True)[name].input_schema
    assert not {"session", "directory"} & set(without["properties"])
    assert {"session", "directory"} <= set(with_hooks["properties"])
    assert set(with_hooks["required"]) == {"session", *without.get("required", ())}


def test_hints_say_what_a_tool_does() -> None:
    hints = {name: tool.annotations for name, tool in tools().items()}
    assert {name for name, each in hints.items() if each.read_only_hint} == {
        "reminder_list",
        "reminder_preview",
    }
    assert {name for name, each in hints.items() if each.destructive_hint} == {
        "reminder_update",
        "reminder_delete",
    }
    assert {name for name, each in hints.items() if not each.idempotent_hint} == {
        "reminder_create",
        "reminder_snooze",
    }
    assert not any(each.open_world_hint for each in hints.values())
