"""What each tool takes, as strict models; what is inside `when` is for the daemon to judge."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from scheduler_daemon.errors import InvalidRequest, InvalidSelector
from scheduler_daemon.mcp.schemas import ONCE, RECURRING, when

_ALL = {**ONCE, **RECURRING}


def _object(value: object) -> object:
    """The value, or what it says as JSON: some models write an object as a string."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass
    return value


When = Annotated[dict[str, Any], BeforeValidator(_object), WithJsonSchema(when(_ALL))]
WhenOnce = Annotated[dict[str, Any], BeforeValidator(_object), WithJsonSchema(when(ONCE))]

Id = Annotated[str, Field(description='Which reminder, as results show it. Example: "r7"')]
Words = Annotated[
    str,
    Field(
        description="The words that come back to you, so that they make sense days later: what to "
        'do, for whom, where things are. Example: "Check whether build 4711 has finished and tell '
        'Ada the result." At most 32,768 characters'
    ),
]
Title = Annotated[
    str,
    Field(description='A short name for lists, at most 120 characters. Example: "Build 4711"'),
]
Until = Annotated[
    str,
    Field(
        description="Of a recurring reminder: it ends with this instant, which has its offset from "
        'UTC. Example: "2026-12-31T18:00:00+01:00"'
    ),
]
Most = Annotated[
    int,
    Field(ge=1, description="Of a recurring reminder: it ends after so many times. Example: 5"),
]
Age = Annotated[
    int,
    Field(
        ge=1,
        description="It is not sent any more when it is later than so many seconds. Leave it out "
        "where it is of use late too. Example: 1800",
    ),
]


class Arguments(BaseModel):
    """None counts as left out: some models write null for what they do not want."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Create(Arguments):
    prompt: Words
    when: When
    title: Title | None = None
    until: Until | None = None
    max_occurrences: Most | None = None
    expires_after_seconds: Age | None = None


class List(Arguments):
    id: Annotated[
        str | None,
        Field(description='Only this one, with its whole prompt. Example: "r7"'),
    ] = None
    status: Annotated[
        Literal["active", "ended", "all"] | None,
        Field(description='Which ones: active (if left out), ended or all. Example: "all"'),
    ] = None
    text: Annotated[
        str | None,
        Field(description='Only those with this in title or prompt. Example: "build"'),
    ] = None
    order: Annotated[
        Literal["created", "target"] | None,
        Field(
            description='In the order made (if left out), or by when they come. Example: "target"'
        ),
    ] = None
    limit: Annotated[
        int | None,
        Field(ge=1, le=100, description="At most so many, 1 to 100; 20 if left out. Example: 5"),
    ] = None
    cursor: Annotated[
        str | None,
        Field(description="`next_cursor` of the result before, for what comes after it"),
    ] = None


class Update(Arguments):
    id: Id
    revision: Annotated[
        int,
        Field(
            ge=1,
            description="The `revision` that the last result showed for it, so that no newer "
            "change is overwritten. Example: 1",
        ),
    ]
    prompt: Words | None = None
    when: When | None = None
    title: Title | None = None
    until: Until | None = None
    max_occurrences: Most | None = None
    expires_after_seconds: Age | None = None
    clear: Annotated[
        list[Literal["title", "until", "max_occurrences", "expires_after_seconds"]] | None,
        Field(description='What to take away from it. Example: ["until"]'),
    ] = None


class One(Arguments):
    id: Id


class Snooze(Arguments):
    id: Id
    when: WhenOnce


class Preview(Arguments):
    when: When
    count: Annotated[
        int | None,
        Field(ge=1, le=100, description="How many to show, 1 to 100; 5 if left out. Example: 3"),
    ] = None
    until: Until | None = None
    max_occurrences: Most | None = None


A = TypeVar("A", bound=Arguments)


def read(model: type[A], arguments: Mapping[str, object]) -> A:
    """`arguments` as `model`. Raises InvalidRequest, naming the member at fault."""
    known = ", ".join(model.model_fields)
    for name in arguments:
        if name not in model.model_fields:
            shown = name[:60]
            raise InvalidRequest(f"there is no argument {shown!a}; there are {known}", field=shown)
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part)[:60] for part in first["loc"])
        message = f"{field}: {first['msg'][0].lower()}{first['msg'][1:]}"
        raise InvalidRequest(message, field=field) from None


def selector_of(given: Mapping[str, Any], *, once: bool = False) -> dict[str, Any]:
    """The one member of `when` as the selector of the wire. Raises InvalidSelector."""
    members = ONCE if once else _ALL
    if len(given) != 1 or not set(given) <= set(members):
        found = " and ".join(name[:60] for name in given) or "none"
        raise InvalidSelector(
            f"when takes exactly one of {', '.join(members)}; got {found:.200}", field="when"
        )
    ((name, value),) = given.items()
    return {"at": _with_seconds(value)} if name == "at_local" else {name: value}


def _with_seconds(value: Any) -> Any:
    """A local time as `at` takes it; models write 09:00 as in the other members."""
    if isinstance(value, dict) and isinstance(time := value.get("time"), str):
        return {**value, "time": f"{time}:00" if re.fullmatch("[0-9]{2}:[0-9]{2}", time) else time}
    return value


def field_in_schema(field: str | None, given: object) -> str | None:
    """The member at fault by the tool's own name, where the daemon names it by that of the wire."""
    if field is None or not isinstance(given, Mapping) or len(given) != 1:
        return field
    first, dot, rest = field.partition(".")
    if first in _ALL or first == "seconds":
        return f"when.{next(iter(given))}{dot}{rest}"
    return field
