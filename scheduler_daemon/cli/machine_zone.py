"""The name of this machine's time zone: a suggestion and a label, never a default."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_NAME = r"UTC|[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)+"


def machine_zone(environ: Mapping[str, str], etc: str = "/etc") -> str | None:
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


def _name(text: str) -> str | None:
    name = text.rpartition("zoneinfo/")[2].removeprefix("posix/").removeprefix("right/")
    return name if re.fullmatch(_NAME, name) else None
