"""The params of every method as strict models: what the daemon accepts, and nothing else.

A selector's value and the words are taken as they come; rules/ and words.py check them, since
they have codes of their own. For the daemon only: pydantic is too heavy for the command line.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from scheduler_daemon import words
from scheduler_daemon.errors import InvalidRequest

MAX_UID = 2**32 - 2

Name = Annotated[str, AfterValidator(words.name)]
SessionName = Annotated[str, AfterValidator(words.session_name)]
Context = Annotated[dict[str, str], AfterValidator(words.context)]
Uid = Annotated[int, Field(ge=0, le=MAX_UID)]


def _any_owner(value: Any) -> int | Literal["*"]:
    if value == "*" or (type(value) is int and 0 <= value <= MAX_UID):
        return value  # type: ignore[no-any-return]
    raise ValueError('must be a uid or "*"')


def _sessions(value: Any) -> list[str] | Literal["*"]:
    if value == "*":
        return "*"
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError('must be a list of Session names, or "*" for all of this user')
    return [words.session_name(each) for each in value]


AnyOwner = Annotated[Any, AfterValidator(_any_owner)]
Sessions = Annotated[Any, AfterValidator(_sessions)]
PageSize = Annotated[int, Field(ge=1, le=1000)]

P = TypeVar("P", bound="Params")


class Params(BaseModel):
    """Unknown members are refused; an integer is an integer and a string a string."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


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
        return {
            k: getattr(self, k) for k in WithSelector.model_fields if k in self.model_fields_set
        }


class Hello(Params):
    protocol: int = 1
    client: Name | None = None


class Create(WithSelector):
    session_id: SessionName
    prompt: Any = None
    title: Any = None
    context: Context = Field(default_factory=dict)
    idempotency_key: Name = ""
    owner_uid: Uid = -1


class Get(Params):
    id: Name
    session_id: SessionName = ""
    owner_uid: AnyOwner = -1


class ListReminders(Params):
    session_id: SessionName = ""
    status: Literal["active", "ended", "all"] = "active"
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
    owner_uid: Uid = -1


class Delete(Params):
    id: Name
    session_id: SessionName = ""
    owner_uid: Uid = -1


class Preview(WithSelector):
    count: Annotated[int, Field(ge=1, le=100)] = 5


class History(Params):
    id: Name = ""
    session_id: SessionName = ""
    limit: PageSize = 100
    cursor: str = ""
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
    try:
        return model.model_validate(params)
    except ValidationError as error:
        raise _refusal(model, error) from None


def _refusal(model: type[P], error: ValidationError) -> InvalidRequest:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part)[:60] for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return _unknown(model, field)
    if first["type"] == "missing":
        return InvalidRequest(f"{field} is missing", field=field)
    message = _PLAIN.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    message = message.replace("Input should be", "must be")
    return InvalidRequest(f"{field} {message}", field=field)


def _unknown(model: type[P], field: str) -> InvalidRequest:
    accepted = list(model.model_fields)
    near = difflib.get_close_matches(field, accepted, 1)
    hint = f"; did you mean {near[0]}?" if near else "."
    known = ", ".join(accepted) or "none"
    return InvalidRequest(f"unknown member {field!a}{hint} Accepted: {known}", field=field)


_PLAIN = {
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "dict_type": "must be an object of strings",
}
"""JSON's words where pydantic has Python's."""
