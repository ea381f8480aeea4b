"""The PreToolUse hook of Claude Code: writes the Session into a call of `schedctl mcp`.

Whatever the model wrote there is lost. The variables that Claude Code starts the server with would
not do: the server outlives the conversation that it was started in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scheduler_daemon.mcp.proof import proof_of


def answer(event: bytes, environ: Mapping[str, str], key: bytes | None) -> str:
    """What the hook prints for an event. Raises ValueError where it has no Session.

    With a `key` it proves to the server that no model wrote the Session (mcp/proof.py).

    The directory is that in which Claude Code was started, CLAUDE_PROJECT_DIR: only from there can
    the Session be resumed. The `cwd` of an event is wherever the shell has gone since.
    """
    call = json.loads(event)
    if not isinstance(call, dict) or not isinstance(call.get("session_id"), str):
        raise ValueError("a PreToolUse event with a session_id is wanted on stdin")
    given: Any = call.get("tool_input")
    directory = environ.get("CLAUDE_PROJECT_DIR") or call.get("cwd")
    told = {"session": call["session_id"], "directory": directory}
    if not isinstance(directory, str):
        del told["directory"]
    if key is not None:
        told["session_proof"] = proof_of(key, call["session_id"])
    filled = {**(given if isinstance(given, dict) else {}), **told}
    said = {"hookEventName": "PreToolUse", "updatedInput": filled}
    return json.dumps({"hookSpecificOutput": said})
