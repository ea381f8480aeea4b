"""Brings man pages and completions into a wheel, where packaging/share.py has made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Share(BuildHookInterface[Any]):
    """A clone installs without them, so that an installation needs no generators."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        made = Path(self.root, "build", "share")
        if version == "standard" and made.is_dir():
            build_data["shared_data"][str(made)] = "share"
