"""docs/protocol.md says what the code does: methods, members, codes, numbers, transcripts."""

from __future__ import annotations

import re
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from scheduler_daemon.errors import ERRORS
from scheduler_daemon.server.methods import METHODS
from scheduler_daemon.settings import MIB, Settings
from scheduler_daemon.wire import calls, frames, params, shapes
from tests.protocol_transcripts import SCENES, record
from tests.support import protocol_page as page

TEXT = page.PAGE.read_text(encoding="utf-8")
SHAPES: dict[str, Any] = {
    name: value
    for module in (shapes, calls)
    for name, value in vars(module).items()
    if is_typeddict(value)
}
TABLES = dict(page.shape_tables(TEXT))
METHOD_TEXT = page.section(TEXT, "## Methods")
MODELS = {name: method.params for name, method in METHODS.items()} | {
    "session.ready": params.Ready  # a notification: in no table of requests
}
FROM_THE_DAEMON = ("session.followup", "reminder.changed", "watch.lagged")
SELECTOR_ROW = "a [selector](#selector)"
WITHOUT_DEFAULT = {"state", "kind", "max_occurrences", "expires_after_seconds"}
"""Left out they ask for nothing: what stands for them in the code is no default of the wire."""
IN_WORDS = {
    "DispatchSummary",  # "dispatch without title and prompt"
    *("Watching", "Lagged"),  # `{}`
}


def members(shape: Any) -> dict[str, bool]:
    """The members of a TypedDict, and whether each is always there.

    `__required_keys__` alone does not see `NotRequired` under `from __future__ import annotations`.
    """
    hints = get_type_hints(shape, include_extras=True)
    return {
        name: name in shape.__required_keys__ and get_origin(hint) is not NotRequired
        for name, hint in hints.items()
    }


def shown_members(table: list[list[str]]) -> dict[str, bool]:
    """The members that a table names; `?` marks those that may be missing."""
    shown: dict[str, bool] = {}
    for first, *_ in table:
        if first.startswith(SELECTOR_ROW):
            shown |= members(shapes.Selector)
        else:
            (name,) = page.code_words(first)
            shown[name.rstrip("?")] = not name.endswith("?")
    return shown


def closed_values(hint: Any) -> set[str]:
    """The strings of every Literal in a type."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    return {value for part in get_args(hint) for value in closed_values(part)}


def test_every_shape_of_the_wire_has_one_table_and_every_table_a_shape() -> None:
    named = [name for name, _ in page.shape_tables(TEXT)]
    assert sorted(named) == sorted(SHAPES.keys() - IN_WORDS)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_names_exactly_the_members_of_its_shape(name: str) -> None:
    assert shown_members(TABLES[name]) == members(SHAPES[name])


@pytest.mark.parametrize("name", TABLES)
def test_a_member_with_a_closed_set_of_values_shows_them_all(name: str) -> None:
    hints = get_type_hints(SHAPES[name])
    for first, *cells in TABLES[name]:
        hint = hints.get(first.strip("`?"))
        if hint is not None and hint is not shapes.Why:
            assert closed_values(hint) <= {
                word.strip('"') for word in page.code_words(" ".join(cells))
            }


def test_every_reason_to_wait_is_explained_and_no_other() -> None:
    table = page.section(TEXT, "### waiting_for").split("| `why` | what it means |")[1]
    words = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert words == list(get_args(shapes.Why))


def test_every_reason_to_end_is_explained_and_no_other() -> None:
    table = page.section(TEXT, "### reminder").split("| `ended_reason` | what it means |")[1]
    words = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert words == list(get_args(shapes.EndedReason))


def test_the_table_of_codes_is_the_closed_set_in_its_order() -> None:
    table = page.first_table(page.section(TEXT, "## Errors"))
    assert [first.strip("`") for first, *_ in table] == list(ERRORS)


def test_the_table_of_numbers_has_every_json_rpc_code() -> None:
    numbers = re.findall(r"^\| (-\d+) \|", page.section(TEXT, "## Errors"), re.MULTILINE)
    assert [int(number) for number in numbers] == [
        frames.PARSE_ERROR,
        frames.INVALID_REQUEST,
        frames.METHOD_NOT_FOUND,
        frames.INVALID_PARAMS,
        frames.REFUSED,
    ]


def test_a_method_names_only_errors_that_exist() -> None:
    named = re.findall(r"^Errors: (.+?)\.$", TEXT, re.MULTILINE | re.DOTALL)
    words = {word for line in named for word in page.code_words(line)}
    assert words - {"protocols"} <= {*ERRORS, "reminder.create"}


def test_every_link_inside_the_page_leads_to_a_heading() -> None:
    titles = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) <= anchors


def params_table(method: str) -> list[list[str]]:
    """The table of a method's params; empty for a method that has none."""
    tables = page.shape_tables(page.section(METHOD_TEXT, f"### {method}"))
    return next((table for name, table in tables if name.endswith("Params")), [])


def test_the_page_has_a_row_and_a_section_for_every_method_and_no_other() -> None:
    table = page.first_table(METHOD_TEXT)
    listed = [page.code_words(first)[0] for first, *_ in table]
    assert listed == [*MODELS, *FROM_THE_DAEMON]
    assert page.headings(METHOD_TEXT, "###") == listed


@pytest.mark.parametrize("method", [*MODELS, *FROM_THE_DAEMON])
def test_every_method_has_a_transcript_of_itself(method: str) -> None:
    """Under its own heading, and the method is really called in it."""
    body = page.transcripts(page.section(METHOD_TEXT, f"### {method}"))[method]
    assert f'"method": "{method}"' in body


@pytest.mark.parametrize("method", MODELS)
def test_a_method_takes_exactly_the_params_of_its_table(method: str) -> None:
    shown = shown_members(params_table(method))
    fields = {each.alias or name: each for name, each in MODELS[method].model_fields.items()}
    assert shown.keys() == fields.keys()
    needed = {name for name, field in fields.items() if field.is_required()}
    # A missing prompt has a code of its own, so the model lets it pass.
    assert {name for name, always in shown.items() if always} - {"prompt"} == needed - {"prompt"}


@pytest.mark.parametrize("method", MODELS)
def test_ranges_and_defaults_of_params_are_those_of_the_code(method: str) -> None:
    schema = MODELS[method].model_json_schema().get("properties", {})
    for first, *cells in params_table(method):
        name, text = first.strip("`?"), " ".join(cells)
        field = schema.get(name, {})
        if cells[0].startswith("uid"):
            continue
        low, high, default = (field.get(key) for key in ("minimum", "maximum", "default"))
        if high is not None:
            assert f"{low} to {high}" in cells[0]
        elif low is not None:
            assert f"at least {low}" in cells[0]
        if name in WITHOUT_DEFAULT:
            assert "default" not in text
        elif default:
            assert f"{default} by default" in text or f"`{default}` (the default" in text


def test_the_defaults_of_settings_that_the_page_names_are_those_of_the_code() -> None:
    named = re.findall(r"`([a-z_]+)`,? \(([\d,]+)( MiB)?", TEXT)
    checked = set()
    for name, number, unit in named:
        if name in Settings.model_fields:
            value = int(number.replace(",", "")) * (MIB if unit else 1)
            assert value == Settings.model_fields[name].default, name
            checked.add(name)
    assert len(checked) >= 8


def test_every_transcript_has_a_scene_and_every_scene_its_place() -> None:
    assert page.transcripts(TEXT).keys() == SCENES.keys()


@pytest.mark.parametrize("name", SCENES)
async def test_a_new_recording_gives_the_transcript_on_the_page(name: str) -> None:
    """When it does not: `python -m tests.protocol_transcripts`, and look at the difference."""
    assert await record(name) == page.transcripts(TEXT)[name]
