"""The way of a line from bytes to checked params, led by coverage; not a part of the suite.

`pip install -e '.[fuzz]'`, then `python -m tests.hostile.atheris_lines -runs=100000`. It ends
with a traceback and the bytes that led to it, or with nothing.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import atheris

with atheris.instrument_imports():
    from scheduler_daemon.errors import SchedulerError
    from scheduler_daemon.rules import parse_selector
    from scheduler_daemon.server.methods import METHODS
    from scheduler_daemon.wire.frames import check_cost, decode, encode
    from scheduler_daemon.wire.messages import Request, parse
    from scheduler_daemon.wire.params import WithSelector
    from scheduler_daemon.wire.params import parse as checked
    from tests.support.clock import START


def try_line(line: bytes) -> None:
    """Nothing but a refusal with a code may come of it; what decodes travels back as it was."""
    with suppress(SchedulerError):
        check_cost(line)
        message = parse(line)
        assert decode(encode(decode(line))[:-1]) == decode(line)
        if isinstance(message, Request) and message.method in METHODS:
            asked = checked(METHODS[message.method].params, message.params)
            if isinstance(asked, WithSelector):
                parse_selector(asked.selectors(), START)


def try_params(data: bytes) -> None:
    """The same with an envelope that is right, so that what is inside is reached."""
    methods = sorted(METHODS)
    method = methods[data[0] % len(methods)].encode() if data else b"hello"
    envelope = b'{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}'
    try_line(envelope % (method, data[1:]))


def try_both(data: bytes) -> None:
    """One input for both."""
    try_line(data)
    try_params(data)


if __name__ == "__main__":
    atheris.Setup(sys.argv, try_both)
    atheris.Fuzz()
