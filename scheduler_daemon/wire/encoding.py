"""Frames made by the daemon: as frames.encode makes them, at a fifth of the cost.

Apart from frames.py because command lines do without pydantic.
"""

from __future__ import annotations

from pydantic_core import PydanticSerializationError, to_json

from scheduler_daemon.wire import frames


def encode(message: object) -> bytes:
    """One frame with its newline; the same bytes as frames.encode, but for the digits of floats.

    What is no number (`nan`, `inf`) becomes null. Raises TypeError for what JSON has no form for.
    """
    try:
        return to_json(message, inf_nan_mode="null") + b"\n"
    except PydanticSerializationError:  # a lone surrogate, or what neither can write
        return frames.encode(message)
