"""How a command ends: its exit statuses, and the failures that are not the daemon's."""

from __future__ import annotations

DONE = 0
FAILED = 1
MISUSED = 2
UNREACHABLE = 3
NOT_FOUND = 4
REFUSED = 5
CONFIGURATION = 6
INTERRUPTED = 130
"""128 + SIGINT, as a shell reports it."""
BROKEN_PIPE = 141
"""128 + SIGPIPE: whoever read our output has read enough."""


class MisuseError(Exception):
    """What was typed cannot be turned into a request; the message says what can."""


class ConfigurationError(Exception):
    """The daemon's configuration, which says where its file is, cannot be used."""


class TakenError(Exception):
    """The daemon's file cannot be used now: another program holds it."""


class FailedError(Exception):
    """The command failed, and no error code of the daemon says so; the message does."""
