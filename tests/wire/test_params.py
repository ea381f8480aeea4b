"""The params of every method: strict, and refused in words that tell how to correct them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_daemon.errors import InvalidRequest
from scheduler_daemon.wire import params

CREATE: dict[str, Any] = {"session_id": "s", "prompt": "p", "after_seconds": 60}
MODELS = [
    params.Hello,
    params.Create,
    params.Get,
    params.ListReminders,
    params.Update,
    params.One,
    params.Snooze,
    params.RunNow,
    params.Preview,
    params.History,
    params.ListSessions,
    params.Forget,
    params.Transfer,
    params.Watch,
    params.Nothing,
    params.Attach,
    params.Detach,
    params.Ready,
]


def refusal(model: type[params.Params], **given: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        params.parse(model, given)
    return caught.value


def test_what_is_right_is_taken_with_its_defaults() -> None:
    asked = params.parse(params.ListReminders, {"session_id": "s", "limit": 1000})
    assert (asked.session_id, asked.limit) == ("s", 1000)
    assert (asked.status, asked.order, asked.cursor) == ("active", "created", "")
    assert params.parse(params.Nothing, {}) == params.Nothing()


def test_selectors_are_those_that_were_given_also_with_null() -> None:
    asked = params.parse(params.Create, CREATE | {"cron": None})
    assert asked.selectors() == {"after_seconds": 60, "cron": None}
    assert params.parse(params.Preview, {}).selectors() == {}


SESSIONS = 'a list of at most 2000 Session names, or "*" for all Sessions of this user'
OWNERS = 'a uid, or "*" for every owner'
PAGE = "an integer from 1 to 1000"
STATE = 'one of "scheduled", "overdue", "paused", "ended"'
KIND = 'one of "after", "at", "every", "daily", "weekly", "cron"'
NO_END = "an integer from 1 to 1000000000, or null for no such end"
NO_AGE = "an integer from 1 to 10000000000, or null to send whatever is late"
CHANGE = {"id": "r1", "revision": 1}
STATUS = 'one of "active", "ended", "all"'
LIST = params.ListReminders


@pytest.mark.parametrize(
    ("model", "given", "field", "message"),
    [
        (params.Get, {}, "id", "is missing; it must be a string"),
        (
            params.Update,
            {"id": "r1"},
            "revision",
            "is missing; it must be an integer of at least 1",
        ),
        (params.Attach, {"name": "h"}, "sessions", f"is missing; it must be {SESSIONS}"),
        (params.Get, {"id": 1}, "id", "must be a string"),
        (params.Get, {"id": None}, "id", "must be a string"),
        (params.Hello, {"protocol": "1"}, "protocol", "must be an integer"),
        (params.Hello, {"client": None}, "client", "must be a string"),
        (LIST, {"limit": 0}, "limit", f"must be {PAGE}"),
        (LIST, {"limit": 1001}, "limit", f"must be {PAGE}"),
        (LIST, {"limit": "5"}, "limit", f"must be {PAGE}"),
        (LIST, {"limit": 5.0}, "limit", f"must be {PAGE}"),
        (LIST, {"limit": True}, "limit", f"must be {PAGE}"),
        (LIST, {"status": 1}, "status", f"must be {STATUS}"),
        (LIST, {"status": "overdue"}, "status", f"must be {STATUS}"),
        (LIST, {"state": "active"}, "state", f"must be {STATE}"),
        (LIST, {"kind": "hourly"}, "kind", f"must be {KIND}"),
        (LIST, {"text": None}, "text", "must be a string"),
        (LIST, {"owner_uid": "me"}, "owner_uid", f"must be {OWNERS}"),
        (LIST, {"owner_uid": True}, "owner_uid", f"must be {OWNERS}"),
        (LIST, {"owner_uid": 2**32 - 1}, "owner_uid", f"must be {OWNERS}"),
        (params.Preview, {"count": []}, "count", "must be an integer from 1 to 100"),
        (
            params.One,
            {"id": "r1", "owner_uid": "*"},
            "owner_uid",
            "must be an integer from 0 to 4294967294",
        ),
        (
            params.Create,
            {"max_occurrences": 0},
            "max_occurrences",
            "must be an integer from 1 to 1000000000",
        ),
        (
            params.Create,
            {"expires_after_seconds": None},
            "expires_after_seconds",
            "must be an integer from 1 to 10000000000",
        ),
        (params.Update, CHANGE | {"max_occurrences": 0}, "max_occurrences", f"must be {NO_END}"),
        (
            params.Update,
            CHANGE | {"expires_after_seconds": 1.5},
            "expires_after_seconds",
            f"must be {NO_AGE}",
        ),
        (params.Transfer, {"to": "t"}, "from", "is missing; it must be a string"),
        (
            params.Transfer,
            {"from": "*", "to": "t"},
            "from",
            "must name one Session, `*` names none",
        ),
        (params.Create, {"context": []}, "context", "must be an object of strings"),
        (params.Create, {"context": {"a": 1}}, "context.a", "must be a string"),
        (
            params.Create,
            {"context": {"a": "x" * 4096}},
            "context",
            "has 4097 bytes, at most 4096 are kept",
        ),
        (
            params.Create,
            {"session_id": ""},
            "session_id",
            "must have 1 to 200 characters, no control characters",
        ),
        (
            params.Create,
            {"session_id": "*"},
            "session_id",
            "must name one Session, `*` names none",
        ),
        (params.Detach, {"sessions": "s"}, "sessions", f"must be {SESSIONS}"),
        (params.Detach, {"sessions": [1]}, "sessions", f"must be {SESSIONS}"),
        (params.Detach, {"sessions": ["*"]}, "sessions", "must name one Session, `*` names none"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_be_accepted(
    model: type[params.Params], given: dict[str, Any], field: str, message: str
) -> None:
    error = refusal(model, **(CREATE if model is params.Create else {}) | given)
    assert error.message == f"{field} {message}"
    assert error.field == field


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sesion_id", "session_id"),
        ("sessionid", "session_id"),
        ("session", "session_id"),
        ("promt", "prompt"),
        ("Title", "title"),
        ("after", "after_seconds"),
        ("every", "every_seconds"),
        ("idempotencyKey", "idempotency_key"),
        ("owner", "owner_uid"),
    ],
)
def test_an_unknown_member_is_refused_with_the_one_that_was_meant(name: str, meant: str) -> None:
    """Also where the one that was meant is missing for it."""
    given = {key: value for key, value in CREATE.items() if key != meant}
    error = refusal(params.Create, **given, **{name: "x"})
    assert error.message.startswith(f"unknown member '{name}'; did you mean {meant}? Accepted: ")
    assert error.field == name


@pytest.mark.parametrize("name", ["text", "seconds", "a", "", "message"])
def test_one_that_is_like_none_is_refused_with_all_that_there_are(name: str) -> None:
    error = refusal(params.Create, **CREATE, **{name: 1})
    assert error.message == (
        f"unknown member '{name}'. Accepted: after_seconds, at, every_seconds, daily, weekly, "
        "cron, session_id, prompt, title, context, until, max_occurrences, expires_after_seconds, "
        "idempotency_key, owner_uid"
    )


def test_a_member_has_the_name_of_the_wire_also_where_python_keeps_that_word() -> None:
    asked = params.parse(params.Transfer, {"from": "s", "to": "t"})
    assert (asked.from_, asked.to) == ("s", "t")
    error = refusal(params.Transfer, from_="s", to="t")
    assert error.message == (
        "unknown member 'from_'; did you mean from? Accepted: from, to, owner_uid"
    )


@pytest.mark.parametrize("name", ["until", "max_occurrences", "expires_after_seconds"])
def test_an_update_tells_null_from_nothing(name: str) -> None:
    assert name in params.parse(params.Update, CHANGE | {name: None}).model_fields_set
    assert name not in params.parse(params.Update, CHANGE).model_fields_set


def test_a_method_without_params_says_so() -> None:
    assert refusal(params.Nothing, x=1).message == "unknown member 'x'. Accepted: none"


@pytest.mark.parametrize("name", ["\ud800", "x" * 100_000, "\n\x1b[2J", "'", "ä\u2028"])
def test_a_strange_name_comes_back_short_and_in_one_line(name: str) -> None:
    error = refusal(params.Get, id="r1", **{name: 1})
    assert error.message.isascii()
    assert error.message.isprintable()
    assert len(error.message) < 500
    assert error.field == name[:60]


def test_a_strange_name_inside_context_comes_back_short() -> None:
    error = refusal(params.Create, **CREATE, context={"x" * 100_000: 1})
    assert len(error.message) < 100


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(MODELS), st.data())
def test_anything_is_taken_or_refused_as_an_invalid_request(
    model: type[params.Params], data: st.DataObject
) -> None:
    names = st.sampled_from([*model.model_json_schema()["properties"], "x"]) | st.text()
    given = data.draw(st.dictionaries(names, VALUES, max_size=4))
    with suppress(InvalidRequest):
        params.parse(model, given)
