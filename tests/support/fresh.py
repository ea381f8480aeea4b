"""The environment of a process whose imports or output a test looks at: nobody measures it."""

from __future__ import annotations

import os


def unmeasured() -> dict[str, str]:
    """This process's environment without what would start coverage in a child."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
