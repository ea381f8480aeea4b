"""One reply of a model, as three vendors' interfaces would send it."""

from __future__ import annotations

import json
import secrets
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = dict[str, Any]
Events: TypeAlias = "list[Json | str]"


class Call(NamedTuple):
    """A call of a tool; `arguments` are JSON."""

    name: str
    arguments: str
    namespace: str | None = None


Reply: TypeAlias = "str | Call"


class Answer(NamedTuple):
    """The same reply in one piece, and as the events of a stream."""

    whole: Json
    events: Events


def chat(reply: Reply) -> Answer:
    """OpenAI's `/v1/chat/completions`."""
    if isinstance(reply, Call):
        function = {"name": reply.name, "arguments": reply.arguments}
        calls = [{"index": 0, "id": "call_1", "type": "function", "function": function}]
        said: Json = {"role": "assistant", "tool_calls": calls}
    else:
        said = {"role": "assistant", "content": reply}
    end = "tool_calls" if isinstance(reply, Call) else "stop"
    base = {"id": "c1", "created": 0, "model": "fake"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}

    def chunk(delta: Json, finish: str | None) -> Json:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return {**base, "object": "chat.completion.chunk", "choices": choices}

    last = {**base, "object": "chat.completion.chunk", "choices": [], "usage": usage}
    choices = [{"index": 0, "message": said, "finish_reason": end}]
    whole = {**base, "object": "chat.completion", "choices": choices, "usage": usage}
    return Answer(whole, [chunk(said, None), chunk({}, end), last, "[DONE]"])


def responses(reply: Reply) -> Answer:
    """OpenAI's `/v1/responses`."""
    item: Json
    if isinstance(reply, Call):
        item = {"type": "function_call", "id": "f1", "call_id": "call_1", "status": "completed"}
        item |= {"name": reply.name, "arguments": reply.arguments}
        item |= {"namespace": reply.namespace} if reply.namespace else {}
    else:
        part = {"type": "output_text", "text": reply, "annotations": []}
        item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
        item |= {"content": [part]}
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }
    base = {"id": "r1", "object": "response", "created_at": 0, "model": "fake"}
    whole = {**base, "status": "completed", "output": [item], "usage": usage}
    begun = {**base, "status": "in_progress", "output": []}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    if isinstance(reply, Call):
        del events[1]
    else:
        delta = {"item_id": "m1", "output_index": 0, "content_index": 0, "delta": reply}
        events.insert(2, {"type": "response.output_text.delta", **delta})
    return Answer(whole, [{**event, "sequence_number": i} for i, event in enumerate(events)])


def messages(reply: Reply) -> Answer:
    """Anthropic's `/v1/messages`."""
    block: Json
    delta: Json
    if isinstance(reply, Call):
        block = {"type": "tool_use", "id": "toolu_1", "name": reply.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": reply.arguments}
        content = block | {"input": json.loads(reply.arguments)}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": reply}
        content = block | {"text": reply}
    end = "tool_use" if isinstance(reply, Call) else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    name = f"msg_{secrets.token_hex(8)}"  # two with one name are parts of the same
    base = {"id": name, "type": "message", "role": "assistant", "model": "fake", "usage": usage}
    begun = {**base, "content": [], "stop_reason": None, "stop_sequence": None}
    stopped = {"stop_reason": end, "stop_sequence": None}
    events: Events = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return Answer({**base, "content": [content], **stopped}, events)
