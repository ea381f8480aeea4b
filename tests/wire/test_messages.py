"""Lines to JSON-RPC messages, messages to lines, and refusals both ways."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_daemon.errors import (
    ERRORS,
    InternalError,
    InvalidRule,
    NotFuture,
    ReminderNotFound,
    SchedulerError,
)
from scheduler_daemon.wire import messages
from scheduler_daemon.wire.frames import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_INTEGER,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REFUSED,
    WireError,
    encode,
)
from scheduler_daemon.wire.messages import (
    Error,
    Notification,
    Request,
    Result,
    error_from,
    parse,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
ENVELOPES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON,
        "method": st.just("hello") | JSON,
        "params": JSON,
        "result": JSON,
        "error": JSON,
    },
)


def refusal_of(text: str) -> WireError:
    with pytest.raises(WireError) as caught:
        parse(text.encode())
    return caught.value


@pytest.mark.parametrize("request_id", [1, 0, -5, MAX_INTEGER, "a", ""])
def test_a_request_id_is_a_string_or_an_integer(request_id: str | int) -> None:
    line = encode(messages.request(request_id, "reminder.get", {"id": "r1"}))
    assert parse(line) == Request(request_id, "reminder.get", {"id": "r1"})


@pytest.mark.parametrize("request_id", ["true", "null", "1.0", "1.5", "[]", "{}"])
def test_nothing_else_is_a_request_id(request_id: str) -> None:
    refusal = refusal_of(f'{{"jsonrpc":"2.0","id":{request_id},"method":"hello"}}')
    assert (refusal.rpc_code, refusal.request_id) == (INVALID_REQUEST, None)


def test_a_call_without_an_id_is_a_notification() -> None:
    line = encode(messages.notification("session.ready", {"session_id": "s1"}))
    assert parse(line) == Notification("session.ready", {"session_id": "s1"})


def test_missing_params_are_empty_and_unknown_members_are_ignored() -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"hello","trace":"x","result":1}'
    assert parse(line) == Request(1, "hello", {})
    assert parse(b'{"jsonrpc":"2.0","method":"hello"}') == Notification("hello", {})


@pytest.mark.parametrize("params", ["[]", "null", "1", '"a"'])
def test_params_that_are_no_object_are_invalid_params(params: str) -> None:
    refusal = refusal_of(f'{{"jsonrpc":"2.0","id":7,"method":"hello","params":{params}}}')
    assert (refusal.rpc_code, refusal.request_id) == (INVALID_PARAMS, 7)


@pytest.mark.parametrize("params", ["[]", "null", "1", '"a"'])
def test_a_notification_gets_no_answer_whatever_its_params_are(params: str) -> None:
    line = f'{{"jsonrpc":"2.0","method":"hello","params":{params}}}'
    assert parse(line.encode()) == Notification("hello", {})


@pytest.mark.parametrize("members", ['"jsonrpc":"1.0",', '"jsonrpc":2.0,', ""])
def test_jsonrpc_must_be_there_and_say_two(members: str) -> None:
    refusal = refusal_of(f'{{{members}"id":"x","method":"hello"}}')
    assert (refusal.rpc_code, refusal.request_id) == (INVALID_REQUEST, "x")
    assert refusal_of(f'{{{members}"id":"x","result":1}}').request_id is None


@pytest.mark.parametrize("text", ["[]", '[{"jsonrpc":"2.0","id":1,"method":"hello"}]', "1", '"a"'])
def test_batches_and_what_is_no_object_are_refused_without_an_id(text: str) -> None:
    refusal = refusal_of(text)
    assert (refusal.rpc_code, refusal.request_id) == (INVALID_REQUEST, None)


@pytest.mark.parametrize("method", ["", '"method":1,', '"method":null,'])
def test_a_request_needs_a_method_that_is_a_string(method: str) -> None:
    refusal = refusal_of(f'{{"jsonrpc":"2.0",{method}"id":3}}')
    assert (refusal.rpc_code, refusal.request_id) == (INVALID_REQUEST, 3)


def test_messages_are_equal_by_kind_and_members_and_show_them() -> None:
    assert Request(1, "hello", {}) != Request(2, "hello", {})
    assert Result(1, None) != Error(1, None)
    assert repr(Result("a", {})) == "Result('a', {})"


def test_an_answer_is_a_result_or_an_error() -> None:
    assert parse(encode(messages.result(3, {"a": None}))) == Result(3, {"a": None})
    assert parse(b'{"jsonrpc":"2.0","id":"x","result":null}') == Result("x", None)
    assert parse(b'{"jsonrpc":"2.0","id":3,"error":"no"}') == Error(3, "no")
    assert parse(b'{"jsonrpc":"2.0","id":null,"error":{}}') == Error(None, {})


@pytest.mark.parametrize(
    "members",
    [
        '"id":3,"result":1,"error":{}',
        '"result":1',
        '"error":{}',
        '"id":null,"result":1',
        '"id":true,"error":{}',
        '"id":1.5,"result":1',
    ],
)
def test_a_broken_answer_is_refused_and_never_with_its_id(members: str) -> None:
    """Its id is one of ours: its sender would take a refusal for the answer to its own request."""
    refusal = refusal_of(f'{{"jsonrpc":"2.0",{members}}}')
    assert (refusal.rpc_code, refusal.request_id) == (INVALID_REQUEST, None)


@pytest.mark.parametrize(
    ("text", "request_id"),
    [
        ('{"jsonrpc":"2.0","id":5,"method":"m","params":{"n":9007199254740992}}', 5),
        ('{"jsonrpc":"2.0","id":"x","method":"m","params":{"n":1,"n":2}}', "x"),
        ('{"jsonrpc":"2.0","id":5,"method":"m","params":{"n":NaN}}', 5),
        ('{"jsonrpc":"2.0","id":9007199254740992,"method":"m"}', None),
        ('{"jsonrpc":"2.0","method":"m","params":{"n":NaN}}', None),
        ('{"jsonrpc":"2.0","id":5,"result":NaN}', None),
        ("NaN", None),
        ('{"jsonrpc":"2.0","id":5,', None),
        ("[" * 100_000, None),
    ],
)
def test_a_request_in_json_that_is_not_strict_is_refused_with_its_id(
    text: str, request_id: str | int | None
) -> None:
    assert refusal_of(text).request_id == request_id


def test_a_refusal_carries_its_code_and_the_field_at_fault() -> None:
    refusal = NotFuture("too early", field="at", now="2026-08-07T01:00:00.000Z")
    assert messages.error(4, refusal) == {
        "jsonrpc": "2.0",
        "id": 4,
        "error": {
            "code": REFUSED,
            "message": "too early",
            "data": {"now": "2026-08-07T01:00:00.000Z", "code": "not_future", "field": "at"},
        },
    }


def test_what_is_no_request_keeps_its_json_rpc_code() -> None:
    answer = messages.error(None, refusal_of("{"))
    assert answer["id"] is None
    body = answer["error"]
    assert isinstance(body, dict)
    assert body["code"] == PARSE_ERROR
    assert body["data"] == {"code": "invalid_request"}


@pytest.mark.parametrize("cls", ERRORS.values())
def test_every_refusal_comes_back_as_itself(cls: type[SchedulerError]) -> None:
    sent = cls("why", field="f", now="n")
    sent.data["self"] = 1  # no name that a peer chooses may upset the way back
    answer = parse(encode(messages.error(1, sent)))
    assert isinstance(answer, Error)
    got = error_from(answer.error)
    assert type(got) is cls
    assert (got.message, got.field, got.data) == ("why", "f", {"now": "n", "self": 1})


def test_a_method_that_the_peer_lacks_can_be_told_apart() -> None:
    got = error_from({"code": METHOD_NOT_FOUND, "message": "no such method"})
    assert isinstance(got, WireError)
    assert (got.rpc_code, got.message) == (METHOD_NOT_FOUND, "no such method")


def test_a_code_of_a_later_version_is_kept() -> None:
    got = error_from({"code": REFUSED, "message": "no", "data": {"code": "later", "x": 1}})
    assert (got.code, got.message, got.data) == ("later", "no", {"x": 1})
    assert type(got) not in ERRORS.values()


@pytest.mark.parametrize(
    "body", [None, "no", {}, {"code": 1}, {"code": -32700.0, "message": 1, "data": []}]
)
def test_an_error_without_a_code_is_the_peer_s_defect(body: object) -> None:
    got = error_from(body)
    assert isinstance(got, InternalError)
    assert got.message == "the peer answered with an error"


def test_members_of_the_wrong_type_in_an_error_are_left_out() -> None:
    got = error_from({"data": {"code": "invalid_rule", "field": 3}, "message": None})
    assert isinstance(got, InvalidRule)
    assert got.field is None
    assert not isinstance(error_from({"data": {"code": 3}}), ReminderNotFound)


@given(ENVELOPES | JSON)
def test_no_json_raises_anything_but_a_wire_error(value: object) -> None:
    message: object = None
    try:
        message = parse(json.dumps(value).encode())
    except WireError as error:
        message = parse(encode(messages.error(error.request_id, error)))
    if isinstance(message, Error):
        assert isinstance(error_from(message.error), SchedulerError)


@given(st.binary())
def test_no_bytes_raise_anything_but_a_wire_error_in_parse(line: bytes) -> None:
    with pytest.raises(WireError):
        parse(line)
