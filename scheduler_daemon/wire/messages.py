"""JSON-RPC 2.0 messages: lines to messages, and builders; params and results are in calls.py."""

from __future__ import annotations

import json
from collections.abc import Mapping

from scheduler_daemon.errors import ERRORS, InternalError, SchedulerError
from scheduler_daemon.wire.frames import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_INTEGER,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REFUSED,
    WireError,
    decode,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

PROTOCOL = 1
"""The version of the protocol. Within it things are only added."""

_NOT_CARRIED_OUT = frozenset({PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS})

RequestId: TypeAlias = str | int


class _Message:
    """Equal by members. Named tuples would do, but building them costs a command line 3 ms."""

    __slots__ = ()
    __match_args__: tuple[str, ...] = ()

    def _members(self) -> list[object]:
        return [getattr(self, name) for name in self.__match_args__]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._members() == other._members()

    def __repr__(self) -> str:
        return f"{type(self).__name__}{tuple(self._members())!r}"


class Request(_Message):
    """Wants exactly one answer, with the same id."""

    __slots__ = ("id", "method", "params")
    __match_args__ = ("id", "method", "params")

    def __init__(self, request_id: RequestId, method: str, params: dict[str, object]) -> None:
        self.id = request_id
        self.method = method
        self.params = params


class Notification(_Message):
    """Has no id and gets no answer."""

    __slots__ = ("method", "params")
    __match_args__ = ("method", "params")

    def __init__(self, method: str, params: dict[str, object]) -> None:
        self.method = method
        self.params = params


class Result(_Message):
    """The answer to the request `id`; `value` is whatever came, not looked at."""

    __slots__ = ("id", "value")
    __match_args__ = ("id", "value")

    def __init__(self, request_id: RequestId, value: object) -> None:
        self.id = request_id
        self.value = value


class Error(_Message):
    """The refusal of the request `id`, None where the peer could not read which.

    `error` is whatever came, not looked at: `error_from` makes an exception of it.
    """

    __slots__ = ("error", "id")
    __match_args__ = ("id", "error")

    def __init__(self, request_id: RequestId | None, error: object) -> None:
        self.id = request_id
        self.error = error


Message: TypeAlias = Request | Notification | Result | Error


def parse(line: bytes) -> Message:
    """The message that a line carries. Raises WireError.

    A request or notification without `params` has `{}`, and so has a notification whose params
    are no object: it gets no answer. Unknown members of the envelope are ignored.
    `WireError.request_id` is set when the line was a request with a readable id, also where the
    line is not strict JSON, so that its sender does not wait for ever.
    """
    try:
        members = decode(line)
    except WireError as error:
        error.request_id = _salvaged_id(line)
        raise
    if isinstance(members, list):
        raise WireError(INVALID_REQUEST, "batches are not taken: send one object per line")
    if not isinstance(members, dict):
        raise WireError(INVALID_REQUEST, "a message is a JSON object")
    if members.get("jsonrpc") != "2.0":
        raise _refusal(members, 'the member "jsonrpc" must be "2.0"')
    if "method" in members:
        return _call(members)
    if "result" in members or "error" in members:
        return _answer(members)
    raise _refusal(members, 'a request has a member "method"')


def _call(members: dict[str, object]) -> Request | Notification:
    method = members["method"]
    if not isinstance(method, str):
        raise _refusal(members, '"method" must be a string')
    request_id = _id_of(members)
    if request_id is None and "id" in members:
        raise _refusal(members, '"id" must be a string or an integer')
    params = members.get("params", {})
    if request_id is None:  # gets no answer, whatever its params are
        return Notification(method, params if isinstance(params, dict) else {})
    if not isinstance(params, dict):
        raise _refusal(members, '"params" must be an object', INVALID_PARAMS)
    return Request(request_id, method, params)


def _answer(members: dict[str, object]) -> Result | Error:
    # Never answered with an id: ids of answers are ours, a peer would take it for one of its own.
    answer_id = _id_of(members)
    if "result" in members and "error" in members:
        raise WireError(INVALID_REQUEST, 'an answer has "result" or "error", not both')
    if answer_id is None and ("result" in members or members.get("id", 0) is not None):
        raise WireError(INVALID_REQUEST, "an answer has the id of its request")
    if "error" in members:
        return Error(answer_id, members["error"])
    assert answer_id is not None
    return Result(answer_id, members["result"])


def _id_of(members: Mapping[str, object]) -> RequestId | None:
    value = members.get("id")
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER:
        return value
    return None


def _refusal(
    members: dict[str, object], message: str, rpc_code: int = INVALID_REQUEST
) -> WireError:
    is_answer = "method" not in members and ("result" in members or "error" in members)
    return WireError(rpc_code, message, request_id=None if is_answer else _id_of(members))


def _salvaged_id(line: bytes) -> RequestId | None:
    """The id of a request in JSON that is not strict (NaN, a duplicate key, a huge integer)."""
    try:
        members = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _id_of(members) if isinstance(members, dict) and "method" in members else None


def request(request_id: RequestId, method: str, params: Mapping[str, object]) -> dict[str, object]:
    """A request, ready to be encoded."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, params: Mapping[str, object]) -> dict[str, object]:
    """A notification, ready to be encoded."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(request_id: RequestId, value: object) -> dict[str, object]:
    """The answer to a request that was carried out."""
    return {"jsonrpc": "2.0", "id": request_id, "result": value}


def error(request_id: RequestId | None, refusal: SchedulerError) -> dict[str, object]:
    """The answer to a request that was refused, or (id None) to what was no request.

    A WireError keeps its JSON-RPC code, everything else has REFUSED; `data.code` says which.
    """
    data: dict[str, object] = {**refusal.data, "code": refusal.code}
    if refusal.field is not None:
        data["field"] = refusal.field
    rpc_code = refusal.rpc_code if isinstance(refusal, WireError) else REFUSED
    body = {"code": rpc_code, "message": refusal.message, "data": data}
    return {"jsonrpc": "2.0", "id": request_id, "error": body}


def error_from(body: object) -> SchedulerError:
    """The exception for the `error` member of an answer, whatever a peer put there.

    One of the four JSON-RPC codes gives a WireError. A `data.code` that this version does not
    know gives a SchedulerError with that code; none at all an InternalError.
    """
    members = body if isinstance(body, dict) else {}
    data = members.get("data")
    facts = dict(data) if isinstance(data, dict) else {}
    code, field, message = facts.pop("code", None), facts.pop("field", None), members.get("message")
    text = message if isinstance(message, str) else "the peer answered with an error"
    refusal = _exception(members.get("code"), code, text)
    refusal.field = field if isinstance(field, str) else None
    refusal.data = facts
    return refusal


def _exception(rpc_code: object, code: object, message: str) -> SchedulerError:
    if isinstance(rpc_code, int) and rpc_code in _NOT_CARRIED_OUT:
        return WireError(rpc_code, message)
    if not isinstance(code, str):
        return InternalError(message)
    known = ERRORS.get(code)
    if known is None:
        known = type("UnknownRefusal", (SchedulerError,), {"code": code})
    return known(message)
