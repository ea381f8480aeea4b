"""The name of this machine's time zone: a suggestion and a label, never a default."""

from __future__ import annotations

import os
from collections.abc import Mapping

_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-")


def suggestion(environ: Mapping[str, str], etc: str = "/etc") -> str | None:
    """An IANA name from TZ, the `localtime` link in `etc` or its `timezone` file, else None.

    In this order, because TZ is what the C library follows first and the `timezone` file what it
    never reads. It is a hint: nobody has looked whether the zone database knows the name.
    """
    given = environ.get("TZ")
    if given is not None:
        return _name(given.removeprefix(":") or "UTC")
    try:
        # pathlib would cost every `schedctl list` several milliseconds.
        return _name(os.readlink(f"{etc}/localtime"))  # noqa: PTH115
    except OSError:
        pass
    try:
        with open(f"{etc}/timezone", encoding="utf-8") as file:  # noqa: PTH123
            return _name(file.read().strip())
    except (OSError, ValueError):
        return None


def label(
    environ: Mapping[str, str], etc: str = "/etc", zones: str = "/usr/share/zoneinfo"
) -> str | None:
    """The name of the clock that the C library shows, None where it has none to be called by.

    A machine without zone files runs on UTC, whatever TZ or its `timezone` file say.
    """
    if "TZ" not in environ and not os.path.exists(f"{etc}/localtime"):  # noqa: PTH110
        return "UTC"
    name = suggestion(environ, etc)
    if name is None or name == "UTC" or "TZ" not in environ:
        return name
    file = f"{environ.get('TZDIR') or zones}/{name}"
    return name if os.path.exists(file) else None  # noqa: PTH110


def clock_name() -> str | None:
    """What the clock of this machine is called, where that can be found out."""
    return label(os.environ)


def _name(text: str) -> str | None:
    name = text.rpartition("zoneinfo/")[2].removeprefix("posix/").removeprefix("right/")
    parts = name.split("/")
    is_name = len(parts) > 1 and all(part and _LETTERS.issuperset(part) for part in parts)
    return name if is_name or name == "UTC" else None
