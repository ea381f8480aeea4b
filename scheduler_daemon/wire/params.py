"""The params of every method as strict models: what the daemon accepts, and nothing else.

A selector's value and the words are taken as they come; rules/ and words.py check them, since
they have codes of their own. For the daemon only: pydantic is too heavy for the command line.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from scheduler_daemon import words
from scheduler_daemon.errors import InvalidRequest

MAX_UID = 2**32 - 2

MOST_OCCURRENCES = 1_000_000_000
MOST_SECONDS = 10_000_000_000
"""The longest age, 300 years: as good as none."""

MOST_NAMES = 2000
"""Sessions that a host may name; whoever has more takes all."""

Name = Annotated[str, AfterValidator(words.name)]
SessionName = Annotated[str, AfterValidator(words.session_name)]
Context = Annotated[dict[str, str], AfterValidator(words.context)]
Uid = Annotated[int, Field(ge=0, le=MAX_UID)]


ANY_OWNER = 'a uid, or "*" for every owner'
SESSIONS = f'a list of at most {MOST_NAMES} Session names, or "*" for all Sessions of this user'


def _any_owner(value: Any) -> int | Literal["*"]:
    if value == "*" or (type(value) is int and 0 <= value <= MAX_UID):
        return value  # type: ignore[no-any-return]
    raise ValueError(f"must be {ANY_OWNER}")


def _sessions(value: Any) -> list[str] | Literal["*"]:
    if value == "*":
        return "*"
    is_list = isinstance(value, list) and len(value) <= MOST_NAMES
    if not is_list or not all(isinstance(each, str) for each in value):
        raise ValueError(f"must be {SESSIONS}")
    return [words.session_name(each) for each in value]


AnyOwner = Annotated[Any, AfterValidator(_any_owner), Field(description=ANY_OWNER)]
Sessions = Annotated[Any, AfterValidator(_sessions), Field(description=SESSIONS)]
PageSize = Annotated[int, Field(ge=1, le=1000)]
Occurrences = Annotated[int, Field(ge=1, le=MOST_OCCURRENCES)]
Age = Annotated[int, Field(ge=1, le=MOST_SECONDS)]
MaybeOccurrences = Annotated[
    Occurrences | None,
    Field(description=f"an integer from 1 to {MOST_OCCURRENCES}, or null for no such end"),
]
MaybeAge = Annotated[
    Age | None,
    Field(description=f"an integer from 1 to {MOST_SECONDS}, or null to send whatever is late"),
]

P = TypeVar("P", bound="Params")


class Params(BaseModel):
    """An integer is an integer and a string a string; `parse` refuses unknown members."""

    # Built at the first use: twenty of them are a tenth of the time that a start takes.
    model_config = ConfigDict(strict=True, frozen=True, defer_build=True)


class WithSelector(Params):
    """The six selectors stand in `params` itself; which were given decides, not their values."""

    after_seconds: Any = None
    at: Any = None
    every_seconds: Any = None
    daily: Any = None
    weekly: Any = None
    cron: Any = None

    def selectors(self) -> dict[str, Any]:
        """Those that were given, also with null."""
        given = self.model_fields_set
        return {name: getattr(self, name) for name in _SELECTORS if name in given}


_SELECTORS = tuple(WithSelector.model_fields)


class Hello(Params):
    protocol: int = 1
    client: Name = ""


class Create(WithSelector):
    session_id: SessionName
    prompt: Any = None
    title: Any = None
    context: Context = Field(default_factory=dict)
    until: Any = None
    max_occurrences: Occurrences = MOST_OCCURRENCES
    expires_after_seconds: Age = MOST_SECONDS
    idempotency_key: Name = ""
    owner_uid: Uid = -1


class Get(Params):
    id: Name
    session_id: SessionName = ""
    owner_uid: AnyOwner = -1


class ListReminders(Params):
    session_id: SessionName = ""
    status: Literal["active", "ended", "all"] = "active"
    # These two only count where they were given.
    state: Literal["scheduled", "overdue", "paused", "ended"] = "scheduled"
    kind: Literal["after", "at", "every", "daily", "weekly", "cron"] = "after"
    due_before: Any = None
    text: str = ""
    order: Literal["created", "target"] = "created"
    limit: PageSize = 100
    cursor: str = ""
    owner_uid: AnyOwner = -1


class Update(WithSelector):
    id: Name
    revision: Annotated[int, Field(ge=1)]
    session_id: SessionName = ""
    prompt: Any = None
    title: Any = None
    context: Context = Field(default_factory=dict)
    until: Any = None
    max_occurrences: MaybeOccurrences = None
    expires_after_seconds: MaybeAge = None
    owner_uid: Uid = -1


class One(Params):
    """One reminder, which the caller changes as a whole."""

    id: Name
    session_id: SessionName = ""
    owner_uid: Uid = -1


class Snooze(One):
    seconds: Any = None
    at: Any = None
    idempotency_key: Name = ""


class RunNow(One):
    idempotency_key: Name = ""


class Preview(WithSelector):
    count: Annotated[int, Field(ge=1, le=100)] = 5
    until: Any = None
    max_occurrences: Occurrences = MOST_OCCURRENCES


class History(Params):
    id: Name = ""
    session_id: SessionName = ""
    limit: PageSize = 100
    cursor: str = ""
    owner_uid: AnyOwner = -1


class ListSessions(Params):
    limit: PageSize = 100
    cursor: str = ""
    owner_uid: AnyOwner = -1


class Forget(Params):
    session_id: SessionName
    owner_uid: Uid = -1


class Transfer(Params):
    from_: Annotated[SessionName, Field(alias="from")]
    to: SessionName
    owner_uid: Uid = -1


class Watch(Params):
    session_id: SessionName = ""
    owner_uid: AnyOwner = -1


class Nothing(Params):
    """A method without params."""


class Attach(Params):
    name: Name
    sessions: Sessions
    max_in_flight: Annotated[int, Field(ge=1, le=1000)] = 16


class Detach(Params):
    sessions: Sessions


class Ready(Params):
    session_id: SessionName


def parse(model: type[P], params: Mapping[str, object]) -> P:
    """`params` as `model`. Raises invalid_request with the member at fault."""
    for name in params:
        # Before what is missing: a misspelt name explains it.
        if name not in _accepted(model):
            raise _unknown(model, name)
    try:
        return model.model_validate(params)
    except ValidationError as error:
        raise _refusal(model, error) from None


def _refusal(model: type[P], error: ValidationError) -> InvalidRequest:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name, *inside = (str(part)[:60] for part in first["loc"])
    field = ".".join((name, *inside))
    accepted = _accepted(model)[name] if not inside else "a string"  # only context has members
    if first["type"] == "missing":
        return InvalidRequest(f"{field} is missing; it must be {accepted}", field=field)
    if first["type"] == "value_error":
        return InvalidRequest(f"{field} {first['msg'].removeprefix('Value error, ')}", field=field)
    return InvalidRequest(f"{field} must be {accepted}", field=field)


def _unknown(model: type[P], name: str) -> InvalidRequest:
    accepted = list(_accepted(model))
    field = name[:60]
    near = _nearest(field, accepted)
    hint = f"; did you mean {near}?" if near else "."
    known = ", ".join(accepted) or "none"
    return InvalidRequest(f"unknown member {field!a}{hint} Accepted: {known}", field=field)


def _nearest(name: str, accepted: list[str]) -> str | None:
    """The member that was probably meant: `after` for `after_seconds`, `sesion_id`."""
    longer = [each for each in accepted if len(name) > 2 and each.startswith(name)]
    close = longer or difflib.get_close_matches(name, accepted, 1, cutoff=0.75)
    return close[0] if close else None


@cache
def _accepted(model: type[Params]) -> dict[str, str]:
    """What each member may be, in JSON's words, to follow `must be`."""
    return {
        name: _in_words(s) for name, s in model.model_json_schema().get("properties", {}).items()
    }


def _in_words(schema: Mapping[str, Any]) -> str:
    if "description" in schema:
        return str(schema["description"])
    if "enum" in schema:
        return "one of " + ", ".join(map(json.dumps, schema["enum"]))
    if schema.get("type") == "object":
        return "an object of strings"
    if schema.get("type") != "integer":
        return "a string"
    if "maximum" in schema:
        return f"an integer from {schema['minimum']} to {schema['maximum']}"
    return f"an integer of at least {schema['minimum']}" if "minimum" in schema else "an integer"
