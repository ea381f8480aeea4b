"""A message to an opencode server: whoever has the Session open there sees it come.

https://opencode.ai/docs/server/ has the interface. The server takes a message and answers at once;
the turn goes on in it. A message that is sent twice stands there twice, whatever ids it has.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
from urllib.parse import quote, urlsplit

from scheduler_daemon.exec_host.runs import Report

_SECONDS = 30.0


def send(server: str, session: str, directory: str, text: str) -> Report | None:
    """Send it; None where no server listens. The password is opencode's own variable's."""
    where = f"/session/{session}/prompt_async?directory={quote(directory)}"
    body = json.dumps({"parts": [{"type": "text", "text": text}]}).encode()
    headers = {"Content-Type": "application/json", **_authorization()}
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=_SECONDS)
    try:
        connection.connect()
    except OSError:
        return None
    try:
        connection.request("POST", where, body, headers)
        response = connection.getresponse()
        said = response.read(1000).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        # It may have been taken: nobody can tell.
        return Report("uncertain", f"{server} took the message and did not answer: {error!r}")
    finally:
        connection.close()
    return _meaning(response.status, f"{server} answered {response.status} {said}")


def _authorization() -> dict[str, str]:
    password = os.environ.get("OPENCODE_SERVER_PASSWORD")
    if not password:
        return {}
    user = os.environ.get("OPENCODE_SERVER_USERNAME") or "opencode"
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def _meaning(status: int, reason: str) -> Report:
    if status // 100 == 2:
        return Report("done")
    return Report("unknown" if status == 404 else "failed", reason)
